#pragma once

#include <string>
#include <string_view>

#include "crosscheck/base/result.h"
#include "crosscheck/report/report.h"

namespace crosscheck::report {

// Whether a token may be sent to `url`: https, or http to this machine, or to anywhere where
// CROSSCHECK_ALLOW_HTTP is 1. The error says `what` it is.
[[nodiscard]] base::Result<void> may_carry_token(std::string_view url, std::string_view what,
                                                 const Environment& environment);

}  // namespace crosscheck::report
