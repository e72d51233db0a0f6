#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/config/model.h"
#include "crosscheck/runner/run.h"
#include "probe_options.h"
#include "selection_options.h"

// What `run` and `trace` share: which tests are run, how many at once, and within which limits.
namespace crosscheck::cli {

struct RunOptions {
  ProbeOptions probe;
  SelectionOptions selection;
  std::vector<std::string> configs;
  std::string shard;
  std::size_t jobs = 0;
  double timeout = 300;
  std::optional<std::int64_t> memory_mib;
  bool no_fork_server = false;
};
// Returns --config, for options that need it.
CLI::Option* add_run_options(CLI::App& command, RunOptions& options);

// Of an option that takes seconds.
[[nodiscard]] base::Result<base::Duration> seconds(double given, const char* option,
                                                   bool may_be_zero);

struct PreparedRun {
  runner::RunRequest request;
  std::optional<config::Config> config;
  bool partial = false;  // files were named: not all that the configuration lists is collected
};
// What can be said before torch is imported: files are read, the interpreter and the device found.
[[nodiscard]] base::Result<PreparedRun> prepare_run(RunOptions& options);
// Collects what no inventory lists, asks the interpreter what it is, and lets the configuration
// rule. Prints what that lists and the suite does not have.
[[nodiscard]] base::Result<void> collect_for(PreparedRun& run, const RunOptions& options,
                                             int interrupt_fd);

// How progress is shown here.
[[nodiscard]] runner::RunRequest::Show progress_style();

}  // namespace crosscheck::cli
