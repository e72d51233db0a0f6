#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"

// Small YAML files that people write (allowlist, settings), read strictly. Everything is text until
// its reader says otherwise, so `012`, `no` and `1.10` stay what was written.
namespace crosscheck::base::yaml {

struct Entry;

struct Node {
  enum class Kind : unsigned char { null, text, sequence, mapping };

  Kind kind = Kind::null;
  int line = 1;  // from 1
  int column = 1;
  bool quoted = false;
  std::string text;            // of Kind::text
  std::vector<Node> items;     // of Kind::sequence
  std::vector<Entry> entries;  // of Kind::mapping

  [[nodiscard]] bool is(Kind k) const { return kind == k; }
  // The value of `key`, or nullptr.
  [[nodiscard]] const Node* find(std::string_view key) const;
};

struct Entry {
  Node key;  // Kind::text
  Node value;
};

[[nodiscard]] std::string_view to_string(Node::Kind kind);  // "a list", "text", …

// One document. Duplicate keys, keys that are not text, anchors, aliases, tags, further documents,
// text that is not UTF-8, and nesting deeper than 32 are errors. An empty file is Kind::null.
// Errors begin with `source`:line:column.
[[nodiscard]] Result<Node> parse(std::string_view text, std::string_view source);

// An `invalid_input` error at `node`.
[[nodiscard]] tl::unexpected<Error> fail_at(std::string_view source, const Node& node,
                                            std::string message, std::string remedy = {});

}  // namespace crosscheck::base::yaml
