#include <cstdint>
#include <string_view>

#include "crosscheck/profile/detect.h"

// Any bytes are words of either language, with lines that the source has.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosscheck::profile;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  int lines = 1;
  for (const char c : text) lines += c == '\n' ? 1 : 0;
  for (const Language language : {Language::cpp, Language::python}) {
    Detected found;
    for (const Point& point : built_in_points().points)
      found.points.push_back({point.name, point.says, {}, {}});
    detect_in(found, built_in_points(), text, language, "f");
    int before = 1;
    for (const Token& token : tokens_of(text, language)) {
      if (token.line < before || token.line > lines) __builtin_trap();
      before = token.line;
    }
  }
  return 0;
}
