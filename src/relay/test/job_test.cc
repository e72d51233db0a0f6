#include "crosscheck/relay/job.h"

#include <gtest/gtest.h>

#include <random>

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using base::Time;
using enum ReportKind;

const Time k_dispatched{1000s};
const Time k_started{1010s};
const Time k_now{1060s};

Report report(ReportKind kind, std::optional<std::string> conclusion = {}) {
  return {kind, std::move(conclusion)};
}

Job running() {
  Job job;
  job.started_at = k_started;
  job.queue = 10s;
  return job;
}
Job completed(std::optional<std::string> conclusion, ConcludedBy by = ConcludedBy::downstream) {
  Job job = running();
  job.state = JobState::completed;
  job.conclusion = std::move(conclusion);
  job.concluded_by = by;
  job.completed_at = Time{1050s};
  job.execution = 40s;
  return job;
}
Job completed_first() {
  Job job;
  job.state = JobState::completed;
  job.conclusion = "success";
  job.concluded_by = ConcludedBy::downstream;
  job.completed_first = true;
  job.completed_at = k_now;
  return job;
}

struct Case {
  const char* name;
  std::optional<Job> job;
  Report report;
  base::Result<Effect, Refusal> effect;
  std::optional<Job> after;  // nothing: as before
};

TEST(ConcludedByName, IsReadAsItIsWritten) {
  for (const auto by : {ConcludedBy::downstream, ConcludedBy::relay})
    EXPECT_EQ(parse_concluded_by(to_string(by)), by);
  EXPECT_EQ(parse_concluded_by("Relay"), std::nullopt);
  EXPECT_EQ(parse_concluded_by(""), std::nullopt);
}

TEST(Advance, EveryPairOfStateAndReport) {
  const auto refused = [](Refusal refusal) { return tl::unexpected(refusal); };
  Job first;
  first.started_at = k_now;
  first.queue = 60s;
  Job done = completed("failure");
  done.completed_at = k_now;
  done.execution = 50s;
  Job silent = done;
  silent.conclusion = "timed_out";
  silent.concluded_by = ConcludedBy::relay;
  Job unconcluded = done;
  unconcluded.conclusion.reset();
  const Case cases[] = {
      {"nothing, started", {}, report(started), Effect::advanced, first},
      {"nothing, finished", {}, report(finished, "success"), Effect::advanced, completed_first()},
      {"nothing, expired", {}, report(expired), refused(Refusal::nothing_to_expire), {}},
      {"running, started", running(), report(started), Effect::duplicate, {}},
      {"running, finished", running(), report(finished, "failure"), Effect::advanced, done},
      {"running, finished unsaid", running(), report(finished), Effect::advanced, unconcluded},
      {"running, expired", running(), report(expired), Effect::advanced, silent},
      {"completed, started", completed("success"), report(started), Effect::late, {}},
      {"completed, same", completed("success"), report(finished, "success"), Effect::duplicate, {}},
      {"completed, both unsaid", completed({}), report(finished), Effect::duplicate, {}},
      {"completed, other",
       completed("success"),
       report(finished, "failure"),
       refused(Refusal::contradicts_earlier_report),
       {}},
      {"completed, unsaid",
       completed("success"),
       report(finished),
       refused(Refusal::contradicts_earlier_report),
       {}},
      {"completed, expired", completed("success"), report(expired), Effect::late, {}},
      {"completed first, started", completed_first(), report(started), Effect::late, {}},
      {"completed first, same",
       completed_first(),
       report(finished, "success"),
       Effect::duplicate,
       {}},
      {"timed out, started",
       completed("timed_out", ConcludedBy::relay),
       report(started),
       Effect::late,
       {}},
      {"timed out, finished", completed("timed_out", ConcludedBy::relay),
       report(finished, "failure"), Effect::replaced, done},
      {"timed out, expired",
       completed("timed_out", ConcludedBy::relay),
       report(expired),
       Effect::late,
       {}},
  };
  for (const Case& c : cases) {
    const auto next = advance(c.job, c.report, k_dispatched, k_now);
    ASSERT_EQ(next.has_value(), c.effect.has_value()) << c.name;
    if (!next) {
      EXPECT_EQ(next.error(), c.effect.error()) << c.name;
      continue;
    }
    EXPECT_EQ(next->effect, *c.effect) << c.name;
    EXPECT_TRUE(next->job == (c.after ? *c.after : *c.job)) << c.name;
  }
}

TEST(Advance, AReRunHasNoQueueTime) {
  const auto next = advance({}, report(started), std::nullopt, k_now);
  ASSERT_TRUE(next);
  EXPECT_FALSE(next->job.queue);
}

TEST(Advance, AClockSetBackGivesNoNegativeTimes) {
  const auto begun = advance({}, report(started), k_now, k_dispatched);
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->job.queue, base::Duration{0});
  const auto ended = advance(running(), report(finished, "success"), k_dispatched, Time{1s});
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->job.execution, base::Duration{0});
}

// Whatever comes in whatever order: the same report again changes nothing, what is completed stays
// so, and a downstream's conclusion is never replaced.
TEST(Advance, HoldsForEverySequence) {
  std::mt19937 random{7};
  const std::optional<std::string> conclusions[] = {"success", "failure", "timed_out",
                                                    std::nullopt};
  for (int round = 0; round < 5000; ++round) {
    std::optional<Job> job;
    Time now = k_dispatched;
    for (int step = 0; step < 6; ++step) {
      now += std::chrono::seconds{static_cast<int>(random() % 20)};
      const Report r{static_cast<ReportKind>(random() % 3), conclusions[random() % 4]};
      const auto next = advance(job, r, k_dispatched, now);
      if (!next) continue;
      if (job && job->state == JobState::completed) {
        EXPECT_EQ(next->job.state, JobState::completed);
        EXPECT_TRUE(job->concluded_by == ConcludedBy::relay || next->job == *job);
      }
      const auto again = advance(next->job, r, k_dispatched, now + 1s);
      ASSERT_TRUE(again);
      EXPECT_TRUE(again->effect == Effect::duplicate || again->effect == Effect::late);
      EXPECT_TRUE(again->job == next->job);
      job = next->job;
    }
  }
}

}  // namespace
}  // namespace crosscheck::relay
