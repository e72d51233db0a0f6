#include <cstdint>
#include <string_view>

#include "crosscheck/base/url.h"
#include "crosscheck/relay/callback.h"

// Any body is a report or an error; what a report keeps can be stored and shown.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace base = crosscheck::base;
  const auto value = base::parse_json({reinterpret_cast<const char*>(data), size}, "body");
  if (!value) return 0;
  const auto body = crosscheck::relay::parse_callback(*value);
  if (!body) return 0;
  if (body->run_id.empty() || body->job_name.empty() || body->delivery_id.empty()) __builtin_trap();
  for (const auto& text :
       {body->run_id, body->job_name, body->delivery_id, body->workflow, body->word})
    if (text.find('\0') != std::string::npos || !base::is_utf8(text)) __builtin_trap();
  if (body->url && !base::is_web_url(*body->url)) __builtin_trap();
  return 0;
}
