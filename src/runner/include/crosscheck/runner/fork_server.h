#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "crosscheck/base/process.h"
#include "crosscheck/runner/probe.h"

namespace crosscheck::runner {

// A process of the probe that has imported torch and its test machinery once, and forks the
// processes that collect and run: each begins as it was then, some seconds sooner. Only where a
// fork is safe, which that process judges: no thread but the linear algebra library's, which knows
// of forks, and no device in use. Where it is not, or the server is broken, there is no fork, and
// the caller starts a process of its own, which meets the fault again and says what it is.
//
// What it forks become children of this process. Not thread-safe; to be destroyed by the thread
// that made it, which must live as long.
class ForkServer {
 public:
  // Starts it, and does not wait for it. It imports what `setup` says; a byte on `interrupt_fd`
  // ends a wait for it (and is left there).
  explicit ForkServer(const ProbeSetup& setup, int interrupt_fd = -1);
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  // A process that does what `VERB --request -` does, with these for its standard input, output,
  // error and its events. Waits for the imports to end, minutes at most.
  [[nodiscard]] std::optional<base::Process> fork(std::string_view verb,
                                                  const std::array<int, 4>& descriptors);

 private:
  [[nodiscard]] bool is_ready();
  void close();

  std::optional<base::Process> process_;
  base::Fd control_;  // a socket of packets; closed: there is no server
  int interrupt_fd_;
  bool ready_ = false;
};

}  // namespace crosscheck::runner
