#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "crosscheck/runner/shard.h"

// What --shard and a results file may say: what is accepted is within its bounds and written back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosscheck;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto request = runner::parse_shard(text);
  if (!request) return 0;
  if (request->index == 0 || request->index > request->count) std::abort();
  if (request->count > runner::Shard::k_most) std::abort();
  if (!request->planned) return 0;
  const auto again = runner::parse_shard(to_string(*request->planned));
  if (!again || again->planned != request->planned) std::abort();
  if (request->planned->begin > request->planned->end) std::abort();
  return 0;
}
