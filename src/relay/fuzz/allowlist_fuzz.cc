#include <cstdint>
#include <string_view>

#include "crosscheck/relay/allowlist.h"

// Any bytes are a list or an error at a place; what is listed is found again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto list =
      crosscheck::relay::parse_allowlist({reinterpret_cast<const char*>(data), size}, "a.yaml");
  if (!list) {
    if (!list.error().message.starts_with("a.yaml:")) __builtin_trap();
    return 0;
  }
  for (const auto& backend : list->backends()) {
    if (list->find(backend.repo) != &backend) __builtin_trap();
    static_cast<void>(backend.branches.pass("main"));
    static_cast<void>(backend.paths.pass("aten/src/x.cpp"));
  }
  return 0;
}
