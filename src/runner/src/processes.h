#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What the kernel says of processes, of all users and of this process's namespace.
namespace crosscheck::runner {

struct ProcessFacts {
  pid_t pid = 0;
  char state = '?';  // Z: it has ended, and its parent has not asked how
  pid_t parent = 0;
  // In ticks since the kernel's start: a number that is used again is another process.
  std::string started = {};
};

// Nothing if there is no such process.
[[nodiscard]] std::optional<ProcessFacts> process_facts(pid_t pid);
// Some milliseconds. One that begins or ends meanwhile may be missing.
[[nodiscard]] std::vector<ProcessFacts> all_processes();
// Children, their children and so on, without `root`.
[[nodiscard]] std::vector<pid_t> descendants(const std::vector<ProcessFacts>& all, pid_t root);
// Whether the process was started with the variable ("NAME=value"), as far as this user may see.
[[nodiscard]] bool began_with(pid_t pid, std::string_view variable);

}  // namespace crosscheck::runner
