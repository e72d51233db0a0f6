#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/relay/outbox.h"
#include "crosscheck/relay/target.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

// One row of an outbox, claimed and ready to leave.
struct Parcel {
  std::string delivery_id;  // for the log, as the next two
  std::string repo;
  std::string what;
  // Calls `done` exactly once, on any thread, possibly before it returns. Must not block.
  std::function<void(std::function<void(Answer)> done)> send;
};

// What one outbox holds, and how it leaves. Its table has the columns id, repo_key, state,
// uncertain, attempts, not_before, lease_owner, lease_until, last_error, created_at,
// first_attempt_at and sent_at, as `dispatches` has. The conditions are SQL over a row of it.
class Outgoing {
 public:
  struct Table {
    std::string name;
    std::string columns;          // that `load` reads
    std::string channel;          // notified when a row is written
    std::string ready = "1 = 1";  // what must hold, beside its time, for a row to leave
    std::string outdated;         // a row that need not leave any more…
    std::string outdated_reason;  // …and why
  };

  virtual ~Outgoing() = default;
  [[nodiscard]] virtual const Table& table() const = 0;
  // Of a row that was claimed: its own columns begin at `first`. `attempt` counts from 1. Used by
  // one thread; may run more than once.
  [[nodiscard]] virtual base::Result<Parcel> load(store::Tx& tx, std::int64_t id, int attempt,
                                                  const store::Row& row, std::size_t first) = 0;
  // Writes what follows from the answer to a row that was sent, in the transaction that records it,
  // unless another process has taken the row over. May run more than once.
  [[nodiscard]] virtual base::Result<void> follow_up(store::Tx& tx, std::int64_t id,
                                                     const Answer& answer, base::Time now);
  // How many more can leave at this moment.
  [[nodiscard]] virtual std::size_t room() const = 0;
};

struct OutboxOptions {
  std::size_t concurrency = 32;
  // A repository that hangs holds this many places, not all.
  std::size_t per_repository = 4;
  // Longer than one call may take: after it another process takes over.
  base::Duration lease = std::chrono::seconds{120};
  RetryPolicy retry = {};
  std::function<double()> jitter = {};  // default: random
};

// Sends what stands in an outbox. Claims due rows under a lease, recorded before anything is sent;
// what a killed process had claimed is claimed again, within seconds when that process ran on this
// machine, else when the lease ends. Thread-safe but for `step`, which is for the one
// thread that drives it.
class LeasedOutbox {
 public:
  LeasedOutbox(store::Store& store, const base::Clock& clock, std::unique_ptr<Outgoing> outgoing,
               OutboxOptions options);
  ~LeasedOutbox();
  LeasedOutbox(const LeasedOutbox&) = delete;
  LeasedOutbox& operator=(const LeasedOutbox&) = delete;

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
