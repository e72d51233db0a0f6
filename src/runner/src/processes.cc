#include "processes.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <unordered_map>

namespace crosscheck::runner {
namespace {

std::string path_of(pid_t pid, std::string_view file) {
  return "/proc/" + std::to_string(pid) + "/" + std::string{file};
}

}  // namespace

std::optional<ProcessFacts> process_facts(pid_t pid) {
  std::ifstream file{path_of(pid, "stat")};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  // The second field is the program's name in parentheses, and may hold anything.
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields{text.substr(name_end + 1)};
  ProcessFacts facts;
  facts.pid = pid;
  fields >> facts.state >> facts.parent;
  constexpr int k_start_time = 22;
  for (int n = 5; n <= k_start_time && fields >> facts.started; ++n) {
  }
  if (!fields) return {};
  return facts;
}

std::vector<ProcessFacts> all_processes() {
  std::vector<ProcessFacts> all;
  std::error_code error;
  for (std::filesystem::directory_iterator at{"/proc", error}, end; !error && at != end;
       at.increment(error)) {
    const auto name = at->path().filename().string();
    pid_t pid = 0;
    const auto [rest, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad != std::errc{} || rest != name.data() + name.size()) continue;
    if (auto facts = process_facts(pid)) all.push_back(std::move(*facts));
  }
  return all;
}

std::vector<pid_t> descendants(const std::vector<ProcessFacts>& all, pid_t root) {
  std::unordered_multimap<pid_t, pid_t> children;
  for (const auto& process : all) children.emplace(process.parent, process.pid);
  std::vector<pid_t> found{root};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [begin, end] = children.equal_range(found[i]);
    for (auto at = begin; at != end; ++at) found.push_back(at->second);
    children.erase(begin, end);  // none is found twice, whatever changed while it was read
  }
  found.erase(found.begin());
  return found;
}

bool began_with(pid_t pid, std::string_view variable) {
  std::ifstream file{path_of(pid, "environ")};
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry == variable) return true;
  }
  return false;
}

}  // namespace crosscheck::runner
