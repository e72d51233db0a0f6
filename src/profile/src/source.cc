#include "crosscheck/profile/source.h"

#include <algorithm>
#include <utility>

namespace crosscheck::profile {
namespace {

using Kind = Token::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Bytes beyond ASCII may be letters of any encoding.
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool continues_name(char c) { return begins_name(c) || is_digit(c); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

class Scanner {
 public:
  Scanner(std::string_view source, Language language) : source_{source}, language_{language} {}

  std::vector<Token> scan() {
    if (source_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    while (at_ < source_.size()) step();
    return std::move(tokens_);
  }

 private:
  // What a conditional of the preprocessor keeps of the branch that it is in.
  struct Conditional {
    bool was_on = true;       // around it
    bool never_else = false;  // `#if 1`: its other branches are off
    bool on = true;
  };

  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  [[nodiscard]] bool on() const { return conditionals_.empty() || conditionals_.back().on; }

  void add(Kind kind, std::size_t from, std::size_t to, int line) {
    if (on()) tokens_.push_back({kind, source_.substr(from, to - from), line});
  }

  void new_line() {
    ++line_;
    ++at_;
    fresh_ = true;
  }

  void step() {
    const char c = peek();
    if (c == '\n') return new_line();
    if (is_blank(c)) {
      ++at_;
      return;
    }
    if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      at_ += peek(1) == '\n' ? 1U : 2U;
      const bool fresh = fresh_;
      new_line();
      fresh_ = fresh;
      return;
    }
    if (language_ == Language::python ? c == '#' : c == '/' && peek(1) == '/')
      return line_comment();
    if (language_ == Language::cpp && c == '/' && peek(1) == '*') return block_comment();
    const bool first = std::exchange(fresh_, false);
    if (language_ == Language::cpp && c == '#' && first) return directive();
    if (begins_name(c)) return name();
    if (is_digit(c)) return number();
    if (c == '"' || c == '\'') return literal(at_, false);
    // A qualified name is one thing to those who read the tokens.
    if (language_ == Language::cpp && c == ':' && peek(1) == ':') {
      add(Kind::sign, at_, at_ + 2, line_);
      at_ += 2;
      return;
    }
    add(Kind::sign, at_, at_ + 1, line_);
    ++at_;
  }

  void line_comment() {
    while (at_ < source_.size() && source_[at_] != '\n') {
      // In C++ a backslash carries a comment on into the next line.
      if (language_ == Language::cpp && source_[at_] == '\\' && peek(1) == '\n') {
        ++line_;
        ++at_;
      }
      ++at_;
    }
  }

  void block_comment() {
    at_ += 2;
    while (at_ < source_.size() && !(source_[at_] == '*' && peek(1) == '/')) {
      if (source_[at_] == '\n') ++line_;
      ++at_;
    }
    at_ = std::min(at_ + 2, source_.size());
  }

  void name() {
    const std::size_t from = at_;
    while (at_ < source_.size() && continues_name(source_[at_])) ++at_;
    const std::string_view word = source_.substr(from, at_ - from);
    if ((peek() == '"' || peek() == '\'') && is_prefix(word)) return literal(from, true);
    add(Kind::name, from, at_, line_);
  }

  // Whether `word` before a quote belongs to the literal.
  [[nodiscard]] bool is_prefix(std::string_view word) const {
    if (language_ == Language::python)
      return word.size() <= 2 && word.find_first_not_of("rRbBuUfFtT") == std::string_view::npos;
    if (word.ends_with('R')) word.remove_suffix(1);
    return word.empty() || word == "u8" || word == "u" || word == "U" || word == "L";
  }

  void number() {
    const std::size_t from = at_;
    while (at_ < source_.size() &&
           (continues_name(source_[at_]) || source_[at_] == '.' ||
            (language_ == Language::cpp && source_[at_] == '\'' && continues_name(peek(1)))))
      ++at_;
    add(Kind::number, from, at_, line_);
  }

  // At its opening quote; its prefix, if it has one, begins at `from`.
  void literal(std::size_t from, bool prefixed) {
    const std::string_view prefix = source_.substr(from, at_ - from);
    const bool raw = prefixed && prefix.find_first_of(language_ == Language::cpp ? "R" : "rR") !=
                                     std::string_view::npos;
    const char quote = peek();
    const int line = line_;
    if (language_ == Language::cpp && raw && quote == '"') return raw_literal(line);
    const bool triple = language_ == Language::python && peek(1) == quote && peek(2) == quote;
    at_ += triple ? 3 : 1;
    const std::size_t begin = at_;
    std::size_t end = source_.size();
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == '\\' && at_ + 1 < source_.size()) {
        if (source_[at_ + 1] == '\n') ++line_;
        at_ += 2;
        continue;
      }
      if (c == '\n') {
        if (!triple) {  // it was not closed
          end = at_;
          break;
        }
        ++line_;
      } else if (c == quote && (!triple || (peek(1) == quote && peek(2) == quote))) {
        end = at_;
        at_ += triple ? 3 : 1;
        break;
      }
      ++at_;
    }
    add(Kind::text, begin, std::min(end, source_.size()), line);
  }

  void raw_literal(int line) {
    const std::size_t open = source_.find('(', at_);
    if (open == std::string_view::npos || open - at_ > 17) {  // no raw literal after all
      ++at_;
      return;
    }
    const std::string closing = ")" + std::string{source_.substr(at_ + 1, open - at_ - 1)} + "\"";
    const std::size_t close = std::min(source_.find(closing, open), source_.size());
    add(Kind::text, open + 1, close, line);
    line_ +=
        static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                    source_.begin() + static_cast<std::ptrdiff_t>(close), '\n'));
    at_ = std::min(close + closing.size(), source_.size());
  }

  [[nodiscard]] std::string_view word_of_directive() {
    while (is_blank(peek())) ++at_;
    const std::size_t from = at_;
    while (at_ < source_.size() && continues_name(source_[at_])) ++at_;
    return source_.substr(from, at_ - from);
  }

  // The rest of the directive: up to the end of the line, also of one that is carried on.
  std::string_view rest_of_directive() {
    const std::size_t from = at_;
    std::size_t end = source_.size();
    while (at_ < source_.size()) {
      if (source_[at_] == '\n') {
        end = std::min(end, at_);
        break;
      }
      if (source_[at_] == '/' && (peek(1) == '*' || peek(1) == '/')) {
        end = std::min(end, at_);
        if (peek(1) == '/') {
          line_comment();
          break;
        }
        block_comment();
        continue;
      }
      if (source_[at_] == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        at_ += peek(1) == '\n' ? 1U : 2U;
        ++line_;
      }
      ++at_;
    }
    std::string_view rest = source_.substr(from, std::min(end, at_) - from);
    while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
    while (!rest.empty() && is_blank(rest.back())) rest.remove_suffix(1);
    return rest;
  }

  void directive() {
    ++at_;
    const std::string_view word = word_of_directive();
    if (word == "define") {  // what it stands for is source like any other
      static_cast<void>(word_of_directive());
      return;
    }
    const std::string_view rest = rest_of_directive();
    if (word == "if" || word == "ifdef" || word == "ifndef") {
      const bool around = on();
      const bool never = word == "if" && (rest == "0" || rest == "false");
      const bool always = word == "if" && (rest == "1" || rest == "true");
      conditionals_.push_back({around, always, around && !never});
    } else if (word == "elif" || word == "else" || word == "elifdef" || word == "elifndef") {
      if (conditionals_.empty()) return;
      Conditional& top = conditionals_.back();
      top.on = top.was_on && !top.never_else;
    } else if (word == "endif") {
      if (!conditionals_.empty()) conditionals_.pop_back();
    }
  }

  const std::string_view source_;
  const Language language_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool fresh_ = true;  // nothing but blanks stands before in the line
  std::vector<Conditional> conditionals_;
  std::vector<Token> tokens_;
};

class Reader {
 public:
  Reader(const std::vector<Token>& tokens, Language language)
      : tokens_{tokens}, language_{language} {}

  Mentions read() {
    while (at_ < tokens_.size()) step();
    return std::move(found_);
  }

 private:
  using Chain = std::vector<std::string_view>;

  [[nodiscard]] const Token& peek(std::size_t ahead = 0) const {
    static const Token k_end{};
    return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead] : k_end;
  }
  [[nodiscard]] bool python() const { return language_ == Language::python; }

  [[nodiscard]] bool is_joint(const Token& token) const {
    return token.is(".") || (!python() && token.is("::"));
  }

  // a.b.c or a::b::c from here on, with what imports say of its beginning.
  Chain chain() {
    Chain words;
    while (peek().kind == Kind::name) {
      words.push_back(peek().text);
      ++at_;
      if (!is_joint(peek()) || peek(1).kind != Kind::name) break;
      ++at_;
    }
    if (words.empty()) return words;
    if (const auto import = imports_.find(words.front()); import != imports_.end()) {
      Chain whole = import->second;
      whole.insert(whole.end(), words.begin() + 1, words.end());
      return whole;
    }
    return words;
  }

  void add(Mention::Kind kind, Chain words, int line,
           std::vector<std::vector<std::string_view>> arguments = {}) {
    found_.all.push_back({kind, std::move(words), std::move(arguments), line});
  }

  // Of the parenthesis that stands here; goes nowhere, so that calls within it are met as well.
  [[nodiscard]] std::vector<std::vector<std::string_view>> arguments() const {
    std::vector<std::vector<std::string_view>> all(1);
    int depth = 0;
    constexpr std::size_t k_longest = 128;  // tokens: what matters stands in front
    for (std::size_t i = at_; i < tokens_.size() && i < at_ + k_longest; ++i) {
      const Token& token = tokens_[i];
      if (token.is("(") || token.is("[") || token.is("{")) {
        ++depth;
      } else if (token.is(")") || token.is("]") || token.is("}")) {
        if (--depth == 0) break;
      } else if (token.is(",") && depth == 1) {
        all.emplace_back();
      } else if (depth == 1 && (token.kind == Kind::name || token.kind == Kind::text)) {
        all.back().push_back(token.text);
      }
    }
    return all;
  }

  void step() {
    const Token& token = peek();
    if (token.kind == Kind::text) {
      add(Mention::Kind::text, {token.text}, token.line);
      ++at_;
      return;
    }
    if (python() && token.is("@") && peek(1).kind == Kind::name && begins_line(at_)) {
      ++at_;
      const int line = peek().line;
      Chain words = chain();
      add(Mention::Kind::decorator, std::move(words), line,
          peek().is("(") ? arguments() : std::vector<std::vector<std::string_view>>{});
      return;
    }
    if (token.kind != Kind::name) {
      ++at_;
      return;
    }
    if (python() && (token.text == "import" || token.text == "from") && begins_line(at_))
      return import();
    if (token.text == "class" || (!python() && token.text == "struct")) return type();
    if (python() && token.text == "def" && peek(1).kind == Kind::name) {
      add(Mention::Kind::definition, {peek(1).text}, peek(1).line);
      at_ += 2;
      return;
    }
    // A name behind a joint goes on with what was no name: `f().g`.
    const std::size_t first = at_;
    Chain words = chain();
    const int line = tokens_[at_ - 1].line;
    if (at_ == first + 1 && peek().is("=") && peek(1).kind == Kind::text)
      constant(tokens_[first].text, peek(1).text);
    if (peek().is("(")) return add(Mention::Kind::call, std::move(words), line, arguments());
    // f<T>(…)
    if (!python() && peek().is("<")) {
      std::size_t i = at_;
      int depth = 0;
      for (; i < tokens_.size() && i < at_ + 64; ++i) {
        if (tokens_[i].is("<")) ++depth;
        if (tokens_[i].is(">") && --depth == 0) break;
        if (tokens_[i].is(";") || tokens_[i].is("{")) break;
      }
      if (depth == 0 && i + 1 < tokens_.size() && tokens_[i + 1].is("(")) {
        const std::size_t back = std::exchange(at_, i + 1);
        add(Mention::Kind::call, words, line, arguments());
        at_ = back;
        return;
      }
    }
    add(Mention::Kind::name, std::move(words), line);
  }

  [[nodiscard]] bool begins_line(std::size_t index) const {
    return index == 0 || tokens_[index - 1].line < tokens_[index].line ||
           tokens_[index - 1].is(";") || tokens_[index - 1].is(":");
  }

  void constant(std::string_view name, std::string_view value) {
    const auto [entry, fresh] = found_.constants.try_emplace(name, value);
    if (!fresh && entry->second != value) entry->second.reset();
  }

  // `import a.b as c`, `from a.b import c as d, e`: the names that it brings.
  void import() {
    const bool from = peek().text == "from";
    const int line = peek().line;
    ++at_;
    Chain module;
    if (from) {
      while (peek().is(".") || peek().kind == Kind::name) {
        if (peek().is_name("import")) break;
        if (peek().kind == Kind::name) module.push_back(peek().text);
        ++at_;
      }
      if (!peek().is_name("import")) return;
      ++at_;
    }
    const bool bracketed = from && peek().is("(");
    if (bracketed) ++at_;
    while (peek().kind == Kind::name && (bracketed || peek().line == line)) {
      Chain whole = module;
      const std::string_view first = peek().text;
      whole.push_back(first);
      ++at_;
      while (!from && peek().is(".") && peek(1).kind == Kind::name) {
        whole.push_back(peek(1).text);
        at_ += 2;
      }
      if (peek().is_name("as") && peek(1).kind == Kind::name) {
        imports_[peek(1).text] = std::move(whole);
        at_ += 2;
      } else if (from) {
        imports_[first] = std::move(whole);
      }
      if (!peek().is(",")) break;
      ++at_;
    }
  }

  // `class X : public a::B, C<D> {` or `class X(a.B, C):`: what it derives from.
  void type() {
    ++at_;
    while (!python() && peek().kind == Kind::name && peek(1).kind == Kind::name &&
           !peek(1).is_name("final"))
      ++at_;  // macros
    if (peek().kind != Kind::name) return;
    add(Mention::Kind::definition, {peek().text}, peek().line);
    ++at_;
    while (!python() && is_joint(peek()) && peek(1).kind == Kind::name) at_ += 2;
    if (peek().is_name("final")) ++at_;
    if (python() ? !peek().is("(") : !peek().is(":")) return;
    ++at_;
    while (at_ < tokens_.size() && !peek().is(python() ? ")" : "{") && !peek().is(";")) {
      if (peek().kind != Kind::name) {
        ++at_;
        continue;
      }
      const int line = peek().line;
      Chain words = chain();
      // `metaclass=X` is no base, and public and virtual are none either.
      if (python() && peek().is("=")) {
        while (at_ < tokens_.size() && !peek().is(",") && !peek().is(")")) ++at_;
        continue;
      }
      if (words.size() > 1 || (words[0] != "public" && words[0] != "protected" &&
                               words[0] != "private" && words[0] != "virtual"))
        add(Mention::Kind::base, std::move(words), line);
    }
  }

  const std::vector<Token>& tokens_;
  const Language language_;
  std::size_t at_ = 0;
  std::map<std::string_view, Chain> imports_;
  Mentions found_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source, Language language) {
  return Scanner{source, language}.scan();
}

Mentions mentions_of(const std::vector<Token>& tokens, Language language) {
  return Reader{tokens, language}.read();
}

}  // namespace crosscheck::profile
