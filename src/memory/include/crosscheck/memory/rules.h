#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/memory/tree.h"

// Narrowing: what of a tree a backend need not look at. Rules are data, src/memory/rules/rules.yaml
// says in which form; more may come from a file.
namespace crosscheck::memory {

enum class Scope : std::uint8_t { file, klass, test };
[[nodiscard]] std::string_view to_string(Scope scope);  // "file", "class", "test"

struct Rule {
  // Key to patterns; all keys must hold.
  using Condition = std::map<std::string, std::vector<std::string>, std::less<>>;

  std::string id = {};
  Scope drop = Scope::test;
  std::vector<std::string> unless = {};
  std::string reason = {};
  std::vector<Condition> where = {};  // any of them
  std::string place = {};             // "rules.yaml:12"
};

// The error names source:line:column. Ids are unique.
[[nodiscard]] base::Result<std::vector<Rule>> parse_rules(std::string_view text,
                                                          std::string_view source);
[[nodiscard]] const std::vector<Rule>& built_in_rules();

// Whether `text` is what `pattern` says: `*` any text, `?` one byte.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view text);

// Why something is dropped. Points into the rules; nothing: it is kept.
struct Verdict {
  const Rule* rule = nullptr;
  std::string because = {};  // "decorator onlyCUDA"
  [[nodiscard]] explicit operator bool() const { return rule != nullptr; }
};

// The rules that apply to a backend: those whose `unless` it lacks wholly.
class Narrowing {
 public:
  Narrowing() = default;  // drops nothing
  // `lacks`: extension points and devices ("device:cuda") that the backend does not have.
  Narrowing(const std::vector<Rule>& rules, const std::set<std::string>& lacks);

  // The first rule that drops it, or what it lies in.
  [[nodiscard]] Verdict file(const Source& source) const;
  [[nodiscard]] Verdict definition(const Source& source, const Definition& definition) const;
  // Equal where the same is dropped for the same reasons.
  [[nodiscard]] const std::string& digest() const { return digest_; }
  [[nodiscard]] bool is_empty() const { return rules_.empty(); }

 private:
  [[nodiscard]] Verdict judge(Scope scope, const Source& source, const Definition* klass,
                              const Definition* definition) const;
  std::vector<Rule> rules_;
  std::string digest_;
};

}  // namespace crosscheck::memory
