#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/relay/allowlist_file.h"
#include "crosscheck/relay/checks.h"
#include "crosscheck/relay/commit_check.h"
#include "crosscheck/relay/forward.h"
#include "crosscheck/relay/identity.h"
#include "crosscheck/relay/job.h"
#include "crosscheck/relay/rate_limiter.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

inline constexpr std::size_t k_callback_limit = 4 * 1024 * 1024;  // bytes

// A callback's body: what the downstream says, checked for form only.
struct CallbackBody {
  std::string event_type;  // empty when not sent
  std::string delivery_id;
  std::optional<std::string> head_sha;  // payload.head_sha, of nightly reports
  JobState status = JobState::in_progress;
  std::optional<std::string> conclusion;  // of completed
  std::string workflow;
  std::string job_name;  // the workflow's name when not sent
  std::string run_id;
  std::optional<std::int64_t> run_attempt;
  std::optional<std::string> check_run_id;
  std::optional<std::string> url;  // http(s), no user info
  std::optional<std::int64_t> passed;
  std::optional<std::int64_t> failed;
  std::optional<std::int64_t> skipped;
  std::optional<std::string> combination;     // canonical JSON
  std::optional<std::string> results_digest;  // lower-case hex
  std::string word;  // the body without its echoed payload, malformed advisory fields dropped

  // Reports that no dispatch came before.
  [[nodiscard]] bool is_periodic() const {
    return event_type == "nightly" || event_type == "periodic";
  }
};
// The error names the field.
[[nodiscard]] base::Result<CallbackBody> parse_callback(const base::json::value& body);

// What is stored of a report, beside the downstream's word.
struct Reporter {
  base::RepoName repo;
  Level level = Level::L2;
  std::string device;
};
// What else decides over a report, and what follows from it.
struct ReportTerms {
  std::int64_t run_attempt = 1;
  CommitState commit = CommitState::verified;    // of nightly reports
  std::optional<base::Duration> window = {};     // see CallbackOptions
  std::optional<std::string_view> forward = {};  // the body, where another HUD wants it
  const CheckOptions* checks = nullptr;          // null: nothing is shown on pull requests
};
struct Recorded {
  Effect effect = Effect::advanced;
  Job job;
  std::int64_t run_attempt = 1;  // of a nightly report perhaps a later one than was reported
  std::optional<std::string> replaced = {};  // the relay's own conclusion that was in its place
};
// One atomic transition of one job, with its result. A nightly report that contradicts an earlier
// one is kept beside it, as a further attempt. Faults: `invalid_input` (no dispatch on record),
// `conflict` (contradicts an earlier report), and the store's.
[[nodiscard]] base::Result<Recorded> record_report(store::Store& store, const Reporter& reporter,
                                                   const CallbackBody& body,
                                                   const ReportTerms& terms, base::Time now);

// Completes what a run of `repo` has left in progress, as the relay's own word: for who knows that
// the run is over. How many jobs that were.
[[nodiscard]] base::Result<std::int64_t> conclude_run(store::Store& store,
                                                      const base::RepoName& repo,
                                                      std::string_view delivery_id,
                                                      std::string_view run_id,
                                                      std::string_view conclusion, base::Time now);

// What follows when the relay itself ends a job.
struct ConclusionTerms {
  const Allowlist& allowlist;
  const CheckOptions* checks = nullptr;  // null: nothing is shown on pull requests
  bool forwards = false;                 // another HUD wants to know
};
// Completes one job (its row) that is in progress, as the relay's own word; timed_out for a job
// that went silent. Its delivery id when there was something to complete.
[[nodiscard]] base::Result<std::optional<std::string>> conclude_job(store::Tx& tx, std::int64_t id,
                                                                    std::string_view conclusion,
                                                                    const ConclusionTerms& terms,
                                                                    base::Time now);

struct CallbackOptions {
  VerifyToken verify;
  FindCommit find_commit = {};           // empty: nobody can be asked
  bool forwards = false;                 // another HUD wants what changes
  const CheckOptions* checks = nullptr;  // outlives it; null: nothing is shown on pull requests
  // How long after its dispatch a delivery may be reported on; none: for ever.
  std::optional<base::Duration> report_window = {};
};

struct CallbackAnswer {
  net::Response response;
  std::string delivery;  // the event's id as the caller says it, for the log; empty if it does not
};

// POST /github/callback. Thread-safe.
class CallbackHandler {
 public:
  CallbackHandler(store::Store& store, const AllowlistFile& allowlist, const base::Clock& clock,
                  RateLimiter& limiter, CallbackOptions options)
      : store_{store},
        allowlist_{allowlist},
        clock_{clock},
        limiter_{limiter},
        options_{std::move(options)} {}
  [[nodiscard]] CallbackAnswer handle(const net::Request& request);

 private:
  [[nodiscard]] net::Response answer(const net::Request& request, std::string& delivery);

  store::Store& store_;
  const AllowlistFile& allowlist_;
  const base::Clock& clock_;
  RateLimiter& limiter_;
  const CallbackOptions options_;
};

// A caller that may report: who it is, or the answer to give instead (not listed, L1, over the
// rate).
[[nodiscard]] tl::expected<Reporter, net::Response> admit(const base::RepoName& repo,
                                                          const Allowlist& allowlist,
                                                          RateLimiter& limiter, base::Time now);

}  // namespace crosscheck::relay
