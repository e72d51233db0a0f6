#include "channels.h"

#include <utility>

namespace crosscheck::store {

void Channels::signal(std::string_view channel) {
  {
    const std::lock_guard lock{mutex_};
    signalled_.insert_or_assign(std::string{channel}, true);
  }
  changed_.notify_all();
}

void Channels::signal_all() {
  {
    const std::lock_guard lock{mutex_};
    for (auto& [channel, signalled] : signalled_) signalled = true;
  }
  changed_.notify_all();
}

bool Channels::wait_for(std::string_view channel, base::Duration timeout) {
  std::unique_lock lock{mutex_};
  // References into a std::map stay valid.
  bool& signalled = signalled_.try_emplace(std::string{channel}, false).first->second;
  changed_.wait_for(lock, timeout, [&] { return signalled || interrupted_; });
  if (interrupted_) return false;
  return std::exchange(signalled, false);
}

void Channels::interrupt() {
  {
    const std::lock_guard lock{mutex_};
    interrupted_ = true;
  }
  changed_.notify_all();
}

}  // namespace crosscheck::store
