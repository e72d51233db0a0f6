#include "crosscheck/relay/retention.h"

#include <array>
#include <string>
#include <system_error>

#include "crosscheck/base/log.h"
#include "crosscheck/base/threads.h"
#include "crosscheck/store/lease.h"

namespace crosscheck::relay {
namespace {

using base::Result;
using base::Time;
namespace fs = std::filesystem;
namespace log = base::log;

constexpr std::int64_t k_batch = 500;           // rows a transaction
constexpr std::int64_t k_results_batch = 5000;  // they are small
constexpr std::int64_t k_files_batch = 4;       // up to 32 MiB each
constexpr base::Duration k_day = std::chrono::hours{24};
// Longer than a day, so that a second process does not do the day's work again.
constexpr base::Duration k_lease = std::chrono::hours{25};
constexpr base::Duration k_look = std::chrono::minutes{10};

// One kind of what is kept: which rows are older than $1, and what becomes of them.
struct Kind {
  std::int64_t Retention::* days;
  std::int64_t Pruned::* count;
  std::string_view table;
  std::string_view where;
  std::string_view key = "id";
  std::string_view change = {};  // nothing: the rows go
  std::int64_t batch = k_batch;
};

// Where there is an index by age, a state is excluded, not named: SQLite would look by state.
constexpr std::array k_kinds{
    // What waits to be sent, or is being sent, keeps what it is made of.
    Kind{&Retention::bodies_days, &Pruned::bodies, "deliveries",
         "body IS NOT NULL AND received_at < $1 AND NOT EXISTS (SELECT 1 FROM dispatches x WHERE "
         "x.delivery = deliveries.id AND x.state IN ('pending', 'sending'))",
         "id", "body = NULL"},
    Kind{&Retention::bodies_days, &Pruned::reports, "jobs",
         "first_seen_at < $1 AND state <> 'in_progress' AND word_body <> '{}'", "id",
         "word_body = '{}'"},
    // The row stays: what was said is not said again.
    Kind{&Retention::bodies_days, &Pruned::calls, "github_calls",
         "created_at < $1 AND state NOT IN ('pending', 'sending') AND payload <> '{}'", "id",
         "payload = '{}'"},
    Kind{&Retention::bodies_days, &Pruned::forwards, "forwards",
         "created_at < $1 AND state IN ('sent', 'dead', 'withdrawn')"},
    Kind{&Retention::results_days,
         &Pruned::result_files,
         "result_files",
         "received_at < $1",
         "repo_key, digest",
         {},
         k_files_batch},
    Kind{&Retention::results_days,
         &Pruned::test_results,
         "test_results",
         "run IN (SELECT id FROM runs WHERE started_at < $1)",
         "run, test, attempt",
         {},
         k_results_batch},
    Kind{&Retention::results_days,
         &Pruned::upgrades,
         "upgrades",
         "decided_at < $1",
         "id",
         {},
         k_files_batch},
    Kind{&Retention::events_days, &Pruned::events, "deliveries",
         "received_at < $1 AND (sender IS NOT NULL OR pr_title IS NOT NULL)", "id",
         "sender = NULL, pr_title = NULL"},
    Kind{&Retention::events_days, &Pruned::audit_entries, "audit_log", "at < $1"},
    Kind{&Retention::events_days, &Pruned::tokens, "access_tokens",
         "COALESCE(revoked_at, expires_at) < $1"}};

std::string rows_of(const Kind& kind) {
  return " FROM " + std::string{kind.table} + " WHERE " + std::string{kind.where};
}

Result<std::int64_t> prune_kind(store::Store& store, const Kind& kind, Time before, DryRun dry_run,
                                const std::function<bool()>& is_cut_off) {
  if (dry_run == DryRun::yes)
    return store.read_value([&](store::Tx& tx) -> Result<std::int64_t> {
      auto rows = tx.query("SELECT COUNT(*)" + rows_of(kind), {before});
      if (!rows) return tl::unexpected(rows.error());
      return rows->front().integer(0);
    });
  const std::string key{kind.key};
  const std::string table{kind.table};
  const std::string removal =
      (kind.change.empty() ? "DELETE FROM " + table
                           : "UPDATE " + table + " SET " + std::string{kind.change}) +
      " WHERE (" + key + ") IN (SELECT " + key + rows_of(kind) + " LIMIT $2)";
  std::int64_t total = 0;
  while (!is_cut_off || !is_cut_off()) {
    auto done =
        store.write_value([&](store::Tx& tx) { return tx.execute(removal, {before, kind.batch}); });
    if (!done) return done;
    total += *done;
    if (*done < kind.batch) break;
  }
  return total;
}

// Files that a job no longer writes: nothing was added since `before`.
Result<std::int64_t> prune_logs(const fs::path& folder, Time before, DryRun dry_run) {
  std::int64_t total = 0;
  std::error_code error;
  const auto clock_before = std::chrono::file_clock::from_sys(before);
  for (fs::directory_iterator at{folder, error}, end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!at->is_regular_file(ignored) || at->last_write_time(ignored) >= clock_before) continue;
    if (dry_run == DryRun::yes || fs::remove(at->path(), ignored)) ++total;
  }
  if (error && error != std::errc::no_such_file_or_directory)
    return base::fail(base::Fault::environment,
                      folder.string() + ": cannot be read: " + error.message());
  return total;
}

}  // namespace

std::int64_t Pruned::total() const {
  return bodies + reports + calls + forwards + log_files + result_files + test_results + upgrades +
         events + audit_entries + tokens;
}

Result<Pruned> prune(store::Store& store, const Retention& retention, Time now, DryRun dry_run,
                     const std::function<bool()>& is_cut_off) {
  Pruned pruned;
  const auto before = [&](std::int64_t days) { return now - days * k_day; };
  for (const Kind& kind : k_kinds) {
    const std::int64_t days = retention.*kind.days;
    if (days == 0) continue;
    const auto done = prune_kind(store, kind, before(days), dry_run, is_cut_off);
    if (!done) return tl::unexpected(done.error());
    pruned.*kind.count = *done;
  }
  if (retention.logs_days > 0 && !retention.logs.empty()) {
    const auto done = prune_logs(retention.logs, before(retention.logs_days), dry_run);
    if (!done) return tl::unexpected(done.error());
    pruned.log_files = *done;
  }
  return pruned;
}

DailyPrune::DailyPrune(store::Store& store, const base::Clock& clock, Retention retention)
    : store_{store}, clock_{clock}, retention_{std::move(retention)} {}

DailyPrune::~DailyPrune() { stop(); }

void DailyPrune::start() {
  thread_ = base::start_thread([this] { run(); });
}

void DailyPrune::stop() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void DailyPrune::run() {
  store::Lease lease{store_, clock_, "prune", k_lease};
  std::optional<Time> last;
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    lock.unlock();
    const Time now = clock_.now();
    if (!last || now - *last >= k_day || now < *last) {
      const auto mine = lease.hold();
      if (mine && *mine) {
        const auto pruned = prune(store_, retention_, now, DryRun::no, [this] {
          const std::lock_guard guard{mutex_};
          return stopping_;
        });
        if (!pruned) {
          log::error("prune", {{"error", pruned.error().message}});
        } else {
          last = now;
          if (pruned->total() > 0)
            log::info("prune", {{"bodies", pruned->bodies},
                                {"reports", pruned->reports},
                                {"calls", pruned->calls},
                                {"forwards", pruned->forwards},
                                {"log_files", pruned->log_files},
                                {"result_files", pruned->result_files},
                                {"test_results", pruned->test_results},
                                {"upgrades", pruned->upgrades},
                                {"events", pruned->events},
                                {"audit_entries", pruned->audit_entries},
                                {"tokens", pruned->tokens}});
        }
      }
    }
    lock.lock();
    wake_.wait_for(lock, k_look, [this] { return stopping_; });
  }
  lock.unlock();
  if (auto released = lease.release(); !released)
    log::warning("prune", {{"error", released.error().message}});
}

}  // namespace crosscheck::relay
