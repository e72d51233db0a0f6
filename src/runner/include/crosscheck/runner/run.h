#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/runner/executor.h"
#include "crosscheck/runner/govern.h"
#include "crosscheck/runner/report.h"
#include "crosscheck/runner/shard.h"
#include "crosscheck/store/store.h"

namespace crosscheck::runner {

// A run that records which operators each test uses.
struct Tracing {
  TraceSetup setup;
  std::function<bool(const base::TestId&)> is_done;  // traced before: left out
  // Once for each test, also for one that died, of which no operators are known. Tests that compile
  // come last, when they have been run once more for their graphs.
  std::function<base::Result<void>(const base::TestResult&, const std::optional<base::Operators>&)>
      on_traced;
};

struct RunRequest {
  ProbeSetup setup;
  Inventory inventory;
  Environment environment;  // of the interpreter that will run the tests
  Selection selection;
  Governing governing;  // of the inventory's tests
  GovernOptions govern;
  std::optional<ShardRequest> shard;  // of what is selected
  std::optional<Tracing> tracing;
  std::string backend;           // empty: the device's name
  std::string backend_revision;  // empty: "unknown"
  std::vector<std::string> command;
  std::size_t workers = 0;  // 0: chosen from the machine
  // Of a process and its file, as measured; nothing: PlanOptions says.
  std::optional<base::Duration> start_cost;
  Limits limits;
  int retries = 0;
  int interrupt_fd = -1;
  // Go on with an unfinished run of the same subject and selection: with this id, or, if it is
  // empty, the latest.
  std::optional<std::string> resume;
  std::string junit_file;    // empty: none
  std::string results_file;  // gzipped if it ends in .gz; empty: none
  store::Store* store = nullptr;
  std::string store_name;  // for messages
  // Progress: drawn on one line, said now and then, or only failures.
  enum class Show : std::uint8_t { drawn, plain, quiet } show = Show::quiet;
};

struct RunReport {
  base::RunResults results;
  bool interrupted = false;  // by a signal
  [[nodiscard]] bool ok() const { return results.ok(); }
};

// How many processes run at once when nothing is said: a core each, less where memory is short.
inline constexpr std::size_t k_most_workers = 4;
[[nodiscard]] std::size_t default_workers();

// What a process may hold when nothing is said: nearly all that there is.
[[nodiscard]] std::int64_t default_memory_limit();

// Selects, plans, runs, and writes what is asked for. Results reach the store while it runs; files
// are written at the end, whole or not at all. What could be kept is kept before an error is
// returned.
[[nodiscard]] base::Result<RunReport> run(const RunRequest& request);

[[nodiscard]] base::Combination combination_of(const RunRequest& request);

}  // namespace crosscheck::runner
