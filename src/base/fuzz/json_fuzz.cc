#include <cstdint>
#include <cstdlib>

#include "crosscheck/base/json.h"

using namespace crosscheck::base;

// What parses has one canonical form, which parses to the same value; any bytes become UTF-8.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (!is_utf8(to_utf8(text, size / 2))) std::abort();
  const auto value = parse_json(text, "input");
  if (!value) return 0;
  if (!is_utf8(text)) std::abort();
  const std::string canonical = canonical_json(*value);
  const auto again = parse_json(canonical, "canonical");
  if (!again) std::abort();
  if (!parse_json(pretty_json(*value), "pretty")) std::abort();
  (void)require_id(*value, "a.b");
  return 0;
}
