#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/hud/live.h"
#include "crosscheck/store/access.h"
#include "pages.h"

namespace crosscheck::store {
class Tx;
}

// The page for those who run the relay.
namespace crosscheck::hud {

struct OutboxState {
  std::string state;
  std::int64_t count = 0;
  std::optional<base::Time> oldest_at = {};  // of what is not settled: pending, sending, dead
};

struct DeadLetter {
  std::string kind;  // dispatch, call, report
  std::int64_t id = 0;
  std::string says;  // of a call: what it was to do; of a report: its job
  std::string delivery_id;
  std::string event_type;
  std::optional<std::int64_t> pr_number;
  std::string head_sha;
  std::string repo;
  std::string level;
  std::int64_t attempts = 0;
  bool uncertain = false;
  std::string reason;
  base::Time created_at{};
  std::string not_replayable;  // why; empty: it is
};

// What a relay that runs as a shadow kept back.
struct KeptBack {
  std::string delivery_id;
  std::string repo;
  std::string what;
  base::Time at{};
};

struct TimedOut {
  std::int64_t id = 0;
  std::string repo;
  std::string workflow;
  std::string job_name;
  base::Time at{};
};

struct Ops {
  std::optional<base::Time> newest_event_at;
  std::int64_t events_a_day = 0;            // of the last 24 hours
  std::vector<OutboxState> outbox;          // dispatches
  std::vector<OutboxState> calls;           // other calls to GitHub
  std::vector<OutboxState> forwards;        // reports for another HUD
  std::optional<base::Time> oldest_due_at;  // of what should have been sent by now
  std::int64_t dead = 0;
  std::vector<DeadLetter> dead_letters;  // of each kind newest first, at most k_ops_rows
  std::vector<KeptBack> kept_back;       // newest first, at most k_ops_rows
  std::int64_t timed_out = 0;            // in the window
  std::vector<TimedOut> timed_out_jobs;  // newest first, at most k_ops_rows
  std::vector<store::AuditEntry> audit;  // newest first, at most k_ops_rows; an origin is optional
};
inline constexpr std::int64_t k_ops_rows = 50;
[[nodiscard]] base::Result<Ops> read_ops(store::Tx& tx, base::Time now);

// What the form before led to.
struct OpsNotice {
  std::optional<std::int64_t> armed;
  std::int64_t left = 0;
  std::string refused;  // a fault's name
};
// How long the oldest dispatch that is due has waited: 0 when none is.
[[nodiscard]] base::Duration relay_lag(const Ops& ops, base::Time now);
[[nodiscard]] Page ops_page(const Ops& ops, const std::optional<Live>& live,
                            const OpsNotice& notice, const PageContext& context);

}  // namespace crosscheck::hud
