#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/relay/allowlist.h"
#include "crosscheck/relay/check_run.h"
#include "crosscheck/relay/event.h"
#include "crosscheck/store/store.h"

// What jobs show on upstream's pull requests. Everything here is part of the transaction that
// causes it, and leaves through the outbox of `github_calls`.
namespace crosscheck::relay {

struct CheckOptions {
  base::RepoName upstream;
  std::string label_prefix = "ciflow/crcr/";
  StablePolicy stable = {};
  std::string web_url = "https://github.com";  // where runs are looked at
  std::string pages_url = {};                  // where this relay's pages are; empty: no links
};

// Keeps what an event says of its pull request: labels, whether it is open, and its branch.
[[nodiscard]] base::Result<void> note_pull_request(store::Tx& tx, const UpstreamEvent& event,
                                                   base::Time now);

// The stable check of an L4 backend that an event is about to be dispatched to: queued, or queued
// anew. Of pull requests that are open; `delivery` is the event's row.
[[nodiscard]] base::Result<void> open_stable_check(store::Tx& tx, const Backend& backend,
                                                   const UpstreamEvent& event,
                                                   std::int64_t delivery,
                                                   const StablePolicy& policy, base::Time now);

// Which job, how its backend is listed now, and what its report replaced, if anything.
struct JobReported {
  std::int64_t job = 0;  // its row
  Level level = Level::L1;
  std::string_view device = {};
  std::optional<std::string> replaced = {};
};
// A job of a pull request has begun, ended or changed: its check run, where it is to have one and
// this state of it is not shown yet, and what that means for the stable check. Labels, commit and
// pull request are of the relay's own record. The check run's name when one was queued.
[[nodiscard]] base::Result<std::optional<std::string>> show_job(store::Tx& tx,
                                                                const CheckOptions& options,
                                                                const JobReported& reported,
                                                                base::Time now);

// A device's label was put on a pull request: check runs of what its L3 backends have reported for
// this commit, one a job. Their "owner/repo/job".
[[nodiscard]] base::Result<std::vector<std::string>> show_labeled(
    store::Tx& tx, const CheckOptions& options, const Allowlist& allowlist,
    const UpstreamEvent& event, std::string_view device, base::Time now);

// Decides one stable check whose time has come. Whether there was one.
[[nodiscard]] base::Result<bool> conclude_stable_check(store::Tx& tx, const CheckOptions& options,
                                                       std::int64_t check, base::Time now);

}  // namespace crosscheck::relay
