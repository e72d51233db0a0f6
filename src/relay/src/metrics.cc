#include "crosscheck/relay/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "crosscheck/base/json.h"
#include "crosscheck/relay/outbox.h"

namespace crosscheck::relay {
namespace {

using base::Result;

constexpr std::size_t k_detail_limit = 300;  // bytes

using ByState = std::map<std::string, std::int64_t, std::less<>>;

struct Outbox {
  ByState by_state;
  ByState calls_by_state;
  ByState forwards_by_state;
  std::optional<base::Time> oldest_unsent;
  std::optional<base::Time> oldest_due;
};

Result<ByState> count_states(store::Tx& tx, std::string_view table) {
  auto rows = tx.query("SELECT state, COUNT(*) FROM " + std::string{table} + " GROUP BY state");
  if (!rows) return tl::unexpected(rows.error());
  ByState counts;
  for (const auto& row : *rows) counts[row.text(0)] = row.integer(1);
  return counts;
}

Result<Outbox> read_outbox(store::Store& store, base::Time now) {
  return store.read_value([now](store::Tx& tx) -> Result<Outbox> {
    Outbox outbox;
    for (auto& [table, counts] : {std::pair{"dispatches", &outbox.by_state},
                                  std::pair{"github_calls", &outbox.calls_by_state},
                                  std::pair{"forwards", &outbox.forwards_by_state}}) {
      auto counted = count_states(tx, table);
      if (!counted) return tl::unexpected(counted.error());
      *counts = std::move(*counted);
    }
    // Of those few alone: the rest stays for ever.
    auto unsent =
        tx.query("SELECT MIN(created_at) FROM dispatches WHERE state IN ('pending', 'sending')");
    if (!unsent) return tl::unexpected(unsent.error());
    outbox.oldest_unsent = unsent->front().optional_time(0);
    auto due = tx.query(
        "SELECT MIN(not_before) FROM dispatches WHERE state = 'pending' AND not_before <= $1",
        {now});
    if (!due) return tl::unexpected(due.error());
    outbox.oldest_due = due->front().optional_time(0);
    return outbox;
  });
}

double seconds_since(const std::optional<base::Time>& time, base::Time now) {
  return time ? std::max(0.0, std::chrono::duration<double>(now - *time).count()) : 0.0;
}

}  // namespace

void Metrics::count(std::string_view kind, int status) {
  const std::lock_guard lock{mutex_};
  ++requests_[{std::string{kind}, status}];
}

void Metrics::refused(std::string_view kind, std::string_view reason, std::string_view detail,
                      base::Time now) {
  const std::lock_guard lock{mutex_};
  Refusals& r = refusals_[{std::string{kind}, std::string{reason}}];
  r = {std::string{kind}, std::string{reason}, r.count + 1, now,
       base::to_utf8(detail, k_detail_limit)};
}

std::vector<Refusals> Metrics::refusals() const {
  std::vector<Refusals> all;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [key, refusals] : refusals_) all.push_back(refusals);
  }
  std::ranges::stable_sort(all, std::ranges::greater{}, &Refusals::count);
  return all;
}

Result<std::string> Metrics::text(store::Store& store, base::Time now,
                                  std::string_view version) const {
  const auto outbox = read_outbox(store, now);
  if (!outbox) return tl::unexpected(outbox.error());
  std::string out;
  const auto add = [&out](std::string_view format, const auto&... values) {
    fmt::vformat_to(std::back_inserter(out), format, fmt::make_format_args(values...));
  };
  add("# HELP crosscheck_build_info The running version.\n# TYPE crosscheck_build_info gauge\n"
      "crosscheck_build_info{{version=\"{}\"}} 1\n",
      version);
  add("# HELP crosscheck_requests_total Calls answered, by kind and HTTP status.\n"
      "# TYPE crosscheck_requests_total counter\n");
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [key, n] : requests_)
      add("crosscheck_requests_total{{kind=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, n);
    add("# HELP crosscheck_refusals_total Calls refused, by kind and reason.\n"
        "# TYPE crosscheck_refusals_total counter\n");
    for (const auto& [key, refusals] : refusals_)
      add("crosscheck_refusals_total{{kind=\"{}\",reason=\"{}\"}} {}\n", key.first, key.second,
          refusals.count);
  }
  add("# HELP crosscheck_dispatches Dispatches in the store, by state.\n"
      "# TYPE crosscheck_dispatches gauge\n");
  using enum DispatchState;
  const auto count_of = [](const auto& by_state, DispatchState state) {
    const auto found = by_state.find(to_string(state));
    return found == by_state.end() ? std::int64_t{0} : found->second;
  };
  for (const DispatchState state : {pending, sending, sent, dead, withdrawn})
    add("crosscheck_dispatches{{state=\"{}\"}} {}\n", to_string(state),
        count_of(outbox->by_state, state));
  add("# HELP crosscheck_github_calls Other calls to GitHub in the store, by state.\n"
      "# TYPE crosscheck_github_calls gauge\n");
  for (const DispatchState state : {pending, sending, sent, dead, withdrawn})
    add("crosscheck_github_calls{{state=\"{}\"}} {}\n", to_string(state),
        count_of(outbox->calls_by_state, state));
  add("# HELP crosscheck_forwards Reports for another HUD in the store, by state.\n"
      "# TYPE crosscheck_forwards gauge\n");
  for (const DispatchState state : {pending, sending, sent, dead, withdrawn})
    add("crosscheck_forwards{{state=\"{}\"}} {}\n", to_string(state),
        count_of(outbox->forwards_by_state, state));
  add("# HELP crosscheck_store_waiting_writes Writes of this process that wait for the store.\n"
      "# TYPE crosscheck_store_waiting_writes gauge\ncrosscheck_store_waiting_writes {}\n",
      store.waiting_writes());
  add("# HELP crosscheck_relay_lag_seconds How long the oldest dispatch that is due has waited.\n"
      "# TYPE crosscheck_relay_lag_seconds gauge\ncrosscheck_relay_lag_seconds {:.3f}\n",
      seconds_since(outbox->oldest_due, now));
  const std::int64_t size =
      count_of(outbox->by_state, pending) + count_of(outbox->by_state, sending);
  const double age = seconds_since(outbox->oldest_unsent, now);
  add("# HELP crosscheck_outbox_size Dispatches not sent yet.\n"
      "# TYPE crosscheck_outbox_size gauge\ncrosscheck_outbox_size {}\n",
      size);
  add("# HELP crosscheck_outbox_age_seconds Age of the oldest dispatch not sent yet.\n"
      "# TYPE crosscheck_outbox_age_seconds gauge\ncrosscheck_outbox_age_seconds {:.3f}\n",
      age);
  return out;
}

}  // namespace crosscheck::relay
