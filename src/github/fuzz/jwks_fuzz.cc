#include <cstdint>

#include "crosscheck/github/jwt.h"

using namespace crosscheck::github;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto keys = parse_jwks({reinterpret_cast<const char*>(data), size});
  if (!keys) return 0;
  for (const auto& [kid, key] : *keys) (void)key.verify("text", "signature");
  return 0;
}
