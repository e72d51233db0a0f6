#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/github/app.h"
#include "crosscheck/relay/allowlist_file.h"
#include "crosscheck/relay/leased_outbox.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

inline constexpr std::string_view k_call_channel = "github_call";

// What is asked of GitHub beside dispatches. The names are stored.
enum class CallKind : std::uint8_t {
  create_check_run,   // on the upstream; `payload` is the body
  rerun_failed_jobs,  // of a backend's run; `payload` is {"run_id": …}
  rerun,              // all jobs of it
  list_check_suite,   // of the upstream's; `payload` is {"suite": …}; starts its runs again
};
[[nodiscard]] std::string_view to_string(CallKind kind);
[[nodiscard]] std::optional<CallKind> parse_call_kind(std::string_view name);

struct GithubCall {
  CallKind kind = CallKind::create_check_run;
  std::int64_t delivery = 0;  // row of the event that it goes back to
  base::RepoName repo;        // the backend that it is for; of `list_check_suite` the upstream
  std::string subject = {};   // a second call that says the same of one subject is never made
  std::string says = {};
  std::string order_key = {};  // calls of one key leave in order, each after the one before ended
  std::optional<std::int64_t> job = {};
  std::string payload = {};
};

// A run of `repo` started again for an event.
[[nodiscard]] GithubCall rerun_of(CallKind kind, std::int64_t delivery, const base::RepoName& repo,
                                  const std::string& run_id);

// Puts a call into the outbox, unless it says again what was said. Check runs of the same subject
// that have not left are withdrawn: GitHub shows only the newest. Whether it is new.
[[nodiscard]] base::Result<bool> queue_call(store::Tx& tx, const GithubCall& call, base::Time now);

// The same for what a person asks for: while a call of the same order is still to leave, a second
// is not asked for.
[[nodiscard]] base::Result<bool> queue_once(store::Tx& tx, const GithubCall& call, base::Time now);

// Puts dead calls for which `condition` holds (SQL on a row of `github_calls`, `value` its $1) back
// into the outbox, but those that a newer one replaced. How many.
[[nodiscard]] base::Result<std::int64_t> arm_calls_again(store::Tx& tx, std::string_view condition,
                                                         const store::Parameter& value,
                                                         base::Time now);

// Where calls go. Thread-safe.
class CallTarget {
 public:
  virtual ~CallTarget() = default;
  // `done` is called exactly once, on any thread, possibly before this returns. Must not block. The
  // content of an answer to `list_check_suite` is a JSON array of the suite's check runs, each
  // {"name": …, "external_id": …}.
  virtual void send(CallKind kind, const base::RepoName& repo, const std::string& payload,
                    std::function<void(Answer)> done) = 0;
  [[nodiscard]] virtual std::size_t room() const = 0;
};

// Through the GitHub App, which outlives every call in progress.
class GithubCallTarget final : public CallTarget {
 public:
  GithubCallTarget(github::App& app, base::RepoName upstream, std::size_t concurrency)
      : app_{app},
        upstream_{std::move(upstream)},
        concurrency_{concurrency},
        sending_{std::make_shared<std::atomic<std::size_t>>(0)} {}
  void send(CallKind kind, const base::RepoName& repo, const std::string& payload,
            std::function<void(Answer)> done) override;
  [[nodiscard]] std::size_t room() const override;

 private:
  github::App& app_;
  const base::RepoName upstream_;
  const std::size_t concurrency_;
  std::shared_ptr<std::atomic<std::size_t>> sending_;
};

// Sends the calls that stand in the outbox to `target`. Both it and `allowlist` outlive it.
class CallSender final : public LeasedOutbox {
 public:
  CallSender(store::Store& store, const base::Clock& clock, CallTarget& target,
             const AllowlistFile& allowlist, OutboxOptions options);
};

}  // namespace crosscheck::relay
