#include "crosscheck/gate/decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace crosscheck::gate {
namespace {

const Waiver* waiver_of(const Manifest& manifest, const CellId& id, Gate gate, base::Time now) {
  const auto cell = fmt::format("{}/{}", to_string(id), to_string(gate));
  for (const auto& waiver : manifest.waivers) {
    if (waiver.cell == cell && waiver.expires > now) return &waiver;
  }
  return nullptr;
}

struct Against {
  Phase phase = Phase::inference;
  const GateResult* gate = nullptr;
};

// Gates that say the same, such as a device that is missing, are one line.
std::vector<std::string> in_words(const std::vector<Against>& against) {
  std::vector<std::string> lines;
  std::vector<bool> told(against.size(), false);
  for (std::size_t i = 0; i < against.size(); ++i) {
    if (told[i]) continue;
    std::vector<std::string_view> gates;
    for (std::size_t j = i; j < against.size(); ++j) {
      if (told[j] || against[j].phase != against[i].phase ||
          against[j].gate->status != against[i].gate->status ||
          against[j].gate->reason != against[i].gate->reason) {
        continue;
      }
      told[j] = true;
      gates.push_back(to_string(against[j].gate->gate));
    }
    lines.push_back(fmt::format("{} {}: {}: {}", to_string(against[i].phase),
                                fmt::join(gates, ", "), to_string(against[i].gate->status),
                                against[i].gate->reason));
  }
  return lines;
}

Ruling rule(const Manifest& manifest, const Workload& workload, const std::string& backend,
            std::span<const CellResult> cells, base::Time now) {
  Ruling ruling{.workload = workload.name, .backend = backend};
  bool any = false;
  bool failed = false;
  bool open = false;
  std::string open_rule;
  std::vector<Against> against;
  for (const auto& cell : cells) {
    if (cell.id.workload != workload.name || cell.id.backend != backend) continue;
    for (const auto& gate : cell.gates) {
      any = true;
      if (gate.status == Status::pass) continue;
      // What was not run cannot be waived into something that was seen to work.
      const Waiver* waiver =
          gate.status == Status::not_run ? nullptr : waiver_of(manifest, cell.id, gate.gate, now);
      if (waiver) {
        ruling.waived.push_back(fmt::format("{} {}: {}: {} (waived by {} until {}: {})",
                                            to_string(cell.id.phase), to_string(gate.gate),
                                            to_string(gate.status), gate.reason, waiver->owner,
                                            base::to_rfc3339(waiver->expires), waiver->reason));
        continue;
      }
      against.push_back({cell.id.phase, &gate});
      if (gate.status == Status::fail) {
        failed = true;
      } else {
        open = true;
        if (open_rule.empty()) {
          open_rule = fmt::format("{} is {}", to_string(gate.gate), to_string(gate.status));
        }
      }
    }
  }
  ruling.reasons = in_words(against);
  if (!any) {
    ruling.rule = "nothing was measured";
  } else if (!failed && !open) {
    ruling.decision = Decision::adopt;
    ruling.rule = ruling.waived.empty() ? "every required gate passed"
                                        : "every required gate passed or is waived";
  } else if (failed && workload.in_use) {
    ruling.decision = Decision::rollback;
    ruling.rule = "the candidate is in use and a required gate fails";
  } else if (failed && !open && !workload.isolation_switch.empty() &&
             !workload.isolation_tested.empty()) {
    ruling.decision = Decision::isolate;
    ruling.rule = fmt::format("what fails can be switched off: {} (tried: {})",
                              workload.isolation_switch, workload.isolation_tested);
  } else if (failed) {
    ruling.rule = open ? "a required gate fails, and another is open"
                       : "a required gate fails, and no tested switch turns it off";
  } else {
    ruling.rule = open_rule;
  }
  return ruling;
}

FleetRuling rule_fleet(const Manifest& manifest, const Workload& workload,
                       std::span<const Ruling> rulings) {
  FleetRuling fleet{.workload = workload.name, .decision = Decision::adopt, .reason = {}};
  std::vector<std::string> against;
  for (const auto& member : manifest.fleet) {
    // Where the manifest does not want it at all, it cannot object.
    if (!workload.backends.empty() && std::find(workload.backends.begin(), workload.backends.end(),
                                                member) == workload.backends.end()) {
      continue;
    }
    const auto found = std::find_if(rulings.begin(), rulings.end(), [&](const Ruling& r) {
      return r.workload == workload.name && r.backend == member;
    });
    if (found == rulings.end()) {
      against.push_back(fmt::format("{}: NOT_RUN", member));
      fleet.decision = std::max(fleet.decision, Decision::defer);
    } else if (found->decision != Decision::adopt) {
      against.push_back(fmt::format("{}: {}", member, to_string(found->decision)));
      fleet.decision = std::max(fleet.decision, found->decision);
    }
  }
  fleet.reason =
      against.empty() ? "every member adopts" : fmt::format("{}", fmt::join(against, ", "));
  return fleet;
}

ClaimRuling rule_claim(const Claim& claim, const CellResult& cell) {
  ClaimRuling ruling{.id = claim.id, .backend = cell.id.backend};
  for (const auto& gate : cell.gates) {
    if (gate.gate != claim.gate) continue;
    for (const auto& c : gate.comparisons) {
      if (!c.interval || c.quantity == "p95") continue;
      // As a gain: a shift down of what is better lower, up of what is better higher.
      const double sign = c.better == Better::lower ? -1 : 1;
      const double least = sign > 0 ? c.interval->lower : -c.interval->upper;
      const double most = sign > 0 ? c.interval->upper : -c.interval->lower;
      const double needed =
          c.better == Better::lower ? -std::log1p(-claim.gain) : std::log1p(claim.gain);
      ruling.verdict = least >= needed ? ClaimVerdict::confirmed
                       : most < needed ? ClaimVerdict::refuted
                                       : ClaimVerdict::not_reproduced;
      ruling.reason =
          fmt::format("{}: {:+.2f} % ({:+.2f} to {:+.2f}); {:.1f} % better was claimed", c.quantity,
                      std::expm1(c.interval->estimate) * 100, std::expm1(c.interval->lower) * 100,
                      std::expm1(c.interval->upper) * 100, claim.gain * 100);
      if (!claim.cost.empty()) ruling.reason += "; cost: " + claim.cost;
      return ruling;
    }
    ruling.reason = gate.reason;
    return ruling;
  }
  ruling.reason = fmt::format("{} was not among the gates", to_string(claim.gate));
  return ruling;
}

}  // namespace

std::string_view to_string(Decision decision) {
  constexpr std::array<std::string_view, 4> names{"adopt", "isolate", "defer", "rollback"};
  return names[static_cast<std::size_t>(decision)];
}

std::string_view to_string(ClaimVerdict verdict) {
  constexpr std::array<std::string_view, 3> names{"confirmed", "not reproduced", "refuted"};
  return names[static_cast<std::size_t>(verdict)];
}

Outcome decide(const Manifest& manifest, std::span<const CellResult> cells, base::Time now) {
  Outcome outcome;
  outcome.decision = Decision::adopt;
  outcome.at = now;
  for (const auto& workload : manifest.workloads) {
    std::set<std::string> seen;
    for (const auto& id : gate::cells(manifest)) {
      if (id.workload != workload.name || !seen.insert(id.backend).second) continue;
      outcome.rulings.push_back(rule(manifest, workload, id.backend, cells, now));
      outcome.decision = std::max(outcome.decision, outcome.rulings.back().decision);
    }
    if (!manifest.fleet.empty()) {
      outcome.fleet.push_back(rule_fleet(manifest, workload, outcome.rulings));
      outcome.decision = std::max(outcome.decision, outcome.fleet.back().decision);
    }
  }
  for (const auto& claim : manifest.claims) {
    for (const auto& cell : cells) {
      if (cell.id.workload == claim.workload) outcome.claims.push_back(rule_claim(claim, cell));
    }
  }
  if (outcome.rulings.empty()) outcome.decision = Decision::defer;
  return outcome;
}

}  // namespace crosscheck::gate
