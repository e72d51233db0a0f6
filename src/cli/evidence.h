#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/reconcile/history.h"
#include "crosscheck/reconcile/reconcile.h"
#include "crosscheck/store/run_history.h"

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
// What makes a promotion, and a flaky test.
void add_rule_options(CLI::App& command, reconcile::Options& options);

// Whether the options ask for a run of that header; `devices` are names of the one device.
[[nodiscard]] bool fits(const EvidenceOptions& options, const std::vector<std::string>& devices,
                        const base::RunHeader& header);
[[nodiscard]] base::Result<store::RunFilter> run_filter(const EvidenceOptions& options,
                                                        const std::vector<std::string>& devices);
// The store, to be read; `not_found` where there is none.
[[nodiscard]] base::Result<std::unique_ptr<store::Store>> open_store(const Globals& globals);
// Where the run was, for what is not known of where tests run.
void complete_from(const reconcile::Run& run, config::Circumstances& where);

// Of the device that is named, or any. All must be of one backend on one device; several are
// `usage`, which names them.
[[nodiscard]] base::Result<void> read_evidence(const Globals& globals,
                                               const EvidenceOptions& options,
                                               const std::vector<std::string>& devices,
                                               reconcile::History& history);

}  // namespace crosscheck::cli
