#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "crosscheck/gate/launch.h"

using namespace crosscheck::gate;

// What a launch writes is anybody's; numbers that are taken are finite.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto result = read_launch_result({reinterpret_cast<const char*>(data), size});
  if (!result) return 0;
  for (const auto& value : {result->p50_wall_s, result->p95_wall_s, result->p50_cpu_s,
                            result->peak_memory_bytes, result->throughput}) {
    if (value && !std::isfinite(*value)) std::abort();
  }
  return 0;
}
