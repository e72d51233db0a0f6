#pragma once

#include <span>
#include <string>
#include <string_view>

namespace crosscheck::base {

// The candidate that `word` is most likely a misspelling of (by edit distance, letter case
// ignored), or empty when none is near.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       std::span<const std::string_view> candidates);

// "did you mean 'x'?", or "use one of a, b, c" when nothing is near: a remedy for an unknown word.
[[nodiscard]] std::string suggest(std::string_view word,
                                  std::span<const std::string_view> candidates);

}  // namespace crosscheck::base
