#include <cstdint>
#include <string_view>

#include "crosscheck/base/yaml.h"

// Any bytes are a tree or an error that names its place.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto root =
      crosscheck::base::yaml::parse({reinterpret_cast<const char*>(data), size}, "f.yaml");
  if (!root && !root.error().message.starts_with("f.yaml:")) __builtin_trap();
  return 0;
}
