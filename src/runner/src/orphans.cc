#include "orphans.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/process.h"
#include "processes.h"

namespace crosscheck::runner {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds k_wait{1000};

std::vector<ProcessFacts> children() {
  auto all = all_processes();
  std::erase_if(all, [self = ::getpid()](const auto& process) { return process.parent != self; });
  return all;
}

struct Household {
  std::mutex mutex;
  pid_t of = 0;  // not a fork's of the process that took them on
  int adoptions = 0;
  // Children that this program did not start: it took the place of one that had.
  std::set<pid_t> strangers;
  // That did not end although they were killed.
  std::set<pid_t> stuck;
};

Household& household() {
  static Household one;
  return one;
}

bool is_left_behind(const Household& house, const ProcessFacts& child) {
  if (base::Process::stands_for(child.pid) || house.strangers.contains(child.pid)) return false;
  // Strangers' orphans come here too, and nothing else tells them apart.
  return house.strangers.empty() || child.state == 'Z' || began_with(child.pid, runner_mark());
}

void wait_for(pid_t pid, Steady::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - Steady::now());
  const base::Fd ended{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U))};
  pollfd entry{ended.get(), POLLIN, 0};  // a negative descriptor only waits
  ::poll(&entry, 1, static_cast<int>(std::clamp(left, milliseconds{0}, k_wait).count()));
}

// Whether it is there no longer.
bool reap(pid_t pid) {
  pid_t found = 0;
  do {
    found = ::waitpid(pid, nullptr, WNOHANG);
  } while (found < 0 && errno == EINTR);
  return found != 0;
}

}  // namespace

const std::string& runner_mark() {
  static const std::string mark = "CROSSCHECK_RUNNER=" + base::random_hex(16);
  return mark;
}

void take_on_orphans() {
  auto& house = household();
  const std::lock_guard lock{house.mutex};
  if (std::exchange(house.of, ::getpid()) == ::getpid()) return;
  house.strangers.clear();
  house.stuck.clear();
  for (const auto& child : children()) {
    if (!base::Process::stands_for(child.pid)) house.strangers.insert(child.pid);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void end_orphans() {
  auto& house = household();
  const std::lock_guard lock{house.mutex};
  if (house.of != ::getpid() || house.adoptions > 0) return;
  const auto deadline = Steady::now() + k_wait;
  // A generation at a time: the children of one that is killed become this process's.
  for (bool found = true; found;) {
    found = false;
    std::vector<pid_t> killed;
    for (const auto& child : children()) {
      if (!is_left_behind(house, child)) continue;
      ::kill(child.pid, SIGKILL);
      killed.push_back(child.pid);
    }
    for (const auto pid : killed) {
      bool gone = reap(pid);
      if (!gone && !house.stuck.contains(pid)) {
        wait_for(pid, deadline);
        gone = reap(pid);
      }
      if (gone) {
        house.stuck.erase(pid);
        found = true;
      } else {
        house.stuck.insert(pid);
      }
    }
  }
}

Adoption::Adoption() {
  auto& house = household();
  const std::lock_guard lock{house.mutex};
  ++house.adoptions;
}

Adoption::~Adoption() {
  auto& house = household();
  const std::lock_guard lock{house.mutex};
  --house.adoptions;
}

}  // namespace crosscheck::runner
