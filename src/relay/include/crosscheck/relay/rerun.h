#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/relay/allowlist.h"
#include "crosscheck/relay/checks.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

// What upstream asks for beside dispatches: the answer to it.
struct Asked {
  std::int64_t event = 0;  // id of the delivery's row
  bool duplicate = false;
  std::int64_t armed = 0;                // of a duplicate: dead calls that were armed again
  std::vector<std::string> queued = {};  // repositories, or "owner/repo/job"
  std::string ignored = {};              // why nothing is done; the event is not kept then
};

// A device's label was put on a pull request or taken off: kept, and what was reported before is
// shown.
[[nodiscard]] base::Result<Asked> accept_label(store::Store& store, const Allowlist& allowlist,
                                               const CheckOptions& options,
                                               std::string_view delivery_id,
                                               const UpstreamEvent& event, std::string_view label,
                                               base::Time now);

// "Re-run" of one check run, or of all of a suite, whose runs are looked up from the outbox.
[[nodiscard]] base::Result<Asked> accept_rerun(store::Store& store, const Allowlist& allowlist,
                                               const CheckOptions& options,
                                               std::string_view delivery_id, std::string_view type,
                                               const base::json::value& body, base::Time now);

}  // namespace crosscheck::relay
