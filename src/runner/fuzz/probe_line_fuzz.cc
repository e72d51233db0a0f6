#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "crosscheck/base/json.h"
#include "crosscheck/runner/classify.h"

// A line of the probe, and what is made of it: always UTF-8 within its limits.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosscheck;
  const std::string_view line{reinterpret_cast<const char*>(data), size};
  const auto event = runner::parse_event(line);
  if (!event) {
    if (!base::is_utf8(event.error().message)) std::abort();
    return 0;
  }
  if (const auto* finish = std::get_if<runner::Finish>(&*event)) {
    const auto verdict = runner::classify(*finish);
    if (!base::is_utf8(verdict.message) || verdict.message.size() > 4096) std::abort();
    if (!base::is_utf8(verdict.detail) || verdict.detail.size() > 65536) std::abort();
  }
  return 0;
}
