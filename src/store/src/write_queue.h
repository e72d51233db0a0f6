#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/store/store.h"

namespace crosscheck::store {

// How many bodies share a commit at most: the first one's caller waits for the others' bodies.
inline constexpr std::size_t k_group = 64;

// The bodies of `write` that wait for the one thread that runs them. Thread-safe.
class WriteQueue {
 public:
  using Body = std::function<base::Result<void>(Tx&)>;

  // Lives on its caller's stack until `finish`.
  struct Job {
    const Body* body;
    std::chrono::steady_clock::time_point deadline;  // for what others lock
    base::Result<void> result = {};                  // of the body, while its group runs
    std::promise<base::Result<void>> promise = {};
    void finish(base::Result<void> how) { promise.set_value(std::move(how)); }
  };
  using Group = std::vector<Job*>;

  // Waits until the thread has finished the body's job.
  [[nodiscard]] base::Result<void> run(const Body& body, base::Duration timeout) {
    Job job{&body, std::chrono::steady_clock::now() + timeout};
    auto result = job.promise.get_future();
    {
      const std::lock_guard lock{mutex_};
      jobs_.push_back(&job);
    }
    changed_.notify_one();
    return result.get();
  }

  // For the thread: waits for jobs, and takes those there are, in their order. Empty once the queue
  // is closed and nothing waits.
  [[nodiscard]] Group take() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return closed_ || !jobs_.empty(); });
    const auto end = jobs_.begin() + static_cast<std::ptrdiff_t>(std::min(jobs_.size(), k_group));
    Group group{jobs_.begin(), end};
    jobs_.erase(jobs_.begin(), end);
    return group;
  }

  void close() {
    {
      const std::lock_guard lock{mutex_};
      closed_ = true;
    }
    changed_.notify_one();
  }

  // How many wait to be taken.
  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock{mutex_};
    return jobs_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job*> jobs_;  // guarded by mutex_
  bool closed_ = false;    // guarded by mutex_
};

}  // namespace crosscheck::store
