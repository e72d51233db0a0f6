#include "crosscheck/config/govern.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <unordered_map>

#include "crosscheck/base/json.h"

namespace crosscheck::config {
namespace {

struct Use {
  const Entry* entry = nullptr;
  const Name* name = nullptr;
};
using Uses = std::vector<Use>;

// Of a dtype's two names.
std::string_view canonical_dtype(std::string_view dtype) {
  if (dtype.starts_with("torch.")) dtype.remove_prefix(6);
  return dtype == "half" ? "float16" : dtype;
}

// OpInfo's full name has the variant behind the operator's: `std` stands for `std.unbiased` too.
bool names_op(std::string_view name, std::string_view op) {
  return op.starts_with(name) && (op.size() == name.size() || op[name.size()] == '.');
}

const Item* find_op(const std::vector<Item>& items, std::string_view op) {
  const auto found = std::find_if(items.begin(), items.end(),
                                  [&](const Item& item) { return names_op(item.name, op); });
  return found == items.end() ? nullptr : &*found;
}
const Item* find_dtype(const std::vector<Item>& items, std::string_view dtype) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const Item& item) {
    return canonical_dtype(item.name) == canonical_dtype(dtype);
  });
  return found == items.end() ? nullptr : &*found;
}
const Item* find_module(const std::vector<Item>& items, std::string_view module) {
  const auto found = std::find_if(items.begin(), items.end(),
                                  [&](const Item& item) { return item.name == module; });
  return found == items.end() ? nullptr : &*found;
}

// What is supported, by name: asked for every test.
class Supported {
 public:
  explicit Supported(const Global& global) {
    for (const Item& item : global.ops) ops_.emplace(item.name, &item);
    for (const Item& item : global.dtypes) dtypes_.emplace(canonical_dtype(item.name), &item);
    for (const Item& item : global.modules) modules_.emplace(item.name, &item);
  }
  [[nodiscard]] const Item* find_op(std::string_view op) const {
    while (true) {
      if (const Item* found = find(ops_, op)) return found;
      const auto dot = op.rfind('.');
      if (dot == std::string_view::npos) return nullptr;
      op = op.substr(0, dot);
    }
  }
  [[nodiscard]] const Item* find_dtype(std::string_view dtype) const {
    return find(dtypes_, canonical_dtype(dtype));
  }
  [[nodiscard]] const Item* find_module(std::string_view module) const {
    return find(modules_, module);
  }

 private:
  using ByName = std::unordered_map<std::string_view, const Item*>;
  static const Item* find(const ByName& items, std::string_view name) {
    const auto found = items.find(name);
    return found == items.end() ? nullptr : found->second;
  }
  ByName ops_, dtypes_, modules_;
};

// Globs of a path: `*` and `?` stay inside a folder, `**` does not.
base::Result<Pattern> compile_glob(std::string_view glob) {
  std::string pattern;
  for (std::size_t i = 0; i < glob.size(); ++i) {
    if (glob.substr(i, 3) == "**/") {
      pattern += "(.*/)?";
      i += 2;
    } else if (glob.substr(i, 2) == "**") {
      pattern += ".*";
      ++i;
    } else if (glob[i] == '*') {
      pattern += "[^/]*";
    } else if (glob[i] == '?') {
      pattern += "[^/]";
    } else {
      if (std::string_view{"\\.^$+{}[]|()"}.find(glob[i]) != std::string_view::npos)
        pattern += '\\';
      pattern += glob[i];
    }
  }
  return Pattern::compile(pattern);
}

// Keeps those whose condition is not implied by a more specific one's.
Uses most_specific(const Uses& uses) {
  Uses kept;
  for (const Use& use : uses) {
    const bool outdone = std::any_of(uses.begin(), uses.end(), [&](const Use& other) {
      return other.entry->when != use.entry->when && other.entry->when.implies(use.entry->when);
    });
    if (!outdone) kept.push_back(use);
  }
  return kept;
}

}  // namespace

CollectedTest collected_test(base::TestId id, std::string_view node) {
  CollectedTest test;
  // Parameters in brackets are pytest's own, and may hold anything: the name ends before them.
  const std::string_view plain = node.substr(0, node.find('['));
  if (const auto last = plain.rfind("::"); last != std::string_view::npos) {
    const auto before = last == 0 ? std::string_view::npos : plain.rfind("::", last - 1);
    test.collected = plain.substr((before == std::string_view::npos ? last : before) + 2);
  }
  if (const auto variant = base::parse_json(id.variant.empty() ? "{}" : id.variant, "variant");
      variant && variant->is_object()) {
    const auto text = [&](std::string_view key) {
      const auto* value = variant->as_object().if_contains(key);
      return value && value->is_string() ? std::string{value->as_string()} : std::string{};
    };
    test.op = text("op");
    test.dtype = text("dtype");
    test.module = text("module");
  }
  test.id = std::move(id);
  return test;
}

std::string_view CollectedTest::collected_class() const {
  const auto colons = collected.rfind("::");
  return std::string_view{collected}.substr(0, colons == std::string::npos ? 0 : colons);
}
std::string_view CollectedTest::collected_method() const {
  const auto colons = collected.rfind("::");
  return std::string_view{collected}.substr(colons == std::string::npos ? 0 : colons + 2);
}

std::string_view to_string(Basis basis) {
  switch (basis) {
    case Basis::ungoverned:
      return "ungoverned";
    case Basis::unlisted:
      return "unlisted";
    case Basis::listed:
      return "listed";
    case Basis::excluded_op:
      return "excluded_op";
    case Basis::excluded_dtype:
      return "excluded_dtype";
    case Basis::excluded_module:
      return "excluded_module";
    case Basis::unsupported_op:
      return "unsupported_op";
    case Basis::unsupported_dtype:
      return "unsupported_dtype";
    case Basis::unsupported_module:
      return "unsupported_module";
    case Basis::forced_xfail:
      return "forced_xfail";
    case Basis::tied:
      return "tied";
  }
  return "";
}

bool has_changed(const CollectedTest& test, const Rationale& rationale) {
  const auto& decided_for = rationale.test_sources;
  return !test.source.empty() && !decided_for.empty() &&
         std::ranges::find(decided_for, test.source) == decided_for.end();
}

bool names(const Name& name, const CollectedTest& test) {
  const std::string_view class_name = test.collected_class();
  const std::string_view method = test.collected_method();
  return name.matches(test.id.class_name, test.id.method) ||
         name.matches(test.id.class_name, method) || name.matches(class_name, method) ||
         name.matches(class_name, test.id.method);
}

std::string_view to_string(Candidate::Fate fate) {
  switch (fate) {
    case Candidate::Fate::decides:
      return "decides";
    case Candidate::Fate::does_not_hold:
      return "does_not_hold";
    case Candidate::Fate::name_outdone:
      return "name_outdone";
    case Candidate::Fate::condition_outdone:
      return "condition_outdone";
  }
  return "";
}

struct Governor::Index {
  struct File {
    const FileEntry* entry = nullptr;
    std::unordered_map<std::string_view, Uses> exact;  // by the name as written
    Uses patterns;
  };

  Index(const Config& all, const Circumstances& where)
      : config{&all}, circumstances{where}, supported{all.global} {}

  const Config* config;
  Circumstances circumstances;
  Supported supported;
  std::vector<File> files;
  std::unordered_map<std::string_view, std::size_t> by_path;
  std::vector<std::pair<Pattern, std::size_t>> globs;

  [[nodiscard]] const File* find(std::string_view path) const {
    if (const auto found = by_path.find(path); found != by_path.end()) return &files[found->second];
    for (const auto& [glob, file] : globs)
      if (glob.matches(path)) return &files[file];
    return nullptr;
  }

  // The entries that decide about a test, by what has nothing to do with its variant.
  [[nodiscard]] Uses find_uses(const File& file, const CollectedTest& test) const {
    std::string key;
    const auto exact = [&](std::string_view class_name, std::string_view method) -> const Uses* {
      if (method.empty()) return nullptr;
      key.assign(class_name);
      if (!class_name.empty()) key += "::";
      key += method;
      const auto found = file.exact.find(key);
      return found == file.exact.end() ? nullptr : &found->second;
    };
    if (!file.exact.empty()) {
      for (const std::string_view method :
           {test.collected_method(), std::string_view{test.id.method}}) {
        for (const std::string_view class_name :
             {test.collected_class(), std::string_view{test.id.class_name}}) {
          if (class_name.empty()) continue;
          if (const Uses* uses = exact(class_name, method)) return most_specific(*uses);
        }
        if (const Uses* uses = exact({}, method)) return most_specific(*uses);
      }
    }
    Uses matching;
    for (const Use& use : file.patterns)
      if (names(*use.name, test)) matching.push_back(use);
    return most_specific(matching);
  }

  [[nodiscard]] Basis restriction(const Edits& edits, const CollectedTest& test) const {
    const Global& global = config->global;
    const Item* op = supported.find_op(test.op);
    if (!test.op.empty()) {
      if (find_op(edits.exclude_ops, test.op)) return Basis::excluded_op;
      if (!op && global.restricts_ops && !find_op(edits.include_ops, test.op))
        return Basis::unsupported_op;
    }
    const Item* module = supported.find_module(test.module);
    if (!test.module.empty()) {
      if (find_module(edits.exclude_modules, test.module)) return Basis::excluded_module;
      if (!module && global.restricts_modules && !find_module(edits.include_modules, test.module))
        return Basis::unsupported_module;
    }
    if (test.dtype.empty()) return Basis::listed;
    if (find_dtype(edits.exclude_dtypes, test.dtype)) return Basis::excluded_dtype;
    if (find_dtype(edits.include_dtypes, test.dtype)) return Basis::listed;
    if (global.restricts_dtypes && !supported.find_dtype(test.dtype))
      return Basis::unsupported_dtype;
    for (const Item* item :
         {test.op.empty() ? nullptr : op, test.module.empty() ? nullptr : module}) {
      if (!item || item->dtypes.empty()) continue;
      if (std::none_of(item->dtypes.begin(), item->dtypes.end(), [&](std::string_view dtype) {
            return canonical_dtype(dtype) == canonical_dtype(test.dtype);
          }))
        return Basis::unsupported_dtype;
    }
    return Basis::listed;
  }

  [[nodiscard]] bool forces_xfail(const Edits& edits, const CollectedTest& test) const {
    const auto forced = [](const Item* item) { return item && item->force_xfail; };
    return (!test.op.empty() && forced(supported.find_op(test.op))) ||
           (!test.module.empty() && forced(supported.find_module(test.module))) ||
           (!test.dtype.empty() && (forced(supported.find_dtype(test.dtype)) ||
                                    forced(find_dtype(edits.include_dtypes, test.dtype))));
  }

  static const Edits& edits_of(const Entry& entry) {
    static const Edits k_none;
    return entry.edits ? *entry.edits : k_none;
  }

  [[nodiscard]] Ruling rule(const File& file, const Uses& uses, const CollectedTest& test) const {
    static const Entry k_no_entry;
    Ruling ruling;
    ruling.file = file.entry;
    if (uses.empty()) {
      ruling.basis = Basis::unlisted;
      ruling.mode = file.entry->unlisted;
    } else {
      ruling.entry = uses.front().entry;
      ruling.name = uses.front().name;
      ruling.basis = Basis::listed;
      ruling.mode = ruling.entry->mode;
      for (const Use& use : uses) {
        if (use.entry->mode == ruling.mode) continue;
        ruling.basis = Basis::tied;
        ruling.mode = Mode::skip;
        ruling.other = use.name;
        return ruling;
      }
    }
    // Of entries that agree, each adds variants: one that takes the variant suffices.
    const Edits* edits = &edits_of(uses.empty() ? k_no_entry : *uses.front().entry);
    Basis restricted = restriction(*edits, test);
    for (std::size_t i = 1; i < uses.size() && restricted != Basis::listed; ++i) {
      if (restriction(edits_of(*uses[i].entry), test) != Basis::listed) continue;
      restricted = Basis::listed;
      edits = &edits_of(*uses[i].entry);
      ruling.entry = uses[i].entry;
      ruling.name = uses[i].name;
    }
    if (restricted != Basis::listed) {
      ruling.basis = restricted;
      ruling.mode = Mode::skip;
    } else if (ruling.mode == Mode::mandatory_success && forces_xfail(*edits, test)) {
      ruling.basis = Basis::forced_xfail;
      ruling.mode = Mode::xfail;
    }
    return ruling;
  }
};

Governor::Governor(const Config& config, const Circumstances& circumstances) {
  auto index = std::make_unique<Index>(config, circumstances);
  index->files.reserve(config.files.size());
  for (const FileEntry& file : config.files) {
    const std::size_t number = index->files.size();
    index->files.push_back({&file, {}, {}});
    Index::File& into = index->files.back();
    for (const Entry& entry : file.entries) {
      if (!entry.when.holds(circumstances)) continue;
      for (const Name& name : entry.names) {
        if (name.is_pattern()) {
          into.patterns.push_back({&entry, &name});
        } else {
          into.exact[name.text()].push_back({&entry, &name});
        }
      }
    }
    // An inventory's files are relative to the suite's root: the folder of tests, or what holds it.
    std::string_view path = without_token(file.path);
    const bool is_glob = path.find_first_of("*?") != std::string_view::npos;
    for (int shorter = 0; shorter < 2; ++shorter) {
      if (is_glob) {
        if (auto glob = compile_glob(path)) index->globs.emplace_back(std::move(*glob), number);
      } else {
        index->by_path.emplace(path, number);
      }
      if (!path.starts_with("test/") && !path.starts_with("tests/")) break;
      path.remove_prefix(path.find('/') + 1);
    }
  }
  index_ = std::move(index);
}

Governor::~Governor() = default;

const FileEntry* Governor::find_file(std::string_view file) const {
  const Index::File* found = index_->find(file);
  return found ? found->entry : nullptr;
}

std::vector<Candidate> Governor::candidates(const CollectedTest& test) const {
  std::vector<Candidate> all;
  const Index::File* file = index_->find(test.id.file);
  if (!file) return all;
  const Uses deciding = index_->find_uses(*file, test);
  const auto decides = [&](const Name& name) {
    return std::any_of(deciding.begin(), deciding.end(),
                       [&](const Use& use) { return use.name == &name; });
  };
  for (const Entry& entry : file->entry->entries) {
    for (const Name& name : entry.names) {
      if (!names(name, test)) continue;
      auto fate = Candidate::Fate::name_outdone;
      if (!entry.when.holds(index_->circumstances)) {
        fate = Candidate::Fate::does_not_hold;
      } else if (decides(name)) {
        fate = Candidate::Fate::decides;
      } else if (!deciding.empty() &&
                 (name.is_pattern() ? deciding.front().name->is_pattern()
                                    : deciding.front().name->text() == name.text())) {
        fate = Candidate::Fate::condition_outdone;
      }
      all.push_back({&entry, &name, fate});
    }
  }
  return all;
}

Ruling Governor::rule(const CollectedTest& test) const { return rule(std::span{&test, 1}).front(); }

std::vector<Ruling> Governor::rule(std::span<const CollectedTest> tests) const {
  std::vector<Ruling> rulings;
  rulings.reserve(tests.size());
  const Index::File* file = nullptr;
  const std::string* path = nullptr;
  for (const CollectedTest& test : tests) {
    if (!path || *path != test.id.file) {
      path = &test.id.file;
      file = index_->find(*path);
    }
    if (!file) {
      rulings.push_back({});
      continue;
    }
    rulings.push_back(index_->rule(*file, index_->find_uses(*file, test), test));
  }
  return rulings;
}

}  // namespace crosscheck::config
