#include "memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>

namespace crosscheck::runner {
namespace {

constexpr std::int64_t k_kib = 1024;

// Of a file of names and KiB, in bytes; 0 if the kernel does not say.
std::int64_t amount(const std::string& path, std::string_view wanted) {
  std::ifstream file{path};
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(wanted)) continue;
    const auto begin = line.find_first_not_of(' ', wanted.size());
    std::int64_t value = 0;
    if (begin != std::string::npos) {
      std::from_chars(line.data() + begin, line.data() + line.size(), value);
    }
    return value * k_kib;
  }
  return 0;
}

std::int64_t meminfo(std::string_view wanted) { return amount("/proc/meminfo", wanted); }

// A page that n processes hold is the nth part of one to each.
std::int64_t proportional_bytes(pid_t pid) {
  return amount("/proc/" + std::to_string(pid) + "/smaps_rollup", "Pss:");
}

}  // namespace

std::int64_t resident_bytes(pid_t pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/statm"};
  std::int64_t size = 0, resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::int64_t held_bytes(pid_t pid, const std::vector<pid_t>& others, std::int64_t interesting) {
  const auto own = resident_bytes(pid);
  auto most = own;
  for (const auto other : others) most += resident_bytes(other);
  if (others.empty() || own > interesting || most <= interesting) return most;
  auto held = proportional_bytes(pid);
  for (const auto other : others) held += proportional_bytes(other);
  return std::max(own, held);
}

std::int64_t usable_bytes() {
  auto usable = meminfo("MemTotal:");
  // Of version 2, as seen inside the group; "max" is no number.
  std::ifstream group{"/sys/fs/cgroup/memory.max"};
  if (std::int64_t limit = 0; group >> limit && limit > 0) usable = std::min(usable, limit);
  return usable;
}

std::int64_t available_bytes() { return meminfo("MemAvailable:"); }

void offer_to_oom_killer(pid_t pid) {
  std::ofstream{"/proc/" + std::to_string(pid) + "/oom_score_adj"} << "1000";
}

}  // namespace crosscheck::runner
