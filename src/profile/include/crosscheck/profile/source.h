#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The words of C++ and Python source, as far as it takes to see what it calls, defines and derives
// from. Comments, code behind `#if 0`, and names that a `#define` introduces are not among them.
namespace crosscheck::profile {

enum class Language : std::uint8_t { cpp, python };

struct Token {
  enum class Kind : std::uint8_t { name, text, number, sign };

  Kind kind = Kind::sign;
  std::string_view
      text;      // of a string literal what stands between its quotes; a view of the source
  int line = 1;  // from 1
  [[nodiscard]] bool is(std::string_view sign) const { return kind == Kind::sign && text == sign; }
  [[nodiscard]] bool is_name(std::string_view name) const {
    return kind == Kind::name && text == name;
  }
};

// Never fails: what is no token is passed over, and what does not end ends with the file.
[[nodiscard]] std::vector<Token> tokens_of(std::string_view source, Language language);

// What is called, derived from, defined or named somewhere, with the words around it.
struct Mention {
  enum class Kind : std::uint8_t { call, base, definition, decorator, name, text };

  Kind kind = Kind::name;
  // "torch", "_dynamo", "register_backend": as qualified as the source says, by its imports too.
  std::vector<std::string_view> chain;
  // Of a call and a decorator: for each argument its names and string literals that stand outside
  // further parentheses.
  std::vector<std::vector<std::string_view>> arguments;
  int line = 1;
};

struct Mentions {
  std::vector<Mention> all;
  // Names that the file sets to a string, once or always to the same one.
  std::map<std::string_view, std::optional<std::string_view>, std::less<>> constants;
};
// Views of the source, as the tokens.
[[nodiscard]] Mentions mentions_of(const std::vector<Token>& tokens, Language language);

}  // namespace crosscheck::profile
