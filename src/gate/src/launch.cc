#include "crosscheck/gate/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <numeric>

#include "crosscheck/gate/statistics.h"

namespace crosscheck::gate {
namespace {

namespace json = base::json;

std::optional<double> number(const json::value& root, std::string_view path) {
  const json::value* found = base::find(root, path);
  if (!found || !found->is_number()) return std::nullopt;
  const auto value = found->to_number<double>();
  return std::isfinite(value) ? std::optional{value} : std::nullopt;
}

std::int64_t count(const json::value& root, std::string_view path) {
  const json::value* found = base::find(root, path);
  return found && found->is_int64() ? found->as_int64() : 0;
}

std::string text(const json::value& root, std::string_view path) {
  const json::value* found = base::find(root, path);
  if (!found || found->is_null()) return {};
  return found->is_string() ? std::string{found->as_string()} : json::serialize(*found);
}

bool holds(const json::value& root, std::string_view path) {
  const json::value* found = base::find(root, path);
  return found && found->is_bool() && found->as_bool();
}

bool is_object(const json::value& root, std::string_view path) {
  const json::value* found = base::find(root, path);
  return found && found->is_object();
}

base::Result<void> read_iterations(const json::value& root, LaunchResult& into) {
  const json::value* found = base::find(root, "iterations");
  if (!found || found->is_null()) return {};
  if (!found->is_array()) return base::fail(base::Fault::invalid_input, "iterations is no list");
  std::vector<double> wall;
  std::vector<double> cpu;
  for (const json::value& iteration : found->as_array()) {
    const auto wall_s = number(iteration, "wall_s");
    if (!wall_s || *wall_s <= 0) {
      return base::fail(base::Fault::invalid_input, "an iteration has no wall_s above 0");
    }
    if (holds(iteration, "warmup")) continue;
    wall.push_back(*wall_s);
    // The clock of threads ticks: a very short iteration may take none of it.
    if (const auto cpu_s = number(iteration, "thread_cpu_s"); cpu_s && *cpu_s > 0) {
      cpu.push_back(*cpu_s);
    }
  }
  const double total = std::accumulate(wall.begin(), wall.end(), 0.0);
  if (const auto items = number(root, "items_per_iteration"); items && *items > 0 && total > 0) {
    into.throughput = *items * static_cast<double>(wall.size()) / total;
  }
  if (wall.size() >= k_least_for_p95) into.p95_wall_s = percentile(wall, 0.95);
  if (cpu.size() == wall.size()) into.p50_cpu_s = percentile(std::move(cpu), 0.5);
  into.p50_wall_s = percentile(std::move(wall), 0.5);
  return {};
}

std::optional<LaunchResult::Output> read_output(const json::value& root, const char* key) {
  if (!is_object(root, key)) return std::nullopt;
  const json::value& output = *base::find(root, key);
  return LaunchResult::Output{.digest = text(output, "digest"),
                              .shape = text(output, "shape"),
                              .nan = count(output, "nan"),
                              .inf = count(output, "inf"),
                              .rmse = number(output, "rmse"),
                              .reference_norm = number(output, "reference_norm"),
                              .reference_projection = number(output, "reference_projection")};
}

std::optional<LaunchResult::Step> read_step(const json::value& root, std::string_view path) {
  if (!is_object(root, path)) return std::nullopt;
  const json::value& step = *base::find(root, path);
  return LaunchResult::Step{holds(step, "ok"), text(step, "reason")};
}

}  // namespace

std::string_view to_string(Purpose purpose) {
  switch (purpose) {
    case Purpose::timing:
      return "timing";
    case Purpose::exact:
      return "exact";
    case Purpose::reading:
      return "reading";
  }
  return "";
}

base::Result<LaunchResult> read_launch_result(std::string_view bytes) {
  const auto parsed = base::parse_json(bytes, "the launch's result");
  if (!parsed) return tl::unexpected(parsed.error());
  const json::value& root = *parsed;
  LaunchResult result;
  const auto status = text(root, "status");
  if (status == "ok") {
    result.status = LaunchStatus::ok;
  } else if (status == "failed") {
    result.status = LaunchStatus::failed;
  } else if (status == "not_run") {
    result.status = LaunchStatus::not_run;
  } else {
    return base::fail(base::Fault::invalid_input,
                      fmt::format("the launch's result has no status: '{}'", status));
  }
  result.reason = text(root, "reason");
  result.failure_mode = text(root, "failure_mode");
  if (auto read = read_iterations(root, result); !read) return tl::unexpected(read.error());
  result.peak_memory_bytes = number(root, "peak_memory_bytes");
  result.compile_s = number(root, "compile_s");
  result.output = read_output(root, "output");
  result.gradients = read_output(root, "gradients");
  if (is_object(root, "determinism")) {
    result.determinism = LaunchResult::Determinism{
        count(root, "determinism.runs"), count(root, "determinism.forward_mismatches") +
                                             count(root, "determinism.backward_mismatches") +
                                             count(root, "determinism.shape_mismatches")};
  }
  if (is_object(root, "counters")) {
    result.counters = LaunchResult::Counters{count(root, "counters.graph_breaks"),
                                             count(root, "counters.recompiles"),
                                             count(root, "counters.captured_calls")};
  }
  for (const char* name : {"export", "dynamic", "aot_inductor"}) {
    if (auto step = read_step(root, fmt::format("export.{}", name))) {
      result.exports.emplace(name, std::move(*step));
    }
  }
  result.checkpoint = read_step(root, "checkpoint");
  result.recovery = read_step(root, "recovery");
  result.silent_fallback = holds(root, "fallback.silent");
  if (const auto value = number(root, "metric.value")) {
    result.metric = LaunchResult::Metric{text(root, "metric.name"), *value,
                                         holds(root, "metric.higher_is_better")};
  }
  result.torch = text(root, "versions.torch");
  return result;
}

json::object request_json(const Manifest& manifest, const LaunchRequest& request) {
  const Workload& workload = workload_of(manifest, request.cell);
  const auto backend =
      std::find_if(manifest.backends.begin(), manifest.backends.end(),
                   [&](const BackendSpec& b) { return b.name == request.cell.backend; });
  const Thresholds& thresholds = manifest.classes.at(workload.klass);
  json::object shape;
  for (const auto& [key, value] : workload.shape) shape[key] = value;
  json::array measure;
  json::value checkpoint = nullptr;
  switch (request.purpose) {
    case Purpose::timing:
      measure = {"latency", "peak_memory"};
      break;
    case Purpose::exact:
      measure = {"correctness", "determinism", "compile_export"};
      if (!request.checkpoint.empty()) {
        measure.emplace_back("checkpoint");
        checkpoint = json::object{{"write", request.checkpoint}};
      }
      break;
    case Purpose::reading:
      measure = {"checkpoint"};
      checkpoint = json::object{{"read", request.checkpoint}};
      break;
  }
  const bool distributed = backend->name == "distributed";
  const auto none_if_empty = [](const std::string& text) {
    return text.empty() ? json::value(nullptr) : json::value(text);
  };
  json::object answer{
      {"format", 1},
      {"size", workload.size},
      {"phase", to_string(request.cell.phase)},
      {"device", json::object{{"name", distributed ? std::string{"cpu"} : backend->name},
                              {"module", none_if_empty(backend->module)},
                              {"path", none_if_empty(backend->path)}}},
      {"seed", workload.seed},
      {"precision", workload.precision},
      {"shape", std::move(shape)},
      {"warmup", workload.warmup},
      {"iterations", request.purpose == Purpose::timing ? workload.iterations : std::size_t{1}},
      {"time_limit_s", static_cast<double>(workload.time_limit.count()) / 1e6},
      {"threads", workload.threads},
      {"measure", std::move(measure)},
      {"determinism_runs", thresholds.determinism_runs},
      {"checkpoint", std::move(checkpoint)}};
  if (distributed) answer["ranks"] = workload.ranks;
  // Whether a killed rank is recovered from belongs to what is compared exactly.
  if (distributed && request.purpose == Purpose::exact &&
      workload.what.starts_with("distributed.")) {
    answer["kill_rank"] = workload.ranks - 1;
  }
  if (workload.command.empty()) {
    answer["workload"] = workload.what;
  } else {
    auto& command = answer["command"].emplace_array();
    for (const auto& argument : workload.command) command.emplace_back(argument);
  }
  return answer;
}

}  // namespace crosscheck::gate
