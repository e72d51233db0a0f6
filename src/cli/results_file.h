#pragma once

#include <string>

#include "crosscheck/base/result.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/runner/inventory.h"

// Files that `run` and `collect` wrote, for the commands that take them.
namespace crosscheck::cli {

struct ResultsFile {
  base::RunResults run;
  std::string text;     // JSON lines
  std::string gzipped;  // the file's own bytes if they are; else empty
};
// Gzipped or not, told by its first bytes; at most `limit` bytes unpacked. Errors name the file.
[[nodiscard]] base::Result<ResultsFile> read_results_file(const std::string& path,
                                                          std::size_t limit = std::size_t{1} << 30);

[[nodiscard]] base::Result<runner::Inventory> load_inventory(const std::string& path);

}  // namespace crosscheck::cli
