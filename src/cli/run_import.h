#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "command.h"
#include "crosscheck/base/run_results.h"

// `crosscheck run --import`: the other way to a run, without running anything.
namespace crosscheck::cli {

struct ImportOptions {
  std::vector<std::string> files;
  std::string torch;
  std::string suite_revision;
  bool salvage = false;
};

// Adds what only an import takes, and refuses it together with the options of `command`, added
// before, that only a run takes.
void add_import_options(CLI::App& command, ImportOptions& options);

// What an import shares with a run.
struct ImportTarget {
  std::string device;  // empty: not given
  std::string backend;
  std::string backend_revision;
  std::string inventory;
  std::string junit;
  std::string results;
  bool no_store = false;
  std::vector<std::string> command;
};
[[nodiscard]] base::Result<base::ExitCode> run_import(const Globals& globals,
                                                      const ImportOptions& options,
                                                      const ImportTarget& target);

}  // namespace crosscheck::cli
