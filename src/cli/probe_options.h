#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "crosscheck/base/process.h"
#include "crosscheck/runner/probe.h"

// What `collect` and `run` share: which suite, which device, which interpreter.
namespace crosscheck::cli {

struct ProbeOptions {
  std::string suite = "bundled";
  std::vector<std::string> files;
  std::string device = "cpu";
  std::string device_module;
  std::string device_path;
  std::string python;
  double collect_timeout = 600;

  [[nodiscard]] base::Duration collect_limit() const {
    return std::chrono::duration_cast<base::Duration>(
        std::chrono::duration<double>{collect_timeout});
  }

  // Whether the command line named them; otherwise an inventory may.
  bool suite_given = false;
  bool device_given = false;
};

void add_probe_options(CLI::App& command, ProbeOptions& options);

// Makes paths absolute and finds the probe. The cores are shared out between as many processes as
// run at most when nothing is said, unless OMP_NUM_THREADS says otherwise.
[[nodiscard]] base::Result<runner::ProbeSetup> resolve(const ProbeOptions& options);

// Ctrl-C and SIGTERM as bytes in a pipe, while it lives. One at a time. Also ignores SIGPIPE: a
// reader that goes away is an error of writing, not a death.
class Interrupts {
 public:
  [[nodiscard]] static base::Result<Interrupts> watch();
  Interrupts(Interrupts&&) = default;
  Interrupts& operator=(Interrupts&&) = delete;
  ~Interrupts();
  [[nodiscard]] int fd() const { return read_.get(); }

 private:
  explicit Interrupts(base::Pipe pipe);
  base::Fd read_;
  base::Fd write_;
};

}  // namespace crosscheck::cli
