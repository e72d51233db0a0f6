#include "crosscheck/base/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

#include "crosscheck/base/temporary_folder.h"

namespace crosscheck::base {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Duration k_patience = 60s;

ProcessSpec shell(std::string script) { return {.arguments = {"sh", "-c", std::move(script)}}; }

Captured run(ProcessSpec spec) {
  auto captured = run_captured(std::move(spec), k_patience);
  EXPECT_TRUE(captured) << captured.error().message;
  return captured.value_or(Captured{});
}

// Whether every writer of a pipe is gone, as its reader sees it: an end that needs no clock.
bool ends(const Fd& fd) {
  std::array<char, 256> buffer;
  while (true) {
    pollfd entry{fd.get(), POLLIN, 0};
    if (::poll(&entry, 1, 60'000) <= 0) return false;
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n == 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

std::string read_line(const Fd& fd) {
  std::string line;
  char c = 0;
  while (::read(fd.get(), &c, 1) == 1 && c != '\n') line += c;
  return line;
}

TEST(Process, WhatOthersStartedIsWaitedForAndKilledLikeOnesOwn) {
  const auto fork_group = [](auto work) {
    const pid_t pid = ::fork();
    if (pid == 0) work();
    ::setpgid(pid, pid);
    return Process::adopt(pid);
  };
  auto ends = fork_group([] { ::_exit(3); });
  EXPECT_EQ(ends.wait().code, 3);
  auto stays = fork_group([] {
    while (true) ::pause();
  });
  EXPECT_FALSE(stays.poll());
  EXPECT_EQ(stays.stop(k_patience).signal, SIGTERM);
}

TEST(RunCaptured, KeepsBothStreamsAndTheStatus) {
  const Captured captured = run(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(captured.out, "out\n");
  EXPECT_EQ(captured.err, "err\n");
  EXPECT_EQ(to_string(captured.status), "exit 3");
  EXPECT_FALSE(captured.status.ok());
}

TEST(RunCaptured, StandardInputIsEmpty) { EXPECT_EQ(run({.arguments = {"cat"}}).out, ""); }

TEST(RunCaptured, DoesNotDeadlockOnMuchOutputOfBothStreams) {
  const Captured captured = run(
      shell("head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero; head -c 100 /dev/zero >&2"));
  EXPECT_EQ(captured.out.size(), 3'000'000U);
  EXPECT_EQ(captured.err.size(), 3'000'100U);
  EXPECT_TRUE(captured.status.ok());
}

TEST(RunCaptured, KeepsUpToTheLimitAndDropsTheRest) {
  const auto captured = run_captured(shell("head -c 300000 /dev/zero"), k_patience, 1000);
  ASSERT_TRUE(captured);
  EXPECT_EQ(captured->out.size(), 1000U);
  EXPECT_TRUE(captured->status.ok());
}

TEST(RunCaptured, KillsTheGroupAfterTheTimeout) {
  auto pipe = make_pipe().value();
  ProcessSpec spec = shell("sleep 1000 & sleep 1000");
  spec.descriptors.emplace_back(pipe.write.get(), 9);
  const auto captured = run_captured(spec, 50ms);
  pipe.write.reset();
  ASSERT_FALSE(captured);
  EXPECT_EQ(captured.error().fault, Fault::unavailable);
  EXPECT_THAT(captured.error().message, HasSubstr("'sh' did not end within 50 ms"));
  EXPECT_TRUE(ends(pipe.read));
}

TEST(RunCaptured, DoesNotWaitForWhatTheLeaderLeftBehind) {
  auto pipe = make_pipe().value();
  ProcessSpec spec = shell("sleep 1000 & echo done");
  spec.descriptors.emplace_back(pipe.write.get(), 9);
  EXPECT_EQ(run(spec).out, "done\n");
  pipe.write.reset();
  EXPECT_TRUE(ends(pipe.read));
}

TEST(RunCaptured, ClosingItsStreamsIsNotEnding) {
  const Captured captured = run(shell("exec >&- 2>&-; exit 4"));
  EXPECT_EQ(captured.status.code, 4);
}

TEST(Spawn, NamesTheProgramThatCannotBeStarted) {
  const TemporaryFolder folder;
  const std::string plain = (folder.path() / "plain").string();
  ASSERT_GE(Fd{::open(plain.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644)}.get(), 0);
  struct Case {
    ProcessSpec spec;
    std::string says;
  };
  for (const auto& [spec, says] : {
           Case{{.arguments = {"no-such-program"}},
                "'no-such-program': it is in no folder of PATH"},
           Case{{.arguments = {"/no/such"}}, "'/no/such': No such file"},
           Case{{.arguments = {plain}}, "Permission denied"},
           Case{{.arguments = {"true"}, .directory = "/no/folder"},
                "cannot enter /no/folder: No such file"},
           Case{{.arguments = {"true"}, .environment = {{"PATH", folder.path().string()}}},
                "in no folder of PATH"},
       }) {
    const auto process = Process::spawn(spec);
    ASSERT_FALSE(process) << says;
    EXPECT_EQ(process.error().fault, Fault::environment);
    EXPECT_THAT(process.error().message, HasSubstr(says));
  }
  EXPECT_EQ(Process::spawn({}).error().fault, Fault::internal);
}

TEST(Spawn, SetsDirectoryAndEnvironment) {
  const TemporaryFolder folder;
  ::setenv("CROSSCHECK_TEST_GONE", "x", 1);
  ::setenv("CROSSCHECK_TEST_KEPT", "kept", 1);
  const Captured captured =
      run({.arguments = {"sh", "-c",
                         "pwd; echo \"$A|${CROSSCHECK_TEST_GONE-unset}|$CROSSCHECK_TEST_KEPT\""},
           .directory = folder.path().string(),
           .environment = {{"A", "a=b c"}, {"CROSSCHECK_TEST_GONE", std::nullopt}}});
  EXPECT_EQ(captured.out,
            std::filesystem::canonical(folder.path()).string() + "\na=b c|unset|kept\n");
}

TEST(Spawn, MapsDescriptorsThatCross) {
  auto a = make_pipe().value();
  auto b = make_pipe().value();
  // The child's numbers are the parent's of the other one.
  ProcessSpec spec = shell("echo a >&" + std::to_string(b.write.get()) + "; echo b >&" +
                           std::to_string(a.write.get()));
  spec.arguments[0] = "bash";  // dash knows no descriptors above 9
  spec.descriptors = {{a.write.get(), b.write.get()}, {b.write.get(), a.write.get()}};
  auto process = Process::spawn(spec);
  ASSERT_TRUE(process) << process.error().message;
  EXPECT_TRUE(process->wait().ok());
  EXPECT_EQ(read_line(a.read), "a");
  EXPECT_EQ(read_line(b.read), "b");
}

TEST(Spawn, GivesNoOtherDescriptorAway) {
  // A library forgot close-on-exec.
  const Fd leaky{::open("/dev/null", O_RDONLY)};
  ASSERT_TRUE(leaky);
  const std::string name = "/proc/self/fd/" + std::to_string(leaky.get());
  EXPECT_EQ(
      run(shell("test -e " + name + " && echo leaked; test -e /proc/self/fd/1 && echo ok")).out,
      "ok\n");
}

TEST(Spawn, ChildrenHaveStandardSignals) {
  struct sigaction ignore{}, before{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  const Captured captured = run(shell("kill -PIPE $$; echo survived"));
  ::sigaction(SIGPIPE, &before, nullptr);
  EXPECT_EQ(captured.out, "");
  EXPECT_EQ(to_string(captured.status), "signal 13 (SIGPIPE)");
}

TEST(Process, TellsASignalFromAnExit) {
  EXPECT_EQ(to_string(run(shell("kill -SEGV $$")).status), "signal 11 (SIGSEGV)");
  EXPECT_EQ(to_string(run(shell("exit 139")).status), "exit 139");
}

TEST(Process, PollsWithoutWaiting) {
  auto gate = make_pipe().value();
  auto process = Process::spawn({.arguments = {"cat"}, .descriptors = {{gate.read.get(), 0}}});
  ASSERT_TRUE(process);
  EXPECT_FALSE(process->poll());
  gate.write.reset();
  EXPECT_TRUE(process->wait().ok());
  ASSERT_TRUE(process->poll());
  EXPECT_TRUE(process->poll()->ok());
  EXPECT_TRUE(process->wait().ok());
}

TEST(Process, StopAsksFirst) {
  auto ready = make_pipe().value();
  ProcessSpec spec = shell("trap 'exit 7' TERM; echo ready >&3; while :; do sleep 0.01; done");
  spec.descriptors = {{ready.write.get(), 3}};
  auto process = Process::spawn(spec);
  ASSERT_TRUE(process);
  ASSERT_EQ(read_line(ready.read), "ready");
  EXPECT_EQ(process->stop(k_patience).code, 7);
}

TEST(Process, StopKillsWhoDoesNotListen) {
  auto ready = make_pipe().value();
  ProcessSpec spec = shell("trap '' TERM; echo ready >&3; while :; do sleep 0.01; done");
  spec.descriptors = {{ready.write.get(), 3}};
  auto process = Process::spawn(spec);
  ASSERT_TRUE(process);
  ASSERT_EQ(read_line(ready.read), "ready");
  EXPECT_EQ(process->stop(20ms).signal, SIGKILL);
}

TEST(Process, NoGrandchildSurvivesStop) {
  // The leader goes at once; its children ignore SIGTERM.
  auto ready = make_pipe().value();
  ProcessSpec spec = shell("(trap '' TERM; echo ready >&3; while :; do sleep 0.01; done) & wait");
  spec.descriptors = {{ready.write.get(), 3}};
  auto process = Process::spawn(spec);
  ASSERT_TRUE(process);
  ready.write.reset();
  ASSERT_EQ(read_line(ready.read), "ready");
  EXPECT_EQ(process->stop(k_patience).signal, SIGTERM);
  EXPECT_TRUE(ends(ready.read));
}

TEST(Process, DestroyingKillsTheGroup) {
  auto ready = make_pipe().value();
  {
    ProcessSpec spec = shell("sleep 1000 & echo ready >&3; sleep 1000");
    spec.descriptors = {{ready.write.get(), 3}};
    auto process = Process::spawn(spec);
    ASSERT_TRUE(process);
    ready.write.reset();
    ASSERT_EQ(read_line(ready.read), "ready");
  }
  EXPECT_TRUE(ends(ready.read));
}

TEST(Process, MovingKeepsOneOwner) {
  Process a = Process::spawn(shell("sleep 1000")).value();
  Process b = Process::spawn(shell("sleep 1000")).value();
  const pid_t first = a.pid();
  const pid_t second = b.pid();
  a = std::move(b);  // the first is killed and reaped
  EXPECT_EQ(::kill(first, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  EXPECT_EQ(a.pid(), second);
  const Process c{std::move(a)};
  EXPECT_EQ(::kill(second, 0), 0);
}

TEST(Process, DiesWithTheSpawningThread) {
  auto alive = make_pipe().value();
  std::optional<Process> process;
  std::thread{[&] {
    ProcessSpec spec{.arguments = {"sleep", "1000"}, .descriptors = {{alive.write.get(), 9}}};
    spec.die_with_parent = true;
    process = Process::spawn(spec).value();
  }}.join();
  alive.write.reset();
  EXPECT_TRUE(ends(alive.read));
  EXPECT_EQ(process->wait().signal, SIGKILL);
}

TEST(Process, SpawnsFromManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::array<Captured, 8> seen;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([&seen, i] { seen.at(i) = run(shell("echo " + std::to_string(i))); });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen.at(i).out, std::to_string(i) + "\n");
}

TEST(Process, StandsForItsChildUntilThatIsReaped) {
  pid_t pid = 0;
  {
    auto process = Process::spawn({.arguments = {"true"}});
    ASSERT_TRUE(process);
    pid = process->pid();
    EXPECT_TRUE(Process::stands_for(pid));
    (void)process->wait();
    EXPECT_TRUE(Process::stands_for(pid));
  }
  EXPECT_FALSE(Process::stands_for(pid));
}

}  // namespace
}  // namespace crosscheck::base
