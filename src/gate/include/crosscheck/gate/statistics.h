#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

// Whether a candidate is slower than its baseline, from pairs of process launches. A pair gives one
// difference, ln(candidate / baseline); pairs are independent, what happens inside a launch is not.
// The method is the signed-rank interval of Hodges and Lehmann with exact critical values: it needs
// no normal distribution, only that a difference is as likely above the true shift as below.
namespace crosscheck::gate {

// After how many pairs a cell is looked at. Each look spends a fifth of the error allowed to the
// cell, so that the whole sequence stays within it.
inline constexpr std::array<std::size_t, 5> k_looks{8, 12, 16, 24, 32};
inline constexpr double k_alpha = 0.05;
inline constexpr double k_look_alpha = k_alpha / static_cast<double>(k_looks.size());
// The largest number of pairs whose distribution is exact here.
inline constexpr std::size_t k_most_pairs = 60;

// The largest s with P(T+ <= s) <= `alpha`, T+ being the sum of the ranks of `pairs` differences
// that are positive with probability one half; nothing if even s = 0 is too likely.
[[nodiscard]] std::optional<std::size_t> signed_rank_cutoff(std::size_t pairs, double alpha);

// The shift of `differences` with one-sided bounds, each wrong with probability `alpha` at most:
// the true shift is below `lower` at most that often, and above `upper`.
struct Interval {
  double estimate = 0;  // Hodges-Lehmann: the median of the Walsh averages
  double lower = 0;
  double upper = 0;
  std::size_t pairs = 0;
};
// Nothing for too few differences to say anything at `alpha`, more than k_most_pairs, or one that
// is not finite.
[[nodiscard]] std::optional<Interval> interval(std::span<const double> differences, double alpha);

// P of data at least as far above `shift` as `differences` if the true shift is `shift`.
[[nodiscard]] double p_above(std::span<const double> differences, double shift);

enum class Verdict : std::uint8_t { pass, fail, inconclusive };
[[nodiscard]] std::string_view to_string(Verdict verdict);

enum class Better : std::uint8_t { lower, higher };

// `margin` is the change that is still accepted, 0.05 for 5 %, counted in the direction that is
// worse: of a latency upwards, of a throughput downwards. Pass: worse by less than the margin;
// fail: by more; both with the interval's confidence.
[[nodiscard]] Verdict judge(const Interval& interval, double margin, Better better);
// Whether the interval lies within the margin on both sides.
[[nodiscard]] bool is_equivalent(const Interval& interval, double margin);

// The smallest true change for the worse, 0.1 for 10 %, that data as scattered as these would call
// a failure four times in five.
[[nodiscard]] double minimum_detectable_effect(const Interval& interval, double margin,
                                               Better better, double alpha);

// Which of `p_values` are significant together at `alpha` by Holm's step-down procedure.
[[nodiscard]] std::vector<bool> holm(std::span<const double> p_values, double alpha);

// The 95 % bound on the rate of something seen 0 times in `runs`; about 3 / runs.
[[nodiscard]] double rate_bound(std::size_t runs);

// By nearest rank; `share` in (0, 1]. Nothing for no values.
[[nodiscard]] std::optional<double> percentile(std::vector<double> values, double share);
// Fewer iterations say nothing about the 95th percentile.
inline constexpr std::size_t k_least_for_p95 = 59;

}  // namespace crosscheck::gate
