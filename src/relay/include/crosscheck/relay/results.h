#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>

#include "crosscheck/base/results_limits.h"
#include "crosscheck/relay/allowlist_file.h"
#include "crosscheck/relay/identity.h"
#include "crosscheck/relay/rate_limiter.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

enum class Stored : std::uint8_t { added, duplicate };

// Keeps a result file under `digest` and reads it into a run, both the uploader's own. Idempotent.
// Goes in several transactions, so that nobody waits long for the store's writer: until the last
// one no page shows the run, and what a failure leaves is completed by the next attempt. Faults:
// `invalid_input` (digest, gzip or a line's field is wrong), `too_large`, `conflict` (a run of that
// id came from another file), and the store's.
[[nodiscard]] base::Result<Stored> store_results(
    store::Store& store, const base::RepoName& repo, std::string_view digest,
    std::string_view gzipped, base::Time now,
    std::size_t unpacked_limit = base::k_results_text_limit);

// Lets one upload at a time be unpacked and read; few may wait. Thread-safe.
class ImportGate {
 public:
  explicit ImportGate(std::chrono::milliseconds longest_wait) : longest_wait_{longest_wait} {}
  class Pass {
   public:
    explicit Pass(ImportGate* gate) : gate_{gate} {}
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    ~Pass();
    explicit operator bool() const { return gate_ != nullptr; }

   private:
    ImportGate* gate_;
  };
  // False when too many wait, or it was waited for too long.
  [[nodiscard]] Pass enter();
  [[nodiscard]] int waiting();

 private:
  // Those who wait each hold one of the server's handlers: it must have others left.
  static constexpr int k_most_waiting = 2;
  const std::chrono::milliseconds longest_wait_;
  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
  int waiting_ = 0;
};

// PUT /api/v1/results/<sha256 of the gzipped bytes>. Thread-safe.
class ResultsHandler {
 public:
  ResultsHandler(store::Store& store, const AllowlistFile& allowlist, const base::Clock& clock,
                 VerifyToken verify, RateLimiter& limiter,
                 std::chrono::milliseconds longest_wait = std::chrono::seconds{10})
      : store_{store},
        allowlist_{allowlist},
        clock_{clock},
        verify_{std::move(verify)},
        limiter_{limiter},
        gate_{longest_wait} {}
  [[nodiscard]] net::Response handle(const net::Request& request, std::string_view digest);

 private:
  store::Store& store_;
  const AllowlistFile& allowlist_;
  const base::Clock& clock_;
  const VerifyToken verify_;
  RateLimiter& limiter_;
  ImportGate gate_;
};

}  // namespace crosscheck::relay
