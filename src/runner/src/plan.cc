#include "crosscheck/runner/plan.h"

#include <algorithm>
#include <regex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "crosscheck/base/digest.h"
#include "crosscheck/runner/classify.h"

namespace crosscheck::runner {
namespace {

using base::Duration;
using base::fail;
using base::Fault;
using base::Result;

class Matcher {
 public:
  static Result<Matcher> make(const std::vector<std::string>& patterns) {
    Matcher matcher;
    for (const auto& pattern : patterns) {
      if (pattern.size() > 2 && pattern.front() == '/' && pattern.back() == '/') {
        try {
          matcher.expressions_.emplace_back(pattern.substr(1, pattern.size() - 2),
                                            std::regex::ECMAScript | std::regex::optimize);
        } catch (const std::regex_error& error) {
          return fail(
              Fault::usage, "'" + pattern + "' is no regular expression: " + error.what(),
              "write it as in ECMAScript, or without slashes to mean a part of the node id");
        }
      } else {
        matcher.parts_.push_back(pattern);
      }
    }
    return matcher;
  }

  [[nodiscard]] bool matches(const std::string& node_id) const {
    if (parts_.empty() && expressions_.empty()) return true;
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const auto& part) { return node_id.find(part) != std::string::npos; }) ||
           std::any_of(expressions_.begin(), expressions_.end(), [&](const auto& expression) {
             return std::regex_search(node_id, expression);
           });
  }

 private:
  std::vector<std::string> parts_;
  std::vector<std::regex> expressions_;
};

std::string listed(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < most; ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

Result<std::unordered_set<std::string_view>> known_nodes(const std::vector<CollectedTest>& tests,
                                                         const std::vector<std::string>& wanted) {
  std::unordered_set<std::string_view> known;
  for (const auto& test : tests) known.insert(test.node_id);
  std::vector<std::string> unknown;
  std::unordered_set<std::string_view> chosen;
  for (const auto& node : wanted) {
    if (!known.contains(node)) unknown.push_back(node);
    chosen.insert(node);
  }
  if (!unknown.empty()) {
    return fail(Fault::invalid_input, "not in the inventory: " + listed(unknown, 5),
                "collect it again with `crosscheck collect`, or take these names off the list");
  }
  return chosen;
}

// Whatever their order, and however often they are named.
std::string digest_of(const std::vector<std::string>& texts) {
  constexpr std::size_t k_length = 12;
  std::string names;
  for (const auto& text : std::set<std::string_view>{texts.begin(), texts.end()}) {
    names += text;
    names += '\n';
  }
  return base::sha256_hex(names).substr(0, k_length);
}

// Slices of nearly equal time, in order.
std::vector<Chunk> split(const Chunk& whole, const std::vector<Duration>& times,
                         std::size_t parts) {
  std::vector<Chunk> chunks;
  Chunk part{whole.file, {}, Duration{0}};
  Duration before{0};
  for (std::size_t i = 0; i < whole.tests.size(); ++i) {
    const auto share = whole.expected * static_cast<std::int64_t>(chunks.size() + 1) /
                       static_cast<std::int64_t>(parts);
    if (!part.tests.empty() && chunks.size() + 1 < parts && before + times[i] / 2 >= share) {
      chunks.push_back(std::move(part));
      part = Chunk{whole.file, {}, Duration{0}};
    }
    part.tests.push_back(whole.tests[i]);
    part.expected += times[i];
    before += times[i];
  }
  if (!part.tests.empty()) chunks.push_back(std::move(part));
  return chunks;
}

}  // namespace

std::string Selection::describe() const {
  std::string text = quick ? "quick set" : "all tests";
  constexpr std::size_t k_listed = 20;
  if (!patterns.empty()) text += ", matching " + listed(patterns, k_listed);
  // Two lists of one length are two selections.
  if (patterns.size() > k_listed) text += " (" + digest_of(patterns) + ")";
  if (node_ids) {
    text +=
        ", from a list of " + std::to_string(node_ids->size()) + " (" + digest_of(*node_ids) + ")";
  }
  return text;
}

Result<std::vector<std::size_t>> select(const std::vector<CollectedTest>& tests,
                                        const Selection& selection) {
  const auto matcher = Matcher::make(selection.patterns);
  if (!matcher) return tl::unexpected(matcher.error());
  std::unordered_set<std::string_view> chosen;
  if (selection.node_ids) {
    auto known = known_nodes(tests, *selection.node_ids);
    if (!known) return tl::unexpected(known.error());
    chosen = std::move(*known);
  }
  std::vector<std::size_t> selected;
  std::size_t of_quick = 0;
  std::size_t of_list = 0;
  for (std::size_t i = 0; i < tests.size(); ++i) {
    if (selection.quick && !tests[i].quick) continue;
    ++of_quick;
    if (selection.node_ids && !chosen.contains(tests[i].node_id)) continue;
    ++of_list;
    if (matcher->matches(tests[i].node_id)) selected.push_back(i);
  }
  if (!selected.empty()) return selected;
  const auto none = [](std::string why, std::string remedy) {
    return fail(Fault::invalid_input, "no test is selected: " + std::move(why), std::move(remedy));
  };
  const auto total = std::to_string(tests.size());
  if (tests.empty()) {
    return none("the inventory is empty", "see its collect errors: `crosscheck collect`");
  }
  if (of_quick == 0) {
    return none("none of the " + total + " collected tests is in the quick set",
                "leave out --quick");
  }
  if (of_list == 0) {
    return none(selection.node_ids->empty() ? "the list of tests is empty"
                                            : "no test of the list is in the quick set",
                "check the file given with --tests-from");
  }
  return none("none of " + std::to_string(of_list) + " tests matches " +
                  listed(selection.patterns, 5) + " (the first is called " + tests[0].node_id + ")",
              "a pattern is a part of a node id, or a regular expression between slashes");
}

std::vector<base::TestResult> uncollected(const Inventory& inventory, const Selection& selection) {
  std::vector<base::TestResult> results;
  if (selection.node_ids) return results;
  const auto matcher = Matcher::make(selection.patterns);
  if (!matcher) return results;
  std::map<std::string, int> attempts;
  for (const auto& error : inventory.errors) {
    if (!matcher->matches(error.file)) continue;
    auto verdict = classify_collect_error(error);
    base::TestResult result;
    result.id = {error.file, "", "(collection)", "{}"};
    result.node_id = error.file;
    result.attempt = ++attempts[error.file];
    result.outcome = verdict.outcome;
    result.kind = verdict.kind;
    result.fingerprint = std::move(verdict.fingerprint);
    result.message = std::move(verdict.message);
    result.detail = std::move(verdict.detail);
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<Chunk> plan(const std::vector<CollectedTest>& tests,
                        const std::vector<std::size_t>& selected, const KnownTimes& times,
                        const PlanOptions& options) {
  std::vector<Chunk> files;
  std::vector<std::vector<Duration>> durations;
  std::unordered_map<std::string_view, std::size_t> by_file;
  Duration total{0};
  for (const auto i : selected) {
    const auto& test = tests[i];
    const auto [at, added] = by_file.emplace(test.id.file, files.size());
    if (added) {
      files.push_back({test.id.file, {}, Duration{0}});
      durations.emplace_back();
      total += options.start_cost;
    }
    const auto known = times.find(test.id);
    const auto time = known == times.end() ? options.unknown_test : known->second;
    files[at->second].tests.push_back(i);
    files[at->second].expected += time;
    durations[at->second].push_back(time);
    total += time;
  }
  const auto workers = std::max<std::size_t>(options.workers, 1);
  const auto share = total / static_cast<std::int64_t>(workers);
  std::vector<Chunk> chunks;
  for (std::size_t f = 0; f < files.size(); ++f) {
    const auto& file = files[f];
    std::size_t parts = 1;
    if (workers > 1 && file.expected + options.start_cost > share && share.count() > 0) {
      const auto wanted = static_cast<std::size_t>((file.expected + share - Duration{1}) / share);
      const auto worth = options.start_cost.count() > 0
                             ? static_cast<std::size_t>(file.expected / (2 * options.start_cost))
                             : file.tests.size();
      parts = std::clamp<std::size_t>(std::min({wanted + 1, worth, file.tests.size()}), 1, workers);
    }
    if (parts == 1) {
      chunks.push_back(file);
      continue;
    }
    for (auto& chunk : split(file, durations[f], parts)) chunks.push_back(std::move(chunk));
  }
  std::sort(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) {
    return a.expected != b.expected ? a.expected > b.expected : a.tests.front() < b.tests.front();
  });
  return chunks;
}

}  // namespace crosscheck::runner
