#include "crosscheck/relay/rate_limiter.h"

#include <algorithm>

namespace crosscheck::relay {

std::optional<base::Duration> RateLimiter::admit(const std::string& key, base::Time now) {
  const std::lock_guard lock{mutex_};
  auto& calls = calls_[key];
  // A clock that was set back must not lock a repository out until it has caught up.
  std::erase_if(calls, [&](base::Time at) { return at <= now - window_ || at > now + window_; });
  if (std::ssize(calls) < limit_) {
    calls.push_back(now);
    return std::nullopt;
  }
  return std::max(*std::ranges::min_element(calls) + window_ - now, base::Duration{1});
}

}  // namespace crosscheck::relay
