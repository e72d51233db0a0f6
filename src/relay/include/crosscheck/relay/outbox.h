#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/time.h"
#include "crosscheck/relay/target.h"

namespace crosscheck::relay {

// pending → sending → sent, or back to pending, or dead; pending → withdrawn. The names are stored.
enum class DispatchState : std::uint8_t { pending, sending, sent, dead, withdrawn };
[[nodiscard]] std::string_view to_string(DispatchState state);

struct RetryPolicy {
  base::Duration first_pause = std::chrono::seconds{1};  // doubled each time…
  base::Duration longest_pause = std::chrono::minutes{5};
  base::Duration give_up_after = std::chrono::hours{24};  // …until the dispatch is this old
};

// What is known of a dispatch when its answer arrives.
struct Attempt {
  int number = 1;          // of this attempt, from 1
  bool uncertain = false;  // an earlier one may have gone through
  base::Time created_at{};
};

struct Next {
  DispatchState state = DispatchState::sent;
  bool uncertain = false;
  base::Time not_before{};  // of pending
  std::optional<std::string> error;
  friend bool operator==(const Next&, const Next&) = default;
};

// What becomes of a dispatch after `answer`. `jitter` in [0, 1) spreads retries over the second
// half of their pause. An uncertain attempt is repeated once. Pure.
[[nodiscard]] Next decide(const Attempt& attempt, const Answer& answer, base::Time now,
                          const RetryPolicy& policy, double jitter);

}  // namespace crosscheck::relay
