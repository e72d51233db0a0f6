#pragma once

#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/base/time.h"
#include "crosscheck/runner/inventory.h"

// Ordinary pytest runs, read as if crosscheck had made them (docs/importing.md).
namespace crosscheck::runner {

struct ImportOptions {
  // What is known of what was run; an empty field is filled from the reports' properties, else it
  // is "unknown".
  base::Combination combination = {};
  const Inventory* inventory = nullptr;  // tells which tests the reports' names stand for
  bool salvage = false;                  // keep what is complete of a broken file
};

struct Imported {
  base::RunResults run;            // without the command
  std::vector<std::string> notes;  // what the reports cannot tell, and what was left out
};

// Reads JUnit files and console logs of one run, told apart by their content. A test's attempts are
// numbered in the order of the files; logs add only what no JUnit file says. The run's id follows
// from the files' bytes and the combination, so that the same import again is the same run. Nothing
// is kept of a file that is broken, unless `salvage`; an error names file, line and column.
[[nodiscard]] base::Result<Imported> import_runs(const std::vector<std::string>& files,
                                                 const ImportOptions& options, base::Time now);

}  // namespace crosscheck::runner
