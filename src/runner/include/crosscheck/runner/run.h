#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/runner/executor.h"
#include "crosscheck/runner/report.h"
#include "crosscheck/store/store.h"

namespace crosscheck::runner {

struct RunRequest {
  ProbeSetup setup;
  Inventory inventory;
  Environment environment;  // of the interpreter that will run the tests
  Selection selection;
  std::string backend;           // empty: the device's name
  std::string backend_revision;  // empty: "unknown"
  std::vector<std::string> command;
  std::size_t workers = 0;  // 0: chosen from the machine
  Limits limits;
  int interrupt_fd = -1;
  std::string junit_file;    // empty: none
  std::string results_file;  // gzipped if it ends in .gz; empty: none
  store::Store* store = nullptr;
  std::string store_name;  // for messages
  // Progress: drawn on one line, said now and then, or only failures.
  enum class Show : std::uint8_t { drawn, plain, quiet } show = Show::quiet;
};

struct RunReport {
  base::RunResults results;
  bool interrupted = false;
  [[nodiscard]] bool ok() const;
};

// How many processes run at once when nothing is said: a core each, less where memory is short.
inline constexpr std::size_t k_most_workers = 4;
[[nodiscard]] std::size_t default_workers();

// Selects, plans, runs, and writes what is asked for. Results reach the store while it runs; files
// are written at the end, whole or not at all. What could be kept is kept before an error is
// returned.
[[nodiscard]] base::Result<RunReport> run(const RunRequest& request);

[[nodiscard]] base::Combination combination_of(const RunRequest& request);

}  // namespace crosscheck::runner
