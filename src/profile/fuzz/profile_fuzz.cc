#include <cstdint>
#include <string_view>

#include "crosscheck/profile/operators.h"
#include "crosscheck/profile/profile.h"

// Any bytes are a profile, patterns and a list of operators, or errors that name their places; a
// profile without findings is written as one that is read the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosscheck::profile;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const Loaded loaded = parse_profile(text, "f", built_in_points());
  for (const auto& finding : loaded.findings)
    if (!finding.message.starts_with("f:")) __builtin_trap();
  if (loaded.findings.empty()) {
    const Loaded again = parse_profile(to_yaml(*loaded.profile), "f", built_in_points());
    if (!again.findings.empty() || to_json(*again.profile) != to_json(*loaded.profile))
      __builtin_trap();
  }
  if (const auto points = add_points({}, text, "f");
      !points && !points.error().message.starts_with("f:"))
    __builtin_trap();
  for (const bool yaml : {true, false})
    if (const auto list = parse_operators(text, "f", yaml);
        !list && !list.error().message.starts_with("f:"))
      __builtin_trap();
  return 0;
}
