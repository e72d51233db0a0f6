#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "crosscheck/base/time.h"

namespace crosscheck::store {

// Wake-ups by name inside one process. Thread-safe; holds no lock but its own and calls nobody.
class Channels {
 public:
  void signal(std::string_view channel);
  // Every channel that was ever waited for: some signals may have been missed.
  void signal_all();
  // True when `channel` was signalled since the last true, false after `timeout` or `interrupt`.
  [[nodiscard]] bool wait_for(std::string_view channel, base::Duration timeout);
  void interrupt();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, bool, std::less<>> signalled_;
  bool interrupted_ = false;
};

}  // namespace crosscheck::store
