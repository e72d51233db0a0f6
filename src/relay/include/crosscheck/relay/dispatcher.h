#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/relay/outbox.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

inline constexpr std::string_view k_dispatch_channel = "dispatch";

struct DispatcherOptions {
  std::size_t concurrency = 32;
  // A repository that hangs holds this many places, not all.
  std::size_t per_repository = 4;
  // Longer than a target may take for one dispatch: after it another process takes over.
  base::Duration lease = std::chrono::seconds{120};
  RetryPolicy retry = {};
  std::function<double()> jitter = {};  // default: random
};

// Sends what stands in the outbox. Claims due rows under a lease, recorded before anything is sent;
// what a killed process had claimed is claimed again, at once when that process ran on this machine
// and this SQLite file, else when the lease ends. Thread-safe but for `step`, which is for the one
// thread that drives it.
class Dispatcher {
 public:
  Dispatcher(store::Store& store, const base::Clock& clock, DispatchTarget& target,
             DispatcherOptions options);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Records the answers that arrived, then claims and sends what is due. Whether it did anything.
  [[nodiscard]] base::Result<bool> step();

  // Steps in a thread of its own until `stop`.
  void start();
  // Claims no more, waits up to `grace` for answers, records them, joins.
  void stop(base::Duration grace);

  struct Health {
    bool running = false;
    std::optional<base::Time> last_step;  // that went well
    std::string error;                    // of the last step, empty if none
  };
  [[nodiscard]] Health health() const;
  [[nodiscard]] std::size_t in_flight() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with answers that arrive after the end
};

}  // namespace crosscheck::relay
