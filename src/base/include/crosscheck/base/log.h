#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

// Structured lines on stderr: `2026-…Z level event key=value key="two words"`. Never give a secret.
namespace crosscheck::base::log {

enum class Level : std::uint8_t { debug, info, warning, error, off };

struct Field {
  std::string key;
  std::string value;
  template <class T>
  Field(std::string_view k, const T& v) : key{k}, value{fmt::format("{}", v)} {}
};

void set_level(Level level);  // default: info
[[nodiscard]] bool parse_level(std::string_view name, Level& level);
void write(Level level, std::string_view event, std::initializer_list<Field> fields);

inline void debug(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::debug, event, f);
}
inline void info(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::info, event, f);
}
inline void warning(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::warning, event, f);
}
inline void error(std::string_view event, std::initializer_list<Field> f = {}) {
  write(Level::error, event, f);
}

}  // namespace crosscheck::base::log
