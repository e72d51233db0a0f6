#include "owner.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "processes.h"

namespace crosscheck::runner {
namespace {

std::string first_word(const std::string& path) {
  std::ifstream file{path};
  std::string word;
  file >> word;
  return word;
}

// What process numbers are counted in: this start of this kernel, and the namespace.
std::string realm() {
  std::error_code error;
  return first_word("/proc/sys/kernel/random/boot_id") + "/" +
         std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
}

// As process_facts has it; empty if it lives no longer.
std::string started_at(const std::string& pid) {
  pid_t number = 0;
  std::from_chars(pid.data(), pid.data() + pid.size(), number);
  const auto facts = process_facts(number);
  return facts && facts->state != 'Z' && facts->state != 'X' ? facts->started : std::string{};
}

}  // namespace

std::string own_name() {
  const auto pid = std::to_string(::getpid());
  return realm() + " " + pid + " " + started_at(pid);
}

bool is_alive(const store::Owner& owner, base::Time now) {
  std::istringstream words{owner.name};
  std::string where, pid, start;
  words >> where >> pid >> start;
  if (where == realm()) return !start.empty() && started_at(pid) == start;
  return now - owner.alive_at < k_dead_after;
}

}  // namespace crosscheck::runner
