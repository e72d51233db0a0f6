#pragma once

#include "crosscheck/base/result.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/runner/report.h"

// The files that a run leaves.
namespace crosscheck::runner {

// Whether both can be written, asked before anything is done: --junit and --results name them.
[[nodiscard]] base::Result<void> check_writable(const Files& files);

// Each whole or not at all, the results gzipped if their name ends in .gz. Both are tried; the
// error is the first.
[[nodiscard]] base::Result<void> write_files(const base::RunResults& run, const Files& files);

}  // namespace crosscheck::runner
