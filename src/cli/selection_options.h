#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/runner/inventory.h"
#include "crosscheck/runner/plan.h"
#include "probe_options.h"

// What `run` and `plan` share: which of a suite's tests.
namespace crosscheck::cli {

struct SelectionOptions {
  bool quick = false;
  std::vector<std::string> patterns;
  std::string tests_from;
  std::string inventory;
};
void add_selection_options(CLI::App& command, SelectionOptions& options);

[[nodiscard]] base::Result<runner::Selection> read_selection(const SelectionOptions& options);

// The inventory that the selection names. What it says of itself stands in `probe` where the
// command line says nothing; the device must be the same.
[[nodiscard]] base::Result<runner::Inventory> adopt_inventory(const SelectionOptions& options,
                                                              ProbeOptions& probe);

}  // namespace crosscheck::cli
