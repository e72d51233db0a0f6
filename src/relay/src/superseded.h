#pragma once

#include <string>
#include <string_view>

#include "crosscheck/store/outdated.h"

namespace crosscheck::relay {

// Condition on a row of `dispatches`: a newer commit of its pull request, or its end, has arrived.
[[nodiscard]] inline std::string superseded() {
  return store::is_superseded("dispatches.delivery");
}

inline constexpr std::string_view k_superseded_reason =
    "superseded by a newer commit of the pull request, or by its end";

}  // namespace crosscheck::relay
