#pragma once

#include <string_view>

namespace crosscheck::relay {

// Condition on a row of `dispatches`: a newer commit of its pull request, or its end, has arrived.
inline constexpr std::string_view k_superseded =
    "EXISTS (SELECT 1 FROM deliveries n JOIN deliveries o ON o.id = dispatches.delivery "
    "WHERE o.event_type = 'pull_request' AND n.event_type = 'pull_request' "
    "AND n.pr_number = o.pr_number AND n.id > o.id AND n.action IN ('synchronize', 'closed'))";

inline constexpr std::string_view k_superseded_reason =
    "superseded by a newer commit of the pull request, or by its end";

}  // namespace crosscheck::relay
