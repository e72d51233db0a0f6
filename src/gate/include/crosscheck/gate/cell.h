#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/gate/launch.h"
#include "crosscheck/gate/manifest.h"
#include "crosscheck/gate/statistics.h"

// What is launched for a cell, in which order, and what its launches say. Pure: all of it follows
// from the manifest, the seed and the launches made so far, so that a gate that was killed goes on
// where it was.
namespace crosscheck::gate {

struct Logged {
  LaunchRequest request;
  LaunchResult result;
  base::Duration took{0};
};

enum class Status : std::uint8_t {
  pass,
  fail,
  inconclusive,
  unfit,    // the machine, or the baseline, does not agree with itself
  not_run,  // the device or what the workload needs is missing, or nothing was launched yet
};
[[nodiscard]] std::string_view to_string(Status status);

// A timed quantity, held against its margin.
struct Comparison {
  std::string_view quantity;  // "p50", "p95", "cpu", "throughput", "peak_memory"
  Better better = Better::lower;
  double margin = 0;
  Status status = Status::not_run;
  std::optional<Interval> aa = {};        // of the baseline against itself
  std::optional<Interval> interval = {};  // at the look that decided, or the last one
  std::optional<Interval> recurred = {};  // of the second session, where the first one failed
  std::optional<double> detectable = {};  // see minimum_detectable_effect
  // What the first session's launches measured, in order: seconds, items a second, bytes.
  std::vector<double> baseline = {};
  std::vector<double> candidate = {};
};

struct GateResult {
  Gate gate = Gate::correctness;
  Status status = Status::not_run;
  std::string reason = {};                   // one line with its numbers
  std::vector<Comparison> comparisons = {};  // of timed gates
  std::vector<std::string> launches = {};    // keys of what it rests on
};

// How often and how long switching back was tried (`gate rollback-rehearsal`).
struct Rehearsal {
  bool ok = false;
  std::string reason;
  base::Duration took{0};
};

// The next launch of `id`, or nothing when all that can be said of it is known. `logged` are the
// cell's launches in order; `checkpoints` is the folder that checkpoints are written to.
[[nodiscard]] std::optional<LaunchRequest> next_launch(const Manifest& manifest, const CellId& id,
                                                       std::span<const Logged> logged,
                                                       std::uint64_t seed,
                                                       const std::string& checkpoints);
// How many launches of `id` are left, at least and at most.
struct Remaining {
  std::size_t least = 0;
  std::size_t most = 0;
};
[[nodiscard]] Remaining remaining(const Manifest& manifest, const CellId& id,
                                  std::span<const Logged> logged);

// The gates that the cell's workload requires, in their order.
[[nodiscard]] std::vector<GateResult> judge_cell(const Manifest& manifest, const CellId& id,
                                                 std::span<const Logged> logged,
                                                 const std::optional<Rehearsal>& rehearsal);

}  // namespace crosscheck::gate
