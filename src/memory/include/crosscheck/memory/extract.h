#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"

// What one Python file holds, read from its text alone: tree-sitter's syntax tree, no import, no
// execution.
namespace crosscheck::memory {

// The names are API: stored, in files and in JSON.
enum class Kind : std::uint8_t {
  test,    // a function named test…, in a class or a module; not one inside another function
  klass,   // "class"
  helper,  // any other function or method
  value,   // an assignment at the module's level
};
[[nodiscard]] std::string_view to_string(Kind kind);
[[nodiscard]] std::optional<Kind> parse_kind(std::string_view name);

// A function inside another belongs to the outer one. A class's own text is its header and what
// stands in its body outside of functions and classes.
struct Definition {
  Kind kind = Kind::helper;
  std::string class_name = {};  // enclosing classes, "Outer.Inner"; empty: the module
  std::string name = {};
  int first_line = 0;  // from 1; where the decorators begin
  int line = 0;        // where `def`, `class` or the name stands
  int last_line = 0;
  std::vector<std::string> decorators = {};  // as written, without "@", white space as one space
  // Calls at the module's level that are given this class, as written:
  // "instantiate_device_type_tests(TestX, globals(), only_for='cuda')".
  std::vector<std::string> instantiated = {};
  // References, see `uses`; of a class alone.
  std::vector<std::string> bases = {};
  std::vector<std::string> symbols = {};  // distinct identifiers and word-like texts, sorted
  std::vector<std::string> apis = {};     // distinct names in torch, imports resolved, sorted
  // What it may mean elsewhere in the tree, distinct and sorted:
  //   ".name"        of its own class or a base     "^name"   of a base
  //   "name"         of its own module              "*name"   of a module imported with *
  //   "module:name"  of a module; "module:name.attribute" where more of the chain is known
  std::vector<std::string> uses = {};
  std::string doc = {};      // the docstring's text, at most 2 KiB
  std::string comment = {};  // of a test: the comment before its first statement, as much
  std::string body = {};     // sha256 of what it does: its tokens without name, comments, docstring
  // The least hashes of its three-token sequences, sorted: how alike two bodies are.
  std::vector<std::uint32_t> shape = {};

  friend bool operator==(const Definition&, const Definition&) = default;
};
// "Class::name", or the name alone.
[[nodiscard]] std::string qualified_name(const Definition& definition);

struct Facts {
  std::vector<Definition> definitions;  // in order of their first line
  std::vector<std::string> imports;     // distinct modules, sorted, relative ones with their dots
  std::vector<std::string> stars;       // those imported with *, sorted
  // What keeps it from being read wholly, "syntax error at 12:4"; empty: nothing. The rest is read
  // all the same.
  std::string problem;

  friend bool operator==(const Facts&, const Facts&) = default;
};

// How much of two shapes is the same, 0 to 1. An empty one is like no other.
[[nodiscard]] double likeness(const std::vector<std::uint32_t>& a,
                              const std::vector<std::uint32_t>& b);

// Why a grammar of this ABI cannot be used by a library that takes those from `least` to `most`.
[[nodiscard]] base::Result<void> check_grammar(std::uint32_t grammar, std::uint32_t least,
                                               std::uint32_t most);

// One at a time per thread.
class Extractor {
 public:
  // `environment` where grammar and library do not fit each other.
  [[nodiscard]] static base::Result<Extractor> make();
  Extractor(Extractor&&) noexcept;
  Extractor& operator=(Extractor&&) noexcept;
  ~Extractor();

  // Any bytes; at most 4 GiB. `too_large` if the parser does not end within 20 s.
  [[nodiscard]] base::Result<Facts> extract(std::string_view text);

 private:
  struct State;
  explicit Extractor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace crosscheck::memory
