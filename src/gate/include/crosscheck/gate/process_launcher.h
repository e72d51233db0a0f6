#pragma once

#include <string>
#include <vector>

#include "crosscheck/gate/launch.h"

namespace crosscheck::gate {

// Where launches run.
struct Interpreters {
  std::string baseline;  // path of its python
  std::string candidate;
  std::string probe_path;  // folder that holds the package crosscheck_probe

  [[nodiscard]] const std::string& of(Side side) const {
    return side == Side::baseline ? baseline : candidate;
  }
};

// A fresh process a launch: `PYTHON -m crosscheck_probe.workload REQUEST RESULT`, in a group of its
// own that is ended with it. Sleeps while it runs.
class ProcessLauncher final : public Launcher {
 public:
  // `interrupt_fd` readable: the launch is ended and the fault is `unavailable`; -1: never.
  ProcessLauncher(const Manifest& manifest, Interpreters interpreters, std::string scratch_folder,
                  int interrupt_fd);
  [[nodiscard]] base::Result<Answer> launch(const LaunchRequest& request) override;

  // For a shell: what `launch` runs, the request in a file beside it.
  [[nodiscard]] std::string command(const LaunchRequest& request) const;

 private:
  const Manifest& manifest_;
  Interpreters interpreters_;
  std::string scratch_;
  int interrupt_fd_;
};

// `{"status": "failed", …}` of a launch that gave no answer itself.
[[nodiscard]] std::string failed_answer(std::string_view mode, std::string_view reason,
                                        std::string_view printed);

}  // namespace crosscheck::gate
