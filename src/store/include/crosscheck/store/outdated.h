#pragma once

#include <string>
#include <string_view>

namespace crosscheck::store {

// Conditions in SQL on what waits in an outbox or died there, for every part that asks.

// Of two `deliveries` of a pull request `n` is newer than `o`: by the event's own time, and by
// arrival where that is the same, or one has none.
inline constexpr std::string_view k_is_newer =
    "CASE WHEN n.said_at <> o.said_at THEN n.said_at > o.said_at ELSE n.id > o.id END";

// A newer commit of the pull request of the delivery whose id is `delivery`, or its end, is on
// record.
[[nodiscard]] std::string is_superseded(std::string_view delivery);

// On a row of `github_calls`: a later check run of the same subject was queued.
inline constexpr std::string_view k_is_replaced =
    "(github_calls.kind = 'create_check_run' AND EXISTS (SELECT 1 FROM github_calls n WHERE "
    "n.order_key = github_calls.order_key AND n.subject = github_calls.subject "
    "AND n.id > github_calls.id))";

}  // namespace crosscheck::store
