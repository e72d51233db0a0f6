#include <cstdint>
#include <cstdlib>

#include "crosscheck/base/json.h"
#include "crosscheck/github/payload.h"

using namespace crosscheck;

// Whatever the webhook holds, the result is JSON within the limit. Texts are made long, or nothing
// would ever be cut: each 'x' stands for a kilobyte.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string body;
  for (const char c : std::string_view{reinterpret_cast<const char*>(data), size}) {
    body.append(c == 'x' ? 1024 : 1, c);
  }
  const auto payload = github::make_client_payload("push", "d", body);
  if (!payload) {
    if (payload.error().fault == base::Fault::internal) std::abort();
    return 0;
  }
  if (payload->text.size() > github::k_client_payload_limit) std::abort();
  if (!base::parse_json(payload->text, "client payload")) std::abort();
  return 0;
}
