#include "crosscheck/ops/support.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <iterator>

#include "crosscheck/base/json.h"

namespace crosscheck::ops {
namespace {

using base::fail;
using base::Fault;
using base::Result;

constexpr std::array<std::string_view, 5> k_answers{
    "native", "composite_implicit", "composite_explicit", "cpu_fallback", "missing"};
// Sets of missing operators that are looked at as a step, those first that promise most.
constexpr std::size_t k_candidates = 512;

std::string_view trimmed(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const auto begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
}

using Set = std::vector<std::uint32_t>;  // sorted

bool contains_all(const Set& set, const Set& part) {
  return std::includes(set.begin(), set.end(), part.begin(), part.end());
}

}  // namespace

Result<Support> Support::parse(std::string_view text, std::string_view name) {
  const auto first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';
  Support support{is_json ? Kind::answers : Kind::list};
  std::size_t number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (!is_json) {
      if (const auto op = trimmed(line); !op.empty()) support.said_.emplace(qualified(op), "");
      continue;
    }
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto root = base::parse_json(line, name, number);
    if (!root) return tl::unexpected(root.error());
    const auto* object = root->if_object();
    if (object != nullptr && !object->contains("op")) continue;  // its header
    const auto op = base::require_string(*root, "op");
    const auto answer = base::require_string(*root, "answer");
    const auto because = base::optional_string(*root, "because");
    for (const auto* error : {op ? nullptr : &op.error(), answer ? nullptr : &answer.error(),
                              because ? nullptr : &because.error()}) {
      if (error == nullptr) continue;
      return fail(error->fault, fmt::format("{}:{}: {}", name, number, error->message));
    }
    if (std::find(k_answers.begin(), k_answers.end(), *answer) == k_answers.end()) {
      return fail(Fault::invalid_input, fmt::format("{}:{}: answer: expected one of {}", name,
                                                    number, fmt::join(k_answers, ", ")));
    }
    std::string missing;
    if (*answer == "missing") {
      // "view" and its like name no operator.
      const auto culprit = because->value_or("");
      missing = culprit.find("::") == std::string::npos ? *op : culprit;
    }
    support.said_.insert_or_assign(*op, std::move(missing));
  }
  if (support.said_.empty()) {
    return fail(Fault::invalid_input, fmt::format("{} names no operator", name),
                "crosscheck ops support -o writes one");
  }
  return support;
}

Support Support::without(std::set<std::string> missing) {
  Support support{Kind::failures};
  for (const auto& name : missing) support.said_.emplace(name, name);
  return support;
}

std::optional<std::string> Support::lacks(const std::string& overload, const Making& making) const {
  const auto delegate = making.delegates.find(overload);
  const auto& kernel = delegate == making.delegates.end() ? overload : delegate->second;
  switch (kind_) {
    case Kind::answers: {
      // What it is made of is judged itself.
      if (making.composites.contains(overload)) return {};
      const auto said = said_.find(overload);
      if (said == said_.end() || said->second.empty()) return {};
      return said->second;
    }
    case Kind::list: {
      if (making.composites.contains(overload)) return {};
      for (const std::string_view name :
           {std::string_view{overload}, operator_of(overload), std::string_view{kernel}}) {
        if (said_.contains(name)) return {};
      }
      return kernel;
    }
    case Kind::failures:
      if (said_.contains(overload)) return overload;
      if (said_.contains(kernel)) return kernel;
      return {};
  }
  return {};
}

bool Support::knows(const std::string& overload, const Making& making) const {
  return kind_ != Kind::answers || making.composites.contains(overload) || said_.contains(overload);
}

Gaps::Gaps(const std::vector<OperatorTests>& used, const Support& support, const Making& making) {
  std::map<std::string, std::vector<const Tests*>> missing;
  for (const auto& [name, tests] : used) {
    if (!support.knows(name, making)) ++unsaid_;
    if (const auto lack = support.lacks(name, making)) missing[*lack].push_back(&tests);
  }
  for (const auto& [name, sets] : missing) {
    const auto number = static_cast<std::uint32_t>(names_.size());
    names_.push_back(name);
    for (const auto* tests : sets) {
      for (const auto test : *tests) {
        auto& lacks = lacks_[test];
        if (lacks.empty() || lacks.back() != number) lacks.push_back(number);
      }
    }
  }
}

Gaps::Enabled Gaps::enable(const std::set<std::string>& operators) const {
  Enabled enabled;
  Set wanted;
  for (std::uint32_t i = 0; i < names_.size(); ++i) {
    if (!operators.contains(names_[i])) continue;
    wanted.push_back(i);
    enabled.operators.push_back(names_[i]);
  }
  std::map<std::uint32_t, std::size_t> others;
  for (const auto& [test, lacks] : lacks_) {
    const auto is_wanted = [&](std::uint32_t i) {
      return std::binary_search(wanted.begin(), wanted.end(), i);
    };
    if (std::none_of(lacks.begin(), lacks.end(), is_wanted)) continue;
    enabled.need.push_back(test);
    if (contains_all(wanted, lacks)) enabled.alone.push_back(test);
    for (const auto i : lacks) {
      if (!is_wanted(i)) ++others[i];
    }
  }
  std::sort(enabled.need.begin(), enabled.need.end());
  std::sort(enabled.alone.begin(), enabled.alone.end());
  for (const auto& [i, count] : others) enabled.others.emplace_back(names_[i], count);
  std::stable_sort(enabled.others.begin(), enabled.others.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return enabled;
}

std::vector<Gaps::Step> Gaps::steps(std::size_t most) const {
  std::map<Set, std::size_t> left;  // what tests lack: how many lack just that
  for (const auto& [test, lacks] : lacks_) ++left[lacks];
  std::vector<Step> steps;
  std::size_t in_all = 0;
  while (!left.empty() && steps.size() < most) {
    std::vector<std::pair<const Set*, double>> candidates;
    candidates.reserve(left.size());
    for (const auto& [set, count] : left) {
      candidates.emplace_back(&set, static_cast<double>(count) / static_cast<double>(set.size()));
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    candidates.resize(std::min(candidates.size(), k_candidates));
    const Set* best = nullptr;
    std::size_t best_frees = 0;
    for (const auto& [set, promise] : candidates) {
      std::size_t frees = 0;
      for (const auto& [other, count] : left) {
        if (other.size() <= set->size() && contains_all(*set, other)) frees += count;
      }
      // More tests for each operator; of equal ones fewer operators, then by name.
      const auto ours = frees * (best == nullptr ? 1 : best->size());
      const auto theirs = best_frees * set->size();
      if (best == nullptr || ours > theirs || (ours == theirs && set->size() < best->size()) ||
          (ours == theirs && set->size() == best->size() && *set < *best)) {
        best = set;
        best_frees = frees;
      }
    }
    const Set chosen = *best;
    Step step;
    for (const auto i : chosen) step.operators.push_back(names_[i]);
    step.frees = best_frees;
    step.in_all = in_all += best_frees;
    steps.push_back(std::move(step));
    std::map<Set, std::size_t> next;
    for (const auto& [set, count] : left) {
      Set rest;
      std::set_difference(set.begin(), set.end(), chosen.begin(), chosen.end(),
                          std::back_inserter(rest));
      if (!rest.empty()) next[std::move(rest)] += count;
    }
    left = std::move(next);
  }
  return steps;
}

std::vector<Gaps::Gain> Gaps::gains() const {
  std::vector<Gain> gains;
  gains.reserve(names_.size());
  for (const auto& name : names_) gains.push_back({name, 0, 0});
  for (const auto& [test, lacks] : lacks_) {
    for (const auto i : lacks) ++gains[i].need;
    if (lacks.size() == 1) ++gains[lacks[0]].frees;
  }
  std::stable_sort(gains.begin(), gains.end(), [](const Gain& a, const Gain& b) {
    return std::pair{a.frees, a.need} > std::pair{b.frees, b.need};
  });
  return gains;
}

}  // namespace crosscheck::ops
