#include "crosscheck/config/merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "crosscheck/config/load.h"
#include "crosscheck/config/write.h"

namespace crosscheck::config {
namespace {

struct Use {
  const Entry* entry = nullptr;
  const Name* name = nullptr;
};

std::string texts_in_flow(const std::vector<std::string_view>& texts) {
  std::vector<std::string> written;
  written.reserve(texts.size());
  for (const std::string_view text : texts) written.push_back(plain_or_quoted(text));
  return fmt::format("[{}]", fmt::join(written, ", "));
}

enum class Conditions : std::uint8_t { kept, left_out };

// An entry with those of its names that are to stand there.
std::string write_entry(const Entry& entry, const std::vector<const Name*>& names,
                        Conditions conditions, std::size_t indent) {
  const std::string before(indent, ' ');
  std::string out = before + "- names:\n";
  for (const Name* name : names) out += before + "    - " + in_line(name->node) + "\n";
  for (Node key = entry.node.first(); key; key = key.next().next()) {
    if (key.text() == "names" || (key.text() == "when" && conditions == Conditions::left_out))
      continue;
    const Node value = key.next();
    const bool is_block = value.style() == Node::Style::block && value.first();
    out += before + "  " + std::string{key.text()} + ":";
    out += is_block ? "\n" + block(value, indent + 4) : " " + in_line(value) + "\n";
  }
  return out;
}

std::string write_items(std::string_view key, const std::vector<Item>& items) {
  std::string out = fmt::format("    {}:{}\n", key, items.empty() ? " []" : "");
  for (const Item& item : items) {
    std::string lines = block(item.node, 8);
    lines[6] = '-';
    out += lines;
  }
  return out;
}

// `kept`: whether a name stands in the result.
template <class Kept>
std::string write_config(const Config& config, Conditions conditions, Kept kept) {
  std::string out = "test_suite_config:\n";
  if (!config.labels.empty()) out += fmt::format("  labels: {}\n", texts_in_flow(config.labels));
  out += config.files.empty() ? "  files: []\n" : "  files:\n";
  for (const FileEntry& file : config.files) {
    out += fmt::format("    - path: {}\n      unlisted_test_mode: {}\n", in_line(file.path_node),
                       to_string(file.unlisted));
    if (!file.labels.empty()) out += fmt::format("      labels: {}\n", texts_in_flow(file.labels));
    std::string tests;
    for (const Entry& entry : file.entries) {
      std::vector<const Name*> names;
      for (const Name& name : entry.names)
        if (kept(entry, name)) names.push_back(&name);
      if (!names.empty()) tests += write_entry(entry, names, conditions, 8);
    }
    if (!tests.empty()) out += "      tests:\n" + tests;
  }
  const Global& global = config.global;
  std::string lists;
  if (!global.dtypes.empty()) lists += write_items("supported_dtypes", global.dtypes);
  if (global.restricts_ops) lists += write_items("supported_ops", global.ops);
  if (global.restricts_modules) lists += write_items("supported_modules", global.modules);
  if (global.seed) lists += fmt::format("    input_config:\n      seed: {}\n", global.seed.text());
  if (!lists.empty()) out += "  global:\n" + lists;
  return out;
}

// Whether parts restrict alike, and what becomes supported for all.
void compare_restrictions(const std::vector<Config>& parts, std::vector<Finding>& findings) {
  struct List {
    std::string_view key;
    const std::vector<Item>& (*items)(const Global&);
    bool (*restricts)(const Global&);
  };
  const std::vector<List> lists{
      {"supported_dtypes", [](const Global& g) -> const std::vector<Item>& { return g.dtypes; },
       [](const Global& g) { return g.restricts_dtypes; }},
      {"supported_ops", [](const Global& g) -> const std::vector<Item>& { return g.ops; },
       [](const Global& g) { return g.restricts_ops; }},
      {"supported_modules", [](const Global& g) -> const std::vector<Item>& { return g.modules; },
       [](const Global& g) { return g.restricts_modules; }}};
  for (const List& list : lists) {
    std::map<std::string_view, std::size_t> named;
    for (const Config& part : parts)
      for (const Item& item : list.items(part.global)) ++named[item.name];
    std::vector<std::string_view> widened;
    for (const auto& [name, count] : named)
      if (count < parts.size()) widened.push_back(name);
    for (const Config& part : parts) {
      if (list.restricts(part.global) == list.restricts(parts.front().global)) continue;
      const auto at = [](const Config& one) { return one.documents.front()->root().place(); };
      findings.push_back({FindingKind::contradiction,
                          at(part),
                          fmt::format("{} is given in one file and not in the other", list.key),
                          "give it in both, or in neither",
                          {at(parts.front())}});
      widened.clear();
    }
    if (!widened.empty())
      findings.push_back({FindingKind::contradiction,
                          parts.front().documents.front()->root().place(),
                          fmt::format("{}: not in every file, and supported for all tests of the "
                                      "result: {}",
                                      list.key, fmt::join(widened, ", ")),
                          {},
                          {},
                          Finding::Severity::note});
  }
}

// The names that stand twice in what was joined: one of each stays, with a reason if one has one.
std::unordered_set<const Name*> repeated(const Config& config) {
  std::unordered_set<const Name*> dropped;
  for (const FileEntry& file : config.files) {
    std::unordered_map<std::string_view, std::vector<Use>> uses;
    for (const Entry& entry : file.entries) {
      for (const Name& name : entry.names) {
        auto& kept = uses[name.text()];
        const auto same = std::find_if(kept.begin(), kept.end(), [&](const Use& use) {
          return use.entry->when == entry.when &&
                 same_value(edits_node(*use.entry), edits_node(entry));
        });
        if (same == kept.end()) {
          kept.push_back({&entry, &name});
        } else if (entry.rationale && !same->entry->rationale) {
          dropped.insert(same->name);
          *same = {&entry, &name};
        } else {
          dropped.insert(&name);
        }
      }
    }
  }
  return dropped;
}

// For each name that holds under the circumstances and that no more specific entry goes over.
template <class Visit>
void each_holding(const Config& config, const Circumstances& circumstances,
                  std::vector<Finding>& findings, Visit visit) {
  for (const FileEntry& file : config.files) {
    std::unordered_map<std::string_view, std::vector<Use>> uses;
    for (const Entry& entry : file.entries) {
      if (const auto unknown = entry.when.unknown(circumstances)) {
        findings.push_back({FindingKind::bad_value, entry.node.find("when").place(),
                            fmt::format("the entry holds for {}", to_string(entry.when)),
                            fmt::format("say which one is meant with --{}", *unknown)});
        continue;
      }
      if (!entry.when.holds(circumstances)) continue;
      for (const Name& name : entry.names) uses[name.text()].push_back({&entry, &name});
    }
    for (const Entry& entry : file.entries) {
      if (!entry.when.holds(circumstances)) continue;
      for (const Name& name : entry.names) {
        const auto& all = uses[name.text()];
        if (std::none_of(all.begin(), all.end(), [&](const Use& other) {
              return other.entry->when != entry.when && other.entry->when.implies(entry.when);
            }))
          visit(file, entry, name);
      }
    }
  }
}

}  // namespace

Written merge(std::vector<Config> parts) {
  Written written;
  compare_restrictions(parts, written.findings);
  const bool same_labels = std::all_of(parts.begin(), parts.end(), [&](const Config& part) {
    return part.labels == parts.front().labels;
  });
  if (!same_labels) {
    for (Config& part : parts) {
      for (FileEntry& file : part.files)
        if (file.labels.empty()) file.labels = part.labels;
      part.labels.clear();
    }
  }
  Loaded joined = join(std::move(parts), Joining::separate);
  written.findings.insert(written.findings.end(), std::make_move_iterator(joined.findings.begin()),
                          std::make_move_iterator(joined.findings.end()));
  if (has_errors(written.findings)) return written;
  const auto dropped = repeated(*joined.config);
  written.text =
      write_config(*joined.config, Conditions::kept,
                   [&](const Entry&, const Name& name) { return !dropped.contains(&name); });
  return written;
}

Written export_spyre(const Config& config, const Circumstances& circumstances) {
  Written written;
  std::unordered_set<const Name*> kept;
  std::map<std::pair<const FileEntry*, std::string_view>, std::vector<Use>> methods;
  each_holding(config, circumstances, written.findings,
               [&](const FileEntry& file, const Entry& entry, const Name& name) {
                 kept.insert(&name);
                 if (!name.is_pattern()) methods[{&file, name.method}].push_back({&entry, &name});
               });
  if (has_errors(written.findings)) return written;
  for (const auto& [method, uses] : methods) {
    for (const Use& use : uses) {
      if (use.entry->mode == uses.front().entry->mode) continue;
      written.findings.push_back(
          {FindingKind::collides,
           use.name->node.place(),
           fmt::format("Torch-Spyre's loader does not tell '{}' ({}) from '{}' ({})",
                       use.name->text(), to_string(use.entry->mode), uses.front().name->text(),
                       to_string(uses.front().entry->mode)),
           {},
           {uses.front().name->node.place()},
           Finding::Severity::note});
    }
  }
  written.text = write_config(config, Conditions::left_out,
                              [&](const Entry&, const Name& name) { return kept.contains(&name); });
  return written;
}

std::vector<PlainName> export_plain(const Config& config, const Circumstances& circumstances,
                                    std::vector<Finding>& findings) {
  std::vector<PlainName> names;
  each_holding(config, circumstances, findings,
               [&](const FileEntry& file, const Entry& entry, const Name& name) {
                 names.push_back({file.path, name.text(), entry.mode});
               });
  return names;
}

}  // namespace crosscheck::config
