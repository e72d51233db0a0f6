#pragma once

#include <string_view>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/net/http.h"

// The one mapping from what went wrong to HTTP.
namespace crosscheck::relay {

[[nodiscard]] int http_status(base::Fault fault);

// {"ok": false, "error": <fault>, "detail": <message>, "remedy": …}. What is the relay's own
// trouble (5xx) is logged under `event`, and the caller is only told to try again.
[[nodiscard]] net::Response refuse(const base::Error& error, std::string_view event);

[[nodiscard]] net::Response answer_json(int status, const base::json::object& body);

}  // namespace crosscheck::relay
