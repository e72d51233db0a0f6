#include <cstdlib>

#include "../src/head.h"

// Whatever comes over a connection: what is let through keeps Request's promises.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosscheck::net;
  constexpr std::size_t k_body_limit = 1000;
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  const auto request = parse_request(bytes, 4096, k_body_limit);
  if (!request) {
    if (request.error().status < 400 || request.error().status > 599) std::abort();
    return 0;
  }
  if (!request->path.starts_with('/') || request->path.find('\0') != std::string::npos)
    std::abort();
  if (request->body.size() > k_body_limit || request->method.empty()) std::abort();
  if (!percent_decode(request->query)) std::abort();
  return 0;
}
