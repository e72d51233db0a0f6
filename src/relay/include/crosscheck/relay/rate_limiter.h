#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "crosscheck/base/time.h"

namespace crosscheck::relay {

// At most `limit` calls a key in any `window`. A refused call is not counted, so knocking does not
// prolong the refusal. Thread-safe.
class RateLimiter {
 public:
  explicit RateLimiter(int limit, base::Duration window = std::chrono::minutes{1})
      : limit_{limit}, window_{window} {}
  // Nothing when the call may go on, else how long until one may.
  [[nodiscard]] std::optional<base::Duration> admit(const std::string& key, base::Time now);

 private:
  const int limit_;
  const base::Duration window_;
  std::mutex mutex_;
  std::map<std::string, std::deque<base::Time>> calls_;
};

}  // namespace crosscheck::relay
