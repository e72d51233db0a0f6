#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"

namespace crosscheck::store {

// At most `limit` connections, made when first needed, each used by one thread at a time.
// Thread-safe; its lock is held neither while a connection is made nor while one is used.
template <class Connection>
class Pool {
 public:
  using Make = std::function<base::Result<std::unique_ptr<Connection>>()>;

  // Gives the connection back when it dies. Must not outlive the pool.
  class Lease {
   public:
    Lease(Pool& pool, std::unique_ptr<Connection> connection)
        : pool_{&pool}, connection_{std::move(connection)} {}
    Lease(Lease&& other) noexcept
        : pool_{std::exchange(other.pool_, nullptr)}, connection_{std::move(other.connection_)} {}
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (pool_ != nullptr) pool_->give_back(std::move(connection_));
    }
    Connection& operator*() const { return *connection_; }
    Connection* operator->() const { return connection_.get(); }
    // Closes it instead of giving it back: its state is unknown.
    void discard() { connection_.reset(); }

   private:
    Pool* pool_;
    std::unique_ptr<Connection> connection_;
  };

  Pool(std::size_t limit, base::Duration timeout, Make make)
      : limit_{limit == 0 ? 1 : limit}, timeout_{timeout}, make_{std::move(make)} {}

  // `busy` if all are in use for longer than the time-out; otherwise what making one failed with.
  [[nodiscard]] base::Result<Lease> take() {
    {
      std::unique_lock lock{mutex_};
      if (!returned_.wait_for(lock, timeout_, [&] { return !idle_.empty() || used_ < limit_; })) {
        return base::fail(base::Fault::busy, "all " + std::to_string(limit_) +
                                                 " database connections have been in use for " +
                                                 base::to_human(timeout_));
      }
      ++used_;
      if (!idle_.empty()) {
        Lease lease{*this, std::move(idle_.back())};
        idle_.pop_back();
        return lease;
      }
    }
    auto made = make_();
    if (!made) {
      give_back(nullptr);
      return tl::unexpected(std::move(made.error()));
    }
    return Lease{*this, std::move(*made)};
  }

  // Closes those not in use: the server they lead to is gone.
  void clear() {
    std::vector<std::unique_ptr<Connection>> closing;
    const std::lock_guard lock{mutex_};
    closing.swap(idle_);
  }

 private:
  void give_back(std::unique_ptr<Connection> connection) {
    {
      const std::lock_guard lock{mutex_};
      --used_;
      if (connection) idle_.push_back(std::move(connection));
    }
    returned_.notify_one();
  }

  const std::size_t limit_;
  const base::Duration timeout_;
  const Make make_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Connection>> idle_;
  std::size_t used_ = 0;
};

}  // namespace crosscheck::store
