#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "crosscheck/runner/inventory.h"

// What is accepted is written back and read the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosscheck;
  const auto read = runner::parse_inventory({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!read) return 0;
  const auto again = runner::parse_inventory(runner::to_json_lines(*read), "again");
  if (!again || !(*again == *read)) std::abort();
  return 0;
}
