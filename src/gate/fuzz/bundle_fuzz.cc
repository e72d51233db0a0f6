#include <cstdint>

#include "crosscheck/gate/bundle.h"

// Bundles come from other machines.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)crosscheck::gate::open_bundle({reinterpret_cast<const char*>(data), size}, "b.tar");
  return 0;
}
