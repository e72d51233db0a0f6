#include "crosscheck/relay/dispatcher.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/log.h"
#include "superseded.h"

namespace crosscheck::relay {
namespace {

using base::Duration;
using base::Result;
using base::Time;
namespace log = base::log;

constexpr Duration k_poll = std::chrono::seconds{1};
constexpr Duration k_listen = std::chrono::milliseconds{250};  // bounds how long stopping takes

// Where process ids mean the same: one boot of one machine, one pid namespace.
std::string process_space() {
  std::string id = base::read_file("/proc/sys/kernel/random/boot_id", 64).value_or("");
  char link[64];
  const auto n = ::readlink("/proc/self/ns/pid", link, sizeof link);
  if (n > 0) id.append(link, static_cast<std::size_t>(n));
  return base::sha256_hex(id).substr(0, 16);
}

// "<process space>:<pid>:<random>".
std::string make_owner() {
  return process_space() + ":" + std::to_string(::getpid()) + ":" + base::random_hex(6);
}

bool is_dead_here(std::string_view owner, std::string_view mine) {
  const auto first = owner.find(':');
  const auto last = owner.rfind(':');
  if (first == std::string_view::npos || first == last) return false;
  if (owner.substr(0, first) != mine.substr(0, mine.find(':')) || owner == mine) return false;
  const long pid = std::strtol(std::string{owner.substr(first + 1, last - first - 1)}.c_str(),
                               nullptr, 10);
  if (pid <= 0) return false;
  return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

double random_jitter() {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  return std::uniform_real_distribution<double>{0.0, 1.0}(engine);
}

}  // namespace

struct Dispatcher::State {
  struct Completed {
    std::int64_t id = 0;
    Attempt attempt;
    Answer answer;
    std::string repo;
    std::string delivery_id;
  };

  State(store::Store& s, const base::Clock& c, DispatchTarget& t, DispatcherOptions o)
      : store{s}, clock{c}, target{t}, options{std::move(o)}, owner{make_owner()} {
    if (!options.jitter) options.jitter = random_jitter;
  }

  store::Store& store;
  const base::Clock& clock;
  DispatchTarget& target;
  DispatcherOptions options;
  const std::string owner;
  bool looked_for_dead = false;  // leases of processes that no longer run here were ended

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

  Result<bool> record();
  Result<std::vector<std::pair<Dispatch, Attempt>>> take(store::Tx& tx, Time now, std::size_t room);
  void run(const std::shared_ptr<State>& self);
  Result<bool> step_as(const std::shared_ptr<State>& self, bool may_claim);
};

Result<bool> Dispatcher::State::record() {
  std::vector<Completed> batch;
  {
    const std::lock_guard lock{mutex};
    batch.swap(completed);
  }
  if (batch.empty()) return false;
  const Time now = clock.now();
  std::vector<Next> next;
  next.reserve(batch.size());
  for (const Completed& c : batch)
    next.push_back(decide(c.attempt, c.answer, now, options.retry, options.jitter()));
  const auto written = store.write([&](store::Tx& tx) -> Result<void> {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Next& n = next[i];
      // The lease's owner guards the row: who lost it to another process has nothing to say.
      auto changed = tx.execute(
          "UPDATE dispatches SET state = $1, uncertain = $2, not_before = $3, last_error = $4, "
          "sent_at = $5, lease_owner = NULL, lease_until = NULL "
          "WHERE id = $6 AND state = 'sending' AND lease_owner = $7",
          {to_string(n.state), n.uncertain, n.not_before, n.error,
           n.state == DispatchState::sent ? std::optional{now} : std::nullopt, batch[i].id, owner});
      if (!changed) return tl::unexpected(changed.error());
      if (n.state != DispatchState::pending) continue;
      if (auto done = tx.execute("UPDATE dispatches SET state = 'withdrawn' WHERE id = $1 AND "
                                 "state = 'pending' AND " +
                                     std::string{k_superseded},
                                 {batch[i].id});
          !done)
        return tl::unexpected(done.error());
    }
    return {};
  });
  const std::lock_guard lock{mutex};
  if (!written) {
    completed.insert(completed.end(), batch.begin(), batch.end());
    return tl::unexpected(written.error());
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    flying.erase(batch[i].id);
    const bool ok = next[i].state == DispatchState::sent;
    log::write(ok ? log::Level::info : log::Level::warning, "dispatch",
               {{"delivery", batch[i].delivery_id},
                {"repo", batch[i].repo},
                {"state", to_string(next[i].state)},
                {"attempt", batch[i].attempt.number},
                {"reason", next[i].error.value_or("")}});
  }
  wake.notify_all();  // `stop` waits for the last one
  return true;
}

Result<std::vector<std::pair<Dispatch, Attempt>>> Dispatcher::State::take(store::Tx& tx, Time now,
                                                                          std::size_t room) {
  std::vector<std::pair<Dispatch, Attempt>> taken;
  std::map<std::string, std::size_t> places;
  std::set<std::int64_t> mine;
  {
    const std::lock_guard lock{mutex};
    for (const auto& [id, repo] : flying) {
      ++places[repo];
      mine.insert(id);
    }
  }
  if (store.engine() == store::Engine::sqlite && !looked_for_dead) {
    auto owners = tx.query(
        "SELECT DISTINCT lease_owner FROM dispatches WHERE state = 'sending' AND lease_until > $1",
        {now});
    if (!owners) return tl::unexpected(owners.error());
    for (const auto& row : *owners) {
      if (row.is_null(0) || !is_dead_here(row.text(0), owner)) continue;
      auto freed = tx.execute(
          "UPDATE dispatches SET lease_until = $1 WHERE state = 'sending' AND lease_owner = $2",
          {now, row.text(0)});
      if (!freed) return tl::unexpected(freed.error());
    }
  }
  auto dropped = tx.execute(
      "UPDATE dispatches SET state = 'withdrawn', lease_owner = NULL, lease_until = NULL "
      "WHERE state = 'sending' AND lease_until <= $1 AND lease_owner <> $2 AND " +
          std::string{k_superseded},
      {now, owner});
  if (!dropped) return tl::unexpected(dropped.error());

  auto due = tx.query(
      "SELECT id, repo_key, repo, delivery, state, not_before FROM ("
      "SELECT id, repo_key, repo, delivery, state, not_before, "
      "ROW_NUMBER() OVER (PARTITION BY repo_key ORDER BY not_before, id) AS place FROM dispatches "
      "WHERE (state = 'pending' AND not_before <= $1) OR (state = 'sending' AND lease_until <= $1)"
      ") AS due WHERE place <= $2 ORDER BY not_before, id LIMIT 1000",
      {now, static_cast<std::int64_t>(options.per_repository + mine.size())});
  if (!due) return tl::unexpected(due.error());

  std::map<std::int64_t, Dispatch> deliveries;  // what its dispatches have in common
  for (const auto& row : *due) {
    if (taken.size() >= room) break;
    const std::int64_t id = row.integer(0);
    // Its answer is on the way here although the lease has ended.
    if (mine.contains(id)) continue;
    auto& used = places[row.text(1)];
    if (used >= options.per_repository) continue;
    auto claimed = tx.query(
        "UPDATE dispatches SET uncertain = CASE WHEN state = 'sending' THEN 1 ELSE uncertain END, "
        "state = 'sending', lease_owner = $1, lease_until = $2, attempts = attempts + 1, "
        "first_attempt_at = COALESCE(first_attempt_at, $3) "
        "WHERE id = $4 AND ((state = 'pending' AND not_before <= $3) OR "
        "(state = 'sending' AND lease_until <= $3)) RETURNING attempts, uncertain, created_at",
        {owner, now + options.lease, now, id});
    if (!claimed) return tl::unexpected(claimed.error());
    if (claimed->empty()) continue;
    const std::int64_t delivery = row.integer(3);
    auto known = deliveries.find(delivery);
    auto repo = base::RepoName::parse(row.text(2));
    if (!repo) return tl::unexpected(repo.error());
    if (known == deliveries.end()) {
      auto rows = tx.query(
          "SELECT delivery_id, event_type, pr_number, body FROM deliveries WHERE id = $1", {delivery});
      if (!rows) return tl::unexpected(rows.error());
      if (rows->empty()) continue;
      const auto& d = rows->front();
      Dispatch common{.repo = *repo, .event_type = d.text(1), .delivery_id = d.text(0),
                      .pr_number = d.optional_integer(2)};
      if (!d.is_null(3)) common.body = std::make_shared<const std::string>(store::as_text(d.bytes(3)));
      known = deliveries.emplace(delivery, std::move(common)).first;
    }
    Dispatch dispatch = known->second;
    dispatch.id = id;
    dispatch.repo = *repo;
    const auto& c = claimed->front();
    dispatch.attempt = static_cast<int>(c.integer(0));
    taken.emplace_back(std::move(dispatch),
                       Attempt{static_cast<int>(c.integer(0)), c.integer(1) != 0, c.time(2)});
    ++used;
  }
  return taken;
}

Result<bool> Dispatcher::State::step_as(const std::shared_ptr<State>& self, bool may_claim) {
  auto recorded = record();
  if (!recorded || !may_claim) return recorded;
  std::size_t room = 0;
  {
    const std::lock_guard lock{mutex};
    room = options.concurrency - std::min(options.concurrency, flying.size());
  }
  room = std::min(room, target.room());
  if (room == 0) return recorded;
  const Time now = clock.now();
  // Most steps find nothing: looking takes no place in the queue of writers.
  auto due = store.read_value([&](store::Tx& tx) -> Result<bool> {
    auto rows = tx.query(
        "SELECT 1 FROM dispatches WHERE (state = 'pending' AND not_before <= $1) OR "
        "(state = 'sending' AND (lease_until <= $1 OR $2 = 0)) LIMIT 1",
        {now, looked_for_dead});
    if (!rows) return tl::unexpected(rows.error());
    return !rows->empty();
  });
  if (!due) return tl::unexpected(due.error());
  if (!*due) {
    looked_for_dead = true;
    return recorded;
  }
  auto taken = store.write_value([&](store::Tx& tx) { return take(tx, now, room); });
  if (!taken) return tl::unexpected(taken.error());
  looked_for_dead = true;
  {
    const std::lock_guard lock{mutex};
    for (const auto& [dispatch, attempt] : *taken) flying.emplace(dispatch.id, dispatch.repo.key());
  }
  for (auto& [dispatch, attempt] : *taken) {
    Completed result{dispatch.id, attempt, {}, dispatch.repo.full_name(), dispatch.delivery_id};
    std::function<void(Answer)> done = [self, result](Answer answer) mutable {
      const std::lock_guard lock{self->mutex};
      result.answer = std::move(answer);
      self->completed.push_back(std::move(result));
      self->poked = true;
      self->wake.notify_all();
    };
    if (!dispatch.body)
      done({Answer::Kind::rejected, std::nullopt, "the event's body is past its retention period"});
    else
      target.send(std::move(dispatch), done);
  }
  return *recorded || !taken->empty();
}

void Dispatcher::State::run(const std::shared_ptr<State>& self) {
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
        log::error("dispatcher", {{"error", did.error().message}});
      health.error = did.error().message;
      poked = false;
      pause = k_poll;
    }
  }
}

Dispatcher::Dispatcher(store::Store& store, const base::Clock& clock, DispatchTarget& target,
                       DispatcherOptions options)
    : state_{std::make_shared<State>(store, clock, target, std::move(options))} {}

Dispatcher::~Dispatcher() { stop(Duration{0}); }

Result<bool> Dispatcher::step() { return state_->step_as(state_, true); }

void Dispatcher::start() {
  const std::lock_guard lock{state_->mutex};
  state_->health.running = true;
  state_->poked = true;
  state_->loop = std::thread{[state = state_] { state->run(state); }};
  state_->listener = std::thread{[state = state_] {
    while (true) {
      const bool notified = state->store.wait_for(k_dispatch_channel, k_listen);
      const std::lock_guard guard{state->mutex};
      if (state->stopped || state->stopping) return;
      if (!notified) continue;
      state->poked = true;
      state->wake.notify_all();
    }
  }};
}

void Dispatcher::stop(Duration grace) {
  auto& s = *state_;
  {
    std::unique_lock lock{s.mutex};
    s.stopping = true;
    if (s.loop.joinable())
      s.wake.wait_for(lock, grace, [&] { return s.flying.empty(); });
    s.stopped = true;
    s.health.running = false;
    s.wake.notify_all();
  }
  if (s.loop.joinable()) s.loop.join();
  if (s.listener.joinable()) s.listener.join();
  if (const auto last = s.record(); !last)
    log::error("dispatcher", {{"error", last.error().message}});
}

Dispatcher::Health Dispatcher::health() const {
  const std::lock_guard lock{state_->mutex};
  return state_->health;
}

std::size_t Dispatcher::in_flight() const {
  const std::lock_guard lock{state_->mutex};
  return state_->flying.size();
}

}  // namespace crosscheck::relay
