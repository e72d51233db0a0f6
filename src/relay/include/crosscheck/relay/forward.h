#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/time.h"
#include "crosscheck/net/client.h"
#include "crosscheck/relay/allowlist.h"
#include "crosscheck/relay/job.h"
#include "crosscheck/relay/leased_outbox.h"
#include "crosscheck/store/store.h"

// Reports on their way to another HUD, in the envelope that PyTorch's relay sends to its own.
namespace crosscheck::relay {

inline constexpr std::string_view k_forward_channel = "forward";

struct ForwardOptions {
  std::string url;  // whole
  std::string key;  // a secret: who we are to that HUD
};

// What one report changed.
struct Forwarded {
  std::int64_t job = 0;  // its row
  base::RepoName repo;
  Level level = Level::L2;  // as it is now
  Job state;                // after the report
  bool completed = false;   // what the report said
};

// {"trusted": {"ci_metrics", "verified_repo", "downstream_repo_level"}, "untrusted":
// {"callback_payload": `body`}}. Times are in seconds: the queue's where the report began the job,
// the execution's where it ended it. `body` is JSON, taken as it is. Pure.
[[nodiscard]] std::string make_envelope(const Forwarded& what, std::string_view body);

// Puts the envelope into the outbox, in the transaction of the change.
[[nodiscard]] base::Result<void> forward_report(store::Tx& tx, const Forwarded& what,
                                                std::string_view body, base::Time now);
// The same for a job that the relay itself has concluded: the body is what the downstream last
// sent, as it stands in the store, with that conclusion.
[[nodiscard]] base::Result<void> forward_conclusion(store::Tx& tx, const Forwarded& what,
                                                    base::Time now);

// What an answer of that HUD means for the envelope. It stores by key, so that sending twice does
// no harm. Pure.
[[nodiscard]] Answer judge_forward(const net::ClientResult& result, base::Time now);

// Sends what stands in the outbox, a job's reports in order. What was sent loses its body.
class Forwarder final : public LeasedOutbox {
 public:
  // `client` outlives it.
  Forwarder(store::Store& store, const base::Clock& clock, net::Client& client,
            ForwardOptions options);
};

// Puts the dead ones for which `condition` on a row of `forwards` holds back into the outbox, as if
// they were new; `value` is its $1. How many.
[[nodiscard]] base::Result<std::int64_t> arm_forwards_again(store::Tx& tx,
                                                            std::string_view condition,
                                                            const store::Parameter& value,
                                                            base::Time now);

// Forgets what was sent before `before`. How many that were.
[[nodiscard]] base::Result<std::int64_t> forget_forwarded(store::Store& store, base::Time before);

}  // namespace crosscheck::relay
