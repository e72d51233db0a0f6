#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>

#include "crosscheck/base/time.h"

namespace crosscheck::hud {

// Lets few in at once and few wait. Thread-safe.
class Turnstile {
 public:
  struct Limits {
    std::size_t inside;
    std::size_t waiting;
    base::Duration patience;  // how long one waits
  };

  explicit Turnstile(Limits limits) : limits_{limits} {}

  // Leaves when it dies. Must not outlive the turnstile.
  class Pass {
   public:
    explicit Pass(Turnstile& turnstile) : turnstile_{&turnstile} {}
    Pass(Pass&& other) noexcept : turnstile_{std::exchange(other.turnstile_, nullptr)} {}
    Pass& operator=(Pass&&) = delete;
    ~Pass() {
      if (turnstile_ != nullptr) turnstile_->leave();
    }

   private:
    Turnstile* turnstile_;
  };

  // Nothing: too many are waiting, or patience ended.
  [[nodiscard]] std::optional<Pass> enter() {
    std::unique_lock lock{mutex_};
    if (inside_ >= limits_.inside) {
      if (waiting_ >= limits_.waiting) return std::nullopt;
      ++waiting_;
      const bool free =
          left_.wait_for(lock, limits_.patience, [this] { return inside_ < limits_.inside; });
      --waiting_;
      if (!free) return std::nullopt;
    }
    ++inside_;
    return std::optional<Pass>{std::in_place, *this};
  }

 private:
  void leave() {
    {
      const std::lock_guard lock{mutex_};
      --inside_;
    }
    left_.notify_one();
  }

  const Limits limits_;
  std::mutex mutex_;
  std::condition_variable left_;
  std::size_t inside_ = 0;
  std::size_t waiting_ = 0;
};

}  // namespace crosscheck::hud
