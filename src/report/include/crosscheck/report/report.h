#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/base/time.h"
#include "crosscheck/net/client.h"

// What a backend's workflow tells the relay: that a job began, and how it ended, with its results.
// The wire is relay-contract's callback, which PyTorch's own relay takes too.
namespace crosscheck::report {

// Where this job stands, from the environment that GitHub Actions (and crosscheck's local target)
// sets.
struct JobContext {
  // Without a trailing slash; https, or http to this machine, or http to anywhere where
  // CROSSCHECK_ALLOW_HTTP is 1.
  std::string relay_url;
  std::string event_type;
  std::string delivery_id;
  base::json::value payload;  // the upstream webhook, as dispatched: echoed
  std::string workflow;
  std::string job;
  std::string url;  // of the run
  std::string run_id;
  std::string run_attempt;
  std::optional<std::string> check_run_id;
};

// Reads one variable; nothing when unset or empty.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

struct Overrides {
  std::optional<std::string> relay_url;   // else CROSSCHECK_RELAY_URL
  std::optional<std::string> event_file;  // else GITHUB_EVENT_PATH
  std::optional<std::string> workflow;    // else GITHUB_WORKFLOW
  std::optional<std::string> job;         // else GITHUB_JOB
  std::optional<std::string> check_run_id;
  std::optional<std::string> audience;  // else CROSSCHECK_OIDC_AUDIENCE, else PyTorch's relay's
};

// Every missing variable is named at once, with what sets it. The event file must hold a
// repository_dispatch event of a relay.
[[nodiscard]] base::Result<JobContext> read_context(const Environment& environment,
                                                    const Overrides& overrides);

// How a job ended.
struct Completion {
  std::string
      conclusion;  // success, failure, cancelled, timed_out, skipped, neutral, action_required
  std::optional<base::RunResults> results;
  std::optional<std::string> results_digest;  // of the uploaded file
  std::optional<std::string> artifact_url;
};

// The body of a callback. `completion` is nothing for in_progress.
[[nodiscard]] base::json::object callback_body(const JobContext& job, base::Time now,
                                               const std::optional<Completion>& completion);

// success when nothing failed and something ran, failure otherwise.
[[nodiscard]] std::string conclude(const base::RunResults& results);

// Proves who calls. A new token for each call: they live for minutes.
using TokenSource = std::function<base::Result<std::string>()>;

// CROSSCHECK_OIDC_TOKEN as it stands, else GitHub's token service (ACTIONS_ID_TOKEN_REQUEST_URL and
// …_TOKEN, which exist when the job has `permissions: id-token: write`).
[[nodiscard]] base::Result<TokenSource> token_source(const Environment& environment,
                                                     const Overrides& overrides,
                                                     net::Client& client);

struct RetryPolicy {
  int attempts = 6;
  std::chrono::milliseconds first_pause{1'000};  // doubled each time, or what Retry-After says
  std::chrono::milliseconds longest_pause{30'000};
  std::function<void(std::chrono::milliseconds)> sleep;  // default: this thread's
};

enum class Answer : std::uint8_t {
  accepted,
  duplicate,  // had been told already: a retry of ours, or a step run twice
  ignored,    // the relay does not take results of this repository (unlisted, or level L1)
};
[[nodiscard]] std::string_view to_string(Answer answer);

// Sends until it is answered, or the policy is spent. Every call is idempotent at the relay, so
// whatever fails in doubt is sent again; a refusal (4xx other than 429 and 408) is not.
class Reporter {
 public:
  Reporter(JobContext job, net::Client& client, TokenSource token, const base::Clock& clock,
           RetryPolicy retry);
  [[nodiscard]] base::Result<Answer> start();
  // Uploads `gzipped` first when it is given, so that whoever sees the job finds its tests.
  [[nodiscard]] base::Result<Answer> finish(Completion completion,
                                            const std::optional<std::string>& gzipped);
  [[nodiscard]] const JobContext& job() const { return job_; }

 private:
  [[nodiscard]] base::Result<net::Response> send(const std::string& method, const std::string& path,
                                                 const std::string& content_type,
                                                 const std::string& body);
  [[nodiscard]] base::Result<Answer> call_back(const std::optional<Completion>& completion);

  JobContext job_;
  net::Client& client_;
  TokenSource token_;
  const base::Clock& clock_;
  RetryPolicy retry_;
};

}  // namespace crosscheck::report
