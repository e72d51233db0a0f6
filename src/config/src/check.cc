#include "crosscheck/config/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "crosscheck/base/nearest.h"

namespace crosscheck::config {
namespace {

using Severity = Finding::Severity;

// So many names stand in a message; --json has them all.
constexpr std::size_t k_shown_names = 5;

std::string qualified(std::string_view class_name, std::string_view method) {
  return class_name.empty() ? std::string{method} : fmt::format("{}::{}", class_name, method);
}

std::string shown(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < k_shown_names; ++i)
    text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > k_shown_names)
    text += fmt::format(" and {} more", names.size() - k_shown_names);
  return text;
}

// The tests of one file, for looking for what took a missing one's place.
struct Collected {
  std::map<std::string_view, std::set<std::string_view>> methods;  // by class
};

// "Class::method" of a test that is not listed and could be `name` renamed; empty: none.
std::string renamed_to(const Name& name, const Collected& file,
                       const std::unordered_set<std::string>& unlisted) {
  const auto free = [&](std::string_view class_name, std::string_view method) {
    return unlisted.contains(qualified(class_name, method));
  };
  for (const auto& [class_name, methods] : file.methods)
    if (methods.contains(name.method) && free(class_name, name.method))
      return qualified(class_name, name.method);
  const auto nearest_in = [&](std::string_view class_name,
                              const std::set<std::string_view>& methods) -> std::string {
    std::vector<std::string_view> candidates;
    for (const std::string_view method : methods) {
      const std::size_t apart =
          std::max(method.size(), name.method.size()) - std::min(method.size(), name.method.size());
      if (apart <= name.method.size() / 3 + 1 && free(class_name, method))
        candidates.push_back(method);
    }
    const std::string_view best = base::nearest(name.method, candidates);
    return best.empty() ? std::string{} : qualified(class_name, best);
  };
  if (const auto same = file.methods.find(name.class_name); same != file.methods.end())
    return nearest_in(same->first, same->second);
  // The class is gone: one that has the method was looked for, one that is named alike remains.
  std::vector<std::string_view> classes;
  classes.reserve(file.methods.size());
  for (const auto& [class_name, methods] : file.methods) classes.push_back(class_name);
  const std::string_view class_name = base::nearest(name.class_name, classes);
  if (class_name.empty()) return {};
  return nearest_in(class_name, file.methods.at(class_name));
}

class SuiteCheck {
 public:
  SuiteCheck(const Config& config, const CollectedSuite& suite, const Circumstances& circumstances)
      : config_{config},
        suite_{suite},
        circumstances_{circumstances},
        governor_{config, circumstances} {}

  SuiteReport run() {
    report_.rulings = governor_.rule(suite_.tests);
    for (std::size_t i = 0; i < suite_.tests.size(); ++i) take(suite_.tests[i], report_.rulings[i]);
    find_unused();
    for (const FileEntry& file : config_.files) check_file(file);
    note_ungoverned();
    return std::move(report_);
  }

 private:
  void take(const CollectedTest& test, const Ruling& ruling) {
    ++report_.by_basis[ruling.basis];
    if (!ruling.file) {
      ungoverned_files_[test.id.file] += 1;
      return;
    }
    ++report_.by_mode[ruling.mode];
    Collected& file = collected_[ruling.file];
    file.methods[test.id.class_name].insert(test.id.method);
    if (ruling.name) {
      used_.insert(ruling.name);
    } else {
      unlisted_[ruling.file].insert(qualified(test.id.class_name, test.id.method));
    }
    if (ruling.entry && ruling.entry->rationale && has_changed(test, *ruling.entry->rationale) &&
        changed_.insert(ruling.entry).second) {
      report_.findings.push_back(
          {FindingKind::expired,
           ruling.entry->node.find("rationale").find("test_source").place(),
           fmt::format("the decision is over: {} changed since it was made, to {}",
                       qualified(test.id.class_name, test.id.method), test.source),
           "decide again",
           {},
           Severity::note});
    }
    if (ruling.basis == Basis::tied && tied_.insert({ruling.name, ruling.other}).second) {
      report_.findings.push_back(
          {FindingKind::tie,
           ruling.name->node.place(),
           fmt::format("'{}' is {} by '{}', and another entry for it says otherwise",
                       qualified(test.id.class_name, test.id.method), to_string(ruling.entry->mode),
                       ruling.name->text()),
           "name the test in the entry that is meant",
           {ruling.other->node.place()}});
    }
  }

  // A name that decides nothing may still be a test's: one that another name goes over.
  void find_unused() {
    struct Unused {
      std::unordered_map<std::string_view, const Name*> exact;
      std::vector<const Name*> patterns;
    };
    std::unordered_map<const FileEntry*, Unused> unused;
    for (const FileEntry& file : config_.files) {
      if (!collected_.contains(&file)) continue;
      for (const Entry& entry : file.entries) {
        if (!entry.when.holds(circumstances_)) continue;
        for (const Name& name : entry.names) {
          if (used_.contains(&name)) continue;
          unused_.insert(&name);
          if (name.is_pattern()) {
            unused[&file].patterns.push_back(&name);
          } else {
            unused[&file].exact.emplace(name.text(), &name);
          }
        }
      }
    }
    if (unused.empty()) return;
    for (std::size_t i = 0; i < suite_.tests.size(); ++i) {
      const auto found = unused.find(report_.rulings[i].file);
      if (found == unused.end()) continue;
      Unused& of_file = found->second;
      const CollectedTest& test = suite_.tests[i];
      const auto seen = [&](const std::string& name) {
        const auto at = of_file.exact.find(name);
        if (at != of_file.exact.end()) unused_.erase(at->second);
      };
      if (!of_file.exact.empty()) {
        for (const std::string_view method :
             {std::string_view{test.id.method}, test.collected_method()}) {
          seen(std::string{method});
          seen(qualified(test.id.class_name, method));
          seen(qualified(test.collected_class(), method));
        }
      }
      std::erase_if(of_file.patterns, [&](const Name* pattern) {
        return names(*pattern, test) && unused_.erase(pattern) > 0;
      });
    }
  }

  void check_file(const FileEntry& file) {
    const auto collected = collected_.find(&file);
    if (collected == collected_.end()) {
      const bool broken =
          std::any_of(suite_.broken_files.begin(), suite_.broken_files.end(),
                      [&](const std::string& name) { return governor_.find_file(name) == &file; });
      Finding finding{FindingKind::not_collected, file.path_node.place(), {}, {}};
      if (broken) {
        finding.message =
            fmt::format("'{}' does not collect: its names cannot be checked", file.path);
        finding.severity = Severity::note;
      } else {
        finding.message = fmt::format("no test of '{}' is in {}", file.path, suite_.name);
        finding.remedy = "correct the path, or collect the suite that has it";
        if (suite_.partial) finding.severity = Severity::note;
      }
      report_.findings.push_back(std::move(finding));
      return;
    }
    for (const Entry& entry : file.entries)
      for (const Name& name : entry.names) check_name(file, entry, name, collected->second);
    const auto& unlisted = unlisted_[&file];
    if (unlisted.empty()) return;
    std::vector<std::string> names{unlisted.begin(), unlisted.end()};
    std::sort(names.begin(), names.end());
    report_.findings.push_back({FindingKind::unlisted,
                                file.path_node.place(),
                                fmt::format("{} collected tests are not listed, and are {}: {}",
                                            names.size(), to_string(file.unlisted), shown(names)),
                                {},
                                {},
                                Severity::note});
    report_.unlisted[std::string{file.path}] = std::move(names);
  }

  void check_name(const FileEntry& file, const Entry& entry, const Name& name,
                  const Collected& collected) {
    if (!unused_.contains(&name)) return;
    report_.missing.push_back({&file, &entry, &name, {}});
    if (name.is_pattern()) {
      report_.findings.push_back({FindingKind::missing, name.node.place(),
                                  fmt::format("no collected test matches '{}'", name.text()),
                                  "correct the pattern, or remove it"});
      return;
    }
    const std::string best = renamed_to(name, collected, unlisted_[&file]);
    if (best.empty()) {
      report_.findings.push_back({FindingKind::missing, name.node.place(),
                                  fmt::format("'{}' is not collected", name.text()),
                                  "remove it, if the test is gone"});
    } else {
      report_.missing.back().renamed_to = best;
      report_.findings.push_back({FindingKind::renamed, name.node.place(),
                                  fmt::format("'{}' is not collected", name.text()),
                                  fmt::format("is it '{}' now? That one is not listed", best)});
    }
  }

  void note_ungoverned() {
    for (const auto& [file, count] : ungoverned_files_)
      report_.findings.push_back(
          {FindingKind::ungoverned,
           {config_.documents.front()->name()},
           fmt::format("{}: {} collected tests are governed by no file entry", file, count),
           {},
           {},
           Severity::note});
  }

  const Config& config_;
  const CollectedSuite& suite_;
  const Circumstances& circumstances_;
  Governor governor_;
  SuiteReport report_;
  std::unordered_map<const FileEntry*, Collected> collected_;
  std::unordered_map<const FileEntry*, std::unordered_set<std::string>> unlisted_;
  std::unordered_set<const Name*> used_, unused_;
  std::set<std::pair<const Name*, const Name*>> tied_;
  std::unordered_set<const Entry*> changed_;
  std::map<std::string_view, std::int64_t> ungoverned_files_;
};

// The names that a line of the list makes known: the line, without `aten::`, without the overload.
void add_known(std::string_view line, std::unordered_set<std::string_view>& known) {
  known.insert(line);
  if (const auto colons = line.find("::"); colons != std::string_view::npos) {
    line.remove_prefix(colons + 2);
    known.insert(line);
    known.insert(line.substr(0, line.find('.')));
  }
}

}  // namespace

SuiteReport check_against(const Config& config, const CollectedSuite& suite,
                          const Circumstances& circumstances) {
  return SuiteCheck{config, suite, circumstances}.run();
}

std::vector<Finding> check_operators(const Config& config, std::string_view list) {
  std::unordered_set<std::string_view> known;
  for (std::size_t at = 0; at < list.size();) {
    const auto end = std::min(list.find('\n', at), list.size());
    std::string_view line = list.substr(at, end - at);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r' || line.back() == '\t'))
      line.remove_suffix(1);
    if (!line.empty() && !line.starts_with('#')) add_known(line, known);
    at = end + 1;
  }
  std::vector<std::string_view> candidates{known.begin(), known.end()};
  std::sort(candidates.begin(), candidates.end());
  std::vector<Finding> findings;
  std::unordered_map<std::string_view, std::string> remedies;
  const auto check = [&](Node node) {
    if (!node.is(Node::Kind::text)) return;
    const std::string_view name = node.text();
    const std::string_view bare = name.starts_with("aten::") ? name.substr(6) : name;
    if (known.contains(name) || known.contains(bare)) return;
    const auto [remedy, fresh] = remedies.emplace(name, std::string{});
    if (fresh) {
      const std::string_view near = base::nearest(name, candidates);
      if (!near.empty()) remedy->second = fmt::format("did you mean '{}'?", near);
    }
    findings.push_back({FindingKind::unknown_operator, node.place(),
                        fmt::format("'{}' is not among the operators", name), remedy->second});
  };
  const auto check_item = [&](const Item& item) {
    check(item.node.is(Node::Kind::mapping) ? item.node.find("name") : item.node);
  };
  for (const Item& item : config.global.ops) check_item(item);
  for (const FileEntry& file : config.files) {
    for (const Entry& entry : file.entries) {
      if (entry.edits) {
        for (const Item& item : entry.edits->include_ops)
          if (!item.has_inputs) check_item(item);
        for (const Item& item : entry.edits->exclude_ops) check_item(item);
      }
      if (!entry.rationale || entry.rationale->operators.empty()) continue;
      for (const Node name : entry.node.find("rationale").find("operators").children()) check(name);
    }
  }
  return findings;
}

}  // namespace crosscheck::config
