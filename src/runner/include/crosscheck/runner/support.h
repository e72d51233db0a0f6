#pragma once

#include <functional>
#include <string>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/runner/inventory.h"
#include "crosscheck/runner/probe.h"

// What a device does with operators, as the probe sees it (docs/probe-protocol.md: support,
// samples).
namespace crosscheck::runner {

struct SampleUnit {
  std::string unit;  // an entry of torch's own operator database
  std::vector<std::string> dtypes;
};

// The end of one unit with one data type.
struct Sampled {
  std::string unit;
  std::string dtype;
  std::vector<std::string> operators;  // that its samples begin with
  base::json::array results;           // objects, one for each of them; none where it died
  std::string died;                    // how its process ended in it; empty: it did not
  bool hung = false;                   // of `died`
};

// Hands every line to `take`, whose "ev" is operator, callees, unit or support_note. `operators`:
// only samples of these; empty: of all.
[[nodiscard]] base::Result<Environment> describe_support(
    const ProbeSetup& setup, const std::vector<std::string>& operators, const CallOptions& options,
    const std::function<void(std::string_view ev, const base::json::object& line)>& take);

// Runs up to `samples` of each unit and data type on the device. A process that dies, or says
// nothing for `options.limit`, costs the one it was in: another goes on behind it.
[[nodiscard]] base::Result<void> run_samples(const ProbeSetup& setup, std::vector<SampleUnit> units,
                                             int samples, const CallOptions& options,
                                             const std::function<void(Sampled)>& take);

}  // namespace crosscheck::runner
