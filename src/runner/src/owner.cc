#include "owner.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

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

// In ticks since the kernel's start, so that a number that is used again is another process; empty
// if there is none.
std::string started_at(const std::string& pid) {
  std::ifstream file{"/proc/" + pid + "/stat"};
  std::string text;
  std::getline(file, text);
  // The second field is the program's name in parentheses, and may hold anything.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields{text.substr(name_end + 1)};
  constexpr int k_start_time = 22;  // the name is the second
  std::string field;
  for (int n = 2; n < k_start_time && fields >> field; ++n) {
    if (n == 2 && (field == "Z" || field == "X")) return {};
  }
  return field;
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
