#include "crosscheck/config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "crosscheck/base/nearest.h"
#include "schema.h"

namespace crosscheck::config {
namespace {

constexpr std::string_view k_pattern_characters = "\\.^$*+?{}[]|()";
constexpr std::string_view k_tokens[] = {"TORCH_ROOT", "TORCH_DEVICE_ROOT"};

bool is_identifier(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9') ||
           static_cast<signed char>(c) < 0;
  };
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::all_of(text.begin(), text.end(), fits);
}

std::string_view text_of(Node node) {
  return node && node.is(Node::Kind::text) && !node.is_null() ? node.text() : std::string_view{};
}

// Calls `use` with each item of a list; a value that stands for a list of one is its item.
template <class Use>
void each(Node list, Use use) {
  if (!list) return;
  if (list.is(Node::Kind::sequence)) {
    for (const Node item : list.children()) use(item);
  } else if (list.is(Node::Kind::text) && !list.is_null()) {
    use(list);
  }
}

std::size_t count(Node list) {
  std::size_t items = 0;
  for (Node at = list.first(); at; at = at.next()) ++items;
  return items;
}

std::vector<std::string> texts(Node list) {
  std::vector<std::string> all;
  each(list, [&](Node item) {
    if (const auto text = text_of(item); !text.empty()) all.emplace_back(text);
  });
  return all;
}

// By place; files in the order that `files` gives them.
void put_in_order(std::vector<Finding>& findings, const std::map<std::string, std::size_t>& files) {
  const auto key = [&](const Finding& finding) {
    const auto file = files.find(finding.place.file);
    return std::tuple{file == files.end() ? files.size() : file->second, finding.place.line,
                      finding.place.column};
  };
  std::stable_sort(findings.begin(), findings.end(),
                   [&](const Finding& a, const Finding& b) { return key(a) < key(b); });
}

// Makes a Config of one document; what is of the wrong type has been reported and is left out.
class Reader {
 public:
  Reader(const std::shared_ptr<const Document>& document, std::string_view today,
         std::vector<Finding>& findings)
      : today_{today}, findings_{findings} {
    config_.documents = {document};
  }

  Config read() {
    const Node suite = config_.documents[0]->root().find("test_suite_config");
    if (!suite || !suite.is(Node::Kind::mapping)) return std::move(config_);
    each(suite.find("labels"), [&](Node label) { config_.labels.push_back(text_of(label)); });
    std::map<std::string_view, Node> paths;
    each(suite.find("files"), [&](Node node) { file(node, paths); });
    if (const Node node = suite.find("global")) global(node);
    return std::move(config_);
  }

 private:
  void add(FindingKind kind, Node node, std::string message, std::string remedy,
           const std::vector<Node>& others = {}) {
    if (findings_.size() > k_finding_limit) return;
    Finding finding{kind, node.place(), std::move(message), std::move(remedy)};
    for (const Node other : others) finding.others.push_back(other.place());
    findings_.push_back(std::move(finding));
  }

  void file(Node node, std::map<std::string_view, Node>& paths) {
    if (!node.is(Node::Kind::mapping)) return;
    FileEntry entry;
    entry.node = node;
    entry.path_node = node.find("path");
    entry.path = text_of(entry.path_node);
    if (entry.path.empty()) return;
    check_path(entry.path_node);
    if (const auto [earlier, fresh] = paths.emplace(entry.path, entry.path_node); !fresh)
      add(FindingKind::duplicate, entry.path_node,
          fmt::format("the file '{}' stands twice", entry.path), "put its tests into one entry",
          {earlier->second});
    entry.unlisted_node = node.find("unlisted_test_mode");
    if (const auto mode = parse_mode(text_of(entry.unlisted_node))) entry.unlisted = *mode;
    each(node.find("labels"), [&](Node label) { entry.labels.push_back(text_of(label)); });
    if (const Node tests = node.find("tests"); tests && tests.is(Node::Kind::sequence)) {
      entry.entries.reserve(count(tests));
      for (const Node test : tests.children())
        if (test.is(Node::Kind::mapping)) entry.entries.push_back(test_entry(test));
    }
    config_.files.push_back(std::move(entry));
  }

  void check_path(Node node) {
    const std::string_view path = node.text();
    const auto open = path.find("${");
    if (open == std::string_view::npos) return;
    const auto close = path.find('}', open);
    const std::string_view token =
        path.substr(open + 2, close == std::string_view::npos ? close : close - open - 2);
    if (std::find(std::begin(k_tokens), std::end(k_tokens), token) == std::end(k_tokens))
      add(FindingKind::bad_value, node, fmt::format("path: '{}' is no known root", token),
          base::suggest(token, k_tokens));
  }

  Entry test_entry(Node node) {
    Entry entry;
    entry.node = node;
    const Node mode = node.find("mode");
    if (const auto parsed = parse_mode(text_of(mode))) entry.mode = *parsed;
    const Node names = node.find("names");
    entry.names.reserve(names && names.is(Node::Kind::sequence) ? count(names) : 1);
    each(names, [&](Node name) {
      if (auto parsed = read_name(name)) entry.names.push_back(std::move(*parsed));
    });
    if (const Node when = node.find("when")) entry.when = read_when(when);
    if (const Node rationale = node.find("rationale");
        rationale && rationale.is(Node::Kind::mapping))
      read_rationale(rationale, mode, entry);
    if (const Node edits = node.find("edits"); edits && edits.is(Node::Kind::mapping))
      entry.edits = std::make_shared<const Edits>(read_edits(edits));
    return entry;
  }

  std::optional<Name> read_name(Node node) {
    const std::string_view text = text_of(node);
    if (text.empty()) return std::nullopt;
    Name name;
    name.node = node;
    const auto colons = text.find("::");
    if (colons == std::string_view::npos) {
      name.method = text;
    } else {
      name.class_name = text.substr(0, colons);
      name.method = text.substr(colons + 2);
    }
    const auto refuse = [&](std::string message, std::string remedy) {
      add(FindingKind::bad_name, node, std::move(message), std::move(remedy));
      return std::nullopt;
    };
    constexpr std::string_view k_form = "write Class::method, or method";
    if (name.method.find("::") != std::string_view::npos || name.method.empty() || colons == 0)
      return refuse(fmt::format("no test can be called '{}'", text), std::string{k_form});
    if (text.find_first_of(k_pattern_characters) == std::string_view::npos) {
      if (!is_identifier(name.method) ||
          (colons != std::string_view::npos && !is_identifier(name.class_name)))
        return refuse(fmt::format("no test can be called '{}'", text), std::string{k_form});
      return name;
    }
    auto patterns = std::make_shared<Name::Patterns>();
    if (colons != std::string_view::npos) {
      auto of_class = Pattern::compile(name.class_name);
      if (!of_class) return refuse(of_class.error().message, of_class.error().remedy);
      patterns->of_class = std::move(*of_class);
    }
    auto of_method = Pattern::compile(name.method);
    if (!of_method) return refuse(of_method.error().message, of_method.error().remedy);
    patterns->of_method = std::move(*of_method);
    name.patterns = std::move(patterns);
    return name;
  }

  When read_when(Node node) {
    When when;
    if (!node.is(Node::Kind::mapping)) return when;
    if (!node.first())
      add(FindingKind::bad_value, node, "when: names no condition", "name one, or remove the key");
    const auto list = [&](std::string_view key) {
      std::vector<std::string> all = texts(node.find(key));
      std::sort(all.begin(), all.end());
      all.erase(std::unique(all.begin(), all.end()), all.end());
      return all;
    };
    when.platforms = list("platform");
    when.devices = list("device");
    const Node torch = node.find("torch");
    if (const std::string_view text = text_of(torch); !text.empty()) {
      auto range = parse_range(text);
      if (range) {
        when.torch = *range;
      } else {
        add(FindingKind::bad_value, torch, "when.torch: " + range.error().message,
            range.error().remedy);
      }
    }
    return when;
  }

  void read_rationale(Node node, Node mode, Entry& entry) {
    const Node reason_node = node.find("reason");
    const auto reason = parse_reason(text_of(reason_node));
    if (!reason) return;
    Rationale rationale;
    rationale.reason = *reason;
    rationale.text = text_of(node.find("text"));
    rationale.operators = texts(node.find("operators"));
    rationale.dtypes = texts(node.find("dtypes"));
    rationale.features = texts(node.find("features"));
    if (const Node mismatch = node.find("mismatch"); mismatch && mismatch.is(Node::Kind::mapping)) {
      for (Node key = mismatch.first(); key; key = key.next().next())
        rationale.mismatch.emplace_back(key.text(), text_of(key.next()));
    }
    const Node evidence = node.find("evidence");
    if (evidence && evidence.is(Node::Kind::sequence)) rationale.evidence.reserve(count(evidence));
    each(evidence, [&](Node item) {
      rationale.evidence.push_back(
          {std::string{text_of(item.find("kind"))}, std::string{text_of(item.find("ref"))}});
    });
    rationale.decided_by = parse_decider(text_of(node.find("decided_by")));
    rationale.decided_at = text_of(node.find("decided_at"));
    rationale.expires = text_of(node.find("expires"));
    rationale.test_sources = texts(node.find("test_source"));

    if (!goes_with(*reason, entry.mode)) {
      add(FindingKind::bad_rationale, reason_node,
          fmt::format("the reason {} does not go with the mode {}", to_string(*reason),
                      to_string(entry.mode)),
          fmt::format("{} goes with {}", to_string(*reason), modes_of(*reason)),
          mode ? std::vector{mode} : std::vector<Node>{});
    }
    for (const std::string_view key : {"operators", "dtypes", "features", "mismatch"}) {
      const Node there = node.find_key(key);
      if (key == needed_by(*reason)) {
        if (!there || (there.next().is(Node::Kind::mapping) && !there.next().first()))
          add(FindingKind::bad_rationale, reason_node,
              fmt::format("the reason {} must say which: '{}' is missing", to_string(*reason), key),
              fmt::format("add `{}:` to the rationale", key));
      } else if (there) {
        add(FindingKind::bad_rationale, there,
            fmt::format("'{}' does not belong to the reason {}", key, to_string(*reason)),
            "remove it, or choose the reason that it belongs to");
      }
    }
    if (!rationale.expires.empty() && !rationale.decided_at.empty() &&
        rationale.expires < rationale.decided_at)
      add(FindingKind::bad_rationale, node.find("expires"), "it expires before it was decided",
          "correct one of the dates", {node.find("decided_at")});
    if (!rationale.expires.empty() && rationale.expires < today_) {
      add(FindingKind::expired, node.find("expires"),
          fmt::format("the decision expired on {}", rationale.expires), "decide again");
      findings_.back().severity = Finding::Severity::note;
    }
    entry.rationale = std::move(rationale);
  }

  Item read_item(Node node) {
    Item item;
    item.node = node;
    if (node.is(Node::Kind::text)) {
      item.name = text_of(node);
      return item;
    }
    item.name = text_of(node.find("name"));
    item.force_xfail = parse_boolean(text_of(node.find("force_xfail"))).value_or(false);
    each(node.find("dtypes"), [&](Node dtype) {
      if (dtype.is(Node::Kind::mapping)) item.dtypes.push_back(text_of(dtype.find("name")));
    });
    item.has_inputs = node.find_key("sample_inputs_func") || node.find_key("module_path");
    return item;
  }

  std::vector<Item> read_items(Node list, std::string_view what) {
    std::vector<Item> items;
    each(list, [&](Node node) {
      Item item = read_item(node);
      if (!item.name.empty()) items.push_back(std::move(item));
    });
    if (what.empty()) return items;
    std::unordered_map<std::string_view, Node> seen;
    for (const Item& item : items) {
      const auto [earlier, fresh] = seen.emplace(item.name, item.node);
      if (fresh) continue;
      const bool same = same_value(earlier->second, item.node);
      add(same ? FindingKind::duplicate : FindingKind::contradiction, item.node,
          fmt::format("the {} '{}' stands twice{}", what, item.name, same ? "" : ", differently"),
          "keep one", {earlier->second});
    }
    return items;
  }

  // Includes may repeat a name: each brings its own inputs.
  Edits read_edits(Node node) {
    Edits edits;
    edits.node = node;
    const auto both = [&](std::string_view key, std::string_view what, std::vector<Item>& include,
                          std::vector<Item>& exclude) {
      const Node part = node.find(key);
      if (!part || !part.is(Node::Kind::mapping)) return;
      include = read_items(part.find("include"), {});
      exclude = read_items(part.find("exclude"), what);
      std::unordered_map<std::string_view, Node> included;
      for (const Item& item : include) included.emplace(item.name, item.node);
      for (const Item& item : exclude)
        if (const auto found = included.find(item.name); found != included.end())
          add(FindingKind::contradiction, item.node,
              fmt::format("the {} '{}' is both included and excluded", what, item.name), "keep one",
              {found->second});
    };
    both("ops", "operator", edits.include_ops, edits.exclude_ops);
    both("modules", "module", edits.include_modules, edits.exclude_modules);
    both("dtypes", "dtype", edits.include_dtypes, edits.exclude_dtypes);
    return edits;
  }

  void global(Node node) {
    Global& global = config_.global;
    if (!node.is(Node::Kind::mapping)) return;
    const auto list = [&](std::string_view key, std::string_view what, std::vector<Item>& into) {
      const Node there = node.find(key);
      if (!there || !there.is(Node::Kind::sequence)) return false;
      into = read_items(there, what);
      return true;
    };
    // An empty list of dtypes filters nothing; one of operators leaves none.
    list("supported_dtypes", "dtype", global.dtypes);
    global.restricts_dtypes = !global.dtypes.empty();
    global.restricts_ops = list("supported_ops", "operator", global.ops);
    global.restricts_modules = list("supported_modules", "module", global.modules);
    if (const Node inputs = node.find("input_config"); inputs && inputs.is(Node::Kind::mapping))
      if (const Node seed = inputs.find("seed"); seed && !seed.is_null()) global.seed = seed;
  }

  std::string_view today_;
  std::vector<Finding>& findings_;
  Config config_;
};

// Joins parts, and checks what only the whole can show.
class Joiner {
 public:
  explicit Joiner(Joining joining) : joining_{joining} {}

  Loaded join(std::vector<Config> parts) {
    std::size_t number = 0;
    for (Config& part : parts) {
      for (auto& document : part.documents) {
        parts_.emplace(document.get(), number);
        whole_.documents.push_back(std::move(document));
      }
      ++number;
      for (const std::string_view label : part.labels) add_once(whole_.labels, label);
      join_files(part);
      join_items(part.global.dtypes, whole_.global.dtypes, dtypes_, "dtype");
      join_items(part.global.ops, whole_.global.ops, ops_, "operator");
      join_items(part.global.modules, whole_.global.modules, modules_, "module");
      whole_.global.restricts_dtypes |= part.global.restricts_dtypes;
      whole_.global.restricts_ops |= part.global.restricts_ops;
      whole_.global.restricts_modules |= part.global.restricts_modules;
      if (part.global.seed && whole_.global.seed &&
          part.global.seed.text() != whole_.global.seed.text())
        add(FindingKind::contradiction, part.global.seed, "the seed differs", "keep one",
            {whole_.global.seed});
      if (!whole_.global.seed) whole_.global.seed = part.global.seed;
    }
    for (const FileEntry& file : whole_.files) check_entries(file);
    check_supported();
    std::map<std::string, std::size_t> order;
    for (const auto& document : whole_.documents) order.emplace(document->name(), order.size());
    put_in_order(findings_, order);
    Loaded loaded;
    loaded.config = std::move(whole_);
    loaded.findings = std::move(findings_);
    return loaded;
  }

 private:
  struct Use {
    const Entry* entry = nullptr;
    const Name* name = nullptr;
  };

  void add(FindingKind kind, Node node, std::string message, std::string remedy,
           const std::vector<Node>& others) {
    if (findings_.size() > k_finding_limit) return;
    Finding finding{kind, node.place(), std::move(message), std::move(remedy)};
    for (const Node other : others) finding.others.push_back(other.place());
    findings_.push_back(std::move(finding));
  }

  static void add_once(std::vector<std::string_view>& labels, std::string_view label) {
    if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
  }

  void join_files(Config& part) {
    for (FileEntry& file : part.files) {
      const auto [found, fresh] = files_.emplace(file.path, whole_.files.size());
      if (fresh) {
        whole_.files.push_back(std::move(file));
        continue;
      }
      FileEntry& into = whole_.files[found->second];
      const bool both_say =
          joining_ == Joining::separate || (into.unlisted_node && file.unlisted_node);
      if (both_say && into.unlisted != file.unlisted)
        add(FindingKind::contradiction, file.unlisted_node ? file.unlisted_node : file.path_node,
            fmt::format("{}: the tests not listed are {} here and {} there", file.path,
                        to_string(file.unlisted), to_string(into.unlisted)),
            "make unlisted_test_mode the same",
            {into.unlisted_node ? into.unlisted_node : into.path_node});
      if (!into.unlisted_node) {
        into.unlisted = file.unlisted;
        into.unlisted_node = file.unlisted_node;
      }
      for (const std::string_view label : file.labels) add_once(into.labels, label);
      std::move(file.entries.begin(), file.entries.end(), std::back_inserter(into.entries));
    }
  }

  void join_items(std::vector<Item>& from, std::vector<Item>& into,
                  std::unordered_map<std::string_view, Node>& seen, std::string_view what) {
    for (Item& item : from) {
      const auto [earlier, fresh] = seen.emplace(item.name, item.node);
      if (fresh) {
        into.push_back(std::move(item));
      } else if (&earlier->second.document() != &item.node.document() &&
                 !same_value(earlier->second, item.node) &&
                 !is_plain_name(earlier->second, item.node)) {
        add(FindingKind::contradiction, item.node,
            fmt::format("the {} '{}' is supported differently", what, item.name),
            "make the two the same", {earlier->second});
      }
    }
  }
  // `add` and `name: add` say the same.
  static bool is_plain_name(Node a, Node b) {
    const auto plain = [](Node node) {
      return node.is(Node::Kind::text) || (node.first() && !node.first().next().next());
    };
    return plain(a) && plain(b);
  }

  void check_entries(const FileEntry& file) {
    std::unordered_map<std::string_view, std::vector<Use>> uses;
    for (const Entry& entry : file.entries) {
      for (const Name& name : entry.names) uses[name.text()].push_back({&entry, &name});
    }
    for (const auto& [name, all] : uses) {
      for (std::size_t later = 1; later < all.size(); ++later)
        for (std::size_t earlier = 0; earlier < later; ++earlier)
          if (compare(all[earlier], all[later], all)) break;
    }
    if (joining_ == Joining::separate) check_patterns(file);
  }

  // Whether something was found.
  bool compare(const Use& a, const Use& b, const std::vector<Use>& all) {
    if (a.entry == b.entry) {
      add(FindingKind::duplicate, b.name->node,
          fmt::format("'{}' stands twice in one list", b.name->text()), "remove one",
          {a.name->node});
      return true;
    }
    const auto both = a.entry->when.meet(b.entry->when);
    if (!both) return false;
    const bool same_mode = a.entry->mode == b.entry->mode;
    if (a.entry->when == b.entry->when) {
      if (!same_mode) {
        add(FindingKind::contradiction, b.name->node,
            fmt::format("'{}' is {} here and {} there", b.name->text(), to_string(b.entry->mode),
                        to_string(a.entry->mode)),
            "keep one", {a.name->node});
        return true;
      }
      // With other edits, each adds variants of its own.
      if (!same_value(edits_node(*a.entry), edits_node(*b.entry))) return false;
      if (a.entry->rationale && b.entry->rationale &&
          a.entry->rationale->reason != b.entry->rationale->reason) {
        add(FindingKind::contradiction, b.name->node,
            fmt::format("'{}' is {} for the reason {} here and {} there", b.name->text(),
                        to_string(b.entry->mode), to_string(b.entry->rationale->reason),
                        to_string(a.entry->rationale->reason)),
            "keep one", {a.name->node});
        return true;
      }
      // Two files that agree may both say so.
      if (part_of(a.name->node) != part_of(b.name->node) && joining_ == Joining::separate)
        return false;
      add(FindingKind::duplicate, b.name->node, fmt::format("'{}' is listed twice", b.name->text()),
          "remove one", {a.name->node});
      return true;
    }
    if (same_mode || a.entry->when.implies(b.entry->when) || b.entry->when.implies(a.entry->when))
      return false;
    for (const Use& other : all)
      if (other.entry->when == *both) return false;
    add(FindingKind::tie, b.name->node,
        fmt::format("'{}' is {} ({}) here and {} ({}) there, and both may hold", b.name->text(),
                    to_string(b.entry->mode), to_string(b.entry->when), to_string(a.entry->mode),
                    to_string(a.entry->when)),
        fmt::format("add an entry for what they share ({}), or narrow one", to_string(*both)),
        {a.name->node});
    return true;
  }

  // In separate parts: where one names a test, and another has nothing for it but a pattern.
  void check_patterns(const FileEntry& file) {
    std::vector<Use> patterns;
    std::set<std::pair<std::size_t, std::string_view>> exact;
    for (const Entry& entry : file.entries) {
      for (const Name& name : entry.names) {
        if (name.is_pattern()) patterns.push_back({&entry, &name});
        exact.emplace(part_of(name.node), name.text());
      }
    }
    for (const Entry& entry : file.entries) {
      for (const Name& name : entry.names) {
        if (name.is_pattern()) continue;
        for (const Use& use : patterns) {
          if (use.entry->mode == entry.mode || part_of(use.name->node) == part_of(name.node) ||
              !use.entry->when.meet(entry.when) ||
              !use.name->matches(name.class_name, name.method) ||
              exact.contains({part_of(use.name->node), name.text()}))
            continue;
          add(FindingKind::contradiction, name.node,
              fmt::format("'{}' is {} here, and {} by the pattern '{}' there", name.text(),
                          to_string(entry.mode), to_string(use.entry->mode), use.name->text()),
              "keep one", {use.name->node});
        }
      }
    }
  }

  [[nodiscard]] std::size_t part_of(Node node) const { return parts_.at(&node.document()); }

  void check_supported() {
    if (!whole_.global.restricts_dtypes) return;
    for (const auto* items : {&whole_.global.ops, &whole_.global.modules}) {
      for (const Item& item : *items) {
        for (const std::string_view dtype : item.dtypes) {
          if (dtype.empty() || dtypes_.contains(dtype)) continue;
          add(FindingKind::contradiction, item.node,
              fmt::format("'{}' is supported for {}, which supported_dtypes leaves out", item.name,
                          dtype),
              "add it there, or remove it here", {});
        }
      }
    }
  }

  Joining joining_;
  Config whole_;
  std::vector<Finding> findings_;
  std::unordered_map<const Document*, std::size_t> parts_;
  std::unordered_map<std::string_view, std::size_t> files_;
  std::unordered_map<std::string_view, Node> dtypes_, ops_, modules_;
};

// Reads a file and what it includes.
class Loader {
 public:
  Loader(const ReadFile& read, std::string_view today) : read_{read}, today_{today} {}

  Loaded load(const std::string& path) {
    include(path, {});
    Loaded loaded;
    if (readable_) {
      loaded = join(std::move(parts_), Joining::one_configuration);
      findings_.insert(findings_.end(), std::make_move_iterator(loaded.findings.begin()),
                       std::make_move_iterator(loaded.findings.end()));
    }
    put_in_order(findings_, order_);
    loaded.findings = std::move(findings_);
    if (loaded.findings.size() > k_finding_limit) {
      const Place last = loaded.findings[k_finding_limit - 1].place;
      loaded.findings.resize(k_finding_limit);
      loaded.findings.push_back(
          {loaded.findings.back().kind, last, "and more after this, which are not shown"});
    }
    return loaded;
  }

 private:
  void add(FindingKind kind, Place place, std::string message, std::string remedy = {}) {
    findings_.push_back({kind, std::move(place), std::move(message), std::move(remedy)});
  }

  // `from`: the `include:` that names it; false for the file itself.
  void include(const std::string& path, Node from) {
    const std::string name = document_name(path);
    const Place place = from ? from.place() : Place{name};
    if (std::find(open_.begin(), open_.end(), name) != open_.end()) {
      add(FindingKind::bad_value, place, fmt::format("'{}' includes itself", name),
          "remove this include");
      return;
    }
    if (order_.contains(name)) return;
    if (order_.size() >= k_include_limit) {
      add(FindingKind::bad_value, place,
          fmt::format("over {} files are included", k_include_limit));
      return;
    }
    order_.emplace(name, order_.size());
    auto text = read_(path);
    if (!text) {
      add(FindingKind::unreadable, place, text.error().message, text.error().remedy);
      readable_ = false;
      return;
    }
    auto document = Document::parse(name, std::move(*text), findings_);
    if (!document) {
      readable_ = false;
      return;
    }
    if (!document->root()) {
      add(FindingKind::missing_key, {name}, "the file is empty", "begin with `test_suite_config:`");
      readable_ = false;
      return;
    }
    check_type(document->root(), root_type(), "the file", findings_);
    const Node suite = document->root().find("test_suite_config");
    const Node includes = suite ? suite.find("include") : Node{};
    // Only blocks that others include may do without tests.
    if (!from && suite && suite.is(Node::Kind::mapping) && !suite.find_key("files") && !includes)
      add(FindingKind::missing_key, suite.place(), "test_suite_config needs 'files'",
          "add `files:`");
    parts_.push_back(Reader{document, today_, findings_}.read());
    open_.push_back(name);
    const auto folder = std::filesystem::path{path}.parent_path();
    each(includes, [&](Node node) {
      if (const auto named = text_of(node); !named.empty())
        include((folder / std::filesystem::path{named}).string(), node);
    });
    open_.pop_back();
  }

  const ReadFile& read_;
  std::string_view today_;
  std::vector<Config> parts_;
  std::vector<Finding> findings_;
  std::map<std::string, std::size_t> order_;
  std::vector<std::string> open_;
  bool readable_ = true;
};

}  // namespace

std::string document_name(const std::string& path) {
  return std::filesystem::path{path}.lexically_normal().string();
}

Loaded load(const std::string& path, const ReadFile& read, std::string_view today) {
  return Loader{read, today}.load(path);
}

Loaded join(std::vector<Config> parts, Joining joining) {
  return Joiner{joining}.join(std::move(parts));
}

}  // namespace crosscheck::config
