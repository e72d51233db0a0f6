#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../src/placeholders.h"

// Only `$` may change, only to `?`, only before a digit; and what is rewritten stays as it is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosscheck::store;
  const std::string_view sql{reinterpret_cast<const char*>(data), size};
  const std::string out = to_sqlite_placeholders(sql);
  if (out.size() != sql.size()) std::abort();
  for (std::size_t i = 0; i < size; ++i) {
    if (out[i] == sql[i]) continue;
    const bool digit = i + 1 < size && sql[i + 1] >= '0' && sql[i + 1] <= '9';
    if (sql[i] != '$' || out[i] != '?' || !digit) std::abort();
  }
  if (to_sqlite_placeholders(out) != out) std::abort();
  if (has_second_statement(sql) != has_second_statement(out)) std::abort();
  return 0;
}
