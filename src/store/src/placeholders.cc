#include "placeholders.h"

#include <algorithm>

namespace crosscheck::store {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What SQLite takes as part of a name; `$` among them, so that `a$1` is a name and no placeholder.
bool is_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         (static_cast<unsigned char>(c) & 0x80U) != 0;
}

// If a quoted piece or a comment begins at `at`, the position after its end; otherwise `at`.
std::size_t skip_opaque(std::string_view sql, std::size_t at) {
  const auto after = [&](std::size_t found, std::size_t length) {
    return found == std::string_view::npos ? sql.size() : found + length;
  };
  const std::string_view rest = sql.substr(at);
  // A doubled quote inside of quotes ends one piece and begins the next: the same
  // bytes are skipped.
  if (rest.starts_with('\'') || rest.starts_with('"') || rest.starts_with('`')) {
    return after(sql.find(rest.front(), at + 1), 1);
  }
  if (rest.starts_with('[')) return after(sql.find(']', at + 1), 1);
  if (rest.starts_with("--")) return after(sql.find('\n', at + 2), 1);
  if (rest.starts_with("/*")) return after(sql.find("*/", at + 2), 2);
  return at;
}

}  // namespace

std::string to_sqlite_placeholders(std::string_view sql) {
  std::string out{sql};
  for (std::size_t i = 0; i < sql.size();) {
    if (const std::size_t end = skip_opaque(sql, i); end != i) {
      i = end;
    } else if (is_name(sql[i])) {
      const std::size_t begin = i;
      while (i < sql.size() && is_name(sql[i])) ++i;
      const std::string_view word = sql.substr(begin, i - begin);
      if (word.size() > 1 && word.front() == '$' && std::ranges::all_of(word.substr(1), is_digit)) {
        out[begin] = '?';
      }
    } else {
      ++i;
    }
  }
  return out;
}

bool has_second_statement(std::string_view sql) {
  bool ended = false;
  for (std::size_t i = 0; i < sql.size();) {
    const bool comment = sql.substr(i).starts_with("--") || sql.substr(i).starts_with("/*");
    const std::size_t end = skip_opaque(sql, i);
    if (comment) {
      i = end;
      continue;
    }
    const char c = sql[i];
    const bool blank = c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f';
    if (ended && !blank && c != ';') return true;
    if (c == ';' && end == i) ended = true;
    i = end == i ? i + 1 : end;
  }
  return false;
}

}  // namespace crosscheck::store
