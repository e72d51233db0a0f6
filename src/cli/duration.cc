#include "duration.h"

#include <charconv>

#include "crosscheck/base/json.h"

namespace crosscheck::cli {

base::Result<base::Duration> parse_duration(std::string_view text) {
  std::int64_t number = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [unit, error] = std::from_chars(begin, end, number);
  constexpr std::int64_t k_minutes_a_day = 24 * 60;
  constexpr std::int64_t k_most = 3650 * k_minutes_a_day;
  std::int64_t minutes = 0;
  if (error == std::errc{} && number > 0 && number <= k_most && end - unit == 1) {
    if (*unit == 'm') minutes = number;
    if (*unit == 'h') minutes = number * 60;
    if (*unit == 'd') minutes = number * k_minutes_a_day;
  }
  if (minutes < 1 || minutes > k_most)
    return base::fail(base::Fault::invalid_input,
                      "'" + base::to_utf8(text, 40) + "' is no time from 1m to 3650d",
                      "write 45m, 12h or 90d");
  return std::chrono::minutes{minutes};
}

}  // namespace crosscheck::cli
