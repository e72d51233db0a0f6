#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "crosscheck/base/result.h"

namespace crosscheck::github {

// GitHub refuses a dispatch of 65,536 bytes and more. It does not say how it counts, so we stay
// below.
inline constexpr std::size_t k_client_payload_limit = 60'000;
inline constexpr std::size_t k_delivery_id_limit = 256;

struct ClientPayload {
  std::string text;  // a JSON object of at most k_client_payload_limit bytes
  bool truncated = false;
};

// The `client_payload` of a dispatch: {"event_type", "delivery_id", "payload": the webhook's body}.
// A body that does not fit loses what downstream workflows do not read, step by step, and
// `"truncated": true` says so; what they do read (k_kept in payload.cc) stays, cut only where one
// of those texts alone is absurdly long. Pure. `invalid_input`: the body is no JSON object, or the
// id is too long or not UTF-8.
[[nodiscard]] base::Result<ClientPayload> make_client_payload(std::string_view event_type,
                                                              std::string_view delivery_id,
                                                              std::string_view webhook_body);

}  // namespace crosscheck::github
