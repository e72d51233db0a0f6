#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/run_results.h"
#include "crosscheck/store/store.h"

// Runs, tests and results are written by the runner and by the relay (from uploaded files), and
// read by the HUD: one place knows their tables.
namespace crosscheck::store {

// Begins a run that will be filled while it goes on. `conflict` if the run id exists.
[[nodiscard]] base::Result<std::int64_t> begin_run(Tx& tx, const base::RunHeader& header);
// Appends results of a run; the same (test, attempt) again changes nothing.
[[nodiscard]] base::Result<void> add_results(Tx& tx, std::int64_t run,
                                             const std::vector<base::TestResult>& results);
// Sets the end and the counts (from what is stored).
[[nodiscard]] base::Result<void> finish_run(Tx& tx, std::int64_t run, base::Time finished_at);

// A whole run from a file. Idempotent: a run that is there with the same digest, or made here by
// `crosscheck run` under the same run id, is left as it is and only gets its `results_digest`.
[[nodiscard]] base::Result<std::int64_t> import_run(Tx& tx, const base::RunResults& run,
                                                    std::string_view results_digest);

}  // namespace crosscheck::store
