#pragma once

#include <string_view>

#include "crosscheck/relay/leased_outbox.h"

namespace crosscheck::relay {

inline constexpr std::string_view k_dispatch_channel = "dispatch";

using DispatcherOptions = OutboxOptions;

// Sends the dispatches that stand in the outbox to `target`, which outlives it.
class Dispatcher final : public LeasedOutbox {
 public:
  Dispatcher(store::Store& store, const base::Clock& clock, DispatchTarget& target,
             DispatcherOptions options);
};

}  // namespace crosscheck::relay
