#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "crosscheck/memory/endpoint.h"

using namespace crosscheck::memory;

// Any bytes as an endpoint's answer: it is refused, or what is taken from it is in order.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body{reinterpret_cast<const char*>(data), size};
  for (const std::size_t texts : {1U, 2U}) {
    const auto vectors = read_embeddings(body, texts);
    if (!vectors) continue;
    if (vectors->size() != texts) std::abort();
    for (const auto& vector : *vectors) {
      if (vector.empty() || vector.size() != vectors->front().size()) std::abort();
      for (const float value : vector)
        if (!std::isfinite(value)) std::abort();
    }
  }
  if (const auto summary = read_summary(body))
    if (summary->empty() || summary->find('\n') != std::string::npos) std::abort();
  return 0;
}
