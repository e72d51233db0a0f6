#include "crosscheck/config/diff.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "crosscheck/config/write.h"

namespace crosscheck::config {
namespace {

// A name under a condition, in a file.
using Key = std::tuple<std::string_view, std::string_view, std::string>;

struct Listed {
  Saying saying;
  Node edits;
};

std::optional<Reason> reason_of(const Entry& entry) {
  return entry.rationale ? std::optional{entry.rationale->reason} : std::nullopt;
}

std::map<Key, std::vector<Listed>> listed(const Config& config) {
  std::map<Key, std::vector<Listed>> all;
  for (const FileEntry& file : config.files)
    for (const Entry& entry : file.entries)
      for (const Name& name : entry.names)
        all[{file.path, name.text(), entry.when.is_always() ? "" : to_string(entry.when)}]
            .push_back({{Basis::listed, entry.mode, reason_of(entry)}, edits_node(entry)});
  return all;
}

std::map<std::string_view, const FileEntry*> files_of(const Config& config) {
  std::map<std::string_view, const FileEntry*> all;
  for (const FileEntry& file : config.files) all.emplace(file.path, &file);
  return all;
}

Saying unlisted(const std::map<std::string_view, const FileEntry*>& files, std::string_view path) {
  const auto found = files.find(path);
  if (found == files.end()) return {};
  return {Basis::unlisted, found->second->unlisted, std::nullopt};
}

bool same_edits(const std::vector<Listed>& a, const std::vector<Listed>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_value(a[i].edits, b[i].edits)) return false;
  return true;
}

void diff_items(Change::What what, bool before_restricts, const std::vector<Item>& before,
                bool after_restricts, const std::vector<Item>& after,
                std::vector<Change>& changes) {
  if (before_restricts != after_restricts) {
    changes.push_back({what,
                       {},
                       "all",
                       {},
                       before_restricts ? "not all" : "supported",
                       after_restricts ? "not all" : "supported"});
  }
  std::map<std::string_view, std::pair<Node, Node>> items;
  for (const Item& item : before) items[item.name].first = item.node;
  for (const Item& item : after) items[item.name].second = item.node;
  for (const auto& [name, nodes] : items) {
    if (nodes.first && nodes.second && same_value(nodes.first, nodes.second)) continue;
    const auto text = [](Node node) -> std::string {
      if (!node) return "not named";
      if (node.is(Node::Kind::text) || !node.first().next().next()) return "named";
      return flow(node);
    };
    if (text(nodes.first) == text(nodes.second)) continue;
    changes.push_back({what, {}, std::string{name}, {}, text(nodes.first), text(nodes.second)});
  }
}

void diff_globals(const Global& before, const Global& after, std::vector<Change>& changes) {
  diff_items(Change::What::dtypes, before.restricts_dtypes, before.dtypes, after.restricts_dtypes,
             after.dtypes, changes);
  diff_items(Change::What::operators, before.restricts_ops, before.ops, after.restricts_ops,
             after.ops, changes);
  diff_items(Change::What::modules, before.restricts_modules, before.modules,
             after.restricts_modules, after.modules, changes);
}

// A test that is listed as it would be unlisted means the same.
bool differ(const Saying& a, const Saying& b) {
  return a.mode != b.mode || a.reason != b.reason ||
         (a.basis == Basis::ungoverned) != (b.basis == Basis::ungoverned);
}

Saying saying_of(const Ruling& ruling) {
  return {ruling.basis, ruling.mode, ruling.entry ? reason_of(*ruling.entry) : std::nullopt};
}

}  // namespace

std::string to_string(const Saying& saying) {
  if (saying.basis == Basis::ungoverned) return "ungoverned";
  std::string text{to_string(saying.mode)};
  if (saying.basis != Basis::listed) return text + fmt::format(" ({})", to_string(saying.basis));
  if (saying.reason) text += fmt::format(" ({})", to_string(*saying.reason));
  return text;
}

std::string_view to_string(Change::What what) {
  switch (what) {
    case Change::What::test:
      return "test";
    case Change::What::unlisted:
      return "unlisted";
    case Change::What::edits:
      return "edits";
    case Change::What::operators:
      return "operator";
    case Change::What::dtypes:
      return "dtype";
    case Change::What::modules:
      return "module";
  }
  return "";
}

std::vector<Change> diff(const Config& before, const Config& after) {
  std::vector<Change> changes;
  const auto files_before = files_of(before);
  const auto files_after = files_of(after);
  std::map<std::string_view, std::pair<Saying, Saying>> files;
  for (const auto& [path, file] : files_before) files[path].first = unlisted(files_before, path);
  for (const auto& [path, file] : files_after) files[path].second = unlisted(files_after, path);
  for (const auto& [path, says] : files)
    if (says.first != says.second)
      changes.push_back({Change::What::unlisted,
                         std::string{path},
                         {},
                         {},
                         to_string(says.first),
                         to_string(says.second)});
  std::map<Key, std::pair<std::vector<Listed>, std::vector<Listed>>> names;
  for (auto& [key, all] : listed(before)) names[key].first = all;
  for (auto& [key, all] : listed(after)) names[key].second = all;
  for (const auto& [key, both] : names) {
    // As variables: clang's analyzer loses the parts of a structured binding in the lambda.
    const auto& path = std::get<0>(key);
    const auto& name = std::get<1>(key);
    const auto& when = std::get<2>(key);
    const Saying was =
        both.first.empty() ? unlisted(files_before, path) : both.first.front().saying;
    const Saying is =
        both.second.empty() ? unlisted(files_after, path) : both.second.front().saying;
    const auto add = [&](Change::What what, std::string from, std::string to) {
      changes.push_back(
          {what, std::string{path}, std::string{name}, when, std::move(from), std::move(to)});
    };
    if (differ(was, is)) {
      add(Change::What::test, to_string(was), to_string(is));
    } else if (!both.first.empty() && !both.second.empty() &&
               !same_edits(both.first, both.second)) {
      const auto text = [](const std::vector<Listed>& all) {
        return all.front().edits ? flow(all.front().edits) : std::string{"none"};
      };
      add(Change::What::edits, text(both.first), text(both.second));
    }
  }
  diff_globals(before.global, after.global, changes);
  return changes;
}

std::vector<Change> diff(const Config& before, const Config& after,
                         std::span<const CollectedTest> tests, const Circumstances& circumstances) {
  std::vector<Change> changes;
  const auto were = Governor{before, circumstances}.rule(tests);
  const auto are = Governor{after, circumstances}.rule(tests);
  for (std::size_t i = 0; i < tests.size(); ++i) {
    const Saying was = saying_of(were[i]);
    const Saying is = saying_of(are[i]);
    if (!differ(was, is)) continue;
    changes.push_back(
        {Change::What::test,
         tests[i].id.file,
         tests[i].id.class_name.empty()
             ? tests[i].id.method + tests[i].id.variant
             : tests[i].id.class_name + "::" + tests[i].id.method + tests[i].id.variant,
         {},
         to_string(was),
         to_string(is)});
  }
  diff_globals(before.global, after.global, changes);
  return changes;
}

}  // namespace crosscheck::config
