#include "../src/readiness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "../src/text.h"

namespace crosscheck::hud {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
constexpr base::Time k_now{1'800'000'000s};

// `passed` and `failed` jobs and those that timed out, each of a commit of its own, seen `age` ago.
void add(std::vector<Job>& jobs, int n, State state, base::Duration age,
         base::Duration queue = 10min, base::Duration execution = 1h) {
  for (int i = 0; i < n; ++i) {
    Job job;
    job.id = static_cast<std::int64_t>(jobs.size()) + 1;
    job.repo_key = "o/r";
    job.head_sha = std::to_string(job.id);
    job.run_id = std::to_string(job.id);
    job.job_name = "test";
    job.state = state;
    job.first_seen_at = k_now - age;
    job.queue = queue;
    job.execution = execution;
    jobs.push_back(job);
  }
}

Backend backend(std::string level = "L2", base::Duration tenure = 24h * 40) {
  return {.repo_key = "o/r", .repo = "o/r", .level = std::move(level), .since = k_now - tenure};
}

std::vector<std::string> verdicts(const Assessment& assessment) {
  std::vector<std::string> all;
  for (const Criterion& c : assessment.criteria)
    all.push_back(c.name + " " + std::string{to_string(c.verdict)} + " " + c.measured_text);
  return all;
}

TEST(Readiness, ABackendThatDoesWhatIsAsked) {
  std::vector<Job> jobs;
  add(jobs, 95, State::passed, 24h);
  add(jobs, 5, State::failed, 24h);
  add(jobs, 7, State::skipped, 24h);
  const auto readiness = assess(backend(), jobs, {}, k_now);
  EXPECT_EQ(readiness.promotion.verdict, Readiness::met);
  EXPECT_THAT(
      verdicts(readiness.promotion),
      ElementsAre("tenure met 40 days", "queue_p50 met 10 min 0 s", "end_to_end_p50 met 1 h 10 min",
                  "time_outs met 0.0 % (0/100)", "pass_rate met 95.0 % (95/100)"));
  EXPECT_EQ(readiness.promotion.criteria[4].samples, 100);
  EXPECT_EQ(readiness.stay.verdict, Readiness::met);
  EXPECT_FALSE(readiness.to_be_demoted());
}

TEST(Readiness, EachCriterionAtItsLimit) {
  struct Case {
    std::string_view name;
    Readiness verdict;
    int passed = 100;
    int failed = 0;
    int timed_out = 0;
    base::Duration queue = 10min;
    base::Duration execution = 1h;
    base::Duration tenure = 24h * 40;
  };
  using enum Readiness;
  for (const Case& c : {
           Case{"pass_rate", met, 90, 10},
           Case{"pass_rate", not_met, 899, 101},
           Case{"time_outs", not_met, 99, 0, 1},
           Case{"time_outs", met, 100, 0, 1},
           Case{"queue_p50", not_met, 100, 0, 0, 30min},
           Case{"queue_p50", met, 100, 0, 0, 30min - 1us},
           Case{"end_to_end_p50", not_met, 100, 0, 0, 10min, 2h + 50min},
           Case{"end_to_end_p50", met, 100, 0, 0, 10min, 2h + 49min},
           Case{"tenure", met, 100, 0, 0, 10min, 1h, 24h * 30},
           Case{"tenure", not_met, 100, 0, 0, 10min, 1h, 24h * 30 - 1us},
           Case{"pass_rate", insufficient_data, 19},
           Case{"pass_rate", met, 20},
           Case{"queue_p50", insufficient_data, 19},
           Case{"queue_p50", insufficient_data, 0},
       }) {
    std::vector<Job> jobs;
    add(jobs, c.passed, State::passed, 24h, c.queue, c.execution);
    add(jobs, c.failed, State::failed, 24h, c.queue, c.execution);
    add(jobs, c.timed_out, State::timed_out, 24h, c.queue, c.execution);
    const auto readiness = assess(backend("L2", c.tenure), jobs, {}, k_now);
    const auto& criteria = readiness.promotion.criteria;
    const auto found = std::ranges::find(criteria, c.name, &Criterion::name);
    ASSERT_NE(found, criteria.end());
    EXPECT_EQ(found->verdict, c.verdict) << c.name << " " << found->measured_text;
    if (c.verdict == not_met) {
      EXPECT_EQ(readiness.promotion.verdict, not_met) << c.name;
    }
  }
}

TEST(Readiness, WhatIsMissingIsNeitherMetNorNot) {
  const auto none = assess(backend(), {}, {}, k_now);
  EXPECT_EQ(none.promotion.verdict, Readiness::insufficient_data);
  EXPECT_EQ(none.stay.verdict, Readiness::insufficient_data);
  EXPECT_THAT(verdicts(none.stay),
              ElementsAre("queue_p50 insufficient_data –", "end_to_end_p50 insufficient_data –",
                          "time_outs insufficient_data –", "pass_rate insufficient_data –"));
  // A criterion that is not met outweighs one that cannot be judged.
  EXPECT_EQ(assess(backend("L2", 24h), {}, {}, k_now).promotion.verdict, Readiness::not_met);
  // No target makes nothing out of no sample.
  EXPECT_EQ(assess(backend(), {}, {.pass_percent = 0, .least_samples = 0}, k_now).stay.verdict,
            Readiness::insufficient_data);
}

TEST(Readiness, SevenDaysDecideWhetherALevelIsKept) {
  std::vector<Job> jobs;
  add(jobs, 30, State::failed, 24h);
  add(jobs, 970, State::passed, 24h * 8);
  for (const auto& [level, demoted] : {std::pair{"L2", false}, {"L3", true}, {"L4", true}}) {
    const auto readiness = assess(backend(level), jobs, {}, k_now);
    EXPECT_EQ(readiness.promotion.verdict, Readiness::met);
    EXPECT_EQ(readiness.stay.verdict, Readiness::not_met);
    EXPECT_EQ(readiness.to_be_demoted(), demoted);
    EXPECT_TRUE(readiness.window_cut);
  }
}

TEST(Readiness, TheNumbersAreThoseOfTheFleet) {
  std::vector<Job> jobs;
  add(jobs, 33, State::passed, 24h, 7min);
  add(jobs, 3, State::failed, 24h * 9, 90min);
  add(jobs, 2, State::cancelled, 24h);
  const auto summary = summarise(backend(), jobs, std::nullopt, k_now);
  const auto readiness = assess(backend(), jobs, {}, k_now);
  const auto& criteria = readiness.promotion.criteria;
  EXPECT_EQ(criteria[1].measured_text, seconds(summary.queue->p50));
  EXPECT_EQ(criteria[2].measured_text, seconds(summary.end_to_end->p50));
  EXPECT_EQ(criteria[4].measured_text,
            percent(summary.rate.passed, summary.rate.counted) + " % (33/36)");
}

}  // namespace
}  // namespace crosscheck::hud
