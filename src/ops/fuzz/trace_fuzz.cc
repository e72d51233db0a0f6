#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "crosscheck/ops/trace.h"

namespace {

using namespace crosscheck;

struct Read {
  std::vector<std::string> headers;
  std::vector<ops::TracedTest> tests;
  bool ok = false;
};

Read read(std::string_view text, std::size_t piece) {
  Read read;
  ops::TraceReader reader{"trace",
                          [&](const ops::TraceHeader& header) -> base::Result<void> {
                            read.headers.push_back(ops::header_line(header));
                            return {};
                          },
                          [&](ops::TracedTest test) -> base::Result<void> {
                            read.tests.push_back(std::move(test));
                            return {};
                          }};
  while (!text.empty()) {
    if (!reader.add(text.substr(0, piece))) return read;
    text.remove_prefix(std::min(piece, text.size()));
  }
  read.ok = reader.finish().has_value();
  return read;
}

}  // namespace

// Whatever a trace holds, it is read the same in whatever pieces, and what was read is read back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto whole = read(text, size + 1);
  const auto pieces = read(text, 7);
  if (whole.ok != pieces.ok || whole.tests != pieces.tests || whole.headers != pieces.headers) {
    std::abort();
  }
  if (!whole.ok) return 0;
  std::string again = whole.headers.at(0) + "\n";
  for (const auto& test : whole.tests) again += ops::test_line(test) + "\n";
  const auto back = read(again + ops::end_line(whole.tests.size()) + "\n", 64);
  if (!back.ok || back.tests != whole.tests || back.headers != whole.headers) std::abort();
  return 0;
}
