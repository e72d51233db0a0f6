#pragma once

#include <concepts>
#include <string>
#include <string_view>

// Small texts that every part writes alike.
namespace crosscheck::base {

// "1 test", "2 tests".
[[nodiscard]] std::string count_of(std::integral auto n, std::string_view noun) {
  return std::to_string(n) + " " + std::string{noun} + (n == 1 ? "" : "s");
}

}  // namespace crosscheck::base
