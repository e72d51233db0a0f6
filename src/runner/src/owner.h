#pragma once

#include <string>

#include "crosscheck/base/time.h"
#include "crosscheck/store/run_store.h"

// Which process fills a run, and whether it still does.
namespace crosscheck::runner {

// How often an owner says that it lives, and after what silence one of another machine is dead.
inline constexpr std::chrono::seconds k_alive_every{10};
inline constexpr std::chrono::minutes k_dead_after{2};

// This process: unlike any other of any machine, also after a restart.
[[nodiscard]] std::string own_name();
// Certain for a process of this machine; of another it is judged by when it was last heard of.
[[nodiscard]] bool is_alive(const store::Owner& owner, base::Time now);

}  // namespace crosscheck::runner
