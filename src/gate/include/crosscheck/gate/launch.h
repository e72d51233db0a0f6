#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/gate/manifest.h"

// One launch: a fresh process that runs a workload once. docs/gate-workloads.md describes what it
// is asked and what it answers.
namespace crosscheck::gate {

// Why a launch is made.
enum class Purpose : std::uint8_t {
  timing,  // many iterations, measured
  exact,   // outputs, determinism, compilation, export, a checkpoint written
  reading  // a checkpoint of the other side read
};
[[nodiscard]] std::string_view to_string(Purpose purpose);

struct LaunchRequest {
  CellId cell;
  Side side = Side::baseline;
  Purpose purpose = Purpose::timing;
  // Which of its cell's launches: "aa/3/0" is slot 0 of pair 3 of the baseline against itself,
  // "1/0/1" slot 1 of pair 0 of the first session, "exact/0", "reading/0". Unique within a cell and
  // side.
  std::string key;
  std::string checkpoint;  // folder to write (exact) or read (reading); empty: none
};

enum class LaunchStatus : std::uint8_t { ok, failed, not_run };

// What a gate needs of a launch's answer; the answer itself is kept as it came.
struct LaunchResult {
  LaunchStatus status = LaunchStatus::ok;
  std::string reason;        // of failed and not_run: one line
  std::string failure_mode;  // of failed: exception, nan, timeout, crash, no_result, …

  // Of the iterations after warm-up; nothing where none was measured.
  std::optional<double> p50_wall_s;
  std::optional<double> p95_wall_s;  // of 59 iterations at least
  std::optional<double> p50_cpu_s;   // of the thread that computes
  std::optional<double> throughput;  // items a second over all of them
  std::optional<double> peak_memory_bytes;
  std::optional<double> compile_s;

  struct Output {
    std::string digest;
    std::string shape;
    std::int64_t nan = 0;
    std::int64_t inf = 0;
    std::optional<double> rmse;  // against float64
    // Of that reference: what is wrong in float64 too has no error, but another reference.
    std::optional<double> reference_norm;
    std::optional<double> reference_projection;
  };
  std::optional<Output> output;
  std::optional<Output> gradients;

  struct Determinism {
    std::int64_t runs = 0;
    std::int64_t mismatches = 0;  // forward, backward and shapes together
  };
  std::optional<Determinism> determinism;

  struct Counters {
    std::int64_t graph_breaks = 0;
    std::int64_t recompiles = 0;
    std::int64_t captured_calls = 0;
  };
  std::optional<Counters> counters;

  struct Step {
    bool ok = false;
    std::string reason;
  };
  std::map<std::string, Step> exports;  // export, dynamic, aot_inductor
  std::optional<Step> checkpoint;
  std::optional<Step> recovery;  // after a killed rank
  bool silent_fallback = false;

  struct Metric {
    std::string name;
    double value = 0;
    bool higher_is_better = false;
  };
  std::optional<Metric> metric;
  std::string torch;  // its version
};

// `text` is what a launch wrote. What is no such answer is an error that says why.
[[nodiscard]] base::Result<LaunchResult> read_launch_result(std::string_view text);

// What a launch is asked, as the process reads it. `checkpoint` as in LaunchRequest.
[[nodiscard]] base::json::object request_json(const Manifest& manifest,
                                              const LaunchRequest& request);

// Runs launches. Not thread-safe: measuring two at a time would measure their quarrel.
class Launcher {
 public:
  virtual ~Launcher() = default;
  // The answer's bytes and its reading. A launch that crashes, hangs or writes nothing is a result
  // of status failed; an error means that nothing could be launched at all (no interpreter, disk
  // full, interrupted).
  struct Answer {
    LaunchResult result;
    std::string text;  // JSON, also of what the launcher itself has to say
  };
  [[nodiscard]] virtual base::Result<Answer> launch(const LaunchRequest& request) = 0;
};

}  // namespace crosscheck::gate
