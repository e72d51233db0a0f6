#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "crosscheck/gate/cell.h"
#include "crosscheck/gate/decision.h"
#include "crosscheck/gate/manifest.h"

namespace crosscheck::gate {

inline constexpr std::string_view k_manifest = R"(format: 1
name: upgrade
baseline: {label: current, python: /opt/base/bin/python}
candidate: {label: next, python: /opt/next/bin/python}
backends: [cpu]
classes:
  nightly: {latency: 5 %, latency_p95: 5 %, throughput: 5 %, peak_memory: 10 %}
workloads:
  - name: mlp
    workload: fallback.mlp
    class: nightly
    gates: [correctness, latency, throughput, peak_memory, determinism, compile_export, rollback]
    frozen: {code: abc, data: def}
caveats: [one machine]
)";

inline Manifest manifest_of(std::string_view text) {
  auto manifest = parse_manifest(text, "gate.yaml");
  EXPECT_TRUE(manifest) << base::to_string(manifest.error());
  return manifest ? std::move(*manifest) : Manifest{};
}

// `text` with the first `what` replaced.
inline std::string with(std::string_view text, std::string_view what, std::string_view by) {
  std::string changed{text};
  const auto at = changed.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return changed.replace(at, what.size(), by);
}

// A launch in which everything is as it should be.
inline LaunchResult good_launch(const LaunchRequest& request) {
  LaunchResult result;
  if (request.purpose == Purpose::timing) {
    result.p50_wall_s = 0.010;
    result.p95_wall_s = 0.011;
    result.p50_cpu_s = 0.010;
    result.throughput = 1000;
    result.peak_memory_bytes = 1e8;
    return result;
  }
  result.output = LaunchResult::Output{"aa", "[2, 3]", 0, 0, 1e-7, 1, 1};
  result.gradients = LaunchResult::Output{"bb", "[3]", 0, 0, 1e-7, 1, 1};
  result.determinism = LaunchResult::Determinism{5, 0};
  result.counters = LaunchResult::Counters{0, 0, 3};
  result.exports = {{"export", {true, ""}}, {"aot_inductor", {true, ""}}};
  result.checkpoint = LaunchResult::Step{true, ""};
  return result;
}

// Makes every launch a cell asks for; `change` makes of a good one what the test wants.
inline std::vector<Logged> measure(
    const Manifest& manifest, const CellId& id,
    const std::function<void(const LaunchRequest&, LaunchResult&)>& change = [](const auto&,
                                                                                auto&) {},
    std::uint64_t seed = 1) {
  std::vector<Logged> logged;
  while (const auto request = next_launch(manifest, id, logged, seed, "/checkpoints")) {
    auto result = good_launch(*request);
    change(*request, result);
    logged.push_back({*request, std::move(result)});
    if (logged.size() > 400) {
      ADD_FAILURE() << "no end";
      break;
    }
  }
  return logged;
}

inline void scale_times(LaunchResult& result, double factor) {
  for (auto* time : {&result.p50_wall_s, &result.p95_wall_s, &result.p50_cpu_s}) {
    if (*time) **time *= factor;
  }
  if (result.throughput) *result.throughput /= factor;
}

inline const GateResult& gate_of(const std::vector<GateResult>& results, Gate gate) {
  for (const auto& result : results) {
    if (result.gate == gate) return result;
  }
  ADD_FAILURE() << "no result of " << to_string(gate);
  static const GateResult none;
  return none;
}

}  // namespace crosscheck::gate
