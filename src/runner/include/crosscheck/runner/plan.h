#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/time.h"
#include "crosscheck/runner/inventory.h"

// Which tests are run, and in which pieces. Pure and deterministic.
namespace crosscheck::runner {

struct Selection {
  bool quick = false;  // only the suite's quick set
  std::vector<std::string> patterns =
      {};  // part of a node id, or /regular expression/; any may match
  // Exactly these node ids; every one must exist.
  std::optional<std::vector<std::string>> node_ids = {};

  [[nodiscard]] std::string describe() const;  // "quick set, matching 'add'"
};

// Indices into `tests`, in their order. Selecting nothing is `invalid_input` and says why; so is a
// node id that is not there.
[[nodiscard]] base::Result<std::vector<std::size_t>> select(const std::vector<CollectedTest>& tests,
                                                            const Selection& selection);

// What does not collect and would have been selected, as results that say so: a file that is broken
// must not look like a file without tests. They bear the file's name, and "(collection)" for a
// method.
[[nodiscard]] std::vector<base::TestResult> uncollected(const Inventory& inventory,
                                                        const Selection& selection);

// Tests of one file that one process runs, in order.
struct Chunk {
  std::string file;
  std::vector<std::size_t> tests;  // indices into the inventory's tests
  base::Duration expected{0};      // without start-up
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

using KnownTimes = std::map<base::TestId, base::Duration>;

struct PlanOptions {
  std::size_t workers = 1;
  // Of a process: importing torch, unless it is forked, and a file, and collecting that.
  base::Duration start_cost = std::chrono::seconds{6};
  base::Duration unknown_test = std::chrono::milliseconds{50};  // expected of a test never timed
};

// Longest expected first. A file is split, into a part for each worker at most, where all then ends
// sooner by more than half of what the further starts cost.
[[nodiscard]] std::vector<Chunk> plan(const std::vector<CollectedTest>& tests,
                                      const std::vector<std::size_t>& selected,
                                      const KnownTimes& times, const PlanOptions& options);

}  // namespace crosscheck::runner
