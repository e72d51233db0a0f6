#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/result.h"

namespace crosscheck::relay {

// What a backend takes part in; each adds to the one below. L1: events are forwarded. L2: results
// are shown. L3: a check run on pull requests that carry the device's label. L4: always, and it
// blocks.
enum class Level : std::uint8_t { L1, L2, L3, L4 };
[[nodiscard]] std::string_view to_string(Level level);
[[nodiscard]] std::optional<Level> parse_level(std::string_view name);

// Patterns as in a workflow's `branches:` and `paths:`: `*` stops at '/', `**` does not, `?` is one
// character but '/', a leading `!` takes out again, the last match decides. When the first pattern
// takes out, everything is in to begin with. No patterns: everything passes.
class Patterns {
 public:
  Patterns() = default;
  explicit Patterns(std::vector<std::string> patterns) : patterns_{std::move(patterns)} {}
  [[nodiscard]] bool empty() const { return patterns_.empty(); }
  [[nodiscard]] bool pass(std::string_view name) const;
  [[nodiscard]] const std::vector<std::string>& list() const { return patterns_; }
  friend bool operator==(const Patterns&, const Patterns&) = default;

 private:
  std::vector<std::string> patterns_;
};
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view name);

struct Backend {
  base::RepoName repo;
  Level level = Level::L1;
  std::string device = {};  // L3 only, else empty
  std::vector<std::string> oncalls = {};
  bool pull_requests = true;  // takes part in pull requests and pushes
  bool nightly = true;        // reports nightly and periodic runs
  Patterns branches = {};     // a pull request's base, a push's branch; tags always pass
  Patterns paths = {};        // one changed file must pass
  int line = 0;
};

// Immutable once parsed.
class Allowlist {
 public:
  // In the file's order.
  [[nodiscard]] const std::vector<Backend>& backends() const { return backends_; }
  // Compared without case.
  [[nodiscard]] const Backend* find(const base::RepoName& repo) const;
  void add(Backend backend);

 private:
  std::vector<Backend> backends_;
  std::map<std::string, std::size_t, std::less<>> by_key_;
};

inline constexpr std::size_t k_allowlist_limit = 1024 * 1024;  // bytes

// Errors begin with `source`:line:column and name the level and the entry.
[[nodiscard]] base::Result<Allowlist> parse_allowlist(std::string_view text,
                                                      std::string_view source);

}  // namespace crosscheck::relay
