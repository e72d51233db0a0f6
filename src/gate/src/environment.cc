#include "crosscheck/gate/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/process.h"

namespace crosscheck::gate {
namespace {

namespace json = base::json;
namespace fs = std::filesystem;
using base::fail;
using base::Fault;

std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return base::to_utf8(text.substr(text.rfind('\n') + 1), 500);
}

base::Result<std::string> import_torch(const std::string& python, const std::string& label) {
  auto asked = base::run_captured(
      {.arguments = {python, "-c", "import sys, torch; print(sys.executable, torch.__version__)"}},
      std::chrono::minutes{5});
  if (!asked) {
    return fail(Fault::environment, fmt::format("{}: {}", label, asked.error().message),
                "give the path of an interpreter in the manifest");
  }
  if (!asked->status.ok()) {
    return fail(Fault::environment,
                fmt::format("{}: {} cannot import torch: {}", label, python, last_line(asked->err)),
                fmt::format("{} -m pip install torch==VERSION", python));
  }
  return python;
}

base::Result<std::string> make_environment(const EnvironmentSpec& spec, const fs::path& folder) {
  const auto base_python = spec.python.empty() ? std::string{"python3"} : spec.python;
  const auto place = fs::absolute(folder) / "environments" / spec.lock_hash.substr(0, 16);
  const auto python = (place / "bin" / "python").string();
  const auto stamp = place / "complete";
  std::error_code error;
  if (fs::exists(stamp, error)) return python;
  fs::remove_all(place, error);
  const auto step = [&](const std::vector<std::string>& arguments) -> base::Result<void> {
    auto done = base::run_captured({.arguments = arguments}, std::chrono::hours{2});
    if (!done) return tl::unexpected(done.error());
    if (done->status.ok()) return {};
    return fail(Fault::environment,
                fmt::format("{}: the environment of {} cannot be made: {}", spec.label, spec.lock,
                            last_line(done->err)),
                fmt::format("{}", fmt::join(arguments, " ")));
  };
  for (const auto& arguments : std::array<std::vector<std::string>, 2>{
           {{base_python, "-m", "venv", place.string()},
            {python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-r",
             fs::absolute(spec.lock).string()}}}) {
    if (auto done = step(arguments); !done) return tl::unexpected(done.error());
  }
  if (auto done = base::write_file_atomically(stamp, spec.lock_hash + "\n"); !done) {
    return tl::unexpected(done.error());
  }
  return python;
}

// Each value of `root` by its path. A list is one value.
void flatten(const json::value& root, const std::string& path,
             std::map<std::string, std::string>& into) {
  if (!root.is_object()) {
    into.emplace(path,
                 root.is_string() ? std::string{root.as_string()} : base::canonical_json(root));
    return;
  }
  for (const auto& [key, value] : root.as_object()) {
    flatten(value,
            path.empty() ? std::string{key} : fmt::format("{}.{}", path, std::string_view{key}),
            into);
  }
}

// The words of two long texts that the other lacks: compilers' flags differ in a few of hundreds.
std::string only_in(const std::string& text, const std::string& other) {
  std::vector<std::string> words;
  std::set<std::string> theirs;
  const auto split = [](const std::string& from, const auto& add) {
    std::size_t begin = 0;
    while (begin < from.size()) {
      const auto end = std::min(from.find_first_of(" ,", begin), from.size());
      if (end > begin) add(from.substr(begin, end - begin));
      begin = end + 1;
    }
  };
  split(other, [&](std::string word) { theirs.insert(std::move(word)); });
  split(text, [&](std::string word) {
    if (!theirs.contains(word)) words.push_back(std::move(word));
  });
  if (words.size() > 8) {
    const auto more = words.size() - 8;
    words.resize(8);
    return fmt::format("{} and {} more", fmt::join(words, " "), more);
  }
  return words.empty() ? "nothing more" : fmt::format("{}", fmt::join(words, " "));
}

// The list `key` of a matrix, each word one of `known` where `known` is not empty.
base::Result<std::vector<std::string>> words(const json::value& matrix, std::string_view key,
                                             const std::string& source,
                                             const std::vector<std::string_view>& known) {
  const auto* list = base::find(matrix, key);
  std::vector<std::string> all;
  if (!list) return all;
  if (!list->is_array()) {
    return fail(Fault::invalid_input, fmt::format("{}: {} is no list", source, key));
  }
  for (const auto& item : list->as_array()) {
    if (!item.is_string()) {
      return fail(Fault::invalid_input, fmt::format("{}: an entry of {} is no text", source, key));
    }
    std::string word{item.as_string()};
    if (!known.empty() && std::find(known.begin(), known.end(), word) == known.end()) {
      return fail(Fault::invalid_input,
                  fmt::format("{}: '{}' is none of the {}", source, word, key),
                  fmt::format("use {}", fmt::join(known, ", ")));
    }
    all.push_back(std::move(word));
  }
  return all;
}

// As YAML in double quotes.
std::string in_quotes(std::string_view text) { return base::canonical_json(json::value(text)); }

}  // namespace

base::Result<void> hash_locks(Manifest& manifest, const fs::path& folder) {
  for (auto* spec : {&manifest.baseline, &manifest.candidate}) {
    if (spec->lock.empty()) continue;
    const auto path = folder / spec->lock;
    const auto text = base::read_file(path);
    if (!text) return tl::unexpected(text.error());
    spec->lock_hash = base::sha256_hex(*text);
    spec->lock = path.string();
  }
  return {};
}

void adopt_locks(Manifest& manifest, const json::value& frozen) {
  for (const auto& [side, spec] :
       {std::pair{"baseline", &manifest.baseline}, {"candidate", &manifest.candidate}}) {
    const auto path = fmt::format("manifest.{}.lock", side);
    const auto hash = base::require_string(frozen, path + "_hash");
    const auto lock = base::require_string(frozen, path);
    if (hash) spec->lock_hash = *hash;
    if (lock) spec->lock = *lock;
  }
}

base::Result<std::string> prepare_interpreter(const EnvironmentSpec& spec, const fs::path& folder) {
  if (!spec.lock.empty()) {
    auto python = make_environment(spec, folder);
    if (!python) return python;
    return import_torch(*python, spec.label);
  }
  // A name is sought in PATH; a path must not change with the folder that a launch runs in. The
  // last link stays: what it leads to lies outside the environment.
  const auto python = spec.python.find('/') == std::string::npos
                          ? spec.python
                          : fs::absolute(spec.python).lexically_normal().string();
  return import_torch(python, spec.label);
}

base::Result<json::value> preflight(const std::string& python, const std::string& probe_path,
                                    const std::string& label) {
  auto asked =
      base::run_captured({.arguments = {python, "-m", "crosscheck_probe.workload", "--preflight"},
                          .environment = {{"PYTHONPATH", probe_path}}},
                         std::chrono::minutes{5});
  if (!asked) return tl::unexpected(asked.error());
  if (!asked->status.ok()) {
    return fail(Fault::environment, fmt::format("{}: {} cannot say what it is: {}", label, python,
                                                last_line(asked->err)));
  }
  return base::parse_json(asked->out, label + "'s preflight");
}

std::string unfit_reason(const json::value& preflight) {
  const auto* load = base::find(preflight, "load");
  const auto* cpus = base::find(preflight, "cpus.online");
  if (!load || !load->is_array() || load->as_array().empty() || !cpus || !cpus->is_int64())
    return {};
  const auto* now = load->as_array().if_contains(0);
  if (!now->is_number() || now->to_number<double>() <= static_cast<double>(cpus->as_int64())) {
    return {};
  }
  return fmt::format("{:.1f} processes want its {} processors", now->to_number<double>(),
                     cpus->as_int64());
}

std::vector<std::string> differences(const json::value& environments) {
  const auto* baseline = base::find(environments, "baseline");
  const auto* candidate = base::find(environments, "candidate");
  if (!baseline || !candidate) return {};
  std::map<std::string, std::string> left;
  std::map<std::string, std::string> right;
  flatten(*baseline, {}, left);
  flatten(*candidate, {}, right);
  std::set<std::string> names;
  for (const auto& [name, value] : left) names.insert(name);
  for (const auto& [name, value] : right) names.insert(name);
  std::vector<std::string> found;
  for (const auto& name : names) {
    // What changes by the minute, and what is compared.
    if (name == "load" || name == "memory.available_bytes" || name == "versions.torch" ||
        name == "versions.git") {
      continue;
    }
    const auto of = [&](const std::map<std::string, std::string>& side) {
      const auto value = side.find(name);
      return value == side.end() ? std::string{"not said"} : value->second;
    };
    const auto a = of(left);
    const auto b = of(right);
    if (a == b) continue;
    const bool lengthy = a.size() > 80 && b.size() > 80;
    found.push_back(fmt::format("{}: {} against {}", name, lengthy ? only_in(a, b) : a,
                                lengthy ? only_in(b, a) : b));
  }
  return found;
}

base::Result<std::string> initial_manifest(const std::string& baseline,
                                           const std::string& candidate,
                                           const std::optional<json::value>& matrix,
                                           const std::string& source) {
  std::string name = "upgrade";
  std::vector<std::string> versions{"baseline", "candidate"};
  std::vector<std::string> backends{"cpu"};
  std::vector<std::string> gates;
  for (std::size_t i = 0; i < k_gates; ++i) gates.emplace_back(to_string(static_cast<Gate>(i)));
  if (matrix) {
    const auto named = base::require_string(*matrix, "matrix");
    if (!named) return fail(Fault::invalid_input, source + ": " + named.error().message);
    name = *named;
    const auto labels = words(*matrix, "versions", source, {});
    const auto on =
        words(*matrix, "backends", source, {"cpu", "cuda", "rocm", "mps", "distributed"});
    const std::vector<std::string_view> gate_names{gates.begin(), gates.end()};
    const auto required = words(*matrix, "gates", source, gate_names);
    const auto decisions =
        words(*matrix, "decisions", source, {"adopt", "isolate", "defer", "rollback"});
    for (const auto* list : {&labels, &on, &required, &decisions}) {
      if (!*list) return tl::unexpected(list->error());
    }
    if (labels->size() == 2) {
      versions = *labels;
    } else if (!labels->empty()) {
      return fail(Fault::invalid_input, fmt::format("{}: {} versions, where a gate compares two",
                                                    source, labels->size()));
    }
    if (!on->empty()) backends = *on;
    if (!required->empty()) gates = *required;
  }
  const bool distributed =
      std::find(backends.begin(), backends.end(), "distributed") != backends.end();
  std::vector<std::string> on_device;
  std::copy_if(backends.begin(), backends.end(), std::back_inserter(on_device),
               [](const std::string& backend) { return backend != "distributed"; });
  // What compiles nothing has nothing to say of compilation.
  auto eager_gates = gates;
  std::erase(eager_gates, to_string(Gate::compile_export));
  const auto workload = [](std::string_view called, std::string_view what,
                           const std::vector<std::string>& where,
                           const std::vector<std::string>& required) {
    return fmt::format(
        "  - name: {}\n    workload: {}\n    class: research\n    backends: [{}]\n"
        "    phases: [training]\n    gates: [{}]\n    iterations: 300\n"
        "    # What makes it the same workload on both sides: commits, versions, digests.\n"
        "    frozen: {{code: crosscheck's library, data: random of the seed}}\n",
        called, what, fmt::join(where, ", "), fmt::join(required, ", "));
  };
  std::string text = fmt::format(
      "# Whether workloads may move from one PyTorch to another: docs/gate.md\nformat: 1\n"
      "name: {}\nbaseline: {{label: {}, python: {}}}\ncandidate: {{label: {}, python: {}}}\n"
      "backends: [{}]\n",
      in_quotes(name), in_quotes(versions[0]), in_quotes(baseline), in_quotes(versions[1]),
      in_quotes(candidate), fmt::join(backends, ", "));
  if (backends.size() > 1) {
    text += fmt::format("# One that is missing or fails forbids adoption for all.\nfleet: [{}]\n",
                        fmt::join(backends, ", "));
  }
  text +=
      "# What a class of workloads accepts as a change for the worse. Frozen before the first "
      "run.\n"
      "classes:\n"
      "  research: {latency: 10 %, latency_p95: 30 %, throughput: 10 %, peak_memory: 10 %}\n"
      "workloads:\n";
  if (!on_device.empty()) {
    text += workload("mlp", "fallback.mlp", on_device, eager_gates) +
            workload("transformer", "fallback.transformer", on_device, eager_gates);
    if (eager_gates.size() < gates.size()) {
      text += workload("compiled-mlp", "compile.mlp", on_device, gates);
    }
  }
  if (distributed) {
    text += workload("data-parallel", "distributed.ddp", {"distributed"}, eager_gates);
  }
  text +=
      "# claims: [{id: …, source: URL, workload: mlp, gate: latency, gain: 10 %, cost: …}]\n"
      "# What this matrix will not show; written before the run.\n"
      "caveats: [\"workloads of crosscheck's library at size small, not our own\"]\n"
      "# What switches back, a command a step: rollback: [\"…\"]\n"
      "plan:\n"
      "  - \"week 1: sources, baseline, freeze, single node\"\n"
      "  - \"week 2: distributed, compile and export, rollback rehearsal, canary\"\n";
  return text;
}

}  // namespace crosscheck::gate
