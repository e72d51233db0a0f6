#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"

// What a gate is asked, and by which rules it will answer: written by a person, frozen before the
// first measurement. docs/gate.md describes the file.
namespace crosscheck::gate {

enum class Side : std::uint8_t { baseline, candidate };
[[nodiscard]] std::string_view to_string(Side side);

enum class Gate : std::uint8_t {
  correctness,
  latency,
  throughput,
  peak_memory,
  determinism,
  compile_export,
  rollback
};
inline constexpr std::size_t k_gates = 7;
[[nodiscard]] std::string_view to_string(Gate gate);
[[nodiscard]] std::optional<Gate> parse_gate(std::string_view name);

enum class Phase : std::uint8_t { inference, training };
[[nodiscard]] std::string_view to_string(Phase phase);

// An interpreter with a PyTorch.
struct EnvironmentSpec {
  std::string label;
  std::string python;     // path of the interpreter
  std::string lock;       // of what pip installs into it; empty: taken as it is
  std::string lock_hash;  // SHA-256 of that file when the manifest was frozen
};

// A device to measure on: cpu, cuda, rocm, mps, a PrivateUse1 device by its module, or
// `distributed`: several processes on the CPU.
struct BackendSpec {
  std::string name;
  std::string module;
  std::string path;
};

// What a class of workloads accepts; every share is a change for the worse (0.05: 5 %).
struct Thresholds {
  double latency = 0.05;      // of a launch's median
  double latency_p95 = 0.15;  // of its 95th percentile, which scatters more
  double throughput = 0.05;
  double peak_memory = 0.10;
  double drift = 2.0;       // candidate's RMSE against float64, as a multiple of the baseline's
  double tolerance = 1e-5;  // a tenth of it is added to that
  std::size_t determinism_runs = 5;
  std::size_t graph_breaks = 0;  // more than the baseline's that are accepted
  double compile_time = 0.20;
  base::Duration rollback{std::chrono::minutes{15}};
};

// What "the same workload" means: compared between the sides, and part of the digest.
struct Workload {
  std::string name;
  std::string what;                  // lane.case of the library, or python:module:function
  std::vector<std::string> command;  // instead of `what`
  std::string klass;                 // a key of Manifest::classes
  std::string size = "small";
  std::vector<Phase> phases{Phase::inference};
  std::vector<Gate> gates;            // required
  std::vector<std::string> backends;  // of the manifest's; empty: all
  std::string precision = "float32";
  std::map<std::string, std::int64_t> shape;  // batch, sequence, …: over the size's own
  std::int64_t production_sequence = 0;       // 0: the workload has none
  std::uint64_t seed = 1;
  std::size_t warmup = 5;
  std::size_t iterations = 59;
  std::size_t threads = 1;
  std::size_t ranks = 2;                               // of the backend `distributed`
  base::Duration time_limit{std::chrono::minutes{5}};  // of one launch
  // Code, model, data, preprocessing, attention mask, …: name to version.
  std::map<std::string, std::string> frozen;
  bool in_use = false;  // the candidate serves this workload already
  // How the lane is switched off while the rest of the candidate is kept, and where that was tried.
  std::string isolation_switch;
  std::string isolation_tested;
  bool gate_on_cpu_time = false;  // single-thread compute only
};

struct Claim {
  std::string id;
  std::string source;    // URL
  std::string workload;  // by its name
  Gate gate = Gate::latency;
  double gain = 0;   // that would justify adoption, 0.1: 10 % better
  std::string cost;  // of taking it up
};

struct Waiver {
  std::string cell;  // workload/backend/gate
  std::string owner;
  std::string reason;
  base::Time expires;
};

struct Manifest {
  [[nodiscard]] const EnvironmentSpec& environment(Side side) const {
    return side == Side::baseline ? baseline : candidate;
  }

  std::string name;
  EnvironmentSpec baseline;
  EnvironmentSpec candidate;
  std::vector<BackendSpec> backends;
  std::vector<std::string> fleet;  // backends that must agree
  std::map<std::string, Thresholds> classes;
  std::vector<Workload> workloads;
  std::vector<Claim> claims;
  std::vector<std::string> caveats;
  std::vector<Waiver> waivers;
  // Commands that switch back, and what has to be done by hand; rehearsed by `gate
  // rollback-rehearsal`.
  std::vector<std::string> rollback;
  std::vector<std::string> plan;
};

// Strict: unknown and repeated keys, words outside a list and wrong types are errors with
// file:line:column, all of them in one message. `source` names the file in them.
[[nodiscard]] base::Result<Manifest> parse_manifest(std::string_view text, std::string_view source);

// JSON Schema (2020-12) of the file, for editors: the keys, types and words that parse_manifest
// takes. What only the whole of a manifest tells (a class that is not there) it does not say.
[[nodiscard]] base::json::object manifest_schema();

// A finding that names what the method refuses or wants shown. `refused` findings stop a run.
struct Finding {
  bool refused = false;
  std::string where;  // "workloads.mlp"
  std::string message;
  std::string remedy;
};
// What the method finds wrong with a manifest whose form is right: pure.
[[nodiscard]] std::vector<Finding> check(const Manifest& manifest, base::Time now);

// Everything that decides, as JSON: equal manifests give equal bytes (`base::canonical_json`),
// however they are written. Waivers and the plan are left out: they may change after the freeze.
[[nodiscard]] base::json::object frozen_json(const Manifest& manifest);
// SHA-256 of that.
[[nodiscard]] std::string digest(const Manifest& manifest);

// All of it as `parse_manifest` takes it: JSON is YAML.
[[nodiscard]] base::json::object manifest_json(const Manifest& manifest);

// One workload on one backend.
struct CellId {
  std::string workload;
  std::string backend;
  Phase phase = Phase::inference;
  friend auto operator<=>(const CellId&, const CellId&) = default;
};
// "mlp/cpu/inference"
[[nodiscard]] std::string to_string(const CellId& id);
// In the manifest's order.
[[nodiscard]] std::vector<CellId> cells(const Manifest& manifest);
// Of a cell of the manifest.
[[nodiscard]] const Workload& workload_of(const Manifest& manifest, const CellId& id);
[[nodiscard]] bool requires_gate(const Workload& workload, Gate gate);

}  // namespace crosscheck::gate
