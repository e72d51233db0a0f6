#include "crosscheck/runner/executor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <thread>

#include "../src/orphans.h"
#include "../src/processes.h"
#include "support.h"

namespace crosscheck::runner {
namespace {

using base::Outcome;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

struct Ran {
  std::map<std::string, base::TestResult> results;  // by method
  std::vector<std::string> notes;
  bool interrupted = false;
  std::string log;
};

Limits short_limits() {
  Limits limits;
  limits.grace = milliseconds{100};
  return limits;
}

Ran run_file(const std::string& file, const std::vector<std::string>& methods, Limits limits,
             std::size_t workers = 1) {
  TemporaryFolder folder;
  std::vector<CollectedTest> tests;
  Chunk chunk{file, {}, {}};
  for (const auto& method : methods) {
    chunk.tests.push_back(tests.size());
    tests.push_back(make_test(file, method));
  }
  Ran ran;
  ExecuteOptions options;
  options.workers = workers;
  options.limits = limits;
  options.on_results = [&](const std::vector<base::TestResult>& results) {
    for (const auto& result : results) {
      EXPECT_TRUE(ran.results.emplace(result.id.method, result).second) << result.node_id;
    }
  };
  options.on_note = [&](const std::string& note) { ran.notes.push_back(note); };
  const auto setup = fake_probe(folder / "log");
  const auto executed = execute(setup, tests, {chunk}, options);
  EXPECT_TRUE(executed) << executed.error().message;
  ran.interrupted = executed && executed->interrupted;
  ran.log = read_text(folder / "log");
  EXPECT_EQ(ran.results.size(), methods.size());
  return ran;
}

bool is_gone(pid_t pid) {
  const auto deadline = std::chrono::steady_clock::now() + seconds{20};
  while (std::chrono::steady_clock::now() < deadline) {
    if (::kill(pid, 0) != 0) return true;
    // Nobody reaps an orphan here if the container's first process does not.
    if (read_text("/proc/" + std::to_string(pid) + "/stat").find(") Z ") != std::string::npos) {
      return true;
    }
    std::this_thread::sleep_for(milliseconds{10});
  }
  return false;
}

pid_t logged_pid(const std::string& log, const std::string& mark) {
  const auto at = log.find(mark);
  return at == std::string::npos ? 0 : std::stoi(log.substr(at + mark.size()));
}

struct Case {
  const char* method;
  Outcome outcome;
  std::size_t processes;
  const char* message;
};

class Misbehaviour : public testing::TestWithParam<Case> {};

// Whatever the middle test does, it costs itself alone.
TEST_P(Misbehaviour, CostsOneTest) {
  const auto& c = GetParam();
  const auto ran = run_file("test_a.py", {"before", c.method, "later"}, short_limits());
  EXPECT_EQ(ran.results.at("before").outcome, Outcome::passed);
  EXPECT_EQ(ran.results.at("later").outcome, Outcome::passed);
  const auto& result = ran.results.at(c.method);
  EXPECT_EQ(to_string(result.outcome), to_string(c.outcome)) << result.message;
  EXPECT_THAT(result.message, HasSubstr(c.message));
  EXPECT_EQ(count(ran.log, "process "), c.processes) << ran.log;
}

INSTANTIATE_TEST_SUITE_P(
    All, Misbehaviour,
    testing::Values(
        Case{"nothing", Outcome::passed, 1, ""}, Case{"fails", Outcome::failed, 1, "Scalars"},
        Case{"unknown", Outcome::passed, 1, ""}, Case{"flood_32", Outcome::passed, 1, ""},
        Case{"missing", Outcome::harness_error, 1, "no longer collects it"},
        Case{"unfinished", Outcome::harness_error, 1, "without saying how it ended"},
        Case{"twice", Outcome::passed, 1, ""},
        Case{"signal_4", Outcome::crashed, 2, "signal 4 (SIGILL)"},
        Case{"signal_6", Outcome::crashed, 2, "signal 6 (SIGABRT)"},
        Case{"signal_7", Outcome::crashed, 2, "signal 7 (SIGBUS)"},
        Case{"signal_8", Outcome::crashed, 2, "signal 8 (SIGFPE)"},
        Case{"signal_9", Outcome::crashed, 2, "signal 9 (SIGKILL)"},
        Case{"signal_11", Outcome::crashed, 2, "signal 11 (SIGSEGV)"},
        Case{"signal_15", Outcome::crashed, 2, "signal 15 (SIGTERM)"},
        Case{"exit_0", Outcome::crashed, 2, "exit 0"},
        Case{"exit_7", Outcome::crashed, 2, "exit 7"},
        Case{"truncated", Outcome::crashed, 2, "exit 0"},
        Case{"early", Outcome::crashed, 2, "exit 0"},
        Case{"internal", Outcome::harness_error, 2, "the plugin broke"},
        Case{"garbage", Outcome::harness_error, 2, "this is not JSON"},
        Case{"binary", Outcome::harness_error, 2, "not a line of the probe"},
        Case{"endless", Outcome::harness_error, 2, "not a line of the probe"},
        Case{"folder", Outcome::passed, 1, ""}, Case{"mute", Outcome::passed, 1, ""},
        Case{"descriptors", Outcome::passed, 1, ""}, Case{"deaf", Outcome::passed, 1, ""},
        Case{"forks_20", Outcome::passed, 1, ""}, Case{"after_11", Outcome::passed, 2, ""}),
    [](const auto& instance) { return std::string{instance.param.method}; });

TEST(Executor, ATestThatTakesAllMemoryCostsOneTest) {
  auto limits = short_limits();
  limits.memory = std::int64_t{256} << 20;
  const auto ran = run_file("test_a.py", {"before", "hog", "later"}, limits);
  EXPECT_EQ(ran.results.at("hog").outcome, Outcome::crashed);
  EXPECT_EQ(ran.results.at("hog").kind, base::FailureKind::out_of_memory);
  EXPECT_THAT(ran.results.at("hog").message, HasSubstr("256 MiB"));
  EXPECT_EQ(ran.results.at("later").outcome, Outcome::passed);
}

TEST(Executor, WhatATestStartedWeighsWithIt) {
  auto limits = short_limits();
  limits.memory = std::int64_t{384} << 20;
  limits.test = seconds{20};
  const auto ran = run_file("test_a.py", {"before", "rears_shared", "rears_own", "later"}, limits);
  EXPECT_EQ(ran.results.at("rears_shared").outcome, Outcome::passed);
  EXPECT_EQ(ran.results.at("rears_own").kind, base::FailureKind::out_of_memory);
  EXPECT_EQ(ran.results.at("later").outcome, Outcome::passed);
}

TEST(Executor, ALeakIsNamed) {
  const auto ran = run_file("test_a.py", {"grows_511", "grows_512"}, short_limits());
  EXPECT_FALSE(ran.results.at("grows_511").leak);
  EXPECT_EQ(ran.results.at("grows_512").leak, (base::Leak{std::int64_t{512} << 20, 0}));
  EXPECT_THAT(ran.notes, testing::ElementsAre(
                             testing::EndsWith("in use than before: 512 MiB of the process")));
}

TEST(Executor, AHangCostsOneTest) {
  auto limits = short_limits();
  limits.test = seconds{2};
  const auto ran = run_file("test_a.py", {"before", "hang", "later"}, limits);
  EXPECT_EQ(ran.results.at("before").outcome, Outcome::passed);
  EXPECT_EQ(ran.results.at("hang").outcome, Outcome::timed_out);
  EXPECT_THAT(ran.results.at("hang").message, HasSubstr("did not end within 2"));
  EXPECT_EQ(ran.results.at("later").outcome, Outcome::passed);
}

TEST(Executor, SilenceAfterATestBlamesNobody) {
  auto limits = short_limits();
  limits.quiet = seconds{2};
  const auto ran = run_file("test_a.py", {"silence", "later"}, limits);
  EXPECT_EQ(ran.results.at("silence").outcome, Outcome::passed);
  EXPECT_EQ(ran.results.at("later").outcome, Outcome::passed);
}

TEST(Executor, AClosedPipeIsNoEndlessWait) {
  auto limits = short_limits();
  limits.exit = seconds{1};
  const auto ran = run_file("test_a.py", {"closes", "later"}, limits);
  EXPECT_EQ(ran.results.at("closes").outcome, Outcome::harness_error);
  EXPECT_THAT(ran.results.at("closes").message, HasSubstr("closed the pipe"));
  EXPECT_EQ(ran.results.at("later").outcome, Outcome::passed);
}

TEST(Executor, ACrashShowsTheLastWordsOfTheProcess) {
  const auto ran = run_file("test_a.py", {"signal_11"}, short_limits());
  EXPECT_THAT(ran.results.at("signal_11").detail, HasSubstr("before the signal"));
  EXPECT_EQ(ran.results.at("signal_11").kind, base::FailureKind::signal);
}

TEST(Executor, AFileWhoseProcessRunsNothingIsTriedOnce) {
  const auto ran = run_file("test_dies.py", {"a", "b"}, short_limits());
  EXPECT_EQ(ran.results.at("a").outcome, Outcome::harness_error);
  EXPECT_EQ(ran.results.at("b").outcome, Outcome::harness_error);
  EXPECT_THAT(ran.results.at("a").message, HasSubstr("exit 3"));
  EXPECT_THAT(ran.results.at("a").detail, HasSubstr("libdevice.so"));
  EXPECT_EQ(count(ran.log, "process "), 1U);
}

TEST(Executor, TellsTheMachinesFaultsFromTheSuites) {
  EXPECT_EQ(run_file("test_no_space.py", {"a"}, short_limits()).results.at("a").outcome,
            Outcome::environment_error);
  const auto no_device = run_file("test_no_device.py", {"a"}, short_limits());
  EXPECT_EQ(no_device.results.at("a").outcome, Outcome::environment_error);
  EXPECT_THAT(no_device.results.at("a").message, HasSubstr("the driver is not loaded"));
  const auto broken = run_file("test_broken.py", {"a"}, short_limits());
  EXPECT_EQ(broken.results.at("a").outcome, Outcome::harness_error);
  EXPECT_THAT(broken.results.at("a").message, HasSubstr("SyntaxError: invalid syntax"));
  auto limits = short_limits();
  limits.start = seconds{3};
  EXPECT_EQ(run_file("test_stuck.py", {"a"}, limits).results.at("a").outcome,
            Outcome::harness_error);
}

TEST(Executor, AnExitThatFailsAfterTheLastTestIsOnlyNoted) {
  const auto falls = run_file("test_falls.py", {"a"}, short_limits());
  EXPECT_EQ(falls.results.at("a").outcome, Outcome::passed);
  EXPECT_THAT(falls.notes, testing::Contains(HasSubstr("SIGSEGV")));
  auto limits = short_limits();
  limits.exit = milliseconds{500};
  const auto lingers = run_file("test_lingers.py", {"a"}, limits);
  EXPECT_EQ(lingers.results.at("a").outcome, Outcome::passed);
  EXPECT_THAT(lingers.notes, testing::Contains(HasSubstr("did not exit")));
}

TEST(Executor, LeavesNoProcessBehind) {
  const auto ran = run_file("test_a.py", {"daemon", "later"}, short_limits());
  EXPECT_EQ(ran.results.at("later").outcome, Outcome::passed);
  const auto daemon = logged_pid(ran.log, "daemon ");
  ASSERT_GT(daemon, 0) << ran.log;
  EXPECT_TRUE(is_gone(daemon));
}

bool lives(pid_t pid) {
  const auto facts = process_facts(pid);
  return facts && facts->state != 'Z';
}

pid_t await_pid(const std::string& log, const std::string& mark) {
  const auto deadline = std::chrono::steady_clock::now() + seconds{20};
  while (std::chrono::steady_clock::now() < deadline) {
    const auto text = read_text(log);
    const auto at = text.find(mark);
    if (at != std::string::npos && text.find('\n', at) != std::string::npos) {
      return logged_pid(text, mark);
    }
    std::this_thread::sleep_for(milliseconds{10});
  }
  return 0;
}

// A daemon leaves the group, the session and its parents, and is deaf to SIGTERM; it ends with the
// process of its test, however that ends, and what belongs to another worker goes on.
class Daemons : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Daemons, EndWithTheirWorkerAndNoOther) {
  const auto& [daemon, end] = GetParam();
  TemporaryFolder folder;
  const std::string log = folder / "log";
  const std::vector<CollectedTest> tests{make_test("a.py", "waits_go"), make_test("b.py", daemon),
                                         make_test("b.py", end), make_test("c.py", "next")};
  ExecuteOptions options;
  options.workers = 2;
  options.limits = short_limits();
  options.limits.test = seconds{std::string_view{end} == "hang" ? 2 : 60};
  options.on_results = [&](const std::vector<base::TestResult>& results) {
    for (const auto& result : results) {
      // The worker of b.py has ended once the next file's is heard of.
      if (result.id.method != "next") continue;
      EXPECT_EQ(result.outcome, Outcome::passed);
      const auto kept = await_pid(log, "kept ");
      ASSERT_GT(kept, 0);
      const auto gone = logged_pid(read_text(log), "daemon ");
      ASSERT_GT(gone, 0);
      EXPECT_FALSE(process_facts(gone));
      EXPECT_TRUE(lives(kept));
      std::ofstream{log + ".go"} << "";
    }
  };
  ASSERT_TRUE(execute(fake_probe(log), tests,
                      {{"a.py", {0}, {}}, {"b.py", {1, 2}, {}}, {"c.py", {3}, {}}}, options));
  EXPECT_FALSE(process_facts(logged_pid(read_text(log), "kept ")));
}

INSTANTIATE_TEST_SUITE_P(All, Daemons,
                         testing::Combine(testing::Values("escapes", "escapes_bare"),
                                          testing::Values("nothing", "signal_11", "exit_0")),
                         [](const auto& instance) {
                           return std::string{std::get<0>(instance.param)} + "_" +
                                  std::get<1>(instance.param);
                         });

// Whoever takes a shell's place has that shell's children, and those may leave others behind.
TEST(Executor, LeavesAloneWhatOthersStartedBesideIt) {
  TemporaryFolder folder;
  const std::string log = folder / "log";
  auto go = base::make_pipe();
  ASSERT_TRUE(go);
  const pid_t runner = ::fork();
  if (runner == 0) {
    if (::fork() == 0) {
      const pid_t own = ::fork();
      if (own == 0) {
        ::pause();
        ::_exit(0);
      }
      std::ofstream{log, std::ios::app} << "stranger " << own << "\n";
      char byte = 0;
      const auto got = ::read(go->read.get(), &byte, 1);
      ::_exit(got == 1 ? 0 : 1);
    }
    (void)await_pid(log, "stranger ");
    const std::vector<CollectedTest> tests{make_test("a.py", "escapes"), make_test("b.py", "x"),
                                           make_test("c.py", "escapes")};
    ExecuteOptions options;
    options.on_results = [&](const std::vector<base::TestResult>& results) {
      for (const auto& result : results) {
        if (result.id.file == "b.py") (void)::write(go->write.get(), "x", 1);
      }
    };
    const auto executed = execute(
        fake_probe(log), tests, {{"a.py", {0}, {}}, {"b.py", {1}, {}}, {"c.py", {2}, {}}}, options);
    const auto orphan = process_facts(logged_pid(read_text(log), "stranger "));
    ::_exit(executed && orphan && orphan->parent == ::getpid() && orphan->state != 'Z' ? 0 : 1);
  }
  int status = -1;
  ::waitpid(runner, &status, 0);
  EXPECT_EQ(status, 0);
  const auto text = read_text(log);
  EXPECT_EQ(count(text, "daemon "), 2U) << text;
  EXPECT_TRUE(is_gone(logged_pid(text, "daemon ")));
  EXPECT_TRUE(is_gone(logged_pid(text.substr(text.rfind("daemon ")), "daemon ")));
  const auto stranger = logged_pid(text, "stranger ");
  ASSERT_GT(stranger, 0);
  EXPECT_EQ(::kill(stranger, SIGKILL), 0);
}

TEST(Executor, AnInterpreterThatIsNotThereIsTheEnvironmentsFault) {
  const std::vector<CollectedTest> tests{make_test("a.py", "x"), make_test("b.py", "y")};
  auto setup = fake_probe();
  setup.python = "/no/such/python";
  std::vector<base::TestResult> results;
  ExecuteOptions options;
  options.on_results = [&](std::vector<base::TestResult> some) {
    results.insert(results.end(), some.begin(), some.end());
  };
  EXPECT_TRUE(execute(setup, tests, {{"a.py", {0}, {}}, {"b.py", {1}, {}}}, options));
  ASSERT_EQ(results.size(), 2U);
  for (const auto& result : results) {
    EXPECT_EQ(result.outcome, Outcome::environment_error);
    EXPECT_THAT(result.message, HasSubstr("/no/such/python"));
  }
}

TEST(Executor, RunsFilesInSeveralWorkers) {
  std::vector<CollectedTest> tests;
  std::vector<Chunk> chunks;
  for (int f = 0; f < 5; ++f) {
    Chunk chunk{"test_" + std::to_string(f) + ".py", {}, {}};
    for (const auto* method : {"a", "signal_11", "b"}) {
      chunk.tests.push_back(tests.size());
      tests.push_back(make_test(chunk.file, method));
    }
    chunks.push_back(chunk);
  }
  ExecuteOptions options;
  options.workers = 3;
  base::OutcomeCounts counts;
  options.on_results = [&](const std::vector<base::TestResult>& results) {
    for (const auto& result : results) counts.add(result.outcome);
  };
  ASSERT_TRUE(execute(fake_probe(), tests, chunks, options));
  EXPECT_EQ(counts[Outcome::passed], 10);
  EXPECT_EQ(counts[Outcome::crashed], 5);
}

TEST(Executor, AnInterruptStopsTheWorkersAndKeepsWhatEnded) {
  TemporaryFolder folder;
  auto pipe = base::make_pipe();
  ASSERT_TRUE(pipe);
  const std::vector<CollectedTest> tests{make_test("a.py", "before"), make_test("a.py", "hang"),
                                         make_test("a.py", "later")};
  std::map<std::string, Outcome> outcomes;
  ExecuteOptions options;
  options.limits = short_limits();
  options.interrupt_fd = pipe->read.get();
  options.on_results = [&](const std::vector<base::TestResult>& results) {
    for (const auto& result : results) outcomes[result.id.method] = result.outcome;
  };
  bool pressed = false;
  options.on_progress = [&](const Progress& progress) {
    if (pressed || progress.running.empty() || progress.running[0] != tests[1].node_id) return;
    pressed = ::write(pipe->write.get(), "x", 1) == 1;
  };
  const auto executed = execute(fake_probe(), tests, {{"a.py", {0, 1, 2}, {}}}, options);
  ASSERT_TRUE(executed);
  EXPECT_TRUE(executed->interrupted);
  EXPECT_THAT(outcomes, testing::UnorderedElementsAre(testing::Pair("before", Outcome::passed),
                                                      testing::Pair("hang", Outcome::not_run),
                                                      testing::Pair("later", Outcome::not_run)));
}

// kill -9 of the runner: neither the worker nor what its test started is left.
class Killed : public testing::TestWithParam<const char*> {};

TEST_P(Killed, DiesWithAllItStarted) {
  TemporaryFolder folder;
  const std::string log = folder / "log";
  const pid_t runner = ::fork();
  if (runner == 0) {
    const std::vector<CollectedTest> tests{make_test("a.py", GetParam()),
                                           make_test("a.py", "hang")};
    (void)execute(fake_probe(log), tests, {{"a.py", {0, 1}, {}}}, {});
    ::_exit(0);
  }
  ASSERT_GT(runner, 0);
  const auto daemon = await_pid(log, "daemon ");
  ASSERT_GT(daemon, 0);
  pid_t worker = 0;
  for (const auto& process : all_processes()) {
    if (process.parent == runner && began_with(process.pid, "FAKE_PROBE_LOG=" + log)) {
      worker = process.pid;
    }
  }
  ASSERT_GT(worker, 0);
  ::kill(runner, SIGKILL);
  ::waitpid(runner, nullptr, 0);
  EXPECT_TRUE(is_gone(worker));
  EXPECT_TRUE(is_gone(daemon));
}

INSTANTIATE_TEST_SUITE_P(All, Killed, testing::Values("daemon", "escapes"));

TEST(Probe, SaysWhatItsProcessTook) {
  auto setup = fake_probe();
  setup.suite = {"tree", "/suite", {"test_a.py"}};
  Took took;
  CallOptions options;
  options.took = &took;
  const auto began = std::chrono::steady_clock::now();
  ASSERT_TRUE(collect(setup, options));
  EXPECT_GT(took.start.count(), 0);
  EXPECT_GT(took.rest.count(), 0);
  EXPECT_LE(took.start + took.rest, std::chrono::steady_clock::now() - began);
}

TEST(Probe, ReadsTheEnvironment) {
  const auto environment = read_environment(fake_probe(), {});
  ASSERT_TRUE(environment) << environment.error().message;
  EXPECT_EQ(environment->torch, "9.9.9");
  EXPECT_EQ(environment->device.type, "cpu");
}

std::vector<std::string> nodes(const Inventory& inventory) {
  std::vector<std::string> nodes;
  for (const auto& test : inventory.tests) nodes.push_back(test.node_id);
  return nodes;
}

std::vector<std::string> broken_files(const Inventory& inventory) {
  std::vector<std::string> files;
  for (const auto& error : inventory.errors) files.push_back(error.file);
  return files;
}

// Wherever the deadly files stand, and however many: each costs itself.
TEST(Probe, CollectsAroundFilesThatKillTheirProcess) {
  for (const std::vector<std::string>& files : {
           std::vector<std::string>{"test_dies.py", "test_a.py", "test_broken.py", "test_z.py"},
           {"test_a.py", "test_broken.py", "test_dies.py", "test_z.py"},
           {"test_a.py", "test_z.py", "test_broken.py", "test_dies.py"},
           {"test_dies.py", "test_a.py", "test_dies2.py", "test_broken.py", "test_z.py",
            "test_dies3.py"},
       }) {
    auto setup = fake_probe();
    setup.suite = {"tree", "/suite", files};
    const auto inventory = collect(setup, {});
    ASSERT_TRUE(inventory) << inventory.error().message;
    EXPECT_THAT(nodes(*inventory),
                testing::ElementsAre("test_a.py::TestX::one", "test_a.py::TestX::two",
                                     "test_z.py::TestX::one", "test_z.py::TestX::two"));
    ASSERT_EQ(inventory->errors.size(), files.size() - 2);
    EXPECT_EQ(inventory->errors[0].file, "test_broken.py");
    EXPECT_EQ(inventory->errors[1].file, "test_dies.py");
    EXPECT_THAT(inventory->errors[1].message, HasSubstr("SIGSEGV"));
    EXPECT_EQ(inventory->environment.torch, "9.9.9");
    EXPECT_TRUE(parse_inventory(to_json_lines(*inventory), "x"));
  }
  auto setup = fake_probe();
  setup.suite = {"tree", "/suite", {"test_dies.py"}};
  const auto nothing = collect(setup, {});
  ASSERT_TRUE(nothing) << nothing.error().message;
  EXPECT_TRUE(nothing->tests.empty());
  EXPECT_THAT(broken_files(*nothing), testing::ElementsAre("test_dies.py"));
}

TEST(Probe, CollectsAroundAFileThatHangsItsProcess) {
  auto setup = fake_probe();
  setup.suite = {"tree", "/suite", {"test_a.py", "test_hangs.py", "test_z.py"}};
  // Long enough for an interpreter to start on a busy machine.
  CallOptions options;
  options.limit = std::chrono::seconds{10};
  const auto inventory = collect(setup, options);
  ASSERT_TRUE(inventory) << inventory.error().message;
  EXPECT_THAT(nodes(*inventory),
              testing::ElementsAre("test_a.py::TestX::one", "test_a.py::TestX::two",
                                   "test_z.py::TestX::one", "test_z.py::TestX::two"));
  EXPECT_THAT(broken_files(*inventory), testing::ElementsAre("test_hangs.py"));
  EXPECT_THAT(inventory->errors[0].message, HasSubstr("said nothing for 10"));
}

TEST(Probe, CollectsFilesOfOneBaseNameInProcessesOfTheirOwn) {
  TemporaryFolder folder;
  auto setup = fake_probe(folder / "log");
  setup.suite = {"tree",
                 "/suite",
                 {"test_a.py", "x/test_a.py", "test_b.py", "y/test_a.py", "x/test_b.py",
                  "./test_b.py", "test_b.py"}};
  const auto inventory = collect(setup, {});
  ASSERT_TRUE(inventory) << inventory.error().message;
  EXPECT_THAT(inventory->errors, testing::IsEmpty());
  EXPECT_EQ(inventory->tests.size(), 10U);
  EXPECT_EQ(read_text(folder / "log"),
            "collect test_a.py test_b.py\ncollect x/test_a.py x/test_b.py\n"
            "collect y/test_a.py\n");
}

TEST(Probe, TestsThatCannotBeToldApartAreTheirFilesError) {
  auto setup = fake_probe();
  setup.suite = {"tree", "/suite", {"test_a.py", "test_alike.py", "test_long.py"}};
  const auto inventory = collect(setup, {});
  ASSERT_TRUE(inventory) << inventory.error().message;
  EXPECT_THAT(nodes(*inventory),
              testing::ElementsAre("test_a.py::TestX::one", "test_a.py::TestX::two",
                                   "test_alike.py::TestX::one", "test_long.py::TestX::one"));
  EXPECT_THAT(broken_files(*inventory), testing::ElementsAre("test_alike.py", "test_long.py"));
  EXPECT_THAT(inventory->errors[0].message,
              testing::AllOf(HasSubstr("test_alike.py::TestX::two"), HasSubstr("say the same")));
  EXPECT_THAT(inventory->errors[1].message,
              HasSubstr("test_long.py::TestX::two has too long a variant"));
}

TEST(Probe, NamesWhatIsMissingAndHowToInstallIt) {
  const auto refuses = [](const ProbeSetup& setup, const char* what, const char* remedy) {
    const auto environment = read_environment(setup, {});
    ASSERT_FALSE(environment);
    EXPECT_EQ(exit_code(environment.error().fault), base::ExitCode::environment);
    EXPECT_THAT(environment.error().message, HasSubstr(what));
    EXPECT_THAT(environment.error().remedy, HasSubstr(remedy));
  };
  auto setup = fake_probe();
  setup.environment.emplace_back("FAKE_NO_TORCH", "1");
  refuses(setup, "No module named 'torch'", "python3 -m pip install torch==2");
  setup.torch = "9.8.7+cpu";
  refuses(setup, "No module named 'torch'", "python3 -m pip install torch==9.8.7");
  EXPECT_EQ(read_environment(setup, {}).error().remedy.find("+cpu"), std::string::npos);
  setup = fake_probe();
  setup.probe_path = "/no/such/folder";
  refuses(setup, "/no/such/folder/crosscheck_probe/__main__.py", "CROSSCHECK_PROBE");
  setup = fake_probe();
  setup.python = "/no/such/python";
  refuses(setup, "/no/such/python", "--python");
}

TEST(Probe, IsFoundBesideTheProgram) {
  TemporaryFolder folder;
  namespace fs = std::filesystem;
  Surroundings surroundings;
  surroundings.working_directory = folder / "cwd";
  surroundings.program = folder / "build/dev/bin/crosscheck";
  fs::create_directories(folder / "cwd");
  fs::create_directories(folder / "build/dev/bin");
  EXPECT_FALSE(default_probe_path(surroundings));
  EXPECT_EQ(default_python(surroundings), "python3");
  fs::create_directories(folder / "build/dev/share/crosscheck/probe/crosscheck_probe");
  EXPECT_EQ(default_probe_path(surroundings), folder / "build/dev/share/crosscheck/probe");
  fs::create_directories(folder / "probe/src/crosscheck_probe");
  EXPECT_EQ(default_probe_path(surroundings), folder / "probe/src");
  fs::create_directories(folder / ".venv/bin");
  fs::create_symlink("/bin/sh", folder / ".venv/bin/python");
  EXPECT_EQ(default_python(surroundings), folder / ".venv/bin/python");
  fs::create_directories(folder / "build/refdev");
  const auto refdev = resolve_device("refdev", "", "", surroundings);
  ASSERT_TRUE(refdev);
  EXPECT_EQ(refdev->module, "refdev");
  EXPECT_EQ(refdev->path, folder / "build/refdev");
  surroundings.crosscheck_python = "/opt/python";
  EXPECT_EQ(default_python(surroundings), "/opt/python");
  EXPECT_FALSE(resolve_device("x", "m", "/no/such/folder", surroundings));
}

}  // namespace
}  // namespace crosscheck::runner
