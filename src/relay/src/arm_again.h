#pragma once

#include <cstdint>
#include <string_view>

#include "crosscheck/store/store.h"

namespace crosscheck::relay {

// Puts the dead dispatches for which `condition` on a row of `dispatches` holds back into the
// outbox, as if they were new, and wakes the dispatcher; `value` is the condition's $1. Those that
// a newer commit superseded, and those whose event is past its retention, stay dead. How many.
[[nodiscard]] base::Result<std::int64_t> arm_again(store::Tx& tx, std::string_view condition,
                                                   const store::Parameter& value, base::Time now);

}  // namespace crosscheck::relay
