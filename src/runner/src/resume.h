#pragma once

#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/run_results.h"
#include "crosscheck/store/store.h"

namespace crosscheck::runner {

struct Resumed {
  std::int64_t run = 0;  // the store's id
  base::RunHeader header;
  std::vector<base::TestResult> results;  // of what was run
};

// Takes over the unfinished run that `header` would be: of the same combination, selection,
// configuration and shard, with that run id if one is given. `invalid_input` where there is none,
// or what was asked for is another's; `busy` where its process lives.
[[nodiscard]] base::Result<Resumed> resume_run(store::Store& store, const base::RunHeader& header,
                                               const std::string& run_id, base::Time now);

// Ends runs whose process died: they would be unfinished for ever.
[[nodiscard]] base::Result<void> end_dead_runs(store::Store& store, base::Time now);

}  // namespace crosscheck::runner
