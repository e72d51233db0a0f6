#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/net/http.h"
#include "crosscheck/relay/allowlist_file.h"
#include "crosscheck/relay/checks.h"
#include "crosscheck/relay/event.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

inline constexpr std::size_t k_webhook_limit = std::size_t{25} << 20;  // GitHub's own

struct Accepted {
  std::int64_t event = 0;  // id of the delivery's row
  bool duplicate = false;
  std::int64_t dispatches = 0;  // new ones; of a duplicate: dead ones that were armed again
  bool superseded = false;      // by what arrived earlier: its dispatches are withdrawn at once
};
// Keeps the event and one dispatch for each backend that wants it, in one transaction, with what of
// it is shown on the pull request (`checks`: null where nothing is); withdraws what it supersedes.
// Which of a pull request's events is the newer is a matter of their own time.
// The same delivery id again changes nothing but to arm again what died of it.
[[nodiscard]] base::Result<Accepted> accept(store::Store& store, const Allowlist& allowlist,
                                            std::string_view delivery_id,
                                            const UpstreamEvent& event, std::string_view body,
                                            base::Time now, const CheckOptions* checks = nullptr);

struct IntakeOptions {
  base::RepoName upstream;
  std::string label_prefix = "ciflow/crcr/";
  std::vector<std::string> webhook_secrets;  // any of them
};

// POST /github/webhook. `checks` outlives it; null: nothing is shown on pull requests. Thread-safe.
class IntakeHandler {
 public:
  IntakeHandler(store::Store& store, const AllowlistFile& allowlist, const base::Clock& clock,
                IntakeOptions options, const CheckOptions* checks = nullptr)
      : store_{store},
        allowlist_{allowlist},
        clock_{clock},
        options_{std::move(options)},
        checks_{checks},
        secrets_{std::make_shared<const Secrets>(options_.webhook_secrets)} {}
  [[nodiscard]] net::Response handle(const net::Request& request);
  // What is signed with any of these is accepted from now on.
  void set_webhook_secrets(std::vector<std::string> secrets);

 private:
  [[nodiscard]] net::Response show_or_rerun(Routed::Route route, std::string_view type,
                                            std::string_view delivery_id,
                                            const base::json::value& body);
  using Secrets = std::vector<std::string>;
  [[nodiscard]] std::shared_ptr<const Secrets> secrets() const;

  store::Store& store_;
  const AllowlistFile& allowlist_;
  const base::Clock& clock_;
  const IntakeOptions options_;
  const CheckOptions* const checks_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Secrets> secrets_;
};

}  // namespace crosscheck::relay
