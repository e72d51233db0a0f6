#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/gate/cell.h"
#include "crosscheck/gate/manifest.h"

// From the gates of the cells to what a person may do. Pure.
namespace crosscheck::gate {

enum class Decision : std::uint8_t { adopt, isolate, defer, rollback };
[[nodiscard]] std::string_view to_string(Decision decision);

struct CellResult {
  CellId id;
  std::vector<GateResult> gates;
};

// Of one workload on one backend, over its phases.
struct Ruling {
  std::string workload = {};
  std::string backend = {};
  Decision decision = Decision::defer;
  std::string rule = {};  // which decided: "every required gate passed", …
  std::vector<std::string> reasons =
      {};  // gate by gate what stood against adoption, with its numbers
  std::vector<std::string> waived = {};  // what a person took upon them
};

// Of one workload on the whole fleet: adopted only where every member adopts.
struct FleetRuling {
  std::string workload = {};
  Decision decision = Decision::defer;
  std::string reason = {};
};

enum class ClaimVerdict : std::uint8_t { confirmed, not_reproduced, refuted };
[[nodiscard]] std::string_view to_string(ClaimVerdict verdict);
struct ClaimRuling {
  std::string id = {};
  std::string backend = {};
  ClaimVerdict verdict = ClaimVerdict::not_reproduced;
  std::string reason = {};
};

struct Outcome {
  std::vector<Ruling> rulings;
  std::vector<FleetRuling> fleet;  // empty where the manifest names none
  std::vector<ClaimRuling> claims;
  // Of all: adopt only if every ruling and the fleet adopt.
  Decision decision = Decision::defer;
  base::Time at;  // when it was decided: waivers expire
};

// Waivers that have expired at `now` do not count.
[[nodiscard]] Outcome decide(const Manifest& manifest, std::span<const CellResult> cells,
                             base::Time now);

}  // namespace crosscheck::gate
