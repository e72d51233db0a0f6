#include "crosscheck/runner/dispatcher.h"

#include <gmock/gmock.h>

#include <csignal>
#include <map>
#include <random>

#include "support.h"

namespace crosscheck::runner {
namespace {

using base::Outcome;
using std::chrono::seconds;
using testing::HasSubstr;

const Instant k_zero{};
const Ended k_ok{{0, std::nullopt}, "", ""};
const Ended k_killed{{std::nullopt, SIGKILL}, "", ""};

Finish passed(const std::string& node) {
  Finish finish;
  finish.node_id = node;
  return finish;
}

// One file of three tests and one worker.
class DispatcherTest : public testing::Test {
 protected:
  std::vector<CollectedTest> tests_{make_test("a.py", "x"), make_test("a.py", "y"),
                                    make_test("a.py", "z")};
  Limits limits_;
  Dispatcher dispatcher_{tests_, {Chunk{"a.py", {0, 1, 2}, {}}}, 1, limits_};

  const std::string& node(std::size_t i) const { return tests_[i].node_id; }
  std::map<std::string, Outcome> outcomes() {
    std::map<std::string, Outcome> out;
    for (const auto& result : dispatcher_.take_results()) {
      EXPECT_TRUE(out.emplace(result.id.method, result.outcome).second) << result.node_id;
    }
    return out;
  }
  void SetUp() override {
    const auto commands = dispatcher_.begin(k_zero);
    ASSERT_EQ(commands.size(), 1U);
    EXPECT_THAT(std::get<SpawnWorker>(commands[0]).tests, testing::ElementsAre(0, 1, 2));
  }
  static int signal_in(const std::vector<Command>& commands) {
    if (commands.size() != 1) return 0;
    const auto* signal = std::get_if<SignalWorker>(&commands[0]);
    return signal == nullptr ? 0 : signal->signal;
  }
};

TEST_F(DispatcherTest, ATestOverItsLimitTimesOutAndTheRestGoesOn) {
  (void)dispatcher_.on_event(0, Start{node(0)}, k_zero);
  EXPECT_TRUE(dispatcher_.on_tick(k_zero + limits_.test - seconds{1}).empty());
  EXPECT_EQ(dispatcher_.next_deadline(), k_zero + limits_.test);
  const auto late = k_zero + limits_.test;
  EXPECT_EQ(signal_in(dispatcher_.on_tick(late)), SIGABRT);
  EXPECT_TRUE(dispatcher_.on_tick(late + seconds{1}).empty());
  EXPECT_EQ(signal_in(dispatcher_.on_tick(late + limits_.grace)), SIGKILL);
  const auto commands = dispatcher_.on_exit(0, k_killed, late + seconds{3});
  EXPECT_THAT(outcomes(), testing::ElementsAre(testing::Pair("x", Outcome::timed_out)));
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_THAT(std::get<SpawnWorker>(commands[0]).tests, testing::ElementsAre(1, 2));
}

TEST_F(DispatcherTest, AFinishThatRacesTheSignalIsAResultAndNoOtherTestIsBlamed) {
  (void)dispatcher_.on_event(0, Start{node(0)}, k_zero);
  const auto late = k_zero + limits_.test;
  (void)dispatcher_.on_tick(late);
  (void)dispatcher_.on_event(0, passed(node(0)), late);
  (void)dispatcher_.on_event(0, Start{node(1)}, late);
  const auto commands = dispatcher_.on_exit(0, k_killed, late);
  EXPECT_THAT(outcomes(), testing::ElementsAre(testing::Pair("x", Outcome::passed)));
  EXPECT_THAT(std::get<SpawnWorker>(commands.at(0)).tests, testing::ElementsAre(1, 2));
}

TEST_F(DispatcherTest, AProcessThatCannotBeKilledIsLeftBehind) {
  (void)dispatcher_.on_event(0, Start{node(0)}, k_zero);
  auto now = k_zero + limits_.test;
  (void)dispatcher_.on_tick(now);
  now += limits_.grace;
  EXPECT_EQ(signal_in(dispatcher_.on_tick(now)), SIGKILL);
  now += limits_.exit;
  const auto commands = dispatcher_.on_tick(now);
  ASSERT_EQ(commands.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<AbandonWorker>(commands[0]));
  EXPECT_TRUE(std::holds_alternative<SpawnWorker>(commands[1]));
  EXPECT_THAT(dispatcher_.take_notes(), testing::Contains(HasSubstr("cannot be killed")));
}

TEST_F(DispatcherTest, AFileThatDoesNotGetReadyIsTheHarnesssFault) {
  const auto late = k_zero + limits_.start;
  EXPECT_EQ(signal_in(dispatcher_.on_tick(late)), SIGABRT);
  (void)dispatcher_.on_exit(0, k_killed, late);
  EXPECT_TRUE(dispatcher_.done());
  const auto results = dispatcher_.take_results();
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].outcome, Outcome::harness_error);
  EXPECT_THAT(results[0].message, HasSubstr("a.py was not imported and collected within 5 min"));
}

TEST_F(DispatcherTest, SilenceBetweenTestsBlamesNoTest) {
  (void)dispatcher_.on_event(0, Start{node(0)}, k_zero);
  (void)dispatcher_.on_event(0, passed(node(0)), k_zero);
  EXPECT_EQ(signal_in(dispatcher_.on_tick(k_zero + limits_.quiet)), SIGABRT);
  const auto commands = dispatcher_.on_exit(0, k_killed, k_zero + limits_.quiet);
  EXPECT_THAT(outcomes(), testing::ElementsAre(testing::Pair("x", Outcome::passed)));
  EXPECT_THAT(std::get<SpawnWorker>(commands.at(0)).tests, testing::ElementsAre(1, 2));
}

TEST_F(DispatcherTest, AnInterruptKeepsWhatEndedAndKillsAtTheSecond) {
  (void)dispatcher_.on_event(0, Start{node(0)}, k_zero);
  (void)dispatcher_.on_event(0, passed(node(0)), k_zero);
  (void)dispatcher_.on_event(0, Start{node(1)}, k_zero);
  EXPECT_EQ(signal_in(dispatcher_.interrupt(k_zero)), SIGTERM);
  EXPECT_FALSE(dispatcher_.done());
  EXPECT_EQ(signal_in(dispatcher_.interrupt(k_zero)), SIGKILL);
  EXPECT_TRUE(dispatcher_.on_exit(0, k_killed, k_zero).empty());
  EXPECT_TRUE(dispatcher_.done());
  EXPECT_TRUE(dispatcher_.interrupted());
  EXPECT_THAT(outcomes(), testing::UnorderedElementsAre(testing::Pair("x", Outcome::passed),
                                                        testing::Pair("y", Outcome::not_run),
                                                        testing::Pair("z", Outcome::not_run)));
}

TEST_F(DispatcherTest, WhatCannotBeStartedIsTheEnvironmentsFault) {
  (void)dispatcher_.on_spawn_failed(0, {base::Fault::environment, "cannot start 'python3'", {}},
                                    k_zero);
  EXPECT_TRUE(dispatcher_.done());
  for (const auto& [method, outcome] : outcomes()) EXPECT_EQ(outcome, Outcome::environment_error);
}

// The tests of one file, carried out by hand: what each start leads to is said.
class Handled {
 public:
  Handled(std::size_t tests, Limits limits, Handling handling, std::size_t workers = 1)
      : tests_(make(tests)),
        dispatcher_{tests_, chunks(tests, workers), workers, limits, std::move(handling)} {
    take(dispatcher_.begin(k_zero));
  }
  void finish(std::size_t test, Reported outcome) {
    Finish said;
    said.node_id = tests_[test].node_id;
    said.outcome = outcome;
    take(dispatcher_.on_event(0, Start{said.node_id}, now_));
    take(dispatcher_.on_event(0, said, now_));
  }
  void start(std::size_t test) { take(dispatcher_.on_event(0, Start{tests_[test].node_id}, now_)); }
  void exit(std::size_t worker = 0) { take(dispatcher_.on_exit(worker, k_ok, now_)); }
  void pass_time(base::Duration time) {
    now_ += time;
    take(dispatcher_.on_tick(now_));
  }
  void weigh(std::int64_t bytes) { take(dispatcher_.on_memory(0, bytes, now_)); }
  // The tests that the last process was started with; empties the list.
  std::vector<std::size_t> spawned() { return std::exchange(spawned_, {}); }
  std::vector<int> signals() { return std::exchange(signals_, {}); }
  Dispatcher& dispatcher() { return dispatcher_; }

 private:
  static std::vector<CollectedTest> make(std::size_t n) {
    std::vector<CollectedTest> tests;
    for (std::size_t i = 0; i < n; ++i) tests.push_back(make_test("a.py", std::to_string(i)));
    return tests;
  }
  static std::vector<Chunk> chunks(std::size_t n, std::size_t workers) {
    std::vector<Chunk> all(workers, Chunk{"a.py", {}, {}});
    for (std::size_t i = 0; i < n; ++i) all[i * workers / n].tests.push_back(i);
    return all;
  }
  void take(const std::vector<Command>& commands) {
    for (const auto& command : commands) {
      if (const auto* spawn = std::get_if<SpawnWorker>(&command)) spawned_ = spawn->tests;
      if (const auto* signal = std::get_if<SignalWorker>(&command)) {
        signals_.push_back(signal->signal);
      }
    }
  }

  std::vector<CollectedTest> tests_;
  Dispatcher dispatcher_;
  Instant now_ = k_zero;
  std::vector<std::size_t> spawned_;
  std::vector<int> signals_;
};

Handling retries(int n) {
  Handling handling;
  handling.retries = n;
  return handling;
}

TEST(Retries, RunInAProcessOfTheirOwnAndKeepEveryAttempt) {
  Handled run{3, {}, retries(2)};
  run.finish(0, Reported::failed);
  run.finish(1, Reported::passed);
  run.finish(2, Reported::failed);
  EXPECT_EQ(run.dispatcher().progress().counts.failures(), 2);
  run.spawned();
  run.exit();
  EXPECT_THAT(run.spawned(), testing::ElementsAre(0, 2));
  run.finish(0, Reported::passed);
  run.finish(2, Reported::failed);
  run.exit();
  EXPECT_THAT(run.spawned(), testing::ElementsAre(2));
  run.finish(2, Reported::failed);
  run.exit();
  EXPECT_TRUE(run.dispatcher().done());
  base::RunResults results;
  results.results = run.dispatcher().take_results();
  EXPECT_EQ(results.results.size(), 6U);
  const auto tested = results.tested();
  EXPECT_TRUE(tested[0].flaky);
  EXPECT_EQ(tested[0].latest->attempt, 2);
  EXPECT_EQ(tested[2].latest->attempt, 3);
  EXPECT_FALSE(tested[2].flaky);
  const auto progress = run.dispatcher().progress();
  EXPECT_EQ(progress.counts, results.counts());
  EXPECT_EQ(progress.done, 3U);
}

TEST(Retries, OfATestThatKillsItsProcessCostTheOthersNothing) {
  Handled run{2, {}, retries(1)};
  run.start(0);
  run.exit();
  EXPECT_THAT(run.spawned(), testing::ElementsAre(1));
  run.finish(1, Reported::passed);
  run.exit();
  EXPECT_THAT(run.spawned(), testing::ElementsAre(0));
  run.start(0);
  run.exit();
  EXPECT_TRUE(run.dispatcher().done());
  EXPECT_EQ(run.dispatcher().take_results().size(), 3U);
}

TEST(Retries, AnInterruptLeavesTheFailureAsItIs) {
  Handled run{1, {}, retries(1)};
  run.finish(0, Reported::failed);
  (void)run.dispatcher().interrupt(k_zero);
  run.exit();
  EXPECT_TRUE(run.dispatcher().done());
  const auto results = run.dispatcher().take_results();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].outcome, Outcome::failed);
}

TEST(Retries, OnlyWhatFailsAgainstItsMode) {
  Handling handling = retries(1);
  for (const auto mode : {base::Mode::xfail, base::Mode::xfail_strict}) {
    handling.governed.push_back({mode, "listed", "c.yaml:7:9", Outcome::not_run});
  }
  Handled run{2, {}, std::move(handling)};
  run.finish(0, Reported::failed);
  run.finish(1, Reported::passed);
  run.exit();
  EXPECT_THAT(run.spawned(), testing::ElementsAre(1));
  run.finish(1, Reported::failed);
  run.exit();
  const auto results = run.dispatcher().take_results();
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].outcome, Outcome::xfailed);
  EXPECT_EQ(results[0].governed->observed, Outcome::failed);
  EXPECT_EQ(results[1].outcome, Outcome::failed);
  EXPECT_EQ(results[1].governed->observed, Outcome::passed);
  EXPECT_THAT(results[1].message, HasSubstr("c.yaml:7:9"));
  EXPECT_EQ(results[2].outcome, Outcome::xfailed);
}

Limits file_limit(base::Duration limit) {
  Limits limits;
  limits.file = limit;
  return limits;
}

TEST(FileLimit, EndsTheFileAndSaysSo) {
  Handled run{3, file_limit(seconds{60}), retries(1)};
  run.finish(0, Reported::failed);
  run.start(1);
  run.pass_time(seconds{59});
  EXPECT_THAT(run.signals(), testing::IsEmpty());
  run.pass_time(seconds{1});
  EXPECT_THAT(run.signals(), testing::ElementsAre(SIGABRT));
  run.spawned();
  run.exit();
  EXPECT_THAT(run.spawned(), testing::IsEmpty());
  EXPECT_TRUE(run.dispatcher().done());
  EXPECT_TRUE(run.dispatcher().cut_short());
  const auto results = run.dispatcher().take_results();
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[1].outcome, Outcome::timed_out);
  EXPECT_THAT(results[1].message, HasSubstr("its file did not end within 1 min 0 s"));
  EXPECT_EQ(results[2].outcome, Outcome::not_run);
  EXPECT_THAT(results[2].message, HasSubstr("its file may take"));
}

TEST(FileLimit, HoldsForAllProcessesOfTheFileTogether) {
  Handled run{2, file_limit(seconds{60}), {}, 2};
  run.start(0);
  run.pass_time(seconds{29});
  EXPECT_THAT(run.signals(), testing::IsEmpty());
  run.pass_time(seconds{1});
  EXPECT_THAT(run.signals(), testing::ElementsAre(SIGABRT, SIGABRT));
}

TEST(FileLimit, AFileThatEndsInTimeIsNotCutShort) {
  Handled run{1, file_limit(seconds{60}), {}};
  run.finish(0, Reported::passed);
  run.pass_time(seconds{10});
  run.exit();
  EXPECT_TRUE(run.dispatcher().done());
  EXPECT_FALSE(run.dispatcher().cut_short());
}

TEST(MemoryLimit, CostsTheTestThatRuns) {
  Limits limits;
  limits.memory = 1000;
  Handled run{2, limits, {}};
  run.start(0);
  run.weigh(1000);
  EXPECT_THAT(run.signals(), testing::IsEmpty());
  run.weigh(1001);
  EXPECT_THAT(run.signals(), testing::ElementsAre(SIGKILL));
  run.exit();
  EXPECT_THAT(run.spawned(), testing::ElementsAre(1));
  const auto results = run.dispatcher().take_results();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].outcome, Outcome::crashed);
  EXPECT_EQ(results[0].kind, base::FailureKind::out_of_memory);
}

TEST(Leak, IsNamedBeyondItsLimit) {
  Limits limits;
  limits.leak = {100, 10};
  struct Case {
    base::Leak grown;
    std::optional<base::Leak> leak;
  };
  for (const auto& [grown, leak] :
       {Case{{99, 9}, {}}, Case{{100, 0}, base::Leak{100, 0}}, Case{{-5, 10}, base::Leak{0, 10}}}) {
    Handled run{1, limits, {}};
    const auto node = make_test("a.py", "0").node_id;
    Finish said = passed(node);
    said.grown = grown;
    (void)run.dispatcher().on_event(0, Start{node}, k_zero);
    (void)run.dispatcher().on_event(0, said, k_zero);
    EXPECT_EQ(run.dispatcher().take_results().at(0).leak, leak);
    EXPECT_EQ(run.dispatcher().take_notes().size(), leak ? 1U : 0U);
  }
}

TEST(Progress, WeighsByWhatWasExpected) {
  Handling handling;
  handling.expected = {seconds{90}, seconds{10}};
  Handled run{2, {}, std::move(handling)};
  run.finish(0, Reported::passed);
  EXPECT_EQ(run.dispatcher().progress().expected_done, seconds{90});
  EXPECT_EQ(run.dispatcher().progress().expected_total, seconds{100});
}

// Workers that do anything at any time: every test still gets one result, and the number of
// processes is bounded by the number of tests and chunks.
TEST(DispatcherProperty, EveryTestEndsOnceWhateverWorkersDo) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random{seed};
    std::vector<CollectedTest> tests;
    std::vector<Chunk> chunks;
    const auto files = 1 + random() % 4;
    for (std::size_t f = 0; f < files; ++f) {
      Chunk chunk{"f" + std::to_string(f), {}, {}};
      for (std::size_t n = 1 + random() % 6; n > 0; --n) {
        chunk.tests.push_back(tests.size());
        tests.push_back(make_test(chunk.file, "t" + std::to_string(n)));
      }
      chunks.push_back(std::move(chunk));
    }
    const std::size_t workers = 1 + random() % 3;
    Dispatcher dispatcher{tests, chunks, workers, {}};
    std::vector<std::optional<SpawnWorker>> alive(workers);
    std::vector<bool> open(workers, false);
    std::size_t spawned = 0;
    auto now = k_zero;
    const auto obey = [&](const std::vector<Command>& commands) {
      for (const auto& command : commands) {
        if (const auto* spawn = std::get_if<SpawnWorker>(&command)) {
          ASSERT_FALSE(alive[spawn->worker]);
          alive[spawn->worker] = *spawn;
          open[spawn->worker] = true;
          ++spawned;
        } else if (const auto* abandon = std::get_if<AbandonWorker>(&command)) {
          alive[abandon->worker].reset();
        }
      }
    };
    obey(dispatcher.begin(now));
    std::size_t steps = 0;
    while (!dispatcher.done()) {
      ASSERT_LT(++steps, 20000U) << "seed " << seed;
      now += seconds{random() % 40};
      const auto worker = random() % workers;
      if (alive[worker]) {
        const auto& asked = alive[worker]->tests;
        const auto& node = random() % 20 == 0 ? std::string{"elsewhere"}
                                              : tests[asked[random() % asked.size()]].node_id;
        switch (random() % 14) {
          case 0:
          case 1:
          case 2:
            if (open[worker]) obey(dispatcher.on_event(worker, Start{node}, now));
            break;
          case 3:
          case 4:
          case 5:
            if (open[worker]) obey(dispatcher.on_event(worker, passed(node), now));
            break;
          case 6:
            if (open[worker]) obey(dispatcher.on_event(worker, Ready{1}, now));
            break;
          case 7:
            if (open[worker]) obey(dispatcher.on_event(worker, Missing{node}, now));
            break;
          case 8:
            if (open[worker]) obey(dispatcher.on_event(worker, End{}, now));
            break;
          case 9:
            if (open[worker]) obey(dispatcher.on_garbage(worker, "garbage", now));
            break;
          case 10:
            if (open[worker]) obey(dispatcher.on_pipe_closed(worker, now));
            open[worker] = false;
            break;
          case 11:
            if (open[worker]) {
              obey(dispatcher.on_event(worker, CollectError{"f", "E", "m", ""}, now));
            }
            break;
          default: {
            alive[worker].reset();
            obey(dispatcher.on_exit(worker, random() % 2 == 0 ? k_ok : k_killed, now));
          }
        }
      }
      if (random() % 300 == 0) obey(dispatcher.interrupt(now));
      obey(dispatcher.on_tick(now));
    }
    std::map<std::string, int> ends;
    for (const auto& result : dispatcher.take_results()) {
      if (result.attempt == 1) ++ends[result.node_id];
    }
    EXPECT_EQ(ends.size(), tests.size()) << "seed " << seed;
    for (const auto& [node, n] : ends) EXPECT_EQ(n, 1) << node;
    EXPECT_LE(spawned, tests.size() + chunks.size()) << "seed " << seed;
    EXPECT_EQ(dispatcher.progress().done, tests.size());
  }
}

}  // namespace
}  // namespace crosscheck::runner
