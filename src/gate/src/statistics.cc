#include "crosscheck/gate/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace crosscheck::gate {
namespace {

// The number of subsets of {1 … n} by their sum: the distribution of T+ times 2^n. Exact in a
// double, as it stays below 2^53 wherever it is summed up to a small probability, and a relative
// error of 1e-16 elsewhere.
std::vector<double> subset_sums(std::size_t n) {
  std::vector<double> counts(n * (n + 1) / 2 + 1, 0);
  counts[0] = 1;
  std::size_t most = 0;
  for (std::size_t rank = 1; rank <= n; ++rank) {
    most += rank;
    for (std::size_t sum = most; sum >= rank; --sum) counts[sum] += counts[sum - rank];
  }
  return counts;
}

std::vector<double> walsh_averages(std::span<const double> values) {
  std::vector<double> averages;
  averages.reserve(values.size() * (values.size() + 1) / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i; j < values.size(); ++j) {
      averages.push_back((values[i] + values[j]) / 2);
    }
  }
  std::sort(averages.begin(), averages.end());
  return averages;
}

double median_of_sorted(const std::vector<double>& sorted) {
  const auto middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// The quantile of the standard normal distribution, by bisection: used for what is only printed.
double normal_quantile(double probability) {
  double low = -10;
  double high = 10;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

// An accepted change as a shift of logarithms, and the interval turned so that up is worse.
struct Oriented {
  double lower = 0;
  double upper = 0;
  double estimate = 0;
  double margin = 0;
};
Oriented orient(const Interval& interval, double margin, Better better) {
  if (better == Better::lower) {
    return {interval.lower, interval.upper, interval.estimate, std::log1p(margin)};
  }
  return {-interval.upper, -interval.lower, -interval.estimate, -std::log1p(-margin)};
}

}  // namespace

std::optional<std::size_t> signed_rank_cutoff(std::size_t pairs, double alpha) {
  if (pairs == 0 || pairs > k_most_pairs) return std::nullopt;
  // Asked again and again for the few looks there are.
  thread_local std::map<std::pair<std::size_t, double>, std::optional<std::size_t>> known;
  const auto [found, is_new] = known.try_emplace({pairs, alpha});
  if (!is_new) return found->second;
  const auto counts = subset_sums(pairs);
  const double allowed = alpha * std::exp2(static_cast<double>(pairs));
  std::optional<std::size_t> cutoff;
  double sum = 0;
  for (std::size_t s = 0; s < counts.size(); ++s) {
    sum += counts[s];
    if (sum > allowed) break;
    cutoff = s;
  }
  found->second = cutoff;
  return cutoff;
}

std::optional<Interval> interval(std::span<const double> differences, double alpha) {
  const auto cutoff = signed_rank_cutoff(differences.size(), alpha);
  if (!cutoff) return std::nullopt;
  if (!std::all_of(differences.begin(), differences.end(),
                   [](double value) { return std::isfinite(value); })) {
    return std::nullopt;
  }
  const auto averages = walsh_averages(differences);
  // W(k + 1) and W(M - k), counted from 1.
  return Interval{median_of_sorted(averages), averages[*cutoff],
                  averages[averages.size() - *cutoff - 1], differences.size()};
}

double p_above(std::span<const double> differences, double shift) {
  std::vector<double> centred;
  for (const double difference : differences) {
    if (difference != shift) centred.push_back(difference - shift);
  }
  const auto n = centred.size();
  if (n == 0 || n > k_most_pairs) return 1;
  std::sort(centred.begin(), centred.end(),
            [](double a, double b) { return std::abs(a) < std::abs(b); });
  double rank_sum = 0;
  for (std::size_t i = 0; i < n;) {
    std::size_t end = i;
    while (end < n && std::abs(centred[end]) == std::abs(centred[i])) ++end;
    const double shared_rank = static_cast<double>(i + 1 + end) / 2;
    for (; i < end; ++i) rank_sum += centred[i] > 0 ? shared_rank : 0;
  }
  // A rank shared by ties may be half; down is the cautious side.
  const auto counts = subset_sums(n);
  const auto least = static_cast<std::size_t>(rank_sum);
  const double tail =
      std::accumulate(counts.begin() + static_cast<std::ptrdiff_t>(least), counts.end(), 0.0);
  return std::min(1.0, tail / std::exp2(static_cast<double>(n)));
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "PASS";
    case Verdict::fail:
      return "FAIL";
    case Verdict::inconclusive:
      return "INCONCLUSIVE";
  }
  return "";
}

Verdict judge(const Interval& interval, double margin, Better better) {
  const auto turned = orient(interval, margin, better);
  if (turned.upper < turned.margin) return Verdict::pass;
  if (turned.lower > turned.margin) return Verdict::fail;
  return Verdict::inconclusive;
}

bool is_equivalent(const Interval& interval, double margin) {
  const double shift = std::log1p(margin);
  return -shift < interval.lower && interval.upper < shift;
}

double minimum_detectable_effect(const Interval& interval, double margin, Better better,
                                 double alpha) {
  const auto turned = orient(interval, margin, better);
  const double to_bound = turned.estimate - turned.lower;
  // The bound lies z(1 - alpha) standard errors below the estimate.
  const double error = to_bound / normal_quantile(1 - alpha);
  const double shift = turned.margin + to_bound + normal_quantile(0.8) * error;
  return better == Better::lower ? std::expm1(shift) : -std::expm1(-shift);
}

std::vector<bool> holm(std::span<const double> p_values, double alpha) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<bool> significant(p_values.size(), false);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (p_values[order[i]] > alpha / static_cast<double>(order.size() - i)) break;
    significant[order[i]] = true;
  }
  return significant;
}

double rate_bound(std::size_t runs) {
  return runs == 0 ? 1 : 1 - std::pow(0.05, 1 / static_cast<double>(runs));
}

std::optional<double> percentile(std::vector<double> values, double share) {
  if (values.empty()) return std::nullopt;
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto at = std::clamp<std::size_t>(rank, 1, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

}  // namespace crosscheck::gate
