#include "crosscheck/base/outcome.h"

#include <gtest/gtest.h>

#include <array>

namespace crosscheck::base {
namespace {

TEST(Outcome, NamesReadBack) {
  for (std::size_t i = 0; i < k_outcome_count; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    EXPECT_EQ(parse_outcome(to_string(outcome)), outcome);
  }
  EXPECT_EQ(to_string(Outcome::passed), "passed");
  EXPECT_EQ(to_string(Outcome::not_run), "not_run");
  EXPECT_FALSE(parse_outcome("Passed"));
  EXPECT_FALSE(parse_outcome(""));
}

TEST(FailureKind, NamesReadBack) {
  for (int i = 0; i <= static_cast<int>(FailureKind::other); ++i) {
    const auto kind = static_cast<FailureKind>(i);
    EXPECT_EQ(parse_failure_kind(to_string(kind)), kind);
  }
  EXPECT_EQ(to_string(FailureKind::other), "other");
  EXPECT_FALSE(parse_failure_kind("oom"));
}

TEST(Mode, NamesReadBack) {
  for (std::size_t i = 0; i < k_modes.size(); ++i) {
    const auto mode = static_cast<Mode>(i);
    EXPECT_EQ(parse_mode(to_string(mode)), mode);
  }
  EXPECT_EQ(to_string(Mode::skip), "skip");
  EXPECT_FALSE(parse_mode("xfail strict"));
}

TEST(Judge, WhatAnOutcomeMeansUnderAMode) {
  using enum Outcome;
  constexpr std::array k_observed{passed,  failed,    skipped,           xfailed,       xpassed,
                                  crashed, timed_out, environment_error, harness_error, not_run};
  struct Case {
    Mode mode;
    std::array<Outcome, k_outcome_count> judged;
  };
  for (const auto& [mode, judged] : {
           Case{Mode::mandatory_success, k_observed},
           Case{Mode::xfail,
                {xpassed, xfailed, skipped, xfailed, xpassed, xfailed, xfailed, environment_error,
                 harness_error, not_run}},
           Case{Mode::xfail_strict,
                {failed, xfailed, skipped, xfailed, failed, xfailed, xfailed, environment_error,
                 harness_error, not_run}},
           Case{Mode::skip,
                {xpassed, xfailed, skipped, xfailed, xpassed, xfailed, xfailed, environment_error,
                 harness_error, not_run}},
       }) {
    for (std::size_t i = 0; i < k_observed.size(); ++i) {
      EXPECT_EQ(judge(mode, k_observed[i]), judged[i])
          << to_string(mode) << " " << to_string(k_observed[i]);
    }
  }
}

TEST(OutcomeCounts, EveryOutcomeIsAtMostOneOfFailureAndFault) {
  OutcomeCounts counts;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < k_outcome_count; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    counts.add(outcome, 1 << i);
    total += 1 << i;
    EXPECT_FALSE(is_failure(outcome) && is_fault(outcome));
  }
  EXPECT_EQ(counts.total(), total);
  std::int64_t failures = 0;
  std::int64_t faults = 0;
  for (std::size_t i = 0; i < k_outcome_count; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    EXPECT_EQ(counts[outcome], 1 << i);
    if (is_failure(outcome)) failures += counts[outcome];
    if (is_fault(outcome)) faults += counts[outcome];
  }
  EXPECT_EQ(counts.failures(), failures);
  EXPECT_EQ(counts.faults(), faults);
}

}  // namespace
}  // namespace crosscheck::base
