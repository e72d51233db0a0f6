#include <cstdint>
#include <string_view>

#include "crosscheck/relay/providers.h"

// Any bytes are a mapping or an error at a place.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace relay = crosscheck::relay;
  const auto providers =
      relay::parse_providers({reinterpret_cast<const char*>(data), size}, "p.yaml");
  if (!providers) {
    if (!providers.error().message.starts_with("p.yaml:")) __builtin_trap();
    return 0;
  }
  // Whatever is mapped, a token that names nothing is nobody's.
  if (relay::map_pipeline({{"organization_id", ""}, {"pipeline_id", ""}}, *providers))
    __builtin_trap();
  return 0;
}
