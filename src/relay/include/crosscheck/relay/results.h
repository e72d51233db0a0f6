#pragma once

#include <string_view>

#include "crosscheck/relay/allowlist_file.h"
#include "crosscheck/relay/identity.h"
#include "crosscheck/relay/rate_limiter.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

inline constexpr std::size_t k_results_limit = std::size_t{32} << 20;  // gzipped
inline constexpr std::size_t k_results_unpacked_limit = std::size_t{256} << 20;

enum class Stored : std::uint8_t { added, duplicate };

// Keeps a result file under `digest` and reads it into runs, in one transaction. Idempotent.
// Faults: `invalid_input` (digest, gzip or a line's field is wrong), `too_large`, and the store's.
[[nodiscard]] base::Result<Stored> store_results(
    store::Store& store, const base::RepoName& repo, std::string_view digest,
    std::string_view gzipped, base::Time now,
    std::size_t unpacked_limit = k_results_unpacked_limit);

// PUT /api/v1/results/<sha256 of the gzipped bytes>. Thread-safe.
class ResultsHandler {
 public:
  ResultsHandler(store::Store& store, const AllowlistFile& allowlist, const base::Clock& clock,
                 VerifyToken verify, RateLimiter& limiter)
      : store_{store},
        allowlist_{allowlist},
        clock_{clock},
        verify_{std::move(verify)},
        limiter_{limiter} {}
  [[nodiscard]] net::Response handle(const net::Request& request, std::string_view digest);

 private:
  store::Store& store_;
  const AllowlistFile& allowlist_;
  const base::Clock& clock_;
  const VerifyToken verify_;
  RateLimiter& limiter_;
};

}  // namespace crosscheck::relay
