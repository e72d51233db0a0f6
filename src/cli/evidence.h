#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "crosscheck/base/result.h"
#include "crosscheck/reconcile/history.h"

// The runs that `reconcile` and `explain` go by: of the store, or of results files.
namespace crosscheck::cli {

struct EvidenceOptions {
  std::vector<std::string> results;  // files; the store is not asked
  std::vector<std::string> runs;     // ids; empty: the newest
  std::string backend;
  std::string repo;
  std::size_t last = 20;
};
void add_evidence_options(CLI::App& command, EvidenceOptions& options);

// Of the device that is named, or any. All must be of one backend on one device; several are
// `usage`, which names them.
[[nodiscard]] base::Result<void> read_evidence(const Globals& globals,
                                               const EvidenceOptions& options,
                                               const std::vector<std::string>& devices,
                                               reconcile::History& history);

}  // namespace crosscheck::cli
