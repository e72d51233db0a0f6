#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace crosscheck::runner {

// Of a process; 0 if it cannot be told.
[[nodiscard]] std::int64_t resident_bytes(pid_t pid);
// Of a process and others that it started, as far as it is more than `interesting`: pages that they
// share count once, which takes some milliseconds a process to tell. Below that, at most that much.
[[nodiscard]] std::int64_t held_bytes(pid_t pid, const std::vector<pid_t>& others,
                                      std::int64_t interesting);
// That this process and its children may use: the machine's, or its control group's if that is
// less.
[[nodiscard]] std::int64_t usable_bytes();
// That is free now; 0 if it cannot be told.
[[nodiscard]] std::int64_t available_bytes();
// Where memory runs out, the kernel is to take this process, and not the runner or its machine's
// services.
void offer_to_oom_killer(pid_t pid);

}  // namespace crosscheck::runner
