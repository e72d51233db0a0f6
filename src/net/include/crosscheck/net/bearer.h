#pragma once

#include <string_view>

#include "crosscheck/net/http.h"

namespace crosscheck::net {

// The token of `Authorization: Bearer <token>`, the scheme in any letter case or left out; empty
// when there is none. Lives as long as the request.
[[nodiscard]] std::string_view bearer_of(const Request& request);

}  // namespace crosscheck::net
