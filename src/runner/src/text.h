#pragma once

#include <string_view>

// Small things about text that the standard library does by locale.
namespace crosscheck::runner {

[[nodiscard]] constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
[[nodiscard]] constexpr bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

[[nodiscard]] constexpr std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

template <class F>
void for_each_line(std::string_view text, F body) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    body(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace crosscheck::runner
