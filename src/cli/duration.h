#pragma once

#include <string_view>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"

namespace crosscheck::cli {

// "45m", "12h", "90d": from a minute to ten years.
[[nodiscard]] base::Result<base::Duration> parse_duration(std::string_view text);

}  // namespace crosscheck::cli
