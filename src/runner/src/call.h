#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/runner/dispatcher.h"
#include "crosscheck/runner/probe.h"
#include "crosscheck/runner/protocol.h"

// One process of the probe, from its start to its end.
namespace crosscheck::runner {

struct Outcome {
  Ended ended;
  std::optional<ProbeFailure> failure;
  bool complete = false;  // `end` was seen
  bool hung = false;      // killed, having said nothing for too long
};

// Runs one process to its end and hands every event to `take`. Errors: it could not be started, it
// wrote what is no event, or somebody interrupted it.
[[nodiscard]] base::Result<Outcome> call(const ProbeSetup& setup, std::string_view verb,
                                         const base::json::object& request,
                                         const CallOptions& options,
                                         const std::function<void(Event)>& take);

[[nodiscard]] std::string how_ended(const Outcome& outcome, const CallOptions& options);
// Of one that did not do what it was asked for: what is missing, and the command that installs it.
[[nodiscard]] base::Error failure_of(const ProbeSetup& setup, const Outcome& outcome,
                                     const CallOptions& options);

}  // namespace crosscheck::runner
