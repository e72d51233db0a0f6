#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "crosscheck/base/json.h"
#include "crosscheck/runner/pytest_log.h"
#include "crosscheck/runner/pytest_name.h"

namespace {

using namespace crosscheck;

runner::PytestLog read(std::string_view text, std::size_t piece) {
  runner::PytestLogReader reader;
  while (!text.empty()) {
    reader.feed(text.substr(0, piece));
    text.remove_prefix(std::min(piece, text.size()));
  }
  return reader.finish();
}

}  // namespace

// The size of the pieces changes nothing, and every test that is named can be identified.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text{reinterpret_cast<const char*>(data) + 1, size - 1};
  const auto log = read(text, text.size() + 1);
  if (!(log == read(text, 1U + data[0]))) std::abort();
  const runner::Identifier identifier{nullptr};
  for (const auto& test : log.tests) {
    if (!base::is_utf8(test.node_id) || !base::is_utf8(test.message)) std::abort();
    if (test.text.size() > std::size_t{64} << 10) std::abort();
    const auto found = identifier.identify(runner::reported_name(test.node_id));
    if (base::too_long(found.id) || found.id.method.empty()) std::abort();
    if (!base::parse_json(found.id.variant, "variant")) std::abort();
  }
  return 0;
}
