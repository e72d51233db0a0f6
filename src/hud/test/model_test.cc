#include "../src/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace crosscheck::hud {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

const base::Time k_start{std::chrono::sys_days{std::chrono::year{2026} / 9 / 1}};

Job job(std::int64_t id, std::string sha, std::string name, State state, std::string run = "1",
        std::int64_t attempt = 1) {
  Job made;
  made.id = id;
  made.repo_key = made.repo = "org/repo";
  made.level = "L2";
  made.head_sha = std::move(sha);
  made.delivery_id = "d";
  made.job_name = std::move(name);
  made.workflow = "CI";
  made.state = state;
  made.run_id = std::move(run);
  made.run_attempt = attempt;
  made.first_seen_at = k_start + std::chrono::minutes{id};
  return made;
}

std::vector<std::int64_t> ids(const std::vector<LatestJob>& jobs) {
  std::vector<std::int64_t> result;
  for (const auto& latest : jobs) result.push_back(latest.job.id);
  return result;
}

TEST(LatestAttempts, TheHighestAttemptOfTheNewestRunCounts) {
  // Run 1 was tried twice; its first attempt is reported again after run 2 began.
  auto late = job(9, "a", "test", State::failed, "1", 1);
  const std::vector<Job> jobs{
      job(1, "a", "test", State::failed, "1", 1), job(2, "a", "test", State::passed, "1", 2),
      job(3, "a", "test", State::passed, "2", 1), late, job(4, "b", "test", State::failed, "3", 1)};
  const auto latest = latest_attempts(jobs);
  ASSERT_THAT(ids(latest), ElementsAre(4, 3));
  EXPECT_EQ(latest[1].attempts(), 4);
  EXPECT_EQ(latest[1].earlier[0].id, 2);
}

TEST(LatestAttempts, OrderOfTheRowsChangesNothing) {
  std::vector<Job> jobs;
  for (int i = 1; i <= 60; ++i) {
    jobs.push_back(job(i, std::string(1, static_cast<char>('a' + i % 4)),
                       i % 3 == 0 ? "build" : "test", i % 5 == 0 ? State::failed : State::passed,
                       std::to_string(i % 7), i % 2 + 1));
  }
  const auto expected = ids(latest_attempts(jobs));
  std::mt19937 random{7};
  for (int round = 0; round < 50; ++round) {
    std::shuffle(jobs.begin(), jobs.end(), random);
    ASSERT_EQ(ids(latest_attempts(jobs)), expected);
  }
}

TEST(PassRate, LatestAttemptsThatPassedOrFailed) {
  struct Case {
    const char* what;
    std::vector<Job> jobs;
    PassRate expected;
  };
  const Case cases[]{
      {"nothing", {}, {0, 0}},
      {"one passed, one failed",
       {job(1, "a", "x", State::passed), job(2, "a", "y", State::failed)},
       {1, 2}},
      {"a time-out is a failure", {job(1, "a", "x", State::timed_out)}, {0, 1}},
      {"a re-run that passed replaces the failure",
       {job(1, "a", "x", State::failed, "1", 1), job(2, "a", "x", State::passed, "1", 2)},
       {1, 1}},
      {"a re-run that failed replaces the pass",
       {job(1, "a", "x", State::passed, "1", 1), job(2, "a", "x", State::failed, "1", 2)},
       {0, 1}},
      {"a cancelled re-run takes the job out of both numbers",
       {job(1, "a", "x", State::failed, "1", 1), job(2, "a", "x", State::cancelled, "1", 2)},
       {0, 0}},
      {"skipped, cancelled, neutral and unfinished are in neither number",
       {job(1, "a", "v", State::skipped), job(2, "a", "w", State::cancelled),
        job(3, "a", "x", State::neutral), job(4, "a", "y", State::running),
        job(5, "a", "z", State::passed)},
       {1, 1}},
      {"the same job on another commit is another job",
       {job(1, "a", "x", State::passed), job(2, "b", "x", State::failed)},
       {1, 2}},
  };
  for (const auto& c : cases) EXPECT_EQ(pass_rate(latest_attempts(c.jobs)), c.expected) << c.what;
}

TEST(FailingSince, GoesBackToTheFirstFailureThatNoPassEnded) {
  const auto since = [](std::vector<Job> jobs) {
    return failing_since(latest_attempts(std::move(jobs)));
  };
  EXPECT_FALSE(since({}));
  EXPECT_FALSE(since({job(1, "a", "x", State::failed), job(2, "b", "x", State::passed)}));
  const auto found =
      since({job(1, "a", "x", State::failed), job(2, "b", "x", State::passed),
             job(3, "c", "x", State::failed, "3"), job(4, "d", "x", State::cancelled, "4"),
             job(5, "e", "y", State::passed, "5"), job(6, "e", "x", State::timed_out, "5")});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->job_id, 3);
  EXPECT_EQ(found->commits, 2);
  EXPECT_EQ(found->head_sha, "c");
}

TEST(Percentiles, NearestRank) {
  EXPECT_FALSE(percentiles({}));
  const auto one = percentiles({7s});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->p50, 7s);
  EXPECT_EQ(one->p95, 7s);
  std::vector<base::Duration> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(std::chrono::seconds{i});
  const auto hundred = percentiles(samples);
  ASSERT_TRUE(hundred);
  EXPECT_EQ(hundred->p50, 50s);
  EXPECT_EQ(hundred->p95, 95s);
  EXPECT_EQ(hundred->n, 100);
}

TEST(Summarise, QueueAndEndToEndLeaveOutReRuns) {
  auto first = job(1, "a", "x", State::failed, "1", 1);
  first.queue = 10s;
  first.execution = 60s;
  auto again = job(2, "a", "x", State::passed, "1", 2);
  again.execution = 50s;
  const auto summary =
      summarise(Backend{.level = "L2"}, {first, again}, std::nullopt, k_start + 1h);
  ASSERT_TRUE(summary.queue && summary.end_to_end);
  EXPECT_EQ(summary.queue->n, 1);
  EXPECT_EQ(summary.end_to_end->p50, 70s);
  EXPECT_EQ(summary.state, State::passed);
  EXPECT_EQ(summary.freshness, Freshness::fresh);
}

TEST(Summarise, SilenceIsAStateOfItsOwn) {
  const auto freshness = [](const char* level, std::optional<base::Time> last) {
    return summarise(Backend{.level = level}, {}, last, k_start + 48h).freshness;
  };
  EXPECT_EQ(freshness("L2", std::nullopt), Freshness::never_reported);
  EXPECT_EQ(freshness("L2", k_start), Freshness::no_recent_data);
  EXPECT_EQ(freshness("L2", k_start + 25h), Freshness::fresh);
  EXPECT_EQ(freshness("L1", std::nullopt), Freshness::not_collected);
}

std::optional<Dispatch> dispatched(State state) {
  Dispatch made;
  made.state = state;
  return made;
}

TEST(Judge, OneBackend) {
  struct Case {
    const char* what;
    const char* level;
    std::optional<Dispatch> dispatch;
    std::vector<Job> jobs;
    Verdict expected;
  };
  const Case cases[]{
      {"in the outbox", "L2", dispatched(State::pending), {}, Verdict::pending},
      {"sent, silent", "L2", dispatched(State::dispatched), {}, Verdict::pending},
      {"sent to L1", "L1", dispatched(State::dispatched), {}, Verdict::not_collected},
      {"dead letter", "L2", dispatched(State::dead), {}, Verdict::not_dispatched},
      {"superseded", "L2", dispatched(State::withdrawn), {}, Verdict::withdrawn},
      {"never asked", "L2", std::nullopt, {}, Verdict::not_dispatched},
      {"a failure is one while others run",
       "L2",
       dispatched(State::dispatched),
       {job(1, "a", "x", State::failed), job(2, "a", "y", State::running)},
       Verdict::failed},
      {"running",
       "L2",
       dispatched(State::dispatched),
       {job(1, "a", "x", State::passed), job(2, "a", "y", State::running)},
       Verdict::pending},
      {"all cancelled is not green",
       "L2",
       dispatched(State::dispatched),
       {job(1, "a", "x", State::cancelled)},
       Verdict::inconclusive},
      {"a cancelled job is not made up for by another that passed",
       "L2",
       dispatched(State::dispatched),
       {job(1, "a", "x", State::cancelled), job(2, "a", "y", State::passed)},
       Verdict::inconclusive},
      {"passed and skipped",
       "L2",
       dispatched(State::dispatched),
       {job(1, "a", "x", State::passed), job(2, "a", "y", State::skipped)},
       Verdict::passed},
      {"a re-run that passed",
       "L2",
       dispatched(State::dispatched),
       {job(1, "a", "x", State::failed, "1", 1), job(2, "a", "x", State::passed, "1", 2)},
       Verdict::passed},
      {"a nightly report",
       "L2",
       std::nullopt,
       {job(1, "a", "x", State::timed_out)},
       Verdict::failed},
  };
  for (const auto& c : cases)
    EXPECT_EQ(judge(c.level, c.dispatch, latest_attempts(c.jobs)), c.expected) << c.what;
}

TEST(Sentence, SaysWhoFailedAndWhetherItBlocks) {
  using V = Verdict;
  struct Case {
    std::vector<std::pair<V, bool>> backends;  // verdict, can block
    const char* sentence;
    V verdict;
    bool blocks;
  };
  const Case cases[]{
      {{}, "No backend was asked about this commit.", V::not_collected, false},
      {{{V::not_collected, false}},
       "No backend that was asked about this commit reports results.",
       V::not_collected,
       false},
      {{{V::failed, false}, {V::passed, false}},
       "1 of 2 backends failed; none blocks the merge.",
       V::failed,
       false},
      {{{V::failed, false}},
       "The one backend failed and does not block the merge.",
       V::failed,
       false},
      {{{V::failed, true}}, "The one backend failed and blocks the merge.", V::failed, true},
      {{{V::failed, true}, {V::pending, false}, {V::pending, false}},
       "1 of 3 backends failed and blocks the merge; 2 still pending.",
       V::failed,
       true},
      {{{V::failed, true}, {V::failed, true}, {V::passed, false}},
       "2 of 3 backends failed and each blocks the merge.",
       V::failed,
       true},
      {{{V::failed, true}, {V::failed, false}, {V::not_dispatched, false}},
       "2 of 3 backends failed; 1 of them blocks the merge; 1 not dispatched.",
       V::failed,
       true},
      {{{V::pending, false}, {V::passed, false}},
       "1 of 2 backends is pending; none has failed.",
       V::pending,
       false},
      {{{V::pending, true}, {V::passed, false}},
       "1 of 2 backends is pending; none has failed; it may still block the merge.",
       V::pending,
       false},
      {{{V::pending, true}, {V::pending, false}},
       "2 of 2 backends are pending; 1 of them may still block the merge.",
       V::pending,
       false},
      {{{V::pending, false}}, "The one backend is pending.", V::pending, false},
      {{{V::not_dispatched, false}, {V::passed, false}},
       "1 of 2 backends could not be dispatched to.",
       V::not_dispatched,
       false},
      {{{V::passed, true}}, "The one backend passed.", V::passed, false},
      {{{V::passed, true}, {V::passed, false}, {V::not_collected, false}, {V::withdrawn, false}},
       "All 2 backends passed.",
       V::passed,
       false},
      {{{V::passed, false}, {V::inconclusive, false}},
       "1 of 2 backends passed; 1 ended without a result.",
       V::passed,
       false},
      {{{V::inconclusive, false}},
       "The one backend ended without a result.",
       V::inconclusive,
       false},
  };
  for (const auto& c : cases) {
    std::vector<BackendResult> backends;
    for (const auto& [verdict, can_block] : c.backends) {
      BackendResult backend;
      backend.verdict = verdict;
      backend.can_block = can_block;
      backends.push_back(backend);
    }
    const auto summary = summarise(backends);
    EXPECT_EQ(summary.sentence, c.sentence);
    EXPECT_EQ(summary.verdict, c.verdict) << c.sentence;
    EXPECT_EQ(summary.blocks, c.blocks) << c.sentence;
  }
}

TEST(Changes, AreKeyedByCommitAndNotByPullRequest) {
  Delivery opened{
      .id = 1, .delivery_id = "d1", .pr_number = 7, .head_sha = "a", .received_at = k_start};
  Delivery reopened{
      .id = 2, .delivery_id = "d2", .pr_number = 7, .head_sha = "a", .received_at = k_start + 1h};
  Delivery pushed{
      .id = 3, .delivery_id = "d3", .pr_number = 7, .head_sha = "b", .received_at = k_start + 2h};
  Delivery nameless{.id = 4, .delivery_id = "d4", .received_at = k_start + 3h};
  Dispatch first{.delivery = 1,
                 .repo_key = "org/repo",
                 .repo = "org/repo",
                 .level = "L4",
                 .state = State::withdrawn};
  Dispatch second{.delivery = 2,
                  .repo_key = "org/repo",
                  .repo = "org/repo",
                  .level = "L4",
                  .state = State::dispatched};
  const auto changes = join_changes({opened, reopened, pushed, nameless}, {second, first},
                                    {job(1, "a", "x", State::failed)});
  ASSERT_EQ(changes.size(), 3U);
  EXPECT_EQ(changes[0].deliveries.front().delivery_id, "d4");
  EXPECT_EQ(changes[1].head_sha, "b");
  EXPECT_EQ(changes[2].head_sha, "a");
  EXPECT_EQ(changes[2].deliveries.size(), 2U);
  ASSERT_EQ(changes[2].backends.size(), 1U);
  EXPECT_EQ(changes[2].backends[0].dispatch->state, State::dispatched);
  EXPECT_TRUE(changes[2].backends[0].can_block);
}

TEST(Grid, ShardsShareAColumnAndItsWorstStateShows) {
  for (const auto& [name, group] :
       std::vector<std::pair<std::string, std::string>>{{"test (default, 1, 3)", "test"},
                                                        {"test", "test"},
                                                        {"(x)", "(x)"},
                                                        {"a (b) (c)", "a (b)"},
                                                        {"linux / test", "linux / test"},
                                                        {"", ""},
                                                        {")", ")"}}) {
    EXPECT_EQ(job_group(name), group);
  }
  const auto changes = join_changes(
      {}, {},
      {job(1, "a", "test (1, 2)", State::passed), job(2, "a", "test (2, 2)", State::failed),
       job(3, "a", "build", State::passed), job(4, "b", "build", State::skipped)});
  const auto grid = make_grid(changes, {});
  ASSERT_EQ(grid.columns.size(), 2U);
  EXPECT_EQ(grid.columns[0].name, "build");
  ASSERT_EQ(grid.rows.size(), 2U);
  EXPECT_FALSE(grid.rows[0].cells[1]);
  EXPECT_EQ(grid.rows[1].cells[1]->state, State::failed);
  EXPECT_EQ(grid.rows[1].cells[1]->job_id, 2);
  EXPECT_EQ(grid.rows[1].cells[1]->jobs, 2);
  GridFilter filter;
  filter.ungrouped = true;
  EXPECT_EQ(make_grid(changes, filter).columns.size(), 3U);
  filter = {};
  filter.status = State::failed;
  EXPECT_EQ(make_grid(changes, filter).commits, 1);
  filter = {};
  filter.q = "BUILD";
  EXPECT_EQ(make_grid(changes, filter).columns.size(), 1U);
  EXPECT_EQ(make_grid(changes, filter).rows.size(), 2U);
  filter.q = "b";  // a job's name has it, so it is not taken for a commit
  EXPECT_EQ(make_grid(changes, filter).rows.size(), 2U);
  filter.q = "nothing like it";
  EXPECT_EQ(make_grid(changes, filter).commits, 0);
  filter = {};
  filter.page = 9999;
  EXPECT_TRUE(make_grid(changes, filter).rows.empty());
  EXPECT_EQ(make_grid(changes, filter).commits, 2);
}

}  // namespace
}  // namespace crosscheck::hud
