#include "crosscheck/base/outcome.h"

#include <numeric>

namespace crosscheck::base {
namespace {

constexpr std::array<std::string_view, k_outcome_count> k_outcomes{
    "passed",  "failed",    "skipped",           "xfailed",       "xpassed",
    "crashed", "timed_out", "environment_error", "harness_error", "not_run"};
static_assert(static_cast<std::size_t>(Outcome::not_run) + 1 == k_outcome_count);

constexpr std::array<std::string_view, 11> k_kinds{"none",
                                                   "unsupported_operator",
                                                   "unsupported_dtype",
                                                   "numerical_mismatch",
                                                   "device_error",
                                                   "out_of_memory",
                                                   "assertion",
                                                   "import_error",
                                                   "signal",
                                                   "timeout",
                                                   "other"};
static_assert(static_cast<std::size_t>(FailureKind::other) + 1 == k_kinds.size());

template <class Enum, std::size_t n>
std::optional<Enum> parse(const std::array<std::string_view, n>& names, std::string_view name) {
  for (std::size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Outcome outcome) {
  return k_outcomes.at(static_cast<std::size_t>(outcome));
}

std::optional<Outcome> parse_outcome(std::string_view name) {
  return parse<Outcome>(k_outcomes, name);
}

std::string_view to_string(FailureKind kind) { return k_kinds.at(static_cast<std::size_t>(kind)); }

std::optional<FailureKind> parse_failure_kind(std::string_view name) {
  return parse<FailureKind>(k_kinds, name);
}

std::string_view to_string(Mode mode) { return k_modes.at(static_cast<std::size_t>(mode)); }

std::optional<Mode> parse_mode(std::string_view name) { return parse<Mode>(k_modes, name); }

Outcome judge(Mode mode, Outcome observed) {
  const bool passed = observed == Outcome::passed || observed == Outcome::xpassed;
  switch (mode) {
    case Mode::mandatory_success:
      return observed;
    case Mode::xfail:
    case Mode::skip:
      if (is_failure(observed)) return Outcome::xfailed;
      return passed ? Outcome::xpassed : observed;
    case Mode::xfail_strict:
      if (is_failure(observed)) return Outcome::xfailed;
      return passed ? Outcome::failed : observed;
  }
  return observed;
}

std::int64_t OutcomeCounts::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), flaky_);
}

std::int64_t OutcomeCounts::passes() const {
  return (*this)[Outcome::passed] + (*this)[Outcome::xfailed] + (*this)[Outcome::xpassed] + flaky_;
}

std::int64_t OutcomeCounts::failures() const {
  return (*this)[Outcome::failed] + (*this)[Outcome::crashed] + (*this)[Outcome::timed_out];
}

std::int64_t OutcomeCounts::faults() const {
  return (*this)[Outcome::environment_error] + (*this)[Outcome::harness_error];
}

}  // namespace crosscheck::base
