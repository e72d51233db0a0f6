#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/result.h"

namespace crosscheck::base {

namespace json = boost::json;

// Parses exactly one JSON value. Depth is limited to 64 and the text must be UTF-8; of a key that
// stands twice the last one counts. The error is "webhook body:3:14: …" (`what`, line, column in
// bytes); `text` begins on line `first_line` of it.
[[nodiscard]] Result<json::value> parse_json(std::string_view text, std::string_view what,
                                             std::size_t first_line = 1);

// The error that `parse_json` would return, without making the value, which may take many times the
// memory of its text: for what comes from strangers.
[[nodiscard]] Result<void> check_json(std::string_view text, std::string_view what);

// Typed look-ups by dotted path ("workflow.run_id"), for bodies that others send. The error names
// the whole path and what was found instead.
[[nodiscard]] const json::value* find(const json::value& root, std::string_view path);
[[nodiscard]] Result<std::string> require_string(const json::value& root, std::string_view path);
[[nodiscard]] Result<std::int64_t> require_int(const json::value& root, std::string_view path);
// Text, or a number written as text: what GitHub's expressions make of ids.
[[nodiscard]] Result<std::string> require_id(const json::value& root, std::string_view path);
// Missing and null are nothing; another type is an error.
[[nodiscard]] Result<std::optional<std::string>> optional_string(const json::value& root,
                                                                 std::string_view path);
[[nodiscard]] Result<std::optional<std::int64_t>> optional_int(const json::value& root,
                                                               std::string_view path);
[[nodiscard]] Result<std::optional<std::string>> optional_id(const json::value& root,
                                                             std::string_view path);

// Keys sorted at every level, no spaces, "\u" escapes only where JSON needs them: equal values give
// equal bytes, for digests and store keys.
[[nodiscard]] std::string canonical_json(const json::value& value);

// Indented by two spaces, for files and --json.
[[nodiscard]] std::string pretty_json(const json::value& value);

// Whether `text` is well-formed UTF-8 (no surrogates, no overlong forms).
[[nodiscard]] bool is_utf8(std::string_view text);
// `text` with every ill-formed byte, every control character but \n and \t and every one that turns
// the direction of writing replaced by U+FFFD, cut to at most `limit` bytes at a character's edge:
// for messages that come out of other processes.
[[nodiscard]] std::string to_utf8(std::string_view text, std::size_t limit = std::string::npos);

}  // namespace crosscheck::base
