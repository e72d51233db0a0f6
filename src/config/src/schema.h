#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "crosscheck/config/document.h"

// Which keys the format has and what may stand behind them. One table, followed by one walk.
namespace crosscheck::config {

struct Schema;

enum class Shape : std::uint8_t {
  any,      // read by the tests alone
  text,     //
  word,     // one of `words`
  boolean,  //
  integer,  //
  number,   // finite
  dtype,    // a word of k_dtypes, which may have `torch.` in front
  date,     // YYYY-MM-DD
  mapping,  // with the keys of `schema`
  list,     // of what `item` says
};

struct Type {
  Shape shape = Shape::any;
  std::span<const std::string_view> words = {};
  const Schema* schema = nullptr;
  const Type* item = nullptr;
  bool or_null = false;
  // What may stand instead: a single value for a list of it, a name for a mapping with one.
  const Type* alternative = nullptr;
  bool not_empty = false;  // of a list
};

struct Key {
  std::string_view name;
  Type type;
  bool required = false;
};

struct Schema {
  std::string_view what;  // "a test entry"
  std::span<const Key> keys;
};

// YAML 1.1's words.
[[nodiscard]] std::optional<bool> parse_boolean(std::string_view text);

// What the whole file must be.
[[nodiscard]] const Type& root_type();

// Adds a finding for everything in `node` that is not of `type`.
void check_type(Node node, const Type& type, std::string_view key, std::vector<Finding>& findings);

}  // namespace crosscheck::config
