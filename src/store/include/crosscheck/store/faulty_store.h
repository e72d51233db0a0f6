#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "crosscheck/store/store.h"

namespace crosscheck::store {

// Passes everything to `inner`, and fails the n-th call (queries, executes and commits all count, from 1)
// with `fault`. For tests that fail at every n in turn.
class FaultyStore final : public Store {
 public:
  explicit FaultyStore(Store& inner) : inner_{inner} {}
  void fail_at(std::int64_t n, base::Fault fault = base::Fault::unavailable);
  [[nodiscard]] std::int64_t calls() const { return calls_; }

  [[nodiscard]] base::Result<void> write(const std::function<base::Result<void>(Tx&)>& body) override;
  [[nodiscard]] base::Result<void> read(const std::function<base::Result<void>(Tx&)>& body) override;
  [[nodiscard]] bool wait_for(std::string_view channel, base::Duration timeout) override;
  void interrupt() override;
  [[nodiscard]] Engine engine() const override;

  // Counts one call; the error it must fail with, if it is the n-th.
  [[nodiscard]] base::Result<void> step();

 private:
  Store& inner_;
  std::atomic<std::int64_t> calls_{0};
  std::atomic<std::int64_t> fail_at_{0};
  std::atomic<base::Fault> fault_{base::Fault::unavailable};
};

}  // namespace crosscheck::store
