#pragma once

#include <sys/types.h>

#include "crosscheck/base/process.h"
#include "crosscheck/base/result.h"

namespace crosscheck::runner {

// A small process that, when this one is killed, lives just long enough to kill the process groups
// it was told of, and what bears this one's mark: workers die with this program, but not what their
// tests started. An orderly end has no use for it: destroying it ends it, and kills nothing.
class Reaper {
 public:
  [[nodiscard]] static base::Result<Reaper> start();

  // The group that `leader` leads.
  void remember(pid_t leader) { tell('+', leader); }
  void forget(pid_t leader) { tell('-', leader); }

 private:
  Reaper(base::Process process, base::Fd input)
      : input_{std::move(input)}, process_{std::move(process)} {}
  void tell(char what, pid_t leader);

  base::Fd input_;         // the kernel closes it when this program is killed: the signal to act
  base::Process process_;  // ends before the other is closed
};

}  // namespace crosscheck::runner
