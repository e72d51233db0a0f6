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
