#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"

namespace crosscheck::base {

// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_{fd} {}
  Fd(Fd&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { reset(); }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read;
  Fd write;
};
// Both ends close on exec.
[[nodiscard]] Result<Pipe> make_pipe();

struct ProcessSpec {
  std::vector<std::string> arguments = {};  // [0] is looked up in PATH if it has no '/'
  std::string directory = {};               // empty: the caller's
  // Names set (or, with nothing, removed) on top of the caller's environment.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment = {};
  // (fd here, fd number in the child). stdin is /dev/null unless mapped.
  std::vector<std::pair<int, int>> descriptors = {};
  // PR_SET_PDEATHSIG: SIGKILL when the spawning process dies, and already when the thread that
  // called `spawn` ends: call it from one that lives as long as the child.
  bool die_with_parent = false;
};

struct ExitStatus {
  std::optional<int> code = {};
  std::optional<int> signal = {};  // set instead of `code` when a signal ended it
  [[nodiscard]] bool ok() const { return code == 0; }
};
[[nodiscard]] std::string to_string(const ExitStatus& status);  // "exit 3", "signal 11 (SIGSEGV)"

// A child that leads a process group of its own. Destroying a running one kills the whole group.
// Not thread-safe.
class Process {
 public:
  // `environment` fault names the program that could not be started.
  [[nodiscard]] static Result<Process> spawn(const ProcessSpec& spec);
  // A process that others started, leads a group of its own and has become this one's child
  // (PR_SET_CHILD_SUBREAPER).
  [[nodiscard]] static Process adopt(pid_t pid);
  // Whether there is a Process for this child of the caller's. Thread-safe.
  [[nodiscard]] static bool stands_for(pid_t pid);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Nothing while it runs.
  [[nodiscard]] std::optional<ExitStatus> poll();
  [[nodiscard]] ExitStatus wait();
  // To the whole group.
  void signal(int number) const;
  // SIGTERM to the group, SIGKILL after `grace`, and again SIGKILL to what the leader left behind.
  ExitStatus stop(Duration grace);

 private:
  explicit Process(pid_t pid) : pid_{pid} {}
  pid_t pid_ = -1;
  std::optional<ExitStatus> ended_;
};

struct Captured {
  ExitStatus status;
  std::string out;
  std::string err;
};
// Runs to the end and keeps what it prints, each stream up to `limit` bytes (the rest is read and
// dropped). After `timeout` the group is killed and the fault is `unavailable`.
[[nodiscard]] Result<Captured> run_captured(ProcessSpec spec, Duration timeout,
                                            std::size_t limit = std::size_t{1} << 24);

}  // namespace crosscheck::base
