#pragma once

#include <string>
#include <string_view>

#include "crosscheck/base/result.h"

namespace crosscheck::report {

// Whether a token may be sent to `url`: https, or http to a loopback address. The error says `what`
// it is.
[[nodiscard]] base::Result<void> may_carry_token(std::string_view url, std::string_view what);

}  // namespace crosscheck::report
