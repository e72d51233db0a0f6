#pragma once

#include <functional>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/runner/dispatcher.h"
#include "crosscheck/runner/probe.h"

namespace crosscheck::runner {

struct ExecuteOptions {
  std::size_t workers = 1;
  Limits limits;
  Handling handling;
  int interrupt_fd = -1;  // a byte read from it is one Ctrl-C
  // Asked several times a second: true ends everything at once, as a second Ctrl-C does.
  std::function<bool()> must_stop;
  std::function<void(std::vector<base::TestResult>)> on_results;
  // What a test used, before its result is handed out; only where the setup asks for it.
  std::function<void(const std::string& node_id, base::Operators)> on_operators;
  std::function<void(const Progress&)> on_progress;  // several times a second
  std::function<void(const std::string&)> on_note;
};

// Why an execution ended before all was run, if it did.
struct Executed {
  bool interrupted = false;
  bool cut_short = false;  // by a file's limit
};

// Carries out what a Dispatcher decides: starts worker processes, reads what they say, signals
// them. One thread; returns when every planned test has a result. Nothing of the processes' groups
// is left when it returns, nor when this process is killed.
[[nodiscard]] base::Result<Executed> execute(const ProbeSetup& setup,
                                             const std::vector<CollectedTest>& tests,
                                             std::vector<Chunk> chunks,
                                             const ExecuteOptions& options);

}  // namespace crosscheck::runner
