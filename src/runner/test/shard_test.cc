#include "crosscheck/runner/shard.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "support.h"

namespace crosscheck::runner {
namespace {

using base::Duration;
using std::chrono::seconds;
using testing::HasSubstr;

struct Case {
  std::vector<CollectedTest> tests;
  std::vector<std::size_t> selected;
  std::vector<Duration> expected;
  Duration start_cost{0};
};

Case random_case(std::mt19937& random, std::size_t most) {
  const auto below = [&](std::size_t n) { return random() % n; };
  Case made;
  const auto files = 1 + below(4);
  for (std::size_t file = 0; file < files; ++file) {
    for (auto n = below(most / files + 1); n > 0; --n) {
      made.tests.push_back(make_test("f" + std::to_string(file) + ".py", "t" + std::to_string(n)));
    }
  }
  for (std::size_t i = 0; i < made.tests.size(); ++i) {
    if (below(4) == 0) continue;
    made.selected.push_back(i);
    made.expected.emplace_back(below(3) == 0 ? 0 : below(100));
  }
  made.start_cost = Duration{below(2) == 0 ? 0 : below(60)};
  return made;
}

// The least that the longest of `count` ranges can take, by trying all.
Duration best(const Case& of, std::size_t begin, std::size_t count) {
  const auto cost = [&](std::size_t from, std::size_t to) {
    return expected_of({1, 1, from, to, ""}, of.tests, of.selected, of.expected, of.start_cost);
  };
  if (count == 1) return cost(begin, of.selected.size());
  auto least = Duration::max();
  for (auto end = begin; end <= of.selected.size(); ++end) {
    least = std::min(least, std::max(cost(begin, end), best(of, end, count - 1)));
  }
  return least;
}

TEST(Shards, EveryTestIsInExactlyOne) {
  std::mt19937 random{1};
  for (int round = 0; round < 2000; ++round) {
    const auto made = random_case(random, 40);
    const auto count = 1 + random() % 12;
    const auto shards = partition(made.tests, made.selected, made.expected, made.start_cost, count);
    ASSERT_EQ(shards.size(), count);
    std::size_t next = 0;
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(shards[i].index, i + 1);
      EXPECT_EQ(shards[i].count, count);
      EXPECT_EQ(shards[i].begin, next);
      EXPECT_GE(shards[i].end, next);
      EXPECT_EQ(shards[i].end == next, i >= made.selected.size()) << "empty though one is left";
      next = shards[i].end;
    }
    EXPECT_EQ(next, made.selected.size());
    EXPECT_EQ(shards, partition(made.tests, made.selected, made.expected, made.start_cost, count));
  }
}

TEST(Shards, NoRangesHaveAShorterLongest) {
  std::mt19937 random{2};
  for (int round = 0; round < 500; ++round) {
    const auto made = random_case(random, 12);
    const auto count = 1 + random() % 4;
    Duration longest{0};
    for (const auto& shard :
         partition(made.tests, made.selected, made.expected, made.start_cost, count)) {
      longest = std::max(
          longest, expected_of(shard, made.tests, made.selected, made.expected, made.start_cost));
    }
    EXPECT_EQ(longest, best(made, 0, count)) << round;
  }
}

TEST(Shards, RecordedTimesBalance) {
  std::vector<CollectedTest> tests;
  KnownTimes times;
  std::vector<std::size_t> selected;
  for (int i = 0; i < 100; ++i) {
    tests.push_back(make_test("a.py", "t" + std::to_string(i)));
    selected.push_back(static_cast<std::size_t>(i));
    if (i < 10) times[tests.back().id] = seconds{9};
  }
  const PlanOptions options{.unknown_test = seconds{1}};
  const auto expected = expected_times(tests, selected, times, options);
  const auto shards = partition(tests, selected, expected, seconds{0}, 2);
  EXPECT_EQ(shards[0].end, 10U);
  for (const auto& shard : shards) {
    EXPECT_EQ(expected_of(shard, tests, selected, expected, seconds{0}), seconds{90});
  }
}

TEST(Shards, AreWrittenAndRead) {
  const std::vector<CollectedTest> tests{make_test("a.py", "x"), make_test("a.py", "y"),
                                         make_test("b.py", "z")};
  const std::vector<std::size_t> selected{0, 1, 2};
  const std::vector<Duration> expected(3, seconds{1});
  for (const auto& shard : partition(tests, selected, expected, seconds{1}, 2)) {
    const auto request = parse_shard(to_string(shard));
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(request->index, shard.index);
    EXPECT_EQ(*shard_of(*request, tests, selected, expected, seconds{1}), shard);
    // Planned, it does not look at times; alone, it is the same here.
    const std::vector<Duration> others(3, seconds{9});
    EXPECT_EQ(*shard_of(*request, tests, selected, others, seconds{0}), shard);
    const auto bare = parse_shard(std::to_string(shard.index) + "/2");
    EXPECT_EQ(*shard_of(*bare, tests, selected, expected, seconds{1}), shard);
    const std::vector<std::size_t> other{0, 2};
    const auto refused = shard_of(*request, tests, other, expected, seconds{1});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().fault, base::Fault::environment);
    EXPECT_THAT(refused.error().message, HasSubstr("another selection than the 2 tests"));
  }
}

TEST(Shards, WhatIsNoneIsRefused) {
  for (const auto* text : {"",
                           "1",
                           "/",
                           "1/",
                           "/2",
                           "0/2",
                           "3/2",
                           "1/0",
                           "-1/2",
                           "+1/2",
                           "1/2 ",
                           " 1/2",
                           "a/b",
                           "1/2x",
                           "1/99999999999999999999",
                           "1/10001",
                           "1/2:",
                           "1/2:0-1",
                           "1/2:1-0:0123456789abcdef",
                           "1/2:0-1:0123456789abcde",
                           "1/2:0-1:0123456789ABCDEF",
                           "1/2:0-1:0123456789abcdef0",
                           "1/2:-1-1:0123456789abcdef",
                           "1/2:0-18446744073709551616:0123456789abcdef"}) {
    const auto read = parse_shard(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().fault, base::Fault::usage);
    EXPECT_FALSE(read.error().remedy.empty());
  }
}

}  // namespace
}  // namespace crosscheck::runner
