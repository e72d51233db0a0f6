#include <cstdlib>

#include "crosscheck/net/http.h"

// The first half of the input is a query, the second a name.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosscheck::net;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (percent_decode(percent_encode(text)) != text) std::abort();
  if (const auto decoded = percent_decode(text)) {
    if (decoded->size() > text.size()) std::abort();
  }
  Request request;
  request.query = text.substr(0, size / 2);
  const auto name = text.substr(size / 2);
  static_cast<void>(request.parameter(name));
  request.query += '&' + percent_encode(name) + '=';
  static_cast<void>(request.parameter(name));
  if (split_path(text).empty()) std::abort();
  return 0;
}
