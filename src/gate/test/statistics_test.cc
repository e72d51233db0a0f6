#include "crosscheck/gate/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace crosscheck::gate {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Optional;

TEST(SignedRank, CutoffsAreTheTabledOnes) {
  // The method's table for a single look, and for one of five.
  const std::vector<std::array<std::size_t, 3>> table{{8, 5, 1},    {12, 17, 9},  {16, 35, 23},
                                                      {20, 60, 43}, {24, 91, 69}, {32, 175, 140}};
  for (const auto& [pairs, single, of_five] : table) {
    EXPECT_THAT(signed_rank_cutoff(pairs, k_alpha), Optional(single)) << pairs;
    EXPECT_THAT(signed_rank_cutoff(pairs, k_look_alpha), Optional(of_five)) << pairs;
  }
}

TEST(SignedRank, TooFewPairsSayNothing) {
  EXPECT_EQ(signed_rank_cutoff(0, k_alpha), std::nullopt);
  EXPECT_EQ(signed_rank_cutoff(4, k_alpha), std::nullopt);  // 1/16 is more than 5 %
  EXPECT_THAT(signed_rank_cutoff(5, k_alpha), Optional(0));
  EXPECT_EQ(signed_rank_cutoff(k_most_pairs + 1, k_alpha), std::nullopt);
}

TEST(Interval, EndsAreWalshAveragesCountedFromTheOutside) {
  // Eight values whose averages are easy to list: with k = 5 the sixth from each end.
  const std::vector<double> values{1, 2, 3, 4, 5, 6, 7, 8};
  const auto found = interval(values, k_alpha);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->estimate, 4.5);
  EXPECT_DOUBLE_EQ(found->lower, 2.5);
  EXPECT_DOUBLE_EQ(found->upper, 6.5);
}

TEST(Interval, RefusesWhatIsNoNumber) {
  std::vector<double> values(8, 0.1);
  values[3] = std::nan("");
  EXPECT_FALSE(interval(values, k_alpha));
  values[3] = HUGE_VAL;
  EXPECT_FALSE(interval(values, k_alpha));
}

TEST(Interval, MovesAndTurnsWithItsData) {
  std::mt19937_64 random{7};
  std::normal_distribution<double> noise{0, 0.03};
  for (int round = 0; round < 200; ++round) {
    std::vector<double> values(8 + static_cast<std::size_t>(round) % 25);
    std::generate(values.begin(), values.end(), [&] { return noise(random); });
    const auto found = interval(values, k_look_alpha);
    ASSERT_TRUE(found);
    EXPECT_LE(found->lower, found->estimate);
    EXPECT_LE(found->estimate, found->upper);
    auto shifted = values;
    for (double& value : shifted) value += 0.25;
    EXPECT_NEAR(interval(shifted, k_look_alpha)->lower, found->lower + 0.25, 1e-12);
    auto turned = values;
    for (double& value : turned) value = -value;
    EXPECT_NEAR(interval(turned, k_look_alpha)->upper, -found->lower, 1e-12);
    std::shuffle(values.begin(), values.end(), random);
    EXPECT_NEAR(interval(values, k_look_alpha)->upper, found->upper, 1e-12);
  }
}

TEST(Interval, MissesTheTruthAsOftenAsItMay) {
  // Exact whatever the noise, so a simulation must agree within its own error: 8 pairs, alpha 5 %,
  // in truth 10/256 = 3.9 %.
  std::mt19937_64 random{11};
  std::student_t_distribution<double> noise{2};
  constexpr int k_rounds = 20000;
  int missed = 0;
  for (int round = 0; round < k_rounds; ++round) {
    std::array<double, 8> values{};
    std::generate(values.begin(), values.end(), [&] { return noise(random); });
    missed += interval(values, k_alpha)->lower > 0 ? 1 : 0;
  }
  EXPECT_NEAR(missed / double{k_rounds}, 10.0 / 256, 0.006);
}

TEST(P, CountsSignPatternsExactly) {
  // All of eight above: one of 256 patterns.
  const std::vector<double> up{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_DOUBLE_EQ(p_above(up, 0), 1.0 / 256);
  EXPECT_DOUBLE_EQ(p_above(up, 100), 1);
  EXPECT_DOUBLE_EQ(p_above(std::vector<double>(8, 0.5), 0.5), 1);  // nothing differs
}

TEST(Judge, FailsOnlyBeyondTheMarginAndPassesOnlyWithinIt) {
  struct Row {
    double lower, upper, margin;
    Better better;
    Verdict verdict;
  };
  const std::vector<Row> rows{
      {-0.01, 0.02, 0.05, Better::lower, Verdict::pass},
      {-0.90, -0.5, 0.05, Better::lower, Verdict::pass},  // far better is no failure
      {0.01, 0.06, 0.05, Better::lower, Verdict::inconclusive},
      {0.06, 0.09, 0.05, Better::lower, Verdict::fail},
      {-0.09, -0.06, 0.05, Better::higher, Verdict::fail},
      {-0.06, 0.01, 0.05, Better::higher, Verdict::inconclusive},
      {-0.02, 0.90, 0.05, Better::higher, Verdict::pass},
      // The margin is a share of the baseline: 5 % less throughput is ln 0.95, not ln 1/1.05.
      {-0.0512, -0.0500, 0.05, Better::higher, Verdict::pass},
      {0.0487, 0.0489, 0.05, Better::lower, Verdict::inconclusive},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(judge({(row.lower + row.upper) / 2, row.lower, row.upper, 8}, row.margin, row.better),
              row.verdict)
        << row.lower << " to " << row.upper;
  }
}

TEST(Judge, MirrorsExactlyWhenTheQuantityIsInverted) {
  std::mt19937_64 random{3};
  std::uniform_real_distribution<double> uniform{-0.2, 0.2};
  for (int round = 0; round < 1000; ++round) {
    const double a = uniform(random);
    const double b = uniform(random);
    const Interval interval{(a + b) / 2, std::min(a, b), std::max(a, b), 8};
    const Interval turned{-interval.estimate, -interval.upper, -interval.lower, 8};
    // A latency up by 1/0.95 is a throughput down to 0.95.
    EXPECT_EQ(judge(interval, 1 / 0.95 - 1, Better::lower), judge(turned, 0.05, Better::higher));
  }
}

TEST(DetectableEffect, LiesBeyondTheMarginAndShrinksWithTheNoise) {
  const Interval wide{0, -0.04, 0.04, 8};
  const Interval narrow{0, -0.01, 0.01, 32};
  for (const Better better : {Better::lower, Better::higher}) {
    const double of_wide = minimum_detectable_effect(wide, 0.05, better, k_look_alpha);
    const double of_narrow = minimum_detectable_effect(narrow, 0.05, better, k_look_alpha);
    EXPECT_GT(of_narrow, 0.05);
    EXPECT_GT(of_wide, of_narrow);
  }
}

TEST(Holm, StepsDownAndStopsAtTheFirstThatIsNot) {
  EXPECT_THAT(holm(std::vector{0.01, 0.04, 0.03, 0.005}, 0.05),
              ElementsAre(true, false, false, true));
  EXPECT_THAT(holm(std::vector{0.03, 0.02}, 0.05), ElementsAre(true, true));
  EXPECT_THAT(holm(std::vector{0.06}, 0.05), ElementsAre(false));
}

TEST(Rate, IsAboutThreeOverTheRuns) {
  EXPECT_THAT(rate_bound(100), DoubleNear(0.03, 0.0006));
  EXPECT_EQ(rate_bound(0), 1);
}

TEST(Percentile, IsAMeasuredValue) {
  EXPECT_EQ(percentile({}, 0.5), std::nullopt);
  EXPECT_THAT(percentile({3, 1, 2}, 0.5), Optional(2));
  std::vector<double> hundred(100);
  for (std::size_t i = 0; i < hundred.size(); ++i) hundred[i] = static_cast<double>(100 - i);
  EXPECT_THAT(percentile(hundred, 0.95), Optional(95));
  EXPECT_THAT(percentile(hundred, 1), Optional(100));
}

}  // namespace
}  // namespace crosscheck::gate
