#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/operators.h"
#include "crosscheck/base/result.h"
#include "crosscheck/runner/inventory.h"

// The lines that the probe writes (docs/probe-protocol.md).
namespace crosscheck::runner {

// What is imported next.
struct Collecting {
  std::string file;
};
struct Ready {
  std::int64_t collected = 0;
};
struct Missing {
  std::string node_id;
};
struct Start {
  std::string node_id;
};

// pytest's own verdict.
enum class Reported : std::uint8_t { passed, failed, skipped, xfailed, xpassed, error };

struct Finish {
  std::string node_id;
  Reported outcome = Reported::passed;
  bool strict = false;  // of xpassed: its author made that a failure
  std::string phase;    // setup, call or teardown
  std::string type;     // the exception's qualified name
  std::string message;
  std::string traceback;
  base::Duration duration{0};
  base::Leak grown;  // by which the process's memory, and the device's, is larger than at its start
  std::optional<base::Operators> operators;  // where the request asked for them
};
struct End {};
// How operators are seen, and what torch says of them (the verb `observer`).
struct Observer {
  std::string observer;  // record-function or dispatch-mode
  std::string library;   // of record-function
  std::string note;      // why it is not the one that would be better
  std::vector<std::string> composites;
  std::vector<std::pair<std::string, std::string>> aliases;
  std::vector<std::pair<std::string, std::string>> delegates;
};
// The probe itself cannot go on.
struct ProbeFailure {
  std::string event;  // environment_error, request_error or internal_error
  std::string what;   // of environment_error: torch, torch.testing, pytest or device
  std::string type;
  std::string message;
};
// An `ev` that is not one of a run's: of a newer probe, or of what only some requests ask for.
struct Unknown {
  std::string name;
  base::json::object line;
};

using Event = std::variant<Environment, CollectedTest, CollectError, CollectSkip, Collecting, Ready,
                           Missing, Start, Finish, End, Observer, ProbeFailure, Unknown>;

// A known field that is missing or of another type is `invalid_input`, as is what is not an object
// with an "ev": the message shows the beginning of the line. Unknown fields are ignored.
[[nodiscard]] base::Result<Event> parse_event(std::string_view line);

}  // namespace crosscheck::runner
