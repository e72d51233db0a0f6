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

// In bytes; 0 if the kernel does not say.
std::int64_t meminfo(std::string_view wanted) {
  std::ifstream file{"/proc/meminfo"};
  std::string name, unit;
  std::int64_t value = 0;
  while (file >> name >> value) {
    if (name == wanted) return value * k_kib;
    std::getline(file, unit);
  }
  return 0;
}

}  // namespace

std::int64_t resident_bytes(pid_t pid) {
  std::ifstream file{"/proc/" + std::to_string(pid) + "/statm"};
  std::int64_t size = 0, resident = 0;
  if (!(file >> size >> resident)) return 0;
  return resident * ::sysconf(_SC_PAGESIZE);
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
