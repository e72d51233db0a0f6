#include "crosscheck/memory/diff.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "crosscheck/memory/link.h"

namespace crosscheck::memory {
namespace {

// Two bodies that are less alike are two tests.
constexpr double k_alike = 0.6;
// A shape with fewer sequences is said by many bodies, and says little.
constexpr std::size_t k_small_shape = 12;
// A hash that so many tests have tells none from others.
constexpr std::size_t k_common = 200;

struct Test {
  Where where;
  const Definition* definition = nullptr;
  TestPlace place;
  std::string key;
};

using Variants = std::map<std::string, std::set<std::string>>;  // by test, "file\0class\0method"

std::string variant_key(std::string_view file, std::string_view class_name,
                        std::string_view method) {
  return std::string{file} + '\0' + std::string{class_name} + '\0' + std::string{method};
}

class Side {
 public:
  explicit Side(const Version& version) : linked{version.sources} {
    for (std::uint32_t s = 0; s < version.sources.size(); ++s) {
      const Source& source = version.sources[s];
      std::map<std::string, int> seen;
      for (std::uint32_t d = 0; d < source.facts.definitions.size(); ++d) {
        const Definition& definition = source.facts.definitions[d];
        if (definition.kind != Kind::test) continue;
        Test test{
            {s, d}, &definition, {source.path, qualified_name(definition), definition.line}, {}};
        // The same name may be given twice, the second time for other conditions.
        test.key =
            source.path + '\0' + test.place.name + '\0' + std::to_string(seen[test.place.name]++);
        tests.push_back(std::move(test));
      }
    }
    for (const Collected& test : version.collected)
      variants[variant_key(test.file, test.class_name, test.method)].insert(test.variant);
    knows_variants = !version.collected.empty();
  }

  // Name to what it does, of all that the test reaches.
  std::map<std::string, std::string> reached(const Test& test) const {
    std::map<std::string, std::string> all;
    for (const Where at : linked.closure(test.where)) {
      const Definition& definition = linked.at(at);
      std::string& words = all[linked.path(at) + "::" + qualified_name(definition)];
      words += definition.body;
      for (const std::string& decorator : definition.decorators) words += '\0' + decorator;
    }
    return all;
  }

  const std::set<std::string>& variants_of(const Test& test) const {
    static const std::set<std::string> none;
    const auto found = variants.find(
        variant_key(test.place.path, test.definition->class_name, test.definition->name));
    return found == variants.end() ? none : found->second;
  }

  Linked linked;
  std::vector<Test> tests;
  Variants variants;
  bool knows_variants = false;
};

// How alike two names are, by their words: 0 to 1.
double alike_names(std::string_view a, std::string_view b) {
  const auto words = [](std::string_view text) {
    std::set<std::string> all;
    std::string word;
    for (const char c : text) {
      if (c == '_' || c == ':' || c == '.' || c == '/') {
        if (!word.empty()) all.insert(std::move(word));
        word.clear();
      } else {
        word += c;
      }
    }
    if (!word.empty()) all.insert(word);
    all.erase("test");
    return all;
  };
  const auto one = words(a);
  const auto two = words(b);
  if (one.empty() && two.empty()) return 0;
  std::size_t common = 0;
  for (const std::string& word : one) common += two.contains(word) ? 1U : 0U;
  return static_cast<double>(common) / static_cast<double>(one.size() + two.size() - common);
}

struct Candidate {
  double likeness = 0;
  double nearness = 0;  // of names and places, where likeness decides nothing
  std::size_t from = 0;
  std::size_t to = 0;
};

// Of tests that are gone and tests that are new, which are the same under another name.
class Renames {
 public:
  Renames(const std::vector<const Test*>& gone, const std::vector<const Test*>& fresh)
      : gone_{gone}, fresh_{fresh} {}

  std::vector<Candidate> find() {
    propose();
    std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
      return std::tuple{-a.likeness, -a.nearness, a.from, a.to} <
             std::tuple{-b.likeness, -b.nearness, b.from, b.to};
    });
    std::vector<Candidate> chosen;
    std::set<std::size_t> from;
    std::set<std::size_t> to;
    for (const Candidate& candidate : candidates_)
      if (!from.contains(candidate.from) && !to.contains(candidate.to)) {
        from.insert(candidate.from);
        to.insert(candidate.to);
        chosen.push_back(candidate);
      }
    return chosen;
  }

 private:
  // Pairs that have at least one of their hashes in common.
  void propose() {
    std::unordered_map<std::uint32_t, std::vector<std::size_t>> by_hash;
    for (std::size_t i = 0; i < fresh_.size(); ++i)
      for (const std::uint32_t hash : fresh_[i]->definition->shape) by_hash[hash].push_back(i);
    for (std::size_t i = 0; i < gone_.size(); ++i) {
      std::set<std::size_t> near;
      for (const std::uint32_t hash : gone_[i]->definition->shape) {
        const auto found = by_hash.find(hash);
        if (found == by_hash.end() || found->second.size() > k_common) continue;
        near.insert(found->second.begin(), found->second.end());
      }
      for (const std::size_t j : near) consider(i, j);
    }
    // Bodies that are equal and common.
    std::unordered_map<std::string_view, std::vector<std::size_t>> by_body;
    for (std::size_t i = 0; i < fresh_.size(); ++i)
      by_body[fresh_[i]->definition->body].push_back(i);
    for (std::size_t i = 0; i < gone_.size(); ++i) {
      const auto found = by_body.find(gone_[i]->definition->body);
      if (found == by_body.end()) continue;
      for (const std::size_t j : found->second) consider(i, j);
    }
  }

  void consider(std::size_t from, std::size_t to) {
    const Test& a = *gone_[from];
    const Test& b = *fresh_[to];
    const bool same = a.definition->body == b.definition->body;
    const double likeness = same ? 1 : memory::likeness(a.definition->shape, b.definition->shape);
    if (likeness < k_alike) return;
    const double name = alike_names(a.definition->name, b.definition->name);
    const double place = (a.place.path == b.place.path ? 0.5 : 0.0) +
                         (a.definition->class_name == b.definition->class_name ? 0.5 : 0.0);
    const bool small =
        std::min(a.definition->shape.size(), b.definition->shape.size()) < k_small_shape;
    if (small && (!same || (name < 0.5 && place < 1))) return;
    // What is only alike, and has neither name nor place in common, was copied from each other.
    if (!same && likeness < 0.8 && name < 0.3 && place < 0.5) return;
    candidates_.push_back({likeness, name + place, from, to});
  }

  const std::vector<const Test*>& gone_;
  const std::vector<const Test*>& fresh_;
  std::vector<Candidate> candidates_;
};

void compare(const Side& before, const Side& after, const Test& was, const Test& is,
             TreeDiff& result) {
  Changed changed;
  changed.test = is.place;
  if (was.definition->body != is.definition->body) changed.parts.emplace_back("body");
  if (was.definition->decorators != is.definition->decorators)
    changed.parts.emplace_back("decorators");
  if (before.linked.content(was.where) != after.linked.content(is.where)) {
    const auto then = before.reached(was);
    const auto now = after.reached(is);
    for (const auto& [name, words] : now) {
      const auto found = then.find(name);
      if (found == then.end()) {
        changed.through.push_back(name + " added");
      } else if (found->second != words) {
        changed.through.push_back(name + " changed");
      }
    }
    for (const auto& [name, words] : then)
      if (!now.contains(name)) changed.through.push_back(name + " removed");
    std::ranges::sort(changed.through);
  }
  if (before.knows_variants && after.knows_variants) {
    const auto& then = before.variants_of(was);
    const auto& now = after.variants_of(is);
    for (const std::string& variant : now)
      changed.variants_added += then.contains(variant) ? 0U : 1U;
    for (const std::string& variant : then)
      changed.variants_removed += now.contains(variant) ? 0U : 1U;
  }
  const bool variants = changed.variants_added > 0 || changed.variants_removed > 0;
  if (!changed.parts.empty()) {
    result.changed.push_back(std::move(changed));
  } else if (!changed.through.empty()) {
    result.changed_by_helper.push_back(std::move(changed));
  } else if (variants) {
    result.changed_variants.push_back(std::move(changed));
  } else {
    ++result.unchanged;
  }
}

}  // namespace

TreeDiff diff(const Version& old_version, const Version& new_version) {
  const Side before{old_version};
  const Side after{new_version};
  std::unordered_map<std::string_view, const Test*> now;
  for (const Test& test : after.tests) now.emplace(test.key, &test);
  TreeDiff result;
  std::vector<const Test*> gone;
  std::vector<const Test*> fresh;
  std::set<std::string_view> kept;
  for (const Test& test : before.tests) {
    const auto found = now.find(test.key);
    if (found == now.end()) {
      gone.push_back(&test);
    } else {
      kept.insert(found->first);
      compare(before, after, test, *found->second, result);
    }
  }
  for (const Test& test : after.tests)
    if (!kept.contains(test.key)) fresh.push_back(&test);
  std::set<const Test*> paired;
  for (const Candidate& pair : Renames{gone, fresh}.find()) {
    const Test& was = *gone[pair.from];
    const Test& is = *fresh[pair.to];
    paired.insert({&was, &is});
    result.renamed.push_back(
        {was.place, is.place, pair.likeness, was.definition->body == is.definition->body});
  }
  for (const Test* test : gone)
    if (!paired.contains(test)) result.removed.push_back(test->place);
  for (const Test* test : fresh)
    if (!paired.contains(test)) result.added.push_back(test->place);
  const auto by_place = [](const Changed& a, const Changed& b) { return a.test < b.test; };
  std::ranges::sort(result.added);
  std::ranges::sort(result.removed);
  std::ranges::sort(result.renamed, {},
                    [](const Renamed& one) { return std::tie(one.from, one.to); });
  std::ranges::sort(result.changed, by_place);
  std::ranges::sort(result.changed_by_helper, by_place);
  std::ranges::sort(result.changed_variants, by_place);
  return result;
}

}  // namespace crosscheck::memory
