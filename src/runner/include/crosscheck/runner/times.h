#pragma once

#include "crosscheck/base/result.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/runner/plan.h"
#include "crosscheck/store/store.h"

namespace crosscheck::runner {

// How long tests took at most in the latest three runs of the backend on the device; a run of four
// shards is one.
[[nodiscard]] base::Result<KnownTimes> known_times(store::Store& store,
                                                   const base::Combination& combination);

}  // namespace crosscheck::runner
