#include "crosscheck/runner/times.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "crosscheck/runner/shard.h"

namespace crosscheck::runner {
namespace {

constexpr double k_rounds = 3;

// Beside them, of what was cut short: what it timed counts, but it went over no round.
constexpr int k_cut_short = 10;

// The latest runs that together went over everything so often: a shard is a part of a round.
base::Result<std::vector<std::int64_t>> latest_runs(store::Tx& tx,
                                                    const base::Combination& combination) {
  auto rows = tx.query(
      "SELECT runs.id, runs.shard, runs.ended FROM runs JOIN combinations c ON c.digest = "
      "runs.combination "
      "WHERE c.backend = $1 AND c.device = $2 ORDER BY runs.started_at DESC LIMIT 1000",
      {combination.backend, combination.device});
  if (!rows) return tl::unexpected(rows.error());
  std::vector<std::int64_t> runs;
  double rounds = 0;
  int cut_short = 0;
  for (const auto& row : *rows) {
    if (rounds >= k_rounds) break;
    const auto ended = row.optional_text(2).value_or("");
    if (ended == "interrupted" || ended == "died") {
      if (++cut_short <= k_cut_short) runs.push_back(row.integer(0));
      continue;
    }
    const auto shard = row.is_null(1) ? std::nullopt : std::optional{parse_shard(row.text(1))};
    rounds += shard && *shard ? 1.0 / static_cast<double>((*shard)->count) : 1.0;
    runs.push_back(row.integer(0));
  }
  return runs;
}

}  // namespace

base::Result<KnownTimes> known_times(store::Store& store, const base::Combination& combination) {
  return store.read_value([&](store::Tx& tx) -> base::Result<KnownTimes> {
    const auto runs = latest_runs(tx, combination);
    if (!runs) return tl::unexpected(runs.error());
    KnownTimes times;
    for (const auto run : *runs) {
      auto rows = tx.query(
          "SELECT t.file, t.class_name, t.method, t.variant, MAX(r.duration_us) "
          "FROM test_results r JOIN tests t ON t.id = r.test WHERE r.run = $1 "
          "AND r.outcome NOT IN ('not_run', 'environment_error', 'harness_error') "
          // What a configuration leaves out took no time, and says nothing of what it takes.
          "AND COALESCE(r.observed, '') <> 'not_run' "
          "GROUP BY t.file, t.class_name, t.method, t.variant",
          {run});
      if (!rows) return tl::unexpected(rows.error());
      for (const auto& row : *rows) {
        auto& time = times[base::TestId{row.text(0), row.text(1), row.text(2), row.text(3)}];
        time = std::max(time, base::Duration{row.integer(4)});
      }
    }
    return times;
  });
}

}  // namespace crosscheck::runner
