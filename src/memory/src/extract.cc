#include "crosscheck/memory/extract.h"

#include <tree_sitter/api.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"

extern "C" const TSLanguage* tree_sitter_python();

namespace crosscheck::memory {
namespace {

using base::fail;
using base::Fault;
using base::Result;

constexpr std::size_t k_shape_size = 64;
constexpr std::size_t k_doc_limit = 2048;
constexpr std::size_t k_word_limit = 64;  // of a text that counts as a symbol
constexpr int k_depth_limit = 64;         // of classes and conditions around a definition
constexpr std::uint64_t k_parse_micros = 20'000'000;

constexpr std::array<std::string_view, 4> k_kinds{"test", "class", "helper", "value"};

// The grammar's numbers of what is looked at.
struct Symbols {
  TSSymbol identifier, comment, line_continuation, string, string_content, block, dot, open_paren;
  TSSymbol function_definition, class_definition, decorated_definition, decorator;
  TSSymbol import_statement, import_from_statement, aliased_import, wildcard_import;
  TSSymbol expression_statement, assignment, call, keyword_argument, argument_list;
  TSFieldId name, alias, module_name, definition, body, left, superclasses, arguments;

  explicit Symbols(const TSLanguage* language) {
    const auto symbol = [&](std::string_view text, bool named = true) {
      return ts_language_symbol_for_name(language, text.data(),
                                         static_cast<std::uint32_t>(text.size()), named);
    };
    const auto field = [&](std::string_view text) {
      return ts_language_field_id_for_name(language, text.data(),
                                           static_cast<std::uint32_t>(text.size()));
    };
    identifier = symbol("identifier");
    comment = symbol("comment");
    line_continuation = symbol("line_continuation");
    string = symbol("string");
    string_content = symbol("string_content");
    block = symbol("block");
    dot = symbol(".", false);
    open_paren = symbol("(", false);
    function_definition = symbol("function_definition");
    class_definition = symbol("class_definition");
    decorated_definition = symbol("decorated_definition");
    decorator = symbol("decorator");
    import_statement = symbol("import_statement");
    import_from_statement = symbol("import_from_statement");
    aliased_import = symbol("aliased_import");
    wildcard_import = symbol("wildcard_import");
    expression_statement = symbol("expression_statement");
    assignment = symbol("assignment");
    call = symbol("call");
    keyword_argument = symbol("keyword_argument");
    argument_list = symbol("argument_list");
    name = field("name");
    alias = field("alias");
    module_name = field("module_name");
    definition = field("definition");
    body = field("body");
    left = field("left");
    superclasses = field("superclasses");
    arguments = field("arguments");
  }
};

bool is_word(std::string_view text) {
  return text.size() >= 2 && text.size() <= k_word_limit &&
         std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '.' || c == ':';
         });
}

// White space as one space, none at either end.
std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f') {
      if (!line.empty() && line.back() != ' ') line += ' ';
    } else {
      line += c;
    }
  }
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

std::uint64_t mix(std::uint64_t hash) {
  hash ^= hash >> 33U;
  hash *= 0xff51afd7ed558ccdULL;
  hash ^= hash >> 33U;
  return hash;
}

// Stored, so it must not depend on the library.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix(hash);
}

void sort_unique(std::vector<std::string_view>& items) {
  std::ranges::sort(items);
  const auto tail = std::ranges::unique(items);
  items.erase(tail.begin(), tail.end());
}
void sort_unique(std::vector<std::string>& items) {
  std::ranges::sort(items);
  const auto tail = std::ranges::unique(items);
  items.erase(tail.begin(), tail.end());
}

std::vector<std::uint32_t> shape_of(const std::vector<std::uint64_t>& tokens) {
  std::vector<std::uint32_t> hashes;
  if (tokens.empty()) return hashes;
  const std::size_t width = std::min<std::size_t>(3, tokens.size());
  hashes.reserve(tokens.size());
  for (std::size_t i = 0; i + width <= tokens.size(); ++i) {
    std::uint64_t hash = 0;
    for (std::size_t j = 0; j < width; ++j) hash = mix(hash * 31 + tokens[i + j]);
    hashes.push_back(static_cast<std::uint32_t>(hash));
  }
  std::ranges::sort(hashes);
  const auto tail = std::ranges::unique(hashes);
  hashes.erase(tail.begin(), tail.end());
  if (hashes.size() > k_shape_size) hashes.resize(k_shape_size);
  return hashes;
}

// What is read of a definition before the file's imports are all known.
struct Raw {
  std::vector<std::string_view> chains;  // "a.b.c", or "^b" for super().b
  std::vector<std::string_view> words;
};

struct Import {
  std::string module;
  std::string name;  // empty: the module itself
};

class File {
 public:
  File(const Symbols& symbols, std::string_view text) : s_{symbols}, text_{text} {}

  Facts read(TSNode root) {
    visit(root, "", false, 0);
    for (std::size_t i = 0; i < facts_.definitions.size(); ++i)
      if (facts_.definitions[i].class_name.empty()) names_.emplace(facts_.definitions[i].name, i);
    for (std::size_t i = 0; i < facts_.definitions.size(); ++i) resolve(i);
    for (const auto& [classes, call] : instantiations_)
      for (const std::string_view name : classes) {
        const auto found = names_.find(std::string{name});
        if (found == names_.end()) continue;
        Definition& definition = facts_.definitions[found->second];
        if (definition.kind == Kind::klass) definition.instantiated.push_back(call);
      }
    sort_unique(facts_.imports);
    sort_unique(facts_.stars);
    if (ts_node_has_error(root)) facts_.problem = error_of(root);
    return std::move(facts_);
  }

 private:
  std::string_view text_of(TSNode node) const {
    const std::uint32_t begin = ts_node_start_byte(node);
    return text_.substr(begin, ts_node_end_byte(node) - begin);
  }
  static int first_line(TSNode node) { return static_cast<int>(ts_node_start_point(node).row) + 1; }
  // A definition's last token ends its last line; its node may reach into what follows.
  int last_line(TSNode node) const {
    std::uint32_t end = ts_node_end_byte(node);
    int line = static_cast<int>(ts_node_end_point(node).row) + 1;
    const std::uint32_t begin = ts_node_start_byte(node);
    while (end > begin && (text_[end - 1] == '\n' || text_[end - 1] == ' ' ||
                           text_[end - 1] == '\t' || text_[end - 1] == '\r'))
      if (text_[--end] == '\n') --line;
    return line;
  }
  TSNode child(TSNode node, TSFieldId field) const {
    return ts_node_child_by_field_id(node, field);
  }

  // Definitions and imports below `node`, a module, a class's body, or a condition in one.
  void visit(TSNode node, const std::string& class_name, bool in_class, int depth) {
    if (depth > k_depth_limit) {
      facts_.problem = "nested more than " + std::to_string(k_depth_limit) + " deep at " +
                       std::to_string(first_line(node));
      return;
    }
    TSTreeCursor cursor = ts_tree_cursor_new(node);
    if (ts_tree_cursor_goto_first_child(&cursor)) {
      do {
        const TSNode item = ts_tree_cursor_current_node(&cursor);
        const TSSymbol symbol = ts_node_symbol(item);
        if (symbol == s_.function_definition || symbol == s_.class_definition) {
          define(item, item, class_name, depth);
        } else if (symbol == s_.decorated_definition) {
          const TSNode definition = child(item, s_.definition);
          if (!ts_node_is_null(definition)) define(item, definition, class_name, depth);
        } else if (symbol == s_.import_statement || symbol == s_.import_from_statement) {
          read_import(item);
        } else if (symbol == s_.expression_statement) {
          if (!in_class) read_statement(item);
        } else if (ts_node_is_named(item) && ts_node_named_child_count(item) > 0 &&
                   holds_statements(item)) {
          visit(item, class_name, in_class, depth + 1);
        }
      } while (ts_tree_cursor_goto_next_sibling(&cursor));
    }
    ts_tree_cursor_delete(&cursor);
  }

  // Blocks, and what consists of blocks: if, try, with, for, while and their clauses.
  bool holds_statements(TSNode node) const {
    if (ts_node_symbol(node) == s_.block) return true;
    const std::string_view type = ts_node_type(node);
    return type.ends_with("_clause") || type == "if_statement" || type == "try_statement" ||
           type == "with_statement" || type == "for_statement" || type == "while_statement" ||
           type == "match_statement" || type == "ERROR";
  }

  void define(TSNode whole, TSNode node, const std::string& class_name, int depth) {
    const TSNode name = child(node, s_.name);
    if (ts_node_is_null(name)) return;
    const bool is_class = ts_node_symbol(node) == s_.class_definition;
    Definition definition;
    definition.name = text_of(name);
    definition.class_name = class_name;
    definition.first_line = first_line(whole);
    definition.line = first_line(node);
    definition.last_line = last_line(node);
    if (is_class) {
      definition.kind = Kind::klass;
    } else if (definition.name.starts_with("test")) {
      definition.kind = Kind::test;
    }
    Raw raw;
    if (!ts_node_eq(whole, node)) read_decorators(whole, definition, raw);
    collect(node, is_class, true, &definition, raw);
    const std::string inner =
        class_name.empty() ? definition.name : class_name + "." + definition.name;
    if (is_class) {
      const TSNode bases = child(node, s_.superclasses);
      if (!ts_node_is_null(bases)) read_bases(bases, definition);
    }
    facts_.definitions.push_back(std::move(definition));
    raws_.push_back(std::move(raw));
    if (is_class) {
      const TSNode body = child(node, s_.body);
      if (!ts_node_is_null(body)) visit(body, inner, true, depth + 1);
    }
  }

  void read_decorators(TSNode whole, Definition& definition, Raw& raw) {
    const std::uint32_t count = ts_node_child_count(whole);
    for (std::uint32_t i = 0; i < count; ++i) {
      const TSNode item = ts_node_child(whole, i);
      if (ts_node_symbol(item) != s_.decorator) continue;
      std::string_view text = text_of(item);
      text.remove_prefix(std::min<std::size_t>(1, text.size()));
      definition.decorators.push_back(one_line(text));
      collect(item, false, false, nullptr, raw);
    }
  }

  void read_bases(TSNode list, Definition& definition) {
    const std::uint32_t count = ts_node_named_child_count(list);
    for (std::uint32_t i = 0; i < count; ++i) {
      const TSNode item = ts_node_named_child(list, i);
      const TSSymbol symbol = ts_node_symbol(item);
      if (symbol == s_.keyword_argument || symbol == s_.comment) continue;
      definition.bases.push_back(one_line(text_of(item)));
    }
  }

  void read_import(TSNode node) {
    const bool from = ts_node_symbol(node) == s_.import_from_statement;
    const TSNode module = from ? child(node, s_.module_name) : TSNode{};
    const std::string source =
        from && !ts_node_is_null(module) ? one_line(text_of(module)) : std::string{};
    if (from) facts_.imports.push_back(source);
    const std::uint32_t count = ts_node_named_child_count(node);
    for (std::uint32_t i = 0; i < count; ++i) {
      const TSNode item = ts_node_named_child(node, i);
      if (from && ts_node_eq(item, module)) continue;
      const TSSymbol symbol = ts_node_symbol(item);
      if (symbol == s_.wildcard_import) {
        facts_.stars.push_back(source);
        continue;
      }
      std::string name;
      std::string alias;
      if (symbol == s_.aliased_import) {
        const TSNode named = child(item, s_.name);
        const TSNode as = child(item, s_.alias);
        if (ts_node_is_null(named) || ts_node_is_null(as)) continue;
        name = text_of(named);
        alias = text_of(as);
      } else if (symbol != s_.comment) {
        name = text_of(item);
        alias = name;
      } else {
        continue;
      }
      if (from) {
        imported_.emplace(alias, Import{source, name});
        continue;
      }
      facts_.imports.push_back(name);
      if (alias != name || name.find('.') == std::string::npos) {
        imported_.emplace(alias, Import{name, ""});
      } else {
        // `import a.b` binds a, and what follows is looked for in a.b.
        imported_.emplace(name.substr(0, name.find('.')),
                          Import{name.substr(0, name.find('.')), ""});
        dotted_.push_back(name);
      }
    }
  }

  // An assignment or a call at the module's level.
  void read_statement(TSNode node) {
    const TSNode item = ts_node_named_child(node, 0);
    if (ts_node_is_null(item)) return;
    if (ts_node_symbol(item) == s_.call) {
      read_instantiation(item);
      return;
    }
    if (ts_node_symbol(item) != s_.assignment) return;
    const TSNode left = child(item, s_.left);
    if (ts_node_is_null(left)) return;
    Definition definition;
    definition.kind = Kind::value;
    definition.first_line = definition.line = first_line(node);
    definition.last_line = last_line(node);
    Raw raw;
    collect(item, false, true, &definition, raw);
    raw.words.clear();
    const auto add = [&](TSNode target) {
      if (ts_node_symbol(target) != s_.identifier) return;
      definition.name = text_of(target);
      facts_.definitions.push_back(definition);
      raws_.push_back(raw);
    };
    add(left);
    const std::uint32_t count = ts_node_named_child_count(left);
    for (std::uint32_t i = 0; i < count; ++i) add(ts_node_named_child(left, i));
  }

  void read_instantiation(TSNode call) {
    const TSNode arguments = child(call, s_.arguments);
    if (ts_node_is_null(arguments)) return;
    std::vector<std::string_view> names;
    const std::uint32_t count = ts_node_named_child_count(arguments);
    for (std::uint32_t i = 0; i < count; ++i) {
      const TSNode argument = ts_node_named_child(arguments, i);
      if (ts_node_symbol(argument) == s_.identifier) names.push_back(text_of(argument));
    }
    if (!names.empty()) instantiations_.emplace_back(std::move(names), one_line(text_of(call)));
  }

  // The docstring of the block `body`, or a null node.
  TSNode docstring_of(TSNode body) const {
    const TSNode first = ts_node_named_child(body, 0);
    if (ts_node_is_null(first) || ts_node_symbol(first) != s_.expression_statement ||
        ts_node_named_child_count(first) != 1)
      return TSNode{};
    const TSNode only = ts_node_named_child(first, 0);
    return ts_node_symbol(only) == s_.string ? first : TSNode{};
  }

  bool stands_alone(std::size_t at) const {
    while (at > 0 && (text_[at - 1] == ' ' || text_[at - 1] == '\t')) --at;
    return at == 0 || text_[at - 1] == '\n';
  }

  // The comment lines before the first statement of `body`, which is the function's.
  std::string leading_comment(TSNode function, TSNode body, TSNode doc) const {
    std::string text;
    const auto is_doc = [&](TSNode item) { return !ts_node_is_null(doc) && ts_node_eq(item, doc); };
    for (const TSNode parent : {function, body}) {
      const std::uint32_t count = ts_node_named_child_count(parent);
      for (std::uint32_t i = 0; i < count; ++i) {
        const TSNode item = ts_node_named_child(parent, i);
        if (ts_node_symbol(item) != s_.comment) {
          if (ts_node_eq(parent, body) && !is_doc(item)) break;
          continue;
        }
        if (!stands_alone(ts_node_start_byte(item))) continue;
        std::string_view line = text_of(item);
        line.remove_prefix(std::min(line.find_first_not_of('#'), line.size()));
        text += ' ';
        text += line;
      }
    }
    text = one_line(text);
    if (text.starts_with(' ')) text.erase(0, 1);
    return base::to_utf8(text, k_doc_limit);
  }

  // Walks the tokens of `node`. Of a class, functions and classes in its body are left out. Body,
  // shape and docstring go into `definition`, where there is one.
  void collect(TSNode node, bool is_class, bool hashed, Definition* definition, Raw& raw) {
    TSNode doc{};
    if (definition != nullptr) {
      const TSNode body = child(node, s_.body);
      if (!ts_node_is_null(body)) doc = docstring_of(body);
      if (!ts_node_is_null(body) && definition->kind == Kind::test)
        definition->comment = leading_comment(node, body, doc);
      if (!ts_node_is_null(doc)) {
        const TSNode quoted = ts_node_named_child(doc, 0);
        for (std::uint32_t i = 0; i < ts_node_named_child_count(quoted); ++i) {
          const TSNode content = ts_node_named_child(quoted, i);
          if (ts_node_symbol(content) == s_.string_content)
            definition->doc += base::to_utf8(one_line(text_of(content)), k_doc_limit);
        }
      }
    }
    bytes_.clear();
    tokens_.clear();
    chain_begin_ = std::string_view::npos;
    after_dot_ = after_super_ = false;
    bool keyword = false;
    const auto mark = [&](char c) {
      if (!hashed) return;
      bytes_ += c;
      bytes_ += '\0';
    };
    TSTreeCursor cursor = ts_tree_cursor_new(node);
    int depth = 0;
    bool descend = ts_tree_cursor_goto_first_child(&cursor);
    if (descend) ++depth;
    while (depth > 0) {
      const TSNode item = ts_tree_cursor_current_node(&cursor);
      const TSSymbol symbol = ts_node_symbol(item);
      bool skip = symbol == s_.comment || symbol == s_.line_continuation;
      if (depth == 1 && definition != nullptr && definition->kind != Kind::value &&
          ts_tree_cursor_current_field_id(&cursor) == s_.name)
        skip = true;
      if (is_class && (symbol == s_.function_definition || symbol == s_.class_definition ||
                       symbol == s_.decorated_definition))
        skip = true;
      if (!ts_node_is_null(doc) && ts_node_eq(item, doc)) skip = true;
      if (!skip) {
        const bool import = symbol == s_.import_statement || symbol == s_.import_from_statement;
        if (import) read_import(item);
        if (symbol == s_.keyword_argument) keyword = true;
        if (!import && symbol != s_.string_content && ts_tree_cursor_goto_first_child(&cursor)) {
          if (symbol == s_.block) mark('{');
          ++depth;
          continue;
        }
        const std::string_view token = text_of(item);
        if (hashed && !token.empty()) {
          bytes_ += token;
          bytes_ += '\0';
          tokens_.push_back(hash_of(token));
        }
        take(symbol, token, ts_node_start_byte(item), std::exchange(keyword, false), raw);
      }
      while (!ts_tree_cursor_goto_next_sibling(&cursor)) {
        ts_tree_cursor_goto_parent(&cursor);
        if (--depth == 0) break;
        if (ts_node_symbol(ts_tree_cursor_current_node(&cursor)) == s_.block) mark('}');
      }
    }
    ts_tree_cursor_delete(&cursor);
    end_chain(raw);
    if (!hashed || definition == nullptr) return;
    definition->body = base::sha256_hex(bytes_);
    if (definition->kind == Kind::test) definition->shape = shape_of(tokens_);
  }

  void take(TSSymbol symbol, std::string_view token, std::size_t at, bool keyword, Raw& raw) {
    if (symbol == s_.identifier) {
      if (token.size() > 1) raw.words.push_back(token);
      if (after_dot_ && chain_begin_ != std::string_view::npos) {
        chain_end_ = at + token.size();
      } else if (after_dot_) {
        if (after_super_ && text_[at - 1] == '.')
          raw.chains.push_back(text_.substr(at - 1, token.size() + 1));
        after_super_ = false;
      } else if (!keyword) {
        end_chain(raw);
        chain_begin_ = at;
        chain_end_ = at + token.size();
      }
      after_dot_ = false;
      return;
    }
    if (symbol == s_.dot) {
      after_dot_ = true;
      return;
    }
    after_dot_ = false;
    end_chain(raw);
    if (symbol == s_.string_content && is_word(token)) raw.words.push_back(token);
  }

  void end_chain(Raw& raw) {
    if (chain_begin_ == std::string_view::npos) return;
    const std::string_view chain = text_.substr(chain_begin_, chain_end_ - chain_begin_);
    if (chain == "super") {
      after_super_ = true;  // until what is asked of it: super(TestX, self).setUp
    } else {
      raw.chains.push_back(chain);
    }
    chain_begin_ = std::string_view::npos;
  }

  void resolve(std::size_t index) {
    Definition& definition = facts_.definitions[index];
    Raw& raw = raws_[index];
    sort_unique(raw.words);
    definition.symbols.assign(raw.words.begin(), raw.words.end());
    sort_unique(raw.chains);
    for (const std::string_view chain : raw.chains) resolve_chain(chain, definition);
    for (std::string& base : definition.bases) base = refer(base);
    sort_unique(definition.apis);
    sort_unique(definition.uses);
  }

  static std::string without_space(std::string_view chain) {
    std::string text;
    for (const char c : chain)
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' ||
          static_cast<unsigned char>(c) >= 0x80)
        text += c;
    return text;
  }

  // The module in which `rest` is to be looked for, where `import a.b` was written.
  void widen(Import& import, std::string& rest) const {
    if (!import.name.empty()) return;
    for (const std::string& module : dotted_) {
      if (module.size() <= import.module.size()) continue;
      const std::string whole = import.module + "." + rest;
      if (whole.starts_with(module) &&
          (whole.size() == module.size() || whole[module.size()] == '.')) {
        import.module = module;
        rest = whole.size() == module.size() ? "" : whole.substr(module.size() + 1);
      }
    }
  }

  // A base class, written as `uses` are.
  std::string refer(const std::string& written) const {
    const auto stop = written.find('.');
    const auto found = imported_.find(written.substr(0, stop));
    if (found == imported_.end()) return written;
    Import import = found->second;
    std::string rest = stop == std::string::npos ? "" : written.substr(stop + 1);
    widen(import, rest);
    if (import.name.empty()) return import.module + ":" + rest;
    return import.module + ":" + import.name + (rest.empty() ? "" : "." + rest);
  }

  void resolve_chain(std::string_view written, Definition& definition) {
    std::string clean;
    std::string_view chain = written;
    if (std::ranges::any_of(written, [](char c) {
          return c == ' ' || c == '\n' || c == '\\' || c == '\t' || c == '\r' || c == '#' ||
                 c == '(';
        })) {
      clean = without_space(written);
      chain = clean;
    }
    if (chain.empty()) return;
    if (chain.front() == '.') {  // super().x
      definition.uses.push_back("^" + std::string{chain.substr(1)});
      return;
    }
    const auto stop = chain.find('.');
    const std::string root{chain.substr(0, stop)};
    std::string rest{stop == std::string_view::npos ? std::string_view{} : chain.substr(stop + 1)};
    if (root == "self" || root == "cls") {
      if (!rest.empty()) definition.uses.push_back("." + rest.substr(0, rest.find('.')));
      return;
    }
    if (const auto found = imported_.find(root); found != imported_.end()) {
      Import import = found->second;
      widen(import, rest);
      std::string whole = import.module;
      if (!import.name.empty()) whole += "." + import.name;
      if (!rest.empty()) whole += "." + rest;
      const bool torch = whole == "torch" || whole.starts_with("torch.");
      if (torch && whole != "torch") definition.apis.push_back(whole);
      // Most of torch is not in the tree: its test machinery may be.
      if (torch && !whole.starts_with("torch.testing.")) return;
      std::string name = import.name;
      if (!rest.empty()) name += (name.empty() ? "" : ".") + rest.substr(0, rest.find('.'));
      if (!name.empty()) definition.uses.push_back(import.module + ":" + name);
      return;
    }
    if (names_.contains(root)) {
      if (root != definition.name || !definition.class_name.empty())
        definition.uses.push_back(root);
    } else if (!facts_.stars.empty() && stars_in_tree()) {
      definition.uses.push_back("*" + root);
    }
  }

  bool stars_in_tree() const {
    return std::ranges::any_of(facts_.stars, [](const std::string& module) {
      return !module.starts_with("torch.") || module.starts_with("torch.testing.");
    });
  }

  std::string error_of(TSNode root) const {
    TSNode node = root;
    for (bool deeper = true; deeper && !ts_node_is_missing(node);) {
      deeper = false;
      const std::uint32_t count = ts_node_child_count(node);
      for (std::uint32_t i = 0; i < count && !deeper; ++i) {
        const TSNode item = ts_node_child(node, i);
        if (!ts_node_has_error(item) && !ts_node_is_missing(item)) continue;
        node = item;
        deeper = true;
      }
    }
    const TSPoint point = ts_node_start_point(node);
    return "syntax error at " + std::to_string(point.row + 1) + ":" +
           std::to_string(point.column + 1);
  }

  const Symbols& s_;
  std::string_view text_;
  Facts facts_;
  std::vector<Raw> raws_;  // one a definition
  std::unordered_map<std::string, Import> imported_;
  std::vector<std::string> dotted_;
  std::unordered_map<std::string, std::size_t> names_;  // of the module's level
  std::vector<std::pair<std::vector<std::string_view>, std::string>> instantiations_;
  // Of the definition that is being collected.
  std::string bytes_;
  std::vector<std::uint64_t> tokens_;
  std::size_t chain_begin_ = std::string_view::npos;
  std::size_t chain_end_ = 0;
  bool after_dot_ = false;
  bool after_super_ = false;
};

}  // namespace

std::string_view to_string(Kind kind) { return k_kinds.at(static_cast<std::size_t>(kind)); }

std::optional<Kind> parse_kind(std::string_view name) {
  const auto found = std::ranges::find(k_kinds, name);
  if (found == k_kinds.end()) return {};
  return static_cast<Kind>(std::distance(k_kinds.begin(), found));
}

std::string qualified_name(const Definition& definition) {
  return definition.class_name.empty() ? definition.name
                                       : definition.class_name + "::" + definition.name;
}

double likeness(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  if (a.empty() || b.empty()) return 0;
  // The least hashes of both together are a sample of both together.
  std::size_t i = 0;
  std::size_t j = 0;
  std::size_t seen = 0;
  std::size_t common = 0;
  while (seen < k_shape_size && (i < a.size() || j < b.size())) {
    ++seen;
    if (j == b.size() || (i < a.size() && a[i] < b[j])) {
      ++i;
    } else if (i == a.size() || b[j] < a[i]) {
      ++j;
    } else {
      ++common, ++i, ++j;
    }
  }
  return static_cast<double>(common) / static_cast<double>(seen);
}

Result<void> check_grammar(std::uint32_t grammar, std::uint32_t least, std::uint32_t most) {
  if (grammar >= least && grammar <= most) return {};
  return fail(Fault::environment,
              "the Python grammar has ABI " + std::to_string(grammar) +
                  ", but the tree-sitter library takes " + std::to_string(least) + " to " +
                  std::to_string(most),
              "build crosscheck with tree-sitter-python as package-lock.json has it, and with the "
              "library of Debian's libtree-sitter-dev");
}

namespace {

// tree-sitter 0.20 counts a node's children in 16 bits and frees what it then miscounts: a syntax
// error that swallows more than 65,535 tokens would end the program. Such a node is announced by a
// request for the memory of its list. From then on nothing is freed on this thread until parser and
// tree are given up; what they still read is in bounds.
constexpr std::size_t k_most_children = 0xffff * sizeof(void*);
thread_local bool is_overflowing = false;

void* allocate(std::size_t size) {
  if (size > k_most_children) is_overflowing = true;
  return std::malloc(size);
}
void* allocate_zeroed(std::size_t count, std::size_t size) {
  if (count * size > k_most_children) is_overflowing = true;
  return std::calloc(count, size);
}
void* reallocate(void* memory, std::size_t size) {
  if (size > k_most_children) is_overflowing = true;
  return std::realloc(memory, size);
}
void release(void* memory) {
  if (!is_overflowing) std::free(memory);
}

}  // namespace

struct Extractor::State {
  State() : symbols{tree_sitter_python()} { renew(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { ts_parser_delete(parser); }
  void renew() {
    parser = ts_parser_new();
    ts_parser_set_language(parser, tree_sitter_python());
    ts_parser_set_timeout_micros(parser, k_parse_micros);
  }
  TSParser* parser = nullptr;
  Symbols symbols;
};

Extractor::Extractor(std::unique_ptr<State> state) : state_{std::move(state)} {}
Extractor::Extractor(Extractor&&) noexcept = default;
Extractor& Extractor::operator=(Extractor&&) noexcept = default;
Extractor::~Extractor() = default;

Result<Extractor> Extractor::make() {
  if (auto fits =
          check_grammar(ts_language_version(tree_sitter_python()),
                        TREE_SITTER_MIN_COMPATIBLE_LANGUAGE_VERSION, TREE_SITTER_LANGUAGE_VERSION);
      !fits)
    return tl::unexpected(fits.error());
  static std::once_flag once;
  std::call_once(once, [] { ts_set_allocator(allocate, allocate_zeroed, reallocate, release); });
  return Extractor{std::make_unique<State>()};
}

Result<Facts> Extractor::extract(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (text.size() > UINT32_MAX) return fail(Fault::too_large, "more than 4 GiB");
  is_overflowing = false;
  TSTree* tree = ts_parser_parse_string(state_->parser, nullptr, text.data(),
                                        static_cast<std::uint32_t>(text.size()));
  // Long lists ask for as much, without an error.
  if (is_overflowing && tree != nullptr && !ts_node_has_error(ts_tree_root_node(tree)))
    is_overflowing = false;
  if (is_overflowing) {
    if (tree != nullptr) ts_tree_delete(tree);
    ts_parser_delete(state_->parser);
    is_overflowing = false;
    state_->renew();
    return fail(Fault::too_large, "a syntax error that spans more tokens than can be parsed");
  }
  if (tree == nullptr) {
    ts_parser_reset(state_->parser);
    return fail(Fault::too_large, "it is not parsed within 20 s");
  }
  Facts facts = File{state_->symbols, text}.read(ts_tree_root_node(tree));
  ts_tree_delete(tree);
  return facts;
}

}  // namespace crosscheck::memory
