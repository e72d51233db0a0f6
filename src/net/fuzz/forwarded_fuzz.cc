#include <cstdlib>

#include "crosscheck/net/forwarded.h"

// The input is a header of a trusted proxy: whoever is taken for the caller is an address.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosscheck::net;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  static_cast<void>(Network::parse(text));
  const std::array trusted{*Network::parse("10.0.0.0/8")};
  Request request;
  request.remote = "10.0.0.1";
  request.headers.add("X-Forwarded-For", std::string{text});
  request.headers.add("X-Forwarded-Proto", std::string{text});
  apply_forwarded(request, trusted);
  if (!Network::parse(request.remote)) std::abort();
  if (request.scheme != "http" && request.scheme != "https") std::abort();
  return 0;
}
