#include "crosscheck/base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

extern char** environ;

namespace crosscheck::base {
namespace {

using Steady = std::chrono::steady_clock;

// What the child could not do, told through a pipe that exec closes.
struct StartFailure {
  enum class Step : int { descriptors, directory, execute };
  Step step;
  int error;
};

std::string reason(int error) { return std::generic_category().message(error); }

// All that the child needs, made before the fork: after it only async-signal-safe calls are
// allowed.
struct Plan {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  std::string program;
  std::string directory;
  std::vector<std::pair<int, int>> descriptors;
  bool die_with_parent;
  pid_t parent;
  int lowest_free;  // above every descriptor number the child is given
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::map<std::string, std::string> environment_of(const ProcessSpec& spec) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [name, value] : spec.environment) {
    if (value) {
      variables[name] = *value;
    } else {
      variables.erase(name);
    }
  }
  return variables;
}

// Empty if PATH holds no such program.
std::string look_up(const std::string& program, const std::string& path) {
  if (program.find('/') != std::string::npos) return program;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    std::string folder = path.substr(begin, end - begin);
    if (folder.empty()) folder = ".";
    std::string candidate = folder + "/" + program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return {};
}

[[noreturn]] void give_up(int report, StartFailure::Step step) {
  const StartFailure failure{step, errno};
  // The parent may be gone: then nobody asks.
  [[maybe_unused]] const ssize_t n = ::write(report, &failure, sizeof failure);
  ::_exit(127);
}

[[noreturn]] void become(Plan& plan, int report) {
  ::setpgid(0, 0);
  if (plan.die_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != plan.parent) ::_exit(127);  // it died before the call
  }
  // What a server ignores or blocks is no business of its children.
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  report = ::fcntl(report, F_DUPFD_CLOEXEC, plan.lowest_free);
  if (report < 0) ::_exit(127);
  // Descriptors of libraries that forgot close-on-exec. An old kernel lacks the call: then they
  // leak.
  ::syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  // First out of the way of each other, then into place.
  for (auto& [from, to] : plan.descriptors) {
    from = ::fcntl(from, F_DUPFD_CLOEXEC, plan.lowest_free);
    if (from < 0) give_up(report, StartFailure::Step::descriptors);
  }
  bool has_input = false;
  for (const auto& [from, to] : plan.descriptors) {
    if (::dup2(from, to) < 0) give_up(report, StartFailure::Step::descriptors);
    has_input = has_input || to == STDIN_FILENO;
  }
  if (!has_input) {
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || ::dup2(null, STDIN_FILENO) < 0) {
      give_up(report, StartFailure::Step::descriptors);
    }
    // Where the caller's own standard input was closed, open() returned 0 itself.
    if (null == STDIN_FILENO) ::fcntl(STDIN_FILENO, F_SETFD, 0);
  }
  if (!plan.directory.empty() && ::chdir(plan.directory.c_str()) != 0) {
    give_up(report, StartFailure::Step::directory);
  }
  ::execve(plan.program.c_str(), plan.arguments.data(), plan.environment.data());
  give_up(report, StartFailure::Step::execute);
}

ExitStatus status_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return {.code = info.si_status, .signal = std::nullopt};
  return {.code = std::nullopt, .signal = info.si_status};
}

// Looks without reaping: while the leader is a zombie its number, and so the group's, is not given
// to anybody else.
std::optional<ExitStatus> look(pid_t pid, int options) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | options) != 0) {
    if (errno != EINTR) return ExitStatus{};  // somebody else reaped it: how it ended is lost
  }
  if (info.si_pid == 0) return std::nullopt;
  return status_of(info);
}

// The children that a Process stands for.
struct Children {
  std::mutex mutex;
  std::set<pid_t> pids;
};

Children& children() {
  static Children all;
  return all;
}

void reap(pid_t pid) {
  (void)look(pid, 0);
  // Together: its number may at once be the next one's.
  const std::lock_guard lock{children().mutex};
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  children().pids.erase(pid);
}

int poll_timeout(Steady::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

// Readable once the process ended; nothing where the kernel has no such thing.
Fd open_pidfd(pid_t pid) {
  const long fd = ::syscall(SYS_pidfd_open, pid, 0U);
  return Fd{fd < 0 ? -1 : static_cast<int>(fd)};
}

constexpr int k_tick_ms = 10;  // how often a process without pidfd is looked at

Steady::time_point deadline_after(Duration duration) {
  const auto now = Steady::now();
  const auto most = std::chrono::duration_cast<Duration>(Steady::time_point::max() - now);
  return now + std::clamp(duration, Duration{0}, most);
}

// Reads what is there. False once the stream ended.
bool drain(Fd& fd, std::string& into, std::size_t limit) {
  std::array<char, 64 * 1024> chunk;
  while (true) {
    const ssize_t n = ::read(fd.get(), chunk.data(), chunk.size());
    if (n > 0) {
      into.append(chunk.data(), std::min(static_cast<std::size_t>(n), limit - into.size()));
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && errno == EAGAIN) {
      return true;
    } else {
      fd.reset();
      return false;
    }
  }
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(Fault::environment, "cannot make a pipe: " + reason(errno));
  }
  return Pipe{Fd{ends[0]}, Fd{ends[1]}};
}

std::string to_string(const ExitStatus& status) {
  if (status.code) return fmt::format("exit {}", *status.code);
  if (!status.signal) return "ended in an unknown way";
  const char* name = ::sigabbrev_np(*status.signal);
  if (name == nullptr) return fmt::format("signal {}", *status.signal);
  return fmt::format("signal {} (SIG{})", *status.signal, name);
}

Result<Process> Process::spawn(const ProcessSpec& spec) {
  if (spec.arguments.empty() || spec.arguments[0].empty()) {
    return fail(Fault::internal, "no program to start");
  }
  const auto variables = environment_of(spec);
  const auto path = variables.find("PATH");
  std::vector<std::string> arguments = spec.arguments;
  std::vector<std::string> environment;
  environment.reserve(variables.size());
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);

  Plan plan{.arguments = pointers(arguments),
            .environment = pointers(environment),
            .program = look_up(spec.arguments[0],
                               path != variables.end() ? path->second : "/usr/bin:/bin"),
            .directory = spec.directory,
            .descriptors = spec.descriptors,
            .die_with_parent = spec.die_with_parent,
            .parent = ::getpid(),
            .lowest_free = 3};
  for (const auto& [from, to] : plan.descriptors) {
    if (from < 0 || to < 0)
      return fail(Fault::internal, "a closed descriptor is handed to a child");
    plan.lowest_free = std::max(plan.lowest_free, to + 1);
  }
  const auto cannot_start = [&spec](std::string_view why) {
    return fail(Fault::environment, fmt::format("cannot start '{}': {}", spec.arguments[0], why));
  };
  if (plan.program.empty()) return cannot_start("it is in no folder of PATH");

  auto report = make_pipe();
  if (!report) return tl::unexpected{report.error()};

  // No handler of ours may run in the child, which still shares our descriptors.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = 0;
  int fork_error = 0;
  {
    // Whoever sees the child, sees that it is one of these.
    const std::lock_guard lock{children().mutex};
    pid = ::fork();
    if (pid == 0) become(plan, report->write.get());
    fork_error = errno;
    if (pid > 0) children().pids.insert(pid);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return cannot_start(reason(fork_error));
  // Both sides set it: whoever of the two comes first, the group exists before it is signalled.
  ::setpgid(pid, pid);
  report->write.reset();

  StartFailure failure{};
  ssize_t n = 0;
  do {
    n = ::read(report->read.get(), &failure, sizeof failure);
  } while (n < 0 && errno == EINTR);
  if (n != sizeof failure) return Process{pid};
  reap(pid);
  switch (failure.step) {
    case StartFailure::Step::descriptors:
      return cannot_start("its descriptors cannot be set up: " + reason(failure.error));
    case StartFailure::Step::directory:
      return cannot_start(
          fmt::format("cannot enter {}: {}", spec.directory, reason(failure.error)));
    case StartFailure::Step::execute:
      break;
  }
  return cannot_start(reason(failure.error));
}

Process Process::adopt(pid_t pid) {
  const std::lock_guard lock{children().mutex};
  children().pids.insert(pid);
  return Process{pid};
}

bool Process::stands_for(pid_t pid) {
  const std::lock_guard lock{children().mutex};
  return children().pids.contains(pid);
}

Process::Process(Process&& other) noexcept
    : pid_{std::exchange(other.pid_, -1)}, ended_{std::exchange(other.ended_, std::nullopt)} {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    Process old{std::move(*this)};
    pid_ = std::exchange(other.pid_, -1);
    ended_ = std::exchange(other.ended_, std::nullopt);
  }
  return *this;
}

Process::~Process() {
  if (pid_ < 0) return;
  if (!poll()) signal(SIGKILL);
  reap(pid_);
}

std::optional<ExitStatus> Process::poll() {
  if (!ended_) ended_ = look(pid_, WNOHANG);
  return ended_;
}

ExitStatus Process::wait() {
  if (!ended_) ended_ = look(pid_, 0);
  return *ended_;
}

void Process::signal(int number) const {
  if (pid_ > 0) ::kill(-pid_, number);
}

ExitStatus Process::stop(Duration grace) {
  if (!poll()) {
    signal(SIGTERM);
    const Fd ended = open_pidfd(pid_);
    const auto deadline = deadline_after(grace);
    while (!poll() && Steady::now() < deadline) {
      pollfd entry{ended.get(), POLLIN, 0};  // a negative descriptor only waits
      const int timeout = poll_timeout(deadline);
      ::poll(&entry, 1, ended ? timeout : std::min(timeout, k_tick_ms));
    }
  }
  signal(SIGKILL);
  return wait();
}

Result<Captured> run_captured(ProcessSpec spec, Duration timeout, std::size_t limit) {
  auto out = make_pipe();
  auto err = make_pipe();
  if (!out || !err) return tl::unexpected{!out ? out.error() : err.error()};
  for (const Fd* fd : {&out->read, &err->read}) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  spec.descriptors.emplace_back(out->write.get(), STDOUT_FILENO);
  spec.descriptors.emplace_back(err->write.get(), STDERR_FILENO);
  auto process = Process::spawn(spec);
  if (!process) return tl::unexpected{process.error()};
  out->write.reset();
  err->write.reset();

  Captured captured;
  const auto read_all = [&] {
    if (out->read) drain(out->read, captured.out, limit);
    if (err->read) drain(err->read, captured.err, limit);
  };
  const auto deadline = deadline_after(timeout);
  const Fd ended = open_pidfd(process->pid());
  while (!process->poll()) {
    if (Steady::now() >= deadline) {
      process->stop(Duration{0});
      return fail(Fault::unavailable,
                  fmt::format("'{}' did not end within {}", spec.arguments[0], to_human(timeout)));
    }
    std::array<pollfd, 3> entries{pollfd{out->read.get(), POLLIN, 0},
                                  pollfd{err->read.get(), POLLIN, 0},
                                  pollfd{ended.get(), POLLIN, 0}};
    const int wait = poll_timeout(deadline);
    ::poll(entries.data(), entries.size(), ended ? wait : std::min(wait, k_tick_ms));
    read_all();
  }
  // What it left running in its group ends here too; what left the group may hold the pipes open,
  // so only what is already in them is read.
  captured.status = process->stop(Duration{0});
  read_all();
  return captured;
}

}  // namespace crosscheck::base
