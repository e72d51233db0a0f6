#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "crosscheck/github/app.h"
#include "crosscheck/relay/admin.h"
#include "crosscheck/relay/callback.h"
#include "crosscheck/relay/dispatcher.h"
#include "crosscheck/relay/forward.h"
#include "crosscheck/relay/github_calls.h"
#include "crosscheck/relay/intake.h"
#include "crosscheck/relay/metrics.h"
#include "crosscheck/relay/providers_file.h"
#include "crosscheck/relay/results.h"
#include "crosscheck/relay/sweeper.h"
#include "crosscheck/store/lease.h"

namespace crosscheck::relay {

struct RelayOptions {
  IntakeOptions intake;
  VerifyToken verify_token;
  FindCommit find_commit = {};  // empty: there is nobody to ask
  DispatcherOptions dispatcher;
  // What is shown on pull requests, and where calls for it go (outlives the relay); none: nothing.
  std::optional<CheckOptions> checks = std::nullopt;
  CallTarget* calls = nullptr;
  OutboxOptions call_outbox = {};
  SweeperOptions sweeper = {};
  int rate_limit_per_minute = 100;
  std::optional<ForwardOptions> forward_to = std::nullopt;     // another HUD; needs `client`
  std::optional<base::Duration> report_window = std::nullopt;  // see CallbackOptions
  net::Client* client = nullptr;
  base::Duration allowlist_poll = std::chrono::seconds{1};
  ProvidersFile* providers = nullptr;  // polled with the allowlist; none: no pipelines are mapped
  // What GitHub still takes, for /metrics; empty: nobody knows.
  std::function<std::vector<github::ApiBudget>()> budgets = {};
  std::string version;
};

// The relay's routes and threads, over parts that the caller owns and that outlive it. Thread-safe.
class Relay {
 public:
  Relay(store::Store& store, const base::Clock& clock, AllowlistFile& allowlist,
        DispatchTarget& target, RelayOptions options);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Nothing for paths that are not the relay's.
  [[nodiscard]] std::optional<net::Response> handle(const net::Request& request);
  // How large a request's body may be, by its method and path.
  [[nodiscard]] static std::size_t body_limit(const net::Request& request);

  void set_webhook_secrets(std::vector<std::string> secrets) {
    intake_.set_webhook_secrets(std::move(secrets));
  }
  [[nodiscard]] std::vector<Refusals> refusals() const { return metrics_.refusals(); }
  [[nodiscard]] Dispatcher::Health dispatcher_health() const { return dispatcher_.health(); }
  [[nodiscard]] std::size_t sending() const { return dispatcher_.in_flight(); }

  // Until an allowlist is loaded, nothing is accepted, sent or swept.
  void start();
  // Sends no more, waits up to `grace` for what is being sent.
  void stop(base::Duration grace);

 private:
  [[nodiscard]] net::Response ready();
  // Why the store cannot be written; empty if it can. Tried once a second at most.
  [[nodiscard]] std::string why_not_writable();
  [[nodiscard]] net::Response metrics();
  void note_refusal(std::string_view kind, const net::Response& response);
  void start_senders();
  // What is looked at again and again, until `stop`.
  void run_periodic(bool are_senders_started);
  // What one relay of several does now and then.
  [[nodiscard]] base::Result<void> do_duty(store::Lease& duty, base::Time now);

  store::Store& store_;
  const base::Clock& clock_;
  AllowlistFile& allowlist_;
  const base::Time started_at_ = clock_.now();
  const RelayOptions options_;
  const CheckOptions* const checks_;  // of `options_`, or null
  RateLimiter limiter_;
  IntakeHandler intake_;
  CallbackHandler callback_;
  ResultsHandler results_;
  AdminHandler admin_;
  Dispatcher dispatcher_;
  std::unique_ptr<Forwarder> forwarder_;  // or null
  std::optional<CallSender> calls_;
  Sweeper sweeper_;
  Metrics metrics_;
  std::mutex ready_mutex_;
  std::optional<base::Time> tried_to_write_at_;  // guarded by ready_mutex_, as the next
  std::string why_not_writable_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread periodic_;
};

}  // namespace crosscheck::relay
