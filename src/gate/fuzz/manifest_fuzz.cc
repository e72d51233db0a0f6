#include <cstdint>
#include <cstdlib>

#include "crosscheck/gate/cell.h"
#include "crosscheck/gate/manifest.h"

using namespace crosscheck;
using namespace crosscheck::gate;

// Whatever is taken can be checked, hashed and asked for its first launch.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto manifest = parse_manifest(text, "gate.yaml");
  if (!manifest) return 0;
  (void)check(*manifest, base::from_micros(0));
  if (digest(*manifest).size() != 64) std::abort();
  for (const auto& id : cells(*manifest)) {
    const auto next = next_launch(*manifest, id, {}, 1, "/c");
    if (!next) std::abort();
    (void)request_json(*manifest, *next);
    if (judge_cell(*manifest, id, {}, std::nullopt).empty()) std::abort();
  }
  return 0;
}
