#include "crosscheck/profile/operators.h"

#include <algorithm>
#include <array>
#include <utility>

#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/yaml.h"

namespace crosscheck::profile {
namespace {

using base::Result;
using base::yaml::Node;
using Kind = Node::Kind;

constexpr std::size_t k_limit = std::size_t{8} << 20;  // bytes of one file
// Sections of a file of stubs whose operators the backend has; `custom` ones are its own.
constexpr std::array<std::string_view, 6> k_sections{"supported",       "autograd", "custom",
                                                     "custom_autograd", "official", "symint"};

std::string shown(std::string_view text) { return "'" + base::to_utf8(text, 100) + "'"; }

bool is_name_part(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

class Parser {
 public:
  explicit Parser(std::string_view source) { list_.source = source; }

  Result<OperatorList> parse(const Node& root) {
    Result<void> done;
    if (root.is(Kind::sequence)) {
      const bool native = std::ranges::any_of(root.items, [](const Node& item) {
        return item.find("func") != nullptr && item.find("dispatch") != nullptr;
      });
      list_.form = native ? "native functions" : "list";
      done = native ? native_functions(root) : section(root, false);
    } else if (root.is(Kind::mapping)) {
      const bool stubs = std::ranges::any_of(
          k_sections, [&](std::string_view key) { return root.find(key) != nullptr; });
      const Node* operators = root.find("operators");
      list_.form = stubs ? "backend stubs" : "list";
      if (stubs) {
        for (const std::string_view key : k_sections)
          if (const Node* at = root.find(key); at != nullptr && done)
            done = section(*at, key.ends_with("autograd"));
      } else if (operators != nullptr && operators->is(Kind::sequence)) {
        done = section(*operators, false);
      } else {
        done = by_name(operators != nullptr ? *operators : root);
      }
    } else if (!root.is(Kind::null)) {
      done = fail(root, "expected a list of operators");
    }
    if (!done) return tl::unexpected(done.error());
    return std::move(list_);
  }

  Result<OperatorList> parse_lines(std::string_view text) {
    list_.form = "lines";
    Node at;
    for (; !text.empty(); ++at.line) {
      std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      line = line.substr(0, line.find('#'));
      const std::size_t from = line.find_first_not_of(" \t\r");
      if (from == std::string_view::npos) continue;
      line = line.substr(from, line.find_last_not_of(" \t\r") + 1 - from);
      at.text = line;
      if (auto done = add(at, false, {}); !done) return tl::unexpected(done.error());
    }
    return std::move(list_);
  }

 private:
  [[nodiscard]] tl::unexpected<base::Error> fail(const Node& node, std::string message,
                                                 std::string remedy = {}) const {
    return base::yaml::fail_at(list_.source, node, std::move(message), std::move(remedy));
  }

  Result<void> add(const Node& name, bool autograd, std::vector<std::string> dtypes) {
    std::string op = operator_name(name.text);
    if (op.empty())
      return fail(name, shown(name.text) + " is no operator", "write name.overload, or its schema");
    ListedOperator& listed =
        list_.operators.try_emplace(std::move(op), ListedOperator{name.line, false, {}})
            .first->second;
    listed.autograd = listed.autograd || autograd;
    listed.dtypes.insert(listed.dtypes.end(), dtypes.begin(), dtypes.end());
    return {};
  }

  Result<std::vector<std::string>> dtypes_of(const Node* node) const {
    std::vector<std::string> dtypes;
    if (node == nullptr || node->is(Kind::null)) return dtypes;
    if (!node->is(Kind::sequence)) return fail(*node, "dtypes: expected a list");
    for (const Node& item : node->items) {
      if (!item.is(Kind::text)) return fail(item, "dtypes: expected a name");
      dtypes.push_back(item.text.starts_with("torch.") ? item.text.substr(6) : item.text);
    }
    return dtypes;
  }

  Result<void> section(const Node& node, bool autograd) {
    if (node.is(Kind::null)) return {};
    if (!node.is(Kind::sequence)) return fail(node, "expected a list of operators");
    for (const Node& item : node.items) {
      const Node* name = &item;
      if (item.is(Kind::mapping)) {
        name = nullptr;
        for (const std::string_view key : {"func", "op", "name", "operator_name"})
          if (name == nullptr) name = item.find(key);
        // `- maximum.out:` with what is said of it below.
        if (name == nullptr && !item.entries.empty() && !item.entries.front().value.is(Kind::text))
          name = &item.entries.front().key;
      }
      if (name == nullptr || !name->is(Kind::text))
        return fail(item, "expected an operator", "write name.overload, or {func: its schema}");
      auto dtypes = dtypes_of(item.find("dtypes"));
      if (!dtypes) return tl::unexpected(dtypes.error());
      if (auto done = add(*name, autograd, std::move(*dtypes)); !done) return done;
    }
    return {};
  }

  Result<void> native_functions(const Node& node) {
    for (const Node& item : node.items) {
      const Node* func = item.find("func");
      if (func == nullptr || !func->is(Kind::text))
        return fail(item, "expected an operator with `func`");
      const Node* dispatch = item.find("dispatch");
      if (dispatch == nullptr) continue;
      if (!dispatch->is(Kind::mapping)) return fail(*dispatch, "dispatch: expected a mapping");
      bool here = false;
      bool autograd = false;
      for (const auto& [keys, kernel] : dispatch->entries) {
        here = here || has_word(keys.text, "PrivateUse1");
        autograd = autograd || has_word(keys.text, "AutogradPrivateUse1");
      }
      if (!here && !autograd) continue;
      if (auto done = add(*func, autograd, {}); !done) return done;
    }
    return {};
  }

  // Of "CPU, CUDA, PrivateUse1".
  static bool has_word(std::string_view words, std::string_view word) {
    while (!words.empty()) {
      const std::size_t from = std::min(words.find_first_not_of(", "), words.size());
      words.remove_prefix(from);
      const std::string_view one = words.substr(0, words.find_first_of(", "));
      if (one == word) return true;
      words.remove_prefix(one.size());
    }
    return false;
  }

  Result<void> by_name(const Node& node) {
    if (!node.is(Kind::mapping)) return fail(node, "expected operators");
    for (const auto& [key, value] : node.entries) {
      const Node* of = value.is(Kind::mapping) ? value.find("dtypes") : &value;
      auto dtypes = dtypes_of(of);
      if (!dtypes) return tl::unexpected(dtypes.error());
      if (auto done = add(key, false, std::move(*dtypes)); !done) return done;
    }
    return {};
  }

  OperatorList list_;
};

}  // namespace

std::string operator_name(std::string_view text) {
  text = text.substr(0, text.find('('));
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  std::string_view space = "aten";
  if (const std::size_t colons = text.find("::"); colons != std::string_view::npos) {
    space = text.substr(0, colons);
    text.remove_prefix(colons + 2);
  } else if (text.starts_with("aten.")) {
    text.remove_prefix(5);
  }
  const std::size_t dot = text.find('.');
  const std::string_view name = text.substr(0, dot);
  const std::string_view overload =
      dot == std::string_view::npos ? std::string_view{} : text.substr(dot + 1);
  if (!is_name_part(space) || !is_name_part(name) ||
      (dot != std::string_view::npos && !is_name_part(overload)))
    return {};
  std::string whole = std::string{space} + "::" + std::string{name};
  // As the dispatcher has it: `default` is the overload without a name.
  if (!overload.empty() && overload != "default") whole += "." + std::string{overload};
  return whole;
}

Result<OperatorList> parse_operators(std::string_view text, std::string_view source, bool yaml) {
  if (!yaml) return Parser{source}.parse_lines(text);
  const auto root = base::yaml::parse(text, source);
  if (!root) return tl::unexpected(root.error());
  return Parser{source}.parse(*root);
}

Result<OperatorList> load_operators(const std::filesystem::path& file) {
  const auto text = base::read_file(file, k_limit);
  if (!text) return tl::unexpected(text.error());
  const std::string extension = file.extension().string();
  return parse_operators(*text, file.string(), extension == ".yaml" || extension == ".yml");
}

}  // namespace crosscheck::profile
