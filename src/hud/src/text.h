#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosscheck/base/text.h"
#include "crosscheck/base/time.h"

namespace crosscheck::hud {

// First ten characters of a SHA.
[[nodiscard]] std::string short_sha(std::string_view sha);
// At most `limit` bytes of the first line that is not blank; of a long line, its first sentences
// as far as they fit a glance.
[[nodiscard]] std::string first_line(std::string_view text, std::size_t limit = 400);
// A command line that a POSIX shell splits into exactly `arguments`.
[[nodiscard]] std::string shell_line(const std::vector<std::string>& arguments);
// The command of a run as somebody repeats it: without the files that it wrote, its shard and its
// store; with a `node`, for that test alone. What is no such command stays as it is, and cannot be
// narrowed: empty.
[[nodiscard]] std::vector<std::string> repeated(const std::vector<std::string>& command,
                                                const std::string& node = "");
// "?a=b&c=d" of the pairs that have a value, "" if none has.
[[nodiscard]] std::string query_string(
    const std::vector<std::pair<std::string, std::string>>& pairs);
// From 1; nothing for signs, other characters, or over `limit`.
[[nodiscard]] std::optional<std::int64_t> parse_positive(std::string_view text,
                                                         std::int64_t limit = INT64_MAX);
// 7 to 64 hex digits, lower-cased.
[[nodiscard]] std::optional<std::string> parse_sha(std::string_view text);

// "2026-05-04 20:48:28 UTC".
[[nodiscard]] std::string clock_text(base::Time time);
// "just now", "3 min ago", "5 h ago", "12 d ago"; a time after `now` is "just now".
[[nodiscard]] std::string age(base::Time time, base::Time now);
// "94.1": cut, not rounded, so that 100.0 means all. `whole` must not be 0.
[[nodiscard]] std::string percent(std::int64_t part, std::int64_t whole);
// "0.012 s", "3.4 s", then as base::to_human.
[[nodiscard]] std::string seconds(base::Duration duration);
using base::count_of;

}  // namespace crosscheck::hud
