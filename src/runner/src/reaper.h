#pragma once

#include <sys/types.h>

#include "crosscheck/base/process.h"
#include "crosscheck/base/result.h"

namespace crosscheck::runner {

// A small process that, when this one is killed, lives just long enough to kill the process groups
// it was told of: workers die with this program, but not what their tests started. An orderly end
// has no use for it: destroying it ends it, and kills no group.
class Reaper {
 public:
  [[nodiscard]] static base::Result<Reaper> start();

  // The group that `leader` leads.
  void remember(pid_t leader) { tell('+', leader); }
  void forget(pid_t leader) { tell('-', leader); }

 private:
  Reaper(base::Process process, base::Fd input)
      : process_{std::move(process)}, input_{std::move(input)} {}
  void tell(char what, pid_t leader);

  base::Process process_;
  base::Fd input_;  // the kernel closes it when this program is killed: the signal to act
};

}  // namespace crosscheck::runner
