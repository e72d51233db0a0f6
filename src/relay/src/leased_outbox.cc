#include "crosscheck/relay/leased_outbox.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "crosscheck/base/log.h"
#include "crosscheck/store/lease.h"

namespace crosscheck::relay {
namespace {

using base::Duration;
using base::Result;
using base::Time;
namespace log = base::log;

constexpr Duration k_poll = std::chrono::seconds{1};
constexpr Duration k_listen = std::chrono::milliseconds{250};  // bounds how long stopping takes
constexpr Duration k_look_for_dead = std::chrono::seconds{5};  // how often

double random_jitter() {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  return std::uniform_real_distribution<double>{0.0, 1.0}(engine);
}

// Calls `statement` with the ids in lists of one length, so that few statements are prepared:
// `leading` parameters come first, and an id that no row has fills up the last list.
template <class F>
Result<void> for_each_list(const std::vector<std::int64_t>& ids, const store::Parameters& leading,
                           F statement) {
  constexpr std::size_t k_length = 32;
  std::string numbers;
  for (std::size_t i = 1; i <= k_length; ++i)
    numbers += (i == 1 ? "$" : ", $") + std::to_string(leading.size() + i);
  for (std::size_t begin = 0; begin < ids.size(); begin += k_length) {
    store::Parameters parameters = leading;
    for (std::size_t i = begin; i < begin + k_length; ++i)
      parameters.emplace_back(i < ids.size() ? ids[i] : std::int64_t{-1});
    if (auto done = statement(numbers, parameters); !done) return tl::unexpected(done.error());
  }
  return {};
}

}  // namespace

struct LeasedOutbox::State {
  struct Completed {
    std::int64_t id = 0;
    Attempt attempt;
    Answer answer;
    Parcel parcel;  // already sent: what the log says of it
  };

  struct Claimed {
    std::int64_t id = 0;
    std::string place;  // repo key
    Attempt attempt;
    Parcel parcel;
  };

  State(store::Store& s, const base::Clock& c, std::unique_ptr<Outgoing> g, OutboxOptions o)
      : store{s},
        clock{c},
        outgoing{std::move(g)},
        table{outgoing->table()},
        options{std::move(o)},
        owner{store::make_owner()} {
    if (!options.jitter) options.jitter = random_jitter;
  }

  store::Store& store;
  const base::Clock& clock;
  const std::unique_ptr<Outgoing> outgoing;
  const Outgoing::Table& table;
  OutboxOptions options;
  const std::string owner;
  // When leases of processes that no longer run here were last ended.
  std::optional<Time> looked_for_dead;
  // The last transaction failed, perhaps in its commit: it may have been made all the same.
  bool unsure = false;

  mutable std::mutex mutex;
  std::condition_variable wake;
  bool poked = false;     // a notification or an answer arrived
  bool stopping = false;  // claim no more
  bool stopped = false;
  std::vector<Completed> completed;
  std::map<std::int64_t, std::string> flying;  // id → repo key: sent, answer not recorded yet
  Health health;
  std::thread loop;
  std::thread listener;

  // Of a step's transaction; they must leave the state as it is, since it may run again.
  Result<void> record(store::Tx& tx, const std::vector<Completed>& batch,
                      const std::vector<Next>& next, Time now);
  Result<std::vector<Claimed>> claim(store::Tx& tx, Time now, std::size_t room,
                                     const std::map<std::int64_t, std::string>& in_flight);
  Result<void> free_the_dead(store::Tx& tx, Time now);
  Result<std::set<std::int64_t>> held(store::Tx& tx);
  Result<void> free_own(store::Tx& tx, Time now,
                        const std::map<std::int64_t, std::string>& in_flight);
  Result<void> take_over(store::Tx& tx, Time now,
                         const std::map<std::int64_t, std::string>& in_flight);
  Result<std::vector<std::int64_t>> choose(store::Tx& tx, Time now, std::size_t room,
                                           const std::map<std::int64_t, std::string>& in_flight);
  Result<bool> is_due(Time now);
  [[nodiscard]] bool is_time_to_look(Time now) const {
    return !looked_for_dead || now < *looked_for_dead || now - *looked_for_dead >= k_look_for_dead;
  }

  void run(const std::shared_ptr<State>& self);
  Result<bool> step_as(const std::shared_ptr<State>& self, bool may_claim);
};

Result<void> LeasedOutbox::State::record(store::Tx& tx, const std::vector<Completed>& batch,
                                         const std::vector<Next>& next, Time now) {
  // The lease's owner guards the row: who lost it to another process has nothing to say, nor has
  // who said it already.
  std::optional<std::set<std::int64_t>> still_held;
  if (unsure) {
    auto ids = held(tx);
    if (!ids) return tl::unexpected(ids.error());
    still_held = *std::move(ids);
  }
  std::vector<std::int64_t> sent;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (still_held && !still_held->contains(batch[i].id)) continue;
    const Next& n = next[i];
    if (n.state == DispatchState::sent) {
      sent.push_back(batch[i].id);
      continue;
    }
    auto changed =
        tx.execute("UPDATE " + table.name +
                       " SET state = $1, uncertain = $2, not_before = $3, last_error = $4, "
                       "lease_owner = NULL, lease_until = NULL "
                       "WHERE id = $5 AND state = 'sending' AND lease_owner = $6",
                   {to_string(n.state), n.uncertain, n.not_before, n.error, batch[i].id, owner});
    if (!changed) return tl::unexpected(changed.error());
    if (n.state != DispatchState::pending) continue;
    if (auto done = tx.execute("UPDATE " + table.name +
                                   " SET state = 'withdrawn', last_error = $2 "
                                   "WHERE id = $1 AND state = 'pending' AND " +
                                   table.outdated,
                               {batch[i].id, table.outdated_reason});
        !done)
      return tl::unexpected(done.error());
  }
  std::set<std::int64_t> recorded;
  auto done = for_each_list(
      sent, {now, owner}, [&](const std::string& ids, const auto& parameters) -> Result<void> {
        auto rows = tx.query("UPDATE " + table.name +
                                 " SET state = 'sent', not_before = $1, last_error = NULL, "
                                 "sent_at = $1, lease_owner = NULL, lease_until = NULL "
                                 "WHERE lease_owner = $2 AND state = 'sending' AND id IN (" +
                                 ids + ") RETURNING id",
                             parameters);
        if (!rows) return tl::unexpected(rows.error());
        for (const auto& row : *rows) recorded.insert(row.integer(0));
        return {};
      });
  if (!done) return done;
  for (const Completed& c : batch)
    if (recorded.contains(c.id))
      if (done = outgoing->follow_up(tx, c.id, c.answer, now); !done) return done;
  return {};
}

// Ends the leases of processes that no longer run here.
Result<void> LeasedOutbox::State::free_the_dead(store::Tx& tx, Time now) {
  auto owners = tx.query("SELECT DISTINCT lease_owner FROM " + table.name +
                             " WHERE state = 'sending' AND lease_until > $1",
                         {now});
  if (!owners) return tl::unexpected(owners.error());
  for (const auto& row : *owners) {
    if (row.is_null(0) || !store::is_dead_here(row.text(0))) continue;
    auto freed =
        tx.execute("UPDATE " + table.name +
                       " SET lease_until = $1 WHERE state = 'sending' AND lease_owner = $2",
                   {now, row.text(0)});
    if (!freed) return tl::unexpected(freed.error());
  }
  return {};
}

// What this process has claimed.
Result<std::set<std::int64_t>> LeasedOutbox::State::held(store::Tx& tx) {
  auto rows = tx.query(
      "SELECT id FROM " + table.name + " WHERE state = 'sending' AND lease_owner = $1", {owner});
  if (!rows) return tl::unexpected(rows.error());
  std::set<std::int64_t> ids;
  for (const auto& row : *rows) ids.insert(row.integer(0));
  return ids;
}

// Puts back what was claimed without this process being told so: none of it was sent.
Result<void> LeasedOutbox::State::free_own(store::Tx& tx, Time now,
                                           const std::map<std::int64_t, std::string>& in_flight) {
  const auto ids = held(tx);
  if (!ids) return tl::unexpected(ids.error());
  for (const std::int64_t id : *ids) {
    if (in_flight.contains(id)) continue;
    auto freed = tx.execute("UPDATE " + table.name +
                                " SET state = 'pending', lease_owner = NULL, lease_until = NULL, "
                                "not_before = $1, attempts = attempts - 1 WHERE id = $2",
                            {now, id});
    if (!freed) return tl::unexpected(freed.error());
  }
  return {};
}

// Puts back what was claimed under a lease that has ended: it may have gone through.
Result<void> LeasedOutbox::State::take_over(store::Tx& tx, Time now,
                                            const std::map<std::int64_t, std::string>& in_flight) {
  auto ended = tx.query(
      "SELECT id FROM " + table.name + " WHERE state = 'sending' AND lease_until <= $1", {now});
  if (!ended) return tl::unexpected(ended.error());
  for (const auto& row : *ended) {
    // Its answer is on the way here although the lease has ended.
    if (in_flight.contains(row.integer(0))) continue;
    auto freed = tx.execute("UPDATE " + table.name +
                                " SET uncertain = 1, lease_owner = NULL, lease_until = NULL, "
                                "not_before = $1, state = CASE WHEN " +
                                table.outdated +
                                " THEN 'withdrawn' ELSE 'pending' END, last_error = CASE WHEN " +
                                table.outdated +
                                " THEN $3 ELSE last_error END "
                                "WHERE id = $2 AND state = 'sending' AND lease_until <= $1",
                            {now, row.integer(0), table.outdated_reason});
    if (!freed) return tl::unexpected(freed.error());
  }
  return {};
}

// Up to `room` dispatches that are due, oldest first, none beyond its repository's places.
Result<std::vector<std::int64_t>> LeasedOutbox::State::choose(
    store::Tx& tx, Time now, std::size_t room,
    const std::map<std::int64_t, std::string>& in_flight) {
  constexpr std::size_t k_page = 128;
  std::map<std::string, std::size_t> places;
  for (const auto& [id, repo] : in_flight) ++places[repo];
  std::vector<std::int64_t> chosen;
  std::set<std::int64_t> known;
  while (chosen.size() < room) {
    // A repository that takes nothing at the moment does not stand before the others.
    std::string others;
    store::Parameters parameters{now};
    for (const auto& [repo, used] : places) {
      if (used < options.per_repository) continue;
      parameters.emplace_back(repo);
      others +=
          (others.empty() ? " AND repo_key NOT IN ($" : ", $") + std::to_string(parameters.size());
    }
    if (!others.empty()) others += ")";
    auto due = tx.query("SELECT id, repo_key FROM " + table.name +
                            " WHERE state = 'pending' AND not_before <= $1 AND " + table.ready +
                            others + " ORDER BY not_before, id LIMIT " + std::to_string(k_page),
                        parameters);
    if (!due) return tl::unexpected(due.error());
    bool is_full = false;  // a repository's last place was taken
    for (const auto& row : *due) {
      if (chosen.size() == room) break;
      auto& used = places[row.text(1)];
      if (used >= options.per_repository || !known.insert(row.integer(0)).second) continue;
      chosen.push_back(row.integer(0));
      is_full = ++used == options.per_repository || is_full;
    }
    // What a further page may hold is seen only once those that are full are left out.
    if (due->size() < k_page || !is_full) break;
  }
  return chosen;
}

Result<std::vector<LeasedOutbox::State::Claimed>> LeasedOutbox::State::claim(
    store::Tx& tx, Time now, std::size_t room,
    const std::map<std::int64_t, std::string>& in_flight) {
  if (unsure)
    if (auto freed = free_own(tx, now, in_flight); !freed) return tl::unexpected(freed.error());
  if (is_time_to_look(now))
    if (auto freed = free_the_dead(tx, now); !freed) return tl::unexpected(freed.error());
  if (auto taken = take_over(tx, now, in_flight); !taken) return tl::unexpected(taken.error());
  const auto chosen = choose(tx, now, room, in_flight);
  if (!chosen) return tl::unexpected(chosen.error());
  std::vector<Claimed> claimed;
  auto done = for_each_list(
      *chosen, {now, owner, now + options.lease},
      [&](const std::string& ids, const auto& parameters) -> Result<void> {
        auto rows = tx.query(
            "UPDATE " + table.name +
                " SET state = 'sending', lease_owner = $2, lease_until = $3, "
                "attempts = attempts + 1, first_attempt_at = COALESCE(first_attempt_at, $1) "
                "WHERE state = 'pending' AND not_before <= $1 AND id IN (" +
                ids + ") RETURNING id, repo_key, attempts, uncertain, created_at, " + table.columns,
            parameters);
        if (!rows) return tl::unexpected(rows.error());
        for (const auto& row : *rows) {
          const Attempt attempt{static_cast<int>(row.integer(2)), row.integer(3) != 0, row.time(4)};
          auto parcel = outgoing->load(tx, row.integer(0), attempt.number, row, 5);
          if (!parcel) return tl::unexpected(parcel.error());
          claimed.push_back({row.integer(0), row.text(1), attempt, *std::move(parcel)});
        }
        return {};
      });
  if (!done) return tl::unexpected(done.error());
  // In the order in which they were written, so that what belongs together follows one another.
  std::ranges::sort(claimed, {}, &Claimed::id);
  return claimed;
}

Result<bool> LeasedOutbox::State::is_due(Time now) {
  return store.read_value([&](store::Tx& tx) -> Result<bool> {
    auto rows = tx.query("SELECT 1 FROM " + table.name +
                             " WHERE (state = 'pending' AND not_before <= $1 AND " + table.ready +
                             ") OR "
                             "(state = 'sending' AND (lease_until <= $1 OR $2 = 1)) LIMIT 1",
                         {now, is_time_to_look(now)});
    if (!rows) return tl::unexpected(rows.error());
    return !rows->empty();
  });
}

Result<bool> LeasedOutbox::State::step_as(const std::shared_ptr<State>& self, bool may_claim) {
  std::vector<Completed> batch;
  std::map<std::int64_t, std::string> in_flight;
  {
    const std::lock_guard lock{mutex};
    batch.swap(completed);
    in_flight = flying;
  }
  const auto put_back = [&] {
    const std::lock_guard lock{mutex};
    completed.insert(completed.end(), batch.begin(), batch.end());
  };
  for (const Completed& c : batch) in_flight.erase(c.id);
  std::size_t room = options.concurrency - std::min(options.concurrency, in_flight.size());
  room = may_claim ? std::min(room, outgoing->room()) : 0;
  const Time now = clock.now();
  if (batch.empty() && room == 0) return false;
  if (batch.empty() && !unsure) {
    // Most steps find nothing: looking takes no place in the queue of writers.
    const auto due = is_due(now);
    if (!due) return tl::unexpected(due.error());
    if (!*due) {
      if (is_time_to_look(now)) looked_for_dead = now;
      return false;
    }
  }
  std::vector<Next> next;
  next.reserve(batch.size());
  for (const Completed& c : batch)
    next.push_back(decide(c.attempt, c.answer, now, options.retry, options.jitter()));
  // One transaction for both: a commit waits for the disk.
  auto claimed = store.write_value([&](store::Tx& tx) -> Result<std::vector<Claimed>> {
    if (auto done = record(tx, batch, next, now); !done) return tl::unexpected(done.error());
    if (room == 0) return std::vector<Claimed>{};
    return claim(tx, now, room, in_flight);
  });
  if (!claimed) {
    put_back();
    unsure = true;
    return tl::unexpected(claimed.error());
  }
  if (room > 0) {
    unsure = false;
    if (is_time_to_look(now)) looked_for_dead = now;
  }
  {
    const std::lock_guard lock{mutex};
    for (const Completed& c : batch) flying.erase(c.id);
    for (const Claimed& c : *claimed) flying.emplace(c.id, c.place);
    wake.notify_all();  // `stop` waits for the last one
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const bool ok = next[i].state == DispatchState::sent;
    log::write(ok ? log::Level::info : log::Level::warning, table.channel,
               {{"delivery", batch[i].parcel.delivery_id},
                {"repo", batch[i].parcel.repo},
                {"what", batch[i].parcel.what},
                {"state", to_string(next[i].state)},
                {"attempt", batch[i].attempt.number},
                {"reason", next[i].error.value_or("")}});
  }
  for (auto& [id, place, attempt, parcel] : *claimed) {
    const auto send = std::exchange(parcel.send, nullptr);
    send([self, result = Completed{id, attempt, {}, std::move(parcel)}](Answer answer) mutable {
      const std::lock_guard lock{self->mutex};
      result.answer = std::move(answer);
      self->completed.push_back(std::move(result));
      self->poked = true;
      self->wake.notify_all();
    });
  }
  return !batch.empty() || !claimed->empty();
}

void LeasedOutbox::State::run(const std::shared_ptr<State>& self) {
  Duration pause = k_poll;
  while (true) {
    bool claiming = false;
    {
      std::unique_lock lock{mutex};
      // A target that is full says nothing when it has room again.
      wake.wait_for(lock, pause, [&] { return poked || stopped; });
      if (stopped) return;
      poked = false;
      claiming = !stopping;
    }
    const auto did = step_as(self, claiming);
    std::lock_guard lock{mutex};
    if (did) {
      health.last_step = clock.now();
      health.error.clear();
      if (*did) poked = true;
      pause = flying.empty() ? k_poll : std::chrono::milliseconds{200};
    } else {
      if (health.error != did.error().message)
        log::error(table.name, {{"error", did.error().message}});
      health.error = did.error().message;
      poked = false;
      pause = k_poll;
    }
  }
}

Result<void> Outgoing::follow_up(store::Tx& /*tx*/, std::int64_t /*id*/, const Answer& /*answer*/,
                                 Time /*now*/) {
  return {};
}

LeasedOutbox::LeasedOutbox(store::Store& store, const base::Clock& clock,
                           std::unique_ptr<Outgoing> outgoing, OutboxOptions options)
    : state_{std::make_shared<State>(store, clock, std::move(outgoing), std::move(options))} {}

LeasedOutbox::~LeasedOutbox() { stop(Duration{0}); }

Result<bool> LeasedOutbox::step() { return state_->step_as(state_, true); }

void LeasedOutbox::start() {
  const std::lock_guard lock{state_->mutex};
  state_->health.running = true;
  state_->poked = true;
  state_->loop = std::thread{[state = state_] { state->run(state); }};
  state_->listener = std::thread{[state = state_] {
    while (true) {
      const bool notified = state->store.wait_for(state->table.channel, k_listen);
      const std::lock_guard guard{state->mutex};
      if (state->stopped || state->stopping) return;
      if (!notified) continue;
      state->poked = true;
      state->wake.notify_all();
    }
  }};
}

void LeasedOutbox::stop(Duration grace) {
  auto& s = *state_;
  {
    std::unique_lock lock{s.mutex};
    s.stopping = true;
    if (s.loop.joinable()) s.wake.wait_for(lock, grace, [&] { return s.flying.empty(); });
    s.stopped = true;
    s.health.running = false;
    s.wake.notify_all();
  }
  if (s.loop.joinable()) s.loop.join();
  if (s.listener.joinable()) s.listener.join();
  if (const auto last = s.step_as(state_, false); !last)
    log::error(s.table.name, {{"error", last.error().message}});
}

LeasedOutbox::Health LeasedOutbox::health() const {
  const std::lock_guard lock{state_->mutex};
  return state_->health;
}

std::size_t LeasedOutbox::in_flight() const {
  const std::lock_guard lock{state_->mutex};
  return state_->flying.size();
}

}  // namespace crosscheck::relay
