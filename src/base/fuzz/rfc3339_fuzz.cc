#include <cstdint>
#include <cstdlib>

#include "crosscheck/base/time.h"

using namespace crosscheck::base;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto time = parse_rfc3339({reinterpret_cast<const char*>(data), size});
  if (!time) return 0;
  const auto again = parse_rfc3339(to_rfc3339(*time));
  if (!again || *again != *time) std::abort();
  return 0;
}
