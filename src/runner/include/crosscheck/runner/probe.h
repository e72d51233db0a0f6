#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/runner/inventory.h"
#include "crosscheck/runner/protocol.h"

namespace crosscheck::runner {

// A device as the probe is told of it: `cpu`, or a PrivateUse1 backend's name, the Python module
// that registers it and the folder that module lies in.
struct Device {
  std::string name = "cpu";
  std::string module;
  std::string path;
};

class ForkServer;

// How the probe is to see operators: "record-function", whose library it built, "dispatch-mode", or
// "compiled", which sees the graphs of what is compiled and nothing else.
struct TraceSetup {
  std::string observer;
  std::string library;
};

// How to start the probe.
struct ProbeSetup {
  std::string python;      // interpreter whose torch is tested
  std::string probe_path;  // folder that holds the package crosscheck_probe
  Device device;
  Suite suite;
  std::vector<std::pair<std::string, std::string>> environment;  // set for the process
  std::string torch;  // version to install where torch is missing; empty: the one crosscheck pins
  std::optional<TraceSetup> trace;          // nothing: operators are not asked for
  std::shared_ptr<ForkServer> fork_server;  // nothing: every process imports torch itself
};

// What a process took, from its start.
struct Took {
  base::Duration start{0};  // until it had imported what tests need
  base::Duration rest{0};   // until its end
};

struct CallOptions {
  base::Duration limit = std::chrono::minutes{20};  // that a process may say nothing
  std::optional<base::Duration> start;              // before the first thing it says; else `limit`
  int interrupt_fd = -1;                            // readable: stop; `unavailable`
  std::function<void(std::size_t tests)> on_progress;
  Took* took = nullptr;  // set to what the last process took
};

// Both start processes, one at a time, and wait for them. An interpreter, torch or another module
// that is missing is an `environment` fault that names it and the command that installs it. Files
// that do not collect, be it that they kill or hang the process, are errors of the inventory and
// cost the other files nothing.
[[nodiscard]] base::Result<Environment> read_environment(const ProbeSetup& setup,
                                                         const CallOptions& options);
[[nodiscard]] base::Result<Inventory> collect(const ProbeSetup& setup, const CallOptions& options);

// Makes ready to see operators: by `wanted`, or, where that is "auto", by what sees most and can be
// had. Building the observer takes a compiler and, the first time, some 20 s.
[[nodiscard]] base::Result<Observer> prepare_observer(const ProbeSetup& setup,
                                                      const std::string& wanted,
                                                      const CallOptions& options);

// The files of the suite that are collected: those it names, or all that the bundled one holds.
[[nodiscard]] std::vector<std::string> suite_files(const ProbeSetup& setup);

// Where things lie, when nothing is said.
struct Surroundings {
  std::optional<std::string> crosscheck_python;  // $CROSSCHECK_PYTHON
  std::optional<std::string> crosscheck_probe;   // $CROSSCHECK_PROBE
  std::string working_directory;
  std::string program;  // absolute path of the running program
};
[[nodiscard]] Surroundings current_surroundings();
// $CROSSCHECK_PYTHON, else .venv/bin/python in the working directory or the source tree, else
// python3.
[[nodiscard]] std::string default_python(const Surroundings& surroundings);
// $CROSSCHECK_PROBE, else the source tree's or the installed one.
[[nodiscard]] base::Result<std::string> default_probe_path(const Surroundings& surroundings);
// `refdev` brings its module and path; other names stand for themselves: with no module, a device
// that torch itself knows.
[[nodiscard]] base::Result<Device> resolve_device(const std::string& name,
                                                  const std::string& module,
                                                  const std::string& path,
                                                  const Surroundings& surroundings);

}  // namespace crosscheck::runner
