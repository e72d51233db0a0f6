#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/time.h"

namespace crosscheck::hud {

// What no store knows but the running process, for /ops. Of several relays each shows its own.
struct Live {
  base::Time started_at{};
  bool shadow = false;          // sends nothing
  std::string settings_digest;  // of every setting but the secrets: equal where they are

  struct Sender {  // of the outbox
    bool running = false;
    std::optional<base::Time> last_step;
    std::string error;
    std::size_t sending = 0;
  };
  Sender sender;

  struct Allowlist {
    std::string source;  // a path or address
    std::string digest;  // of the version in force
    std::optional<base::Time> loaded_at;
    std::string error;  // of a later version that was refused
  };
  Allowlist allowlist;

  struct Refusal {
    std::string kind;  // webhook, callback, …
    std::string reason;
    std::int64_t count = 0;
    base::Time last_at{};
    std::string last_detail;
  };
  std::vector<Refusal> refusals;  // since the start, most frequent first

  struct Budget {
    std::string account;   // whose installation; empty: the App itself
    std::string resource;  // "core"
    std::int64_t limit = 0;
    std::int64_t remaining = 0;
    base::Time resets_at{};
  };
  std::vector<Budget> budgets;
};

}  // namespace crosscheck::hud
