#include "crosscheck/store/store.h"

#include <array>
#include <stdexcept>

#include "engines.h"
#include "migrate.h"

namespace crosscheck::store {

using base::fail;
using base::Fault;
using base::Result;

Bytes to_bytes(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::string_view as_text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

namespace {

constexpr std::array k_types{"NULL", "an integer", "a real", "text", "bytes"};

[[noreturn]] void wrong_type(std::size_t column, const Value& value, const char* wanted) {
  throw std::logic_error("column " + std::to_string(column) + " is " + k_types.at(value.index()) +
                         ", not " + wanted);
}

template <class T>
const T& as(const std::vector<Value>& values, std::size_t column, const char* wanted) {
  const Value& value = values.at(column);
  if (const T* held = std::get_if<T>(&value)) return *held;
  wrong_type(column, value, wanted);
}

}  // namespace

bool Row::is_null(std::size_t column) const {
  return std::holds_alternative<std::monostate>(values_.at(column));
}
std::int64_t Row::integer(std::size_t column) const {
  return as<std::int64_t>(values_, column, "an integer");
}
double Row::real(std::size_t column) const {
  if (const auto* whole = std::get_if<std::int64_t>(&values_.at(column))) {
    return static_cast<double>(*whole);
  }
  return as<double>(values_, column, "a real");
}
const std::string& Row::text(std::size_t column) const {
  return as<std::string>(values_, column, "text");
}
const Bytes& Row::bytes(std::size_t column) const { return as<Bytes>(values_, column, "bytes"); }
base::Time Row::time(std::size_t column) const { return base::from_micros(integer(column)); }

std::optional<std::int64_t> Row::optional_integer(std::size_t column) const {
  return is_null(column) ? std::nullopt : std::optional{integer(column)};
}
std::optional<double> Row::optional_real(std::size_t column) const {
  return is_null(column) ? std::nullopt : std::optional{real(column)};
}
std::optional<std::string> Row::optional_text(std::size_t column) const {
  return is_null(column) ? std::nullopt : std::optional{text(column)};
}
std::optional<base::Time> Row::optional_time(std::size_t column) const {
  return is_null(column) ? std::nullopt : std::optional{time(column)};
}

namespace {

bool is_postgresql(std::string_view url) {
  return url.starts_with("postgresql://") || url.starts_with("postgres://");
}

// The values of `password=` and `sslpassword=` in a query string.
std::string hide_query_passwords(std::string_view query) {
  std::string out;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    const std::string_view key = pair.substr(0, pair.find('='));
    out += key.ends_with("password") && key.size() < pair.size() ? std::string{key} + "=***"
                                                                 : std::string{pair};
    query.remove_prefix(pair.size());
    if (query.starts_with('&')) {
      out += '&';
      query.remove_prefix(1);
    }
  }
  return out;
}

// What stands between the user's name and the host. Up to the last `@`, wherever it is: a password
// with an unescaped `/`, `?` or `@` is found whole, at the price that a host before a stray `@` is
// taken with it.
struct PasswordSpan {
  std::size_t begin = 0;
  std::size_t length = 0;
};
std::optional<PasswordSpan> find_password(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return std::nullopt;
  const std::size_t colon = url.find(':', scheme + 3);
  const std::size_t at = url.rfind('@');
  if (colon == std::string_view::npos || at == std::string_view::npos || colon > at) {
    return std::nullopt;
  }
  return PasswordSpan{colon + 1, at - colon - 1};
}

}  // namespace

std::string redact(std::string_view url) {
  std::string out{url};
  if (const auto password = find_password(url)) {
    out.replace(password->begin, password->length, "***");
  }
  const std::size_t query = out.find('?');
  if (query == std::string::npos || url.find("://") == std::string_view::npos) return out;
  return out.substr(0, query + 1) + hide_query_passwords(std::string_view{out}.substr(query + 1));
}

bool has_unescaped_password(std::string_view url) {
  const auto password = find_password(url);
  return password && url.substr(password->begin, password->length).find_first_of("/?#@") !=
                         std::string_view::npos;
}

Result<std::unique_ptr<Store>> open_with(const std::string& url, const OpenOptions& options,
                                         std::span<const Migration> known) {
  if (is_postgresql(url)) return open_postgresql(url, options, known);
  constexpr std::string_view k_sqlite = "sqlite:";
  const std::string path = url.starts_with(k_sqlite) ? url.substr(k_sqlite.size()) : url;
  if (path.find("://") != std::string::npos) {
    return fail(Fault::usage, "the store '" + redact(url) + "' is of an unknown kind",
                "name a SQLite file, or postgresql://USER@HOST/DATABASE");
  }
  return open_sqlite(path, options, known);
}

Result<std::unique_ptr<Store>> open(const std::string& url, const OpenOptions& options) {
  return open_with(url, options, all_migrations());
}

Result<SchemaState> schema_state(Store& store) {
  return store.read_value([&](Tx& tx) -> Result<SchemaState> {
    auto applied = read_applied(tx, store.engine());
    if (!applied) return tl::unexpected(applied.error());
    return SchemaState{applied->empty() ? 0 : applied->back().version,
                       static_cast<int>(all_migrations().size())};
  });
}

}  // namespace crosscheck::store
