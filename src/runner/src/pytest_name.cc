#include "crosscheck/runner/pytest_name.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"

namespace crosscheck::runner {
namespace {

using How = Identified::How;

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(by);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + by.size());
  }
}

std::string replaced(std::string_view text, char from, char to) {
  std::string out{text};
  std::replace(out.begin(), out.end(), from, to);
  return out;
}

std::string_view without_suffix(std::string_view text, std::string_view suffix) {
  return text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text;
}

// Whether the one is the other, or ends in it behind a `separator`.
bool same_end(std::string_view a, std::string_view b, char separator) {
  if (a.size() < b.size()) std::swap(a, b);
  return a.ends_with(b) && (a.size() == b.size() || a[a.size() - b.size() - 1] == separator);
}

// By what pytest collects as a module when nothing is set.
bool looks_like_module(std::string_view name) {
  return name.starts_with("test_") || name.ends_with("_test");
}

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

// How many of a dotted path's parts are folders and the module.
std::size_t parts_of_module(const std::vector<std::string_view>& parts) {
  for (auto n = parts.size(); n > 0; --n) {
    if (looks_like_module(parts[n - 1])) return n;
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (!parts[i].empty() && is_upper(parts[i].front())) return i;
  }
  return parts.size();
}

std::string joined(const std::vector<std::string_view>& parts, std::size_t begin, std::size_t end,
                   char by) {
  std::string text;
  for (auto i = begin; i < end; ++i) {
    if (i > begin) text += by;
    text += parts[i];
  }
  return text;
}

// What is over a limit is its beginning and a digest, as the probe has it.
std::string shorten(std::string text, std::size_t limit) {
  if (text.size() <= limit) return text;
  return base::to_utf8(text, 64) + "… sha256:" + base::sha256_hex(text).substr(0, 16);
}

constexpr std::size_t k_case_limit = 256;
constexpr std::size_t k_node_id_limit = 8192;   // far above what pytest is asked for by name
constexpr std::string_view k_instance = ".()";  // of a class, as pytest before 4 names it

}  // namespace

// What all tests of one class have in common.
struct Identifier::Surroundings {
  std::string path;  // as reported…
  std::string file;  // …and the file with it
  std::string id_file;
  std::string class_name;
  std::string classes;  // "TestOuter.TestInner": of a class inside a class
  std::string node_id;  // up to the method
  How how = How::inferred;
};

Identifier::Surroundings Identifier::surroundings_of(const ReportedName& reported) {
  Surroundings found{reported.path, reported.file, {}, {}, {}, {}, How::inferred};
  const auto parts = split(reported.path, ".");
  auto module_parts = parts_of_module(parts);
  if (!reported.file.empty()) {
    // The longest beginning of the dotted path that is the file's end. An inherited test's file is
    // its base class's, and no beginning of the path.
    const auto file = replaced(without_suffix(reported.file, ".py"), '/', '.');
    for (auto n = parts.size(); n > 0; --n) {
      const auto module = joined(parts, 0, n, '.');
      if (module.size() <= file.size() && same_end(file, module, '.')) {
        module_parts = n;
        found.how = How::reported;
        break;
      }
    }
  }
  auto module = joined(parts, 0, module_parts, '/');
  if (found.how == How::inferred && !reported.file.empty() &&
      std::none_of(parts.begin(), parts.end(), looks_like_module)) {
    // PyTorch's own CI leaves the module out of the path.
    module = without_suffix(reported.file, ".py");
    module_parts = 0;
    found.how = How::reported;
  }
  found.node_id = module.empty() ? std::string{"(unknown)"} : module + ".py";
  found.id_file = shorten(found.node_id, base::TestId::k_file_limit);
  found.node_id += "::";
  for (auto i = module_parts; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    found.node_id += parts[i];
    found.node_id += "::";
  }
  if (module_parts < parts.size()) {
    found.class_name = shorten(std::string{parts.back()}, base::TestId::k_name_limit);
  }
  if (module_parts + 1 < parts.size()) {
    found.classes = joined(parts, module_parts, parts.size(), '.');
  }
  return found;
}

Identified Identifier::as_reported(const ReportedName& reported) const {
  // Reports go class by class.
  if (!last_ || last_->path != reported.path || last_->file != reported.file) {
    last_ = std::make_unique<const Surroundings>(surroundings_of(reported));
  }
  Identified found;
  found.how = last_->how;
  found.id.file = last_->id_file;
  found.id.class_name = last_->class_name;
  found.node_id = shorten(last_->node_id + reported.name, k_node_id_limit);
  const auto bracket = reported.name.find('[');
  const auto method = reported.name.substr(0, bracket == 0 ? std::string::npos : bracket);
  found.id.method = method.empty() ? "(unnamed)" : shorten(method, base::TestId::k_name_limit);
  found.id.variant = "{}";
  if (bracket != std::string::npos || !last_->classes.empty()) {
    // A class inside a class has no place of its own in an identity.
    const auto name = last_->classes.empty() ? reported.name : last_->classes + "." + reported.name;
    found.id.variant =
        base::canonical_json(base::json::object{{"case", shorten(name, k_case_limit)}});
  }
  return found;
}

ReportedName reported_name(std::string_view node_id) {
  ReportedName reported;
  const auto bracket = node_id.find('[');
  auto parts = split(node_id.substr(0, bracket), "::");
  std::erase(parts, k_instance.substr(1));
  reported.file = replaced(parts.front(), '\\', '/');
  auto path = replaced(without_suffix(reported.file, ".py"), '/', '.');
  for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
    path += '.';
    path += parts[i];
  }
  if (parts.size() > 1) {
    reported.name = parts.back();
    reported.path = std::move(path);
  } else {
    reported.name = std::move(path);
  }
  if (bracket != std::string_view::npos) reported.name += node_id.substr(bracket);
  return reported;
}

class Identifier::Index {
 public:
  explicit Index(const Inventory& inventory) : tests_{inventory.tests} {
    names_.reserve(tests_.size());
    for (const auto& test : tests_) names_.push_back(reported_name(test.node_id));
    for (std::size_t i = 0; i < names_.size(); ++i) by_name_[names_[i].name].push_back(i);
    for (const auto& test : tests_) files_.insert(test.id.file);
    for (const auto& error : inventory.errors) files_.insert(error.file);
    for (const auto& skip : inventory.skips) files_.insert(skip.file);
  }

  [[nodiscard]] std::vector<const CollectedTest*> find(const ReportedName& reported) const {
    std::vector<const CollectedTest*> same;
    std::vector<const CollectedTest*> alike;
    const auto at = by_name_.find(reported.name);
    if (at == by_name_.end()) return same;
    for (const auto i : at->second) {
      if (names_[i].path == reported.path) same.push_back(&tests_[i]);
      if (same_end(names_[i].path, reported.path, '.')) alike.push_back(&tests_[i]);
    }
    if (!same.empty()) return same;
    if (alike.size() > 1 && !reported.file.empty()) {
      std::vector<const CollectedTest*> of_file;
      for (const auto* test : alike) {
        if (same_end(test->id.file, reported.file, '/')) of_file.push_back(test);
      }
      if (!of_file.empty()) return of_file;
    }
    return alike;
  }

  [[nodiscard]] std::string file(std::string_view module) const {
    std::string found;
    for (const auto& file : files_) {
      const auto dotted = replaced(without_suffix(file, ".py"), '/', '.');
      if (dotted == module) return file;
      if (!same_end(dotted, module, '.')) continue;
      if (!found.empty()) return {};
      found = file;
    }
    return found;
  }

 private:
  const std::vector<CollectedTest>& tests_;
  std::vector<ReportedName> names_;
  std::unordered_map<std::string_view, std::vector<std::size_t>> by_name_;
  std::set<std::string> files_;
};

Identifier::Identifier(const Inventory* inventory)
    : index_{inventory != nullptr ? std::make_unique<Index>(*inventory) : nullptr} {}
Identifier::~Identifier() = default;

Identified Identifier::identify(const ReportedName& reported) const {
  if (const auto at = reported.path.find(k_instance); at != std::string::npos) {
    auto without = reported;
    without.path.erase(at, k_instance.size());
    return identify(without);
  }
  if (!index_) return as_reported(reported);
  const auto found = index_->find(reported);
  if (found.size() == 1) return {found[0]->id, found[0]->node_id, How::collected, {}};
  auto answer = as_reported(reported);
  answer.how = found.empty() ? How::unlisted : How::ambiguous;
  for (const auto* test : found) answer.candidates.push_back(test->node_id);
  return answer;
}

std::string Identifier::file_of(const ReportedName& module) const {
  if (index_) {
    if (auto file = index_->file(module.name); !file.empty()) return file;
  }
  return shorten(replaced(module.name, '.', '/') + ".py", base::TestId::k_file_limit);
}

}  // namespace crosscheck::runner
