#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/runner/inventory.h"
#include "crosscheck/runner/plan.h"

// How one selection is run in several jobs. A shard is a range of the selection, in the inventory's
// order: so few files as possible are imported twice, and a shard fits into a word. Pure.
namespace crosscheck::runner {

struct Shard {
  static constexpr std::size_t k_most = 10'000;

  std::size_t index = 1;  // from 1
  std::size_t count = 1;
  std::size_t begin = 0;  // of the selection, the first of the shard…
  std::size_t end = 0;    // …and the one behind its last
  std::string digest;     // of the selection that the range is of
  friend bool operator==(const Shard&, const Shard&) = default;
};
// "2/4:1200-2400:0f3a9c20d4e5f607", as `crosscheck plan` emits it and `crosscheck run --shard` and
// `crosscheck merge` take it.
[[nodiscard]] std::string to_string(const Shard& shard);

// What `--shard` says: a whole Shard, or "2/4" alone.
struct ShardRequest {
  std::size_t index = 1;
  std::size_t count = 1;
  std::optional<Shard> planned;
};
// What is neither is a `usage` fault.
[[nodiscard]] base::Result<ShardRequest> parse_shard(std::string_view text);

// What each of `selected` is expected to take: as recorded, else PlanOptions::unknown_test.
[[nodiscard]] std::vector<base::Duration> expected_times(const std::vector<CollectedTest>& tests,
                                                         const std::vector<std::size_t>& selected,
                                                         const KnownTimes& times,
                                                         const PlanOptions& options);

// `count` shards that hold each of `selected` once, cut so that the longest takes as little time as
// ranges can; each file that a shard holds tests of costs `start_cost`, except where none of them
// is expected to take any time. No shard is empty unless there are fewer tests than shards: then
// the last ones are. `expected` goes with `selected`.
[[nodiscard]] std::vector<Shard> partition(const std::vector<CollectedTest>& tests,
                                           std::span<const std::size_t> selected,
                                           std::span<const base::Duration> expected,
                                           base::Duration start_cost, std::size_t count);

// What partition() takes a range for.
[[nodiscard]] base::Duration expected_of(const Shard& shard,
                                         const std::vector<CollectedTest>& tests,
                                         std::span<const std::size_t> selected,
                                         std::span<const base::Duration> expected,
                                         base::Duration start_cost);

// The shard that is asked for. One that was planned is refused (`environment`) where the selection
// is another than at planning. A bare i/n is cut by `expected`: that must not come from recorded
// times, which another machine's store has otherwise, so that a test would run twice or never.
[[nodiscard]] base::Result<Shard> shard_of(const ShardRequest& request,
                                           const std::vector<CollectedTest>& tests,
                                           std::span<const std::size_t> selected,
                                           std::span<const base::Duration> expected,
                                           base::Duration start_cost);

}  // namespace crosscheck::runner
