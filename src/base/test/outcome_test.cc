#include "crosscheck/base/outcome.h"

#include <gtest/gtest.h>

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
