#include <cstddef>
#include <cstdint>
#include <string_view>

#include "crosscheck/ops/support.h"

// What a backend's list or a file of answers holds is read or refused.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosscheck;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto support = ops::Support::parse(text, "support");
  if (!support) return 0;
  const ops::Making making{{"aten::linear"}, {{"aten::add.Tensor", "aten::add.out"}}};
  for (const char* name : {"aten::add.Tensor", "aten::linear", "aten::relu"}) {
    static_cast<void>(support->lacks(name, making));
  }
  return 0;
}
