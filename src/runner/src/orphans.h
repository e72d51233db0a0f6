#pragma once

#include <string>

// Nothing that a test starts outlives the process it ran in, however it was started: a process of
// the probe becomes the parent of what loses its own below it (docs/probe-protocol.md), and what
// that one leaves behind when it ends becomes a child of this process, which ends it. So what
// belongs to a worker that lives, or to nobody here, is never taken for what one left behind.
namespace crosscheck::runner {

// A variable of the environment, "NAME=value", that what this process starts for tests begins with,
// and nothing else does.
[[nodiscard]] const std::string& runner_mark();

// From here on, this process becomes the parent of what processes leave behind that it has started.
// Its own children of before are left alone, and so is what they leave behind. Thread-safe.
void take_on_orphans();
// Kills what was left behind, with all that it started, and waits for its end; a second at most for
// what a driver holds in the kernel. Thread-safe.
void end_orphans();

// While one lives, a process is on its way to become this one's child, and is no orphan.
class Adoption {
 public:
  Adoption();
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;
  ~Adoption();
};

// Ends them at the end of a scope.
struct EndsOrphans {
  EndsOrphans() = default;
  EndsOrphans(const EndsOrphans&) = delete;
  EndsOrphans& operator=(const EndsOrphans&) = delete;
  ~EndsOrphans() { end_orphans(); }
};

}  // namespace crosscheck::runner
