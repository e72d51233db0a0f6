#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "crosscheck/base/json.h"
#include "crosscheck/runner/junit_read.h"

namespace {

using namespace crosscheck;

struct Read {
  std::vector<runner::JunitCase> cases;
  bool ok = false;
};

Read read(std::string_view text, std::size_t piece, runner::JunitParser::Forbidden forbidden) {
  Read read;
  runner::JunitParser parser{
      "fuzz",
      {[&](runner::JunitCase& test) { read.cases.push_back(test); }, [](runner::JunitSuite&) {}},
      forbidden};
  base::Result<void> result;
  while (result && !text.empty()) {
    result = parser.feed(text.substr(0, piece));
    text.remove_prefix(std::min(piece, text.size()));
  }
  if (result) result = parser.finish();
  read.ok = result.has_value();
  if (!result && !base::is_utf8(result.error().message)) std::abort();
  return read;
}

}  // namespace

// The size of the pieces changes nothing; what is handed on is UTF-8 and within its limits.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text{reinterpret_cast<const char*>(data) + 1, size - 1};
  using Forbidden = runner::JunitParser::Forbidden;
  const auto forbidden = (data[0] & 1U) != 0 ? Forbidden::question_mark : Forbidden::refuse;
  const auto whole = read(text, text.size() + 1, forbidden);
  const auto pieces = read(text, 1 + data[0] / 2U, forbidden);
  if (whole.ok != pieces.ok || whole.cases != pieces.cases) std::abort();
  for (const auto& test : whole.cases) {
    if (!base::is_utf8(test.name) || !base::is_utf8(test.class_name)) std::abort();
    for (const auto& problem : test.problems) {
      if (problem.text.size() > (std::size_t{64} << 10) + 16) std::abort();
    }
  }
  return 0;
}
