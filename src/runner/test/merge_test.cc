#include "crosscheck/runner/merge.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "crosscheck/runner/report.h"
#include "crosscheck/runner/shard.h"
#include "support.h"

namespace crosscheck::runner {
namespace {

using base::Outcome;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

MergePart part(const std::string& run, std::int64_t began,
               const std::vector<std::tuple<std::string, int, Outcome>>& results,
               const std::string& shard = {}) {
  MergePart part{run + ".jsonl", {}};
  auto& header = part.run.header;
  header.run_id = run;
  header.combination = {"mine", "r1", "2.13.0", "s1", "npu", "e1"};
  header.selection = "all tests";
  header.command = {"crosscheck", "run"};
  header.started_at = base::Time{std::chrono::seconds{began}};
  header.finished_at = header.started_at + std::chrono::seconds{10};
  header.environment = {{"os", "linux"}};
  header.shard = shard;
  for (const auto& [method, attempt, outcome] : results) {
    base::TestResult result;
    result.id = {"a.py", "TestX", method, "{}"};
    result.node_id = "a.py::TestX::" + method;
    result.attempt = attempt;
    result.outcome = outcome;
    result.message = run;  // whose it is
    part.run.results.push_back(result);
  }
  return part;
}

std::string bytes(const Merged& merged) { return base::to_json_lines(merged.run); }

TEST(Merge, JoinsShards) {
  const auto merged =
      merge({part("b", 2, {{"y", 1, Outcome::failed}}, "2/2:1-2:0123456789abcdef"),
             part("a", 1, {{"x", 1, Outcome::passed}}, "1/2:0-1:0123456789abcdef")});
  ASSERT_TRUE(merged) << merged.error().message;
  EXPECT_THAT(merged->notes, IsEmpty());
  EXPECT_THAT(merged->missing, IsEmpty());
  const auto& header = merged->run.header;
  EXPECT_EQ(header.started_at, base::Time{std::chrono::seconds{1}});
  EXPECT_EQ(header.finished_at, base::Time{std::chrono::seconds{12}});
  EXPECT_EQ(header.shard, "");
  EXPECT_FALSE(header.interrupted);
  EXPECT_EQ(merged->run.counts().total(), 2);
  const auto again = base::parse_run_results(bytes(*merged));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(base::to_json_lines(*again), bytes(*merged));
}

// Nothing is lost and nothing is made: each attempt of each run once, in the order of the runs, and
// the same bytes in whatever order the files are given, however often.
TEST(Merge, IsExactAndWithoutOrder) {
  std::mt19937 random{1};
  const auto below = [&](std::size_t n) { return random() % n; };
  for (int round = 0; round < 300; ++round) {
    std::vector<MergePart> parts;
    for (auto runs = 1 + below(5); runs > 0; --runs) {
      std::vector<std::tuple<std::string, int, Outcome>> results;
      for (int test = 0; test < 6; ++test) {
        const auto attempts = static_cast<int>(below(4));
        for (int attempt = 1; attempt <= attempts; ++attempt) {
          results.emplace_back("t" + std::to_string(test), attempt,
                               below(2) == 0 ? Outcome::passed : Outcome::failed);
        }
      }
      std::shuffle(results.begin(), results.end(), random);
      parts.push_back(
          part("run" + std::to_string(runs), static_cast<std::int64_t>(below(3)), results));
    }
    const auto merged = merge(parts);
    ASSERT_TRUE(merged) << merged.error().message;
    std::multiset<std::tuple<std::string, std::string, Outcome>> before;
    std::multiset<std::tuple<std::string, std::string, Outcome>> after;
    for (const auto& of : parts) {
      for (const auto& result : of.run.results) {
        before.emplace(result.id.method, result.message, result.outcome);
      }
    }
    std::map<std::string, std::vector<const base::TestResult*>> by_test;
    for (const auto& result : merged->run.results) {
      after.emplace(result.id.method, result.message, result.outcome);
      by_test[result.id.method].push_back(&result);
    }
    EXPECT_EQ(before, after);
    if (parts.size() > 1) {
      for (const auto& [test, attempts] : by_test) {
        for (std::size_t i = 0; i < attempts.size(); ++i) {
          EXPECT_EQ(attempts[i]->attempt, static_cast<int>(i) + 1);
        }
      }
      std::shuffle(parts.begin(), parts.end(), random);
      EXPECT_EQ(bytes(*merge(parts)), bytes(*merged));
      parts.push_back(parts[below(parts.size())]);
      parts.push_back(parts[below(parts.size())]);
      std::shuffle(parts.begin(), parts.end(), random);
      const auto repeated = merge(parts);
      EXPECT_EQ(bytes(*repeated), bytes(*merged));
      EXPECT_THAT(repeated->notes, Contains(HasSubstr("is given twice")));
    }
    // What is merged stays as it is.
    EXPECT_EQ(bytes(*merge({{"all.jsonl", merged->run}})), bytes(*merged));
  }
}

TEST(Merge, AShardOfAPlanIsAnyOrderToo) {
  std::mt19937 random{3};
  std::vector<CollectedTest> tests;
  std::vector<std::size_t> selected;
  for (std::size_t i = 0; i < 30; ++i) {
    tests.push_back(make_test("a.py", "t" + std::to_string(i)));
    selected.push_back(i);
  }
  const std::vector<base::Duration> expected(30, base::Duration{1});
  std::vector<MergePart> parts;
  for (const auto& shard : partition(tests, selected, expected, base::Duration{0}, 4)) {
    std::vector<std::tuple<std::string, int, Outcome>> results;
    for (auto i = shard.begin; i < shard.end; ++i) {
      results.emplace_back("t" + std::to_string(i), 1, Outcome::passed);
    }
    parts.push_back(part("r" + std::to_string(shard.index), 1, results, to_string(shard)));
  }
  const auto whole = merge(parts);
  EXPECT_EQ(whole->run.counts().total(), 30);
  // Merged bit by bit, in any order, it is known what is missing, and at last that nothing is.
  for (int round = 0; round < 20; ++round) {
    std::shuffle(parts.begin(), parts.end(), random);
    auto some = merge({parts[0], parts[1]});
    ASSERT_TRUE(some);
    EXPECT_THAT(some->missing, SizeIs(2));
    EXPECT_TRUE(some->run.header.interrupted);
    some = merge({{"some.jsonl", some->run}, parts[2]});
    EXPECT_THAT(some->missing, SizeIs(1));
    some = merge({parts[3], {"some.jsonl", some->run}});
    ASSERT_TRUE(some) << some.error().message;
    EXPECT_EQ(bytes(*some), bytes(*whole));
  }
}

TEST(Merge, ShardsThatAreMissingOrCameTwiceAreSaid) {
  const std::string digest = ":0123456789abcdef";
  const auto merged = merge({part("a", 1, {{"x", 1, Outcome::failed}}, "1/3:0-1" + digest),
                             part("b", 5, {{"x", 1, Outcome::passed}}, "1/3:0-1" + digest),
                             part("c", 2, {{"z", 1, Outcome::passed}}, "3/3:2-3" + digest)});
  ASSERT_TRUE(merged);
  EXPECT_THAT(merged->missing, ElementsAre("2/3"));
  EXPECT_THAT(merged->notes,
              ElementsAre("shard 1/3 ran 2 times (a, b): its attempts are all kept"));
  EXPECT_TRUE(merged->run.header.interrupted);
  const auto text = summary_text(merged->run, {}, false);
  EXPECT_THAT(text, HasSubstr("not the whole run"));
  EXPECT_THAT(text, Not(HasSubstr("--file-timeout"))) << "no part of it had such a limit";
  ASSERT_THAT(merged->run.results, SizeIs(3));
  EXPECT_EQ(merged->run.results[1].attempt, 2);
  EXPECT_EQ(merged->run.results[1].outcome, Outcome::passed);
}

TEST(Merge, WhatDoesNotGoTogetherIsRefusedWithBothNames) {
  const auto a = part("a", 1, {{"x", 1, Outcome::passed}}, "1/2:0-1:0123456789abcdef");
  const auto refused = [&](const MergePart& other, const char* why) {
    for (const auto& parts : {std::vector{a, other}, std::vector{other, a}}) {
      const auto merged = merge(parts);
      ASSERT_FALSE(merged) << why;
      EXPECT_EQ(exit_code(merged.error().fault), base::ExitCode::bad_input);
      EXPECT_THAT(merged.error().message,
                  AllOf(HasSubstr("a.jsonl"), HasSubstr(other.name), HasSubstr(why)));
      EXPECT_FALSE(merged.error().remedy.empty());
    }
  };
  auto other = part("b", 2, {{"y", 1, Outcome::passed}}, "2/2:1-2:0123456789abcdef");
  ASSERT_TRUE(merge({a, other}));
  for (const auto& [name, field] :
       {std::pair{"backend", &base::Combination::backend},
        {"backend_revision", &base::Combination::backend_revision},
        {"core_revision", &base::Combination::core_revision},
        {"suite_revision", &base::Combination::suite_revision},
        {"device", &base::Combination::device},
        {"environment_digest", &base::Combination::environment_digest}}) {
    auto mixed = other;
    mixed.run.header.combination.*field = "another";
    refused(mixed, (std::string{name} + " is '").c_str());
  }
  auto ruled = other;
  ruled.run.header.config = {{"a.yaml", "d1"}};
  refused(ruled, "the configuration is 'none' in the one and 'a.yaml (d1)'");
  auto observed = other;
  observed.run.header.observe = true;
  refused(observed, "--observe");
  refused(part("b", 2, {}, "2/3:1-2:0123456789abcdef"), "the plan that it is a shard of");
  refused(part("b", 2, {}, "2/2:1-2:fedcba9876543210"), "the plan that it is a shard of");
  refused(part("b", 2, {}, "1/2:0-2:0123456789abcdef"), "what the shard holds");
  auto same_run = part("a", 1, {{"x", 1, Outcome::failed}}, "1/2:0-1:0123456789abcdef");
  same_run.name = "copy.jsonl";
  refused(same_run, "say different things");
  const auto both = merge({a, other});
  refused({"all.jsonl", both->run}, "both hold run a");
  EXPECT_FALSE(merge({}));
}

// A run that was gone on with has one id and two files.
TEST(Merge, TheWholeFileOfARunCounts) {
  auto first = part("a", 1, {{"x", 1, Outcome::passed}, {"y", 1, Outcome::not_run}});
  first.run.header.interrupted = true;
  const auto whole = part("a", 1, {{"x", 1, Outcome::passed}, {"y", 1, Outcome::passed}});
  for (const auto& parts : {std::vector{first, whole}, std::vector{whole, first}}) {
    const auto merged = merge(parts);
    ASSERT_TRUE(merged);
    EXPECT_EQ(bytes(*merged), base::to_json_lines(whole.run));
  }
}

}  // namespace
}  // namespace crosscheck::runner
