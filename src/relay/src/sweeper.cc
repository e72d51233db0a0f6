#include "crosscheck/relay/sweeper.h"

#include <utility>

#include "crosscheck/base/log.h"
#include "crosscheck/relay/callback.h"

namespace crosscheck::relay {
namespace {

using base::Result;
using base::Time;
namespace log = base::log;

constexpr base::Duration k_lease = std::chrono::seconds{60};

Result<std::optional<std::int64_t>> first_id(store::Store& store, std::string_view sql,
                                             const store::Parameters& parameters) {
  return store.read_value([&](store::Tx& tx) -> Result<std::optional<std::int64_t>> {
    auto rows = tx.query(sql, parameters);
    if (!rows) return tl::unexpected(rows.error());
    if (rows->empty()) return std::nullopt;
    return rows->front().integer(0);
  });
}

}  // namespace

Sweeper::Sweeper(store::Store& store, const base::Clock& clock, const AllowlistFile& allowlist,
                 const CheckOptions* checks, SweeperOptions options)
    : store_{store},
      clock_{clock},
      allowlist_{allowlist},
      checks_{checks},
      options_{options},
      lease_{store, clock, "sweeper", k_lease} {}

Sweeper::~Sweeper() { stop(); }

Result<std::optional<std::int64_t>> Sweeper::next_job(Time now) {
  return first_id(store_,
                  "SELECT id FROM jobs WHERE state = 'in_progress' AND started_at <= $1 AND id > "
                  "$2 ORDER BY id LIMIT 1",
                  {now - options_.job_timeout, after_job_});
}

Result<std::optional<std::int64_t>> Sweeper::next_check(Time now) {
  if (checks_ == nullptr) return std::nullopt;
  return first_id(
      store_,
      "SELECT s.id FROM stable_checks s LEFT JOIN dispatches d ON d.delivery = "
      "s.delivery AND d.repo_key = s.repo_key WHERE s.conclusion IS NULL AND (s.look_at "
      "<= $1 OR d.state IN ('dead', 'withdrawn')) AND s.id > $2 ORDER BY s.id LIMIT 1",
      {now, after_check_});
}

void Sweeper::end_job(std::int64_t job, Time now) {
  const auto allowlist = allowlist_.current();
  const auto ended = store_.write_value([&](store::Tx& tx) {
    return conclude_job(tx, job, "timed_out", {*allowlist, checks_, options_.forwards}, now);
  });
  if (!ended)
    log::error("sweeper", {{"job", job}, {"error", ended.error().message}});
  else if (*ended)
    log::warning("job.timed_out", {{"delivery", **ended}, {"job", job}});
}

void Sweeper::decide_check(std::int64_t check, Time now) {
  const auto decided = store_.write_value(
      [&](store::Tx& tx) { return conclude_stable_check(tx, *checks_, check, now); });
  if (!decided)
    log::error("sweeper", {{"stable_check", check}, {"error", decided.error().message}});
}

bool Sweeper::step(Time now) {
  // Jobs first: their end may decide a check.
  if (const auto job = next_job(now); !job) {
    log::error("sweeper", {{"error", job.error().message}});
  } else if (*job) {
    after_job_ = **job;
    end_job(**job, now);
    return true;
  }
  if (const auto check = next_check(now); !check) {
    log::error("sweeper", {{"error", check.error().message}});
  } else if (*check) {
    after_check_ = **check;
    decide_check(**check, now);
    return true;
  }
  after_job_ = 0;
  after_check_ = 0;
  return false;
}

void Sweeper::run() {
  std::unique_lock lock{mutex_};
  while (!stopping_) {
    lock.unlock();
    // Held anew for each: a mass of silent jobs takes longer than the lease.
    bool more = true;
    while (more) {
      const auto held = lease_.hold();
      if (!held) log::error("sweeper", {{"error", held.error().message}});
      more = held && *held && step(clock_.now());
      const std::lock_guard check{mutex_};
      more = more && !stopping_;
    }
    lock.lock();
    wake_.wait_for(lock, options_.interval, [this] { return stopping_; });
  }
}

void Sweeper::start() {
  thread_ = std::thread{[this] { run(); }};
}

void Sweeper::stop() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
    wake_.notify_all();
  }
  if (!thread_.joinable()) return;
  thread_.join();
  if (const auto released = lease_.release(); !released)
    log::warning("sweeper", {{"error", released.error().message}});
}

}  // namespace crosscheck::relay
