#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "crosscheck/relay/event.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

// The row of a delivery that is kept for what follows from it, and not dispatched. Nothing when the
// delivery is on record.
[[nodiscard]] base::Result<std::optional<std::int64_t>> note_delivery(store::Tx& tx,
                                                                      std::string_view delivery_id,
                                                                      std::string_view type,
                                                                      std::string_view action,
                                                                      base::Time now);

struct Again {
  std::int64_t event = 0;  // id of the delivery's row
  std::int64_t armed = 0;  // dead dispatches and calls that are in the outbox again
};
// A delivery that is on record came again: what died of it is armed again, and nothing else.
[[nodiscard]] base::Result<Again> accept_again(store::Tx& tx, std::string_view delivery_id,
                                               base::Time now);

}  // namespace crosscheck::relay
