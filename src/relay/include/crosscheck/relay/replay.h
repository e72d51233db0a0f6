#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

// What a person wants sent again: one dispatch, one other call to GitHub, one report
// for another HUD; or what there is of one delivery, or at all, in their outboxes. Only what is
// dead is.
struct ReplayDispatch {
  std::int64_t id = 0;
};
struct ReplayCall {
  std::int64_t id = 0;
};
struct ReplayReport {
  std::int64_t id = 0;
};
struct ReplayDelivery {
  std::string id;  // X-GitHub-Delivery
};
struct ReplayAllDead {};
using ReplayWhat =
    std::variant<ReplayDispatch, ReplayCall, ReplayReport, ReplayDelivery, ReplayAllDead>;

struct Replayed {
  std::int64_t armed = 0;
  std::int64_t left = 0;  // dead, but superseded or replaced, or their event is past its retention
};
// Who asks, for the audit log.
struct Asker {
  std::string actor;   // "token:<name>", "user:<name>"
  std::string origin;  // where from
};

// Puts what is dead back into its outbox, from where the relay on this store sends
// them, and writes the audit log. `not_found` when there is no such thing, `conflict` when one is
// asked for that cannot be replayed, saying why.
[[nodiscard]] base::Result<Replayed> replay(store::Tx& tx, const ReplayWhat& what,
                                            const Asker& asker, base::Time now);

}  // namespace crosscheck::relay
