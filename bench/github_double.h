#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "crosscheck/base/process.h"

namespace crosscheck::bench {

using Steady = std::chrono::steady_clock;

// GitHub as the relay's bench needs it: installations, tokens, dispatches, check runs and a key
// set, answered after a set delay by one thread. Every App is installed everywhere and every token
// is good. Thread-safe.
class GithubDouble {
 public:
  // Listens on a free port of 127.0.0.1. `jwks` is the text served at /jwks.
  explicit GithubDouble(std::string jwks);
  GithubDouble(const GithubDouble&) = delete;
  GithubDouble& operator=(const GithubDouble&) = delete;
  ~GithubDouble();

  [[nodiscard]] std::string url() const;
  void set_delay(std::chrono::milliseconds delay) { delay_ms_ = delay.count(); }

  struct Seen {
    int dispatches = 0;
    Steady::time_point last{};  // when the last of them arrived
  };
  [[nodiscard]] Seen seen(const std::string& delivery_id);
  // Until that many dispatches of the delivery have arrived; false after `timeout`.
  [[nodiscard]] bool wait_for(const std::string& delivery_id, int dispatches,
                              std::chrono::milliseconds timeout);
  // The same for dispatches of all deliveries since the beginning.
  [[nodiscard]] bool wait_for_total(std::int64_t dispatches, std::chrono::milliseconds timeout);
  [[nodiscard]] std::int64_t total();
  // CPU time that this double has used.
  [[nodiscard]] std::chrono::microseconds cpu();

 private:
  struct Connection;
  void run();
  // The whole answer to a request.
  std::string answer(std::string_view method, std::string_view path, std::string_view body);
  void count(std::string_view body);

  const std::string jwks_;
  base::Fd listener_;
  base::Fd epoll_;
  base::Fd wake_;
  std::uint16_t port_ = 0;
  std::atomic<std::int64_t> delay_ms_{0};
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::unordered_map<std::string, Seen> deliveries_;  // guarded by mutex_
  std::int64_t total_ = 0;                            // guarded by mutex_
  std::thread thread_;
};

}  // namespace crosscheck::bench
