#include "tokens.h"

#include <algorithm>
#include <unordered_set>

namespace crosscheck::memory {
namespace {

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_upper(c) || is_lower(c) || is_digit(c) || c == '_'; }
char lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

class Tokens {
 public:
  explicit Tokens(std::string_view text) { read(text); }
  std::vector<std::string> take() { return std::move(all_); }

 private:
  void read(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
      while (at < text.size() && !is_word(text[at])) ++at;
      const std::size_t begin = at;
      // A dot or colon joins names.
      while (at < text.size() &&
             (is_word(text[at]) || ((text[at] == '.' || text[at] == ':') && at + 1 < text.size() &&
                                    (is_word(text[at + 1]) || text[at + 1] == ':'))))
        ++at;
      if (at > begin) chain(text.substr(begin, at - begin));
    }
  }

  void chain(std::string_view text) {
    std::size_t begin = 0;
    bool several = false;
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (i < text.size() && text[i] != '.' && text[i] != ':') continue;
      if (i < text.size()) several = true;
      if (i > begin) name(text.substr(begin, i - begin));
      begin = i + 1;
    }
    if (several) add(text);
  }

  // foo_bar, FooBar, HTTPServer2.
  void name(std::string_view text) {
    add(text);
    std::size_t begin = 0;
    const auto part = [&](std::size_t end) {
      if (end > begin && end - begin < text.size()) add(text.substr(begin, end - begin));
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '_') {
        part(i);
        begin = i + 1;
      } else if (i > begin && is_upper(text[i]) &&
                 (is_lower(text[i - 1]) || is_digit(text[i - 1]) ||
                  (i + 1 < text.size() && is_lower(text[i + 1]) && is_upper(text[i - 1])))) {
        part(i);
        begin = i;
      }
    }
    part(text.size());
  }

  void add(std::string_view text) {
    if (text.empty() || text.find_first_not_of('_') == std::string_view::npos) return;
    std::string token{text};
    std::ranges::transform(token, token.begin(), lower);
    if (seen_.insert(token).second) all_.push_back(std::move(token));
  }

  std::vector<std::string> all_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

std::vector<std::string> tokens_of(std::string_view text) { return Tokens{text}.take(); }

std::string token_text(std::string_view text) {
  std::string joined;
  for (const std::string& token : tokens_of(text)) {
    if (!joined.empty()) joined += ' ';
    joined += token;
  }
  return joined;
}

}  // namespace crosscheck::memory
