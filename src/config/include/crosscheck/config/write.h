#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/config/model.h"

// How values are written as YAML.
namespace crosscheck::config {

// In double quotes, in one line; every character survives. What is not UTF-8 is replaced.
[[nodiscard]] std::string in_quotes(std::string_view text);
// Without quotes where that reads as the same text anywhere.
[[nodiscard]] std::string plain_or_quoted(std::string_view text);

// "key: value" of a rationale's keys, in order: each in flow style, in one line.
[[nodiscard]] std::vector<std::string> rationale_lines(const Rationale& rationale);

// A value in block style, each line indented by `indent` spaces, in the order it was written in and
// with the quotes it had. Comments are not values. What is an alias here stays one.
[[nodiscard]] std::string block(Node node, std::size_t indent);
// In one line, behind a key or a dash.
[[nodiscard]] std::string in_line(Node node);
// In flow style, in one line: inside of brackets too.
[[nodiscard]] std::string flow(Node node);

}  // namespace crosscheck::config
