#include "crosscheck/memory/rules.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/nearest.h"
#include "crosscheck/base/yaml.h"
#include "crosscheck_embed/rules.h"

namespace crosscheck::memory {
namespace {

using base::Result;
using base::yaml::fail_at;
using base::yaml::Node;
using Kind_ = Node::Kind;

constexpr std::array<std::string_view, 3> k_scopes{"file", "class", "test"};
constexpr std::array<std::string_view, 5> k_rule_keys{"id", "drop", "unless", "reason", "where"};
constexpr std::array<std::string_view, 9> k_condition_keys{
    "path", "import", "class", "base", "instantiated", "name", "decorator", "api", "symbol"};

Result<std::string> read_text(std::string_view source, const Node& node, std::string_view key) {
  if (!node.is(Kind_::text) || node.text.empty())
    return fail_at(source, node, std::string{key} + ": expected some text");
  return node.text;
}

Result<std::vector<std::string>> read_texts(std::string_view source, const Node& node,
                                            std::string_view key) {
  std::vector<std::string> texts;
  if (!node.is(Kind_::sequence) || node.items.empty())
    return fail_at(source, node, std::string{key} + ": expected a list of texts");
  for (const Node& item : node.items) {
    auto text = read_text(source, item, key);
    if (!text) return tl::unexpected(text.error());
    texts.push_back(std::move(*text));
  }
  return texts;
}

// A key that is none of `known` is an error.
Result<void> check_keys(std::string_view source, const Node& node,
                        std::span<const std::string_view> known) {
  for (const auto& [key, value] : node.entries)
    if (std::ranges::find(known, key.text) == known.end())
      return fail_at(source, key, "'" + key.text + "' is no key here",
                     base::suggest(key.text, known));
  return {};
}

Result<Rule::Condition> read_condition(std::string_view source, const Node& node) {
  if (!node.is(Kind_::mapping) || node.entries.empty())
    return fail_at(source, node, "where: expected a list of mappings");
  if (auto checked = check_keys(source, node, k_condition_keys); !checked)
    return tl::unexpected(checked.error());
  Rule::Condition condition;
  for (const auto& [key, value] : node.entries) {
    auto patterns = read_texts(source, value, key.text);
    if (!patterns) return tl::unexpected(patterns.error());
    condition.emplace(key.text, std::move(*patterns));
  }
  return condition;
}

Result<Rule> read_rule(std::string_view source, const Node& node) {
  if (!node.is(Kind_::mapping)) return fail_at(source, node, "rules: expected a list of mappings");
  if (auto checked = check_keys(source, node, k_rule_keys); !checked)
    return tl::unexpected(checked.error());
  Rule rule;
  rule.place = std::string{source} + ":" + std::to_string(node.line);
  for (const std::string_view key : {"id", "drop", "reason", "where"})
    if (node.find(key) == nullptr)
      return fail_at(source, node, "a rule needs '" + std::string{key} + "'");
  auto id = read_text(source, *node.find("id"), "id");
  if (!id) return tl::unexpected(id.error());
  rule.id = std::move(*id);
  auto reason = read_text(source, *node.find("reason"), "reason");
  if (!reason) return tl::unexpected(reason.error());
  rule.reason = std::move(*reason);
  const Node& drop = *node.find("drop");
  const auto scope = std::ranges::find(k_scopes, drop.text);
  if (!drop.is(Kind_::text) || scope == k_scopes.end())
    return fail_at(source, drop, "drop: '" + drop.text + "' is nothing that can be dropped",
                   base::suggest(drop.text, k_scopes));
  rule.drop = static_cast<Scope>(std::distance(k_scopes.begin(), scope));
  if (const Node* unless = node.find("unless")) {
    auto names = read_texts(source, *unless, "unless");
    if (!names) return tl::unexpected(names.error());
    rule.unless = std::move(*names);
  }
  const Node& where = *node.find("where");
  if (!where.is(Kind_::sequence) || where.items.empty())
    return fail_at(source, where, "where: expected a list of mappings");
  for (const Node& item : where.items) {
    auto condition = read_condition(source, item);
    if (!condition) return tl::unexpected(condition.error());
    for (const auto& [key, patterns] : *condition) {
      const bool of_file = key == "path" || key == "import";
      if (rule.drop == Scope::file && !of_file)
        return fail_at(source, item, "where: '" + key + "' says nothing of a file",
                       "use path or import, or drop a class or a test");
    }
    rule.where.push_back(std::move(*condition));
  }
  return rule;
}

// "@x.onlyCUDA(…)" as "onlyCUDA".
std::string_view decorator_name(std::string_view text) {
  text = text.substr(0, text.find('('));
  const auto dot = text.rfind('.');
  return dot == std::string_view::npos ? text : text.substr(dot + 1);
}

// The class that `definition` lies in.
const Definition* class_of(const Source& source, const Definition& definition) {
  if (definition.class_name.empty()) return nullptr;
  for (const Definition& other : source.facts.definitions)
    if (other.kind == Kind::klass &&
        (other.class_name.empty() ? other.name : other.class_name + "." + other.name) ==
            definition.class_name)
      return &other;
  return nullptr;
}

}  // namespace

std::string_view to_string(Scope scope) { return k_scopes.at(static_cast<std::size_t>(scope)); }

Result<std::vector<Rule>> parse_rules(std::string_view text, std::string_view source) {
  const auto root = base::yaml::parse(text, source);
  if (!root) return tl::unexpected(root.error());
  const Node* list = root->find("rules");
  if (!root->is(Kind_::mapping) || root->entries.size() != 1 || list == nullptr ||
      !list->is(Kind_::sequence))
    return fail_at(source, *root, "expected `rules:` with a list");
  std::vector<Rule> rules;
  for (const Node& item : list->items) {
    auto rule = read_rule(source, item);
    if (!rule) return tl::unexpected(rule.error());
    if (std::ranges::find(rules, rule->id, &Rule::id) != rules.end())
      return fail_at(source, item, "there are two rules '" + rule->id + "'");
    rules.push_back(std::move(*rule));
  }
  return rules;
}

const std::vector<Rule>& built_in_rules() {
  static const std::vector<Rule> rules = [] {
    auto parsed = parse_rules(embed::rules_files().front().text, "rules.yaml");
    if (!parsed) {  // a test reads it too
      std::fprintf(stderr, "crosscheck: %s\n", base::to_string(parsed.error()).c_str());
      std::abort();
    }
    return *std::move(parsed);
  }();
  return rules;
}

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Narrowing::Narrowing(const std::vector<Rule>& rules, const std::set<std::string>& lacks) {
  std::string words;
  for (const Rule& rule : rules) {
    if (!std::ranges::all_of(rule.unless, [&](const auto& name) { return lacks.contains(name); }))
      continue;
    rules_.push_back(rule);
    words += rule.id + '\0' + std::string{to_string(rule.drop)} + '\0' + rule.reason + '\0';
    for (const auto& condition : rule.where)
      for (const auto& [key, patterns] : condition) {
        words += key + '\0';
        for (const auto& pattern : patterns) words += pattern + '\0';
      }
  }
  digest_ = base::sha256_hex(words);
}

Verdict Narrowing::judge(Scope scope, const Source& source, const Definition* klass,
                         const Definition* definition) const {
  // What `key` is held against; the first text that a pattern matches.
  const auto find = [&](std::string_view key,
                        const std::string& pattern) -> std::optional<std::string> {
    const auto any = [&](const std::vector<std::string>& texts) -> std::optional<std::string> {
      for (const std::string& text : texts)
        if (matches(pattern, text)) return text;
      return {};
    };
    const auto one = [&](const std::string& text) -> std::optional<std::string> {
      if (matches(pattern, text)) return text;
      return {};
    };
    if (key == "path")  // of a checkout or of its test folder
      return one(source.path.starts_with("test/") ? source.path.substr(5) : source.path);
    if (key == "import") return any(source.facts.imports);
    if (key == "class") return klass == nullptr ? std::nullopt : one(klass->name);
    if (key == "base") {
      if (klass == nullptr) return {};
      for (const std::string& base : klass->bases) {
        const auto stop = base.find_last_of(":.");
        const std::string name = stop == std::string::npos ? base : base.substr(stop + 1);
        if (matches(pattern, name)) return name;
      }
      return {};
    }
    if (key == "instantiated") return klass == nullptr ? std::nullopt : any(klass->instantiated);
    if (key == "name") return one(definition->name);
    if (key == "api") return any(definition->apis);
    if (key == "symbol") return any(definition->symbols);
    for (const Definition* holder : {definition, klass}) {
      if (holder == nullptr) continue;
      for (const std::string& decorator : holder->decorators)
        if (matches(pattern, decorator_name(decorator)) || matches(pattern, decorator))
          return std::string{decorator_name(decorator)};
    }
    return {};
  };
  for (const Rule& rule : rules_) {
    if (rule.drop != scope) continue;
    for (const Rule::Condition& condition : rule.where) {
      std::string because;
      bool all = true;
      for (const auto& [key, patterns] : condition) {
        std::optional<std::string> found;
        for (const std::string& pattern : patterns)
          if ((found = find(key, pattern))) break;
        if (!found) {
          all = false;
          break;
        }
        because += (because.empty() ? "" : ", ") + key + " " + *found;
      }
      if (all) return {&rule, std::move(because)};
    }
  }
  return {};
}

Verdict Narrowing::file(const Source& source) const {
  return judge(Scope::file, source, nullptr, nullptr);
}

Verdict Narrowing::definition(const Source& source, const Definition& definition) const {
  if (rules_.empty()) return {};
  if (Verdict verdict = file(source)) return verdict;
  const Definition* klass =
      definition.kind == Kind::klass ? &definition : class_of(source, definition);
  if (klass != nullptr)
    if (Verdict verdict = judge(Scope::klass, source, klass, klass)) return verdict;
  if (definition.kind != Kind::test) return {};
  return judge(Scope::test, source, klass, &definition);
}

}  // namespace crosscheck::memory
