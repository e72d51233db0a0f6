#pragma once

#include <cstddef>

// How large a results file may be: what a relay takes is what `crosscheck report` sends.
namespace crosscheck::base {

inline constexpr std::size_t k_results_file_limit = std::size_t{32} << 20;  // bytes, gzipped
inline constexpr std::size_t k_results_text_limit = std::size_t{256} << 20;
inline constexpr std::size_t k_results_count_limit = 500'000;  // results

}  // namespace crosscheck::base
