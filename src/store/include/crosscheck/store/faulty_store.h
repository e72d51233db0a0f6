#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "crosscheck/store/store.h"

namespace crosscheck::store {

// Passes everything to `inner`, and fails the n-th call (queries, executes and commits all count,
// from 1) with `fault`. A commit that fails leaves `inner` rolled back. For tests that fail at
// every n in turn:
//
//   for (std::int64_t n = 1;; ++n) {
//     FaultyStore store{inner};
//     store.fail_at(n);
//     …
//     if (store.calls() < n) break;  // nothing was left to fail
//   }
//
// Thread-safe.
class FaultyStore final : public Store {
 public:
  explicit FaultyStore(Store& inner) : inner_{inner} {}
  void fail_at(std::int64_t n, base::Fault fault = base::Fault::unavailable);
  [[nodiscard]] std::int64_t calls() const { return calls_; }

  [[nodiscard]] base::Result<void> write(
      const std::function<base::Result<void>(Tx&)>& body) override;
  [[nodiscard]] base::Result<void> read(
      const std::function<base::Result<void>(Tx&)>& body) override;
  [[nodiscard]] bool wait_for(std::string_view channel, base::Duration timeout) override;
  void interrupt() override;
  [[nodiscard]] Engine engine() const override;
  [[nodiscard]] std::size_t waiting_writes() const override;

  // Counts one call; the error it must fail with, if it is the n-th.
  [[nodiscard]] base::Result<void> step();

 private:
  Store& inner_;
  std::atomic<std::int64_t> calls_{0};
  std::atomic<std::int64_t> fail_at_{0};
  std::atomic<base::Fault> fault_{base::Fault::unavailable};
};

}  // namespace crosscheck::store
