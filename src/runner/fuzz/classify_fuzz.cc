#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "crosscheck/runner/classify.h"

// Any bytes a dying process may have written. The first two thirds are a message, the rest a
// traceback.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosscheck;
  const std::string text{reinterpret_cast<const char*>(data), size};
  const auto once = runner::normalise(text);
  if (runner::normalise(once) != once) std::abort();
  runner::Finish finish;
  finish.outcome = runner::Reported::failed;
  finish.type = "Exception";
  finish.message = text.substr(0, size * 2 / 3);
  finish.traceback = text.substr(size * 2 / 3);
  if (runner::classify(finish).fingerprint.size() != 16) std::abort();
  if (runner::classify_crash({std::nullopt, 6}, text).fingerprint.size() != 16) std::abort();
  return 0;
}
