#include <cstdint>
#include <cstdlib>

#include "crosscheck/base/gzip.h"

using namespace crosscheck::base;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t k_limit = 1 << 20;
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  const auto unpacked = gunzip(bytes, k_limit);
  if (unpacked && unpacked->size() > k_limit) std::abort();
  const auto again = gunzip(gzip(bytes), size);
  if (!again || *again != bytes) std::abort();
  return 0;
}
