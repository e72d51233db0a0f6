#include <cstdint>
#include <cstdlib>

#include "crosscheck/base/run_results.h"

using namespace crosscheck::base;

// What is read can be written, and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto run = parse_run_results({reinterpret_cast<const char*>(data), size});
  if (!run) return 0;
  const auto again = parse_run_results(to_json_lines(*run));
  if (!again || again->results.size() != run->results.size()) std::abort();
  if (!(again->counts() == run->counts())) std::abort();
  return 0;
}
