#include "crosscheck/gate/manifest.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/nearest.h"
#include "crosscheck/base/yaml.h"

namespace crosscheck::gate {
namespace {

namespace json = base::json;
namespace yaml = base::yaml;
using yaml::Node;

constexpr std::array<std::string_view, k_gates> k_gate_names{
    "correctness", "latency",        "throughput", "peak_memory",
    "determinism", "compile_export", "rollback"};
constexpr std::array<std::string_view, 2> k_phase_names{"inference", "training"};
constexpr std::array<std::string_view, 3> k_sizes{"small", "medium", "large"};
constexpr std::array<std::string_view, 4> k_precisions{"float32", "bfloat16", "float16", "float64"};
constexpr std::array<std::string_view, 5> k_backend_names{"cpu", "cuda", "rocm", "mps",
                                                          "distributed"};

// Reads nodes and gathers what is wrong with them, so that a person sees all of it at once.
class Reader {
 public:
  explicit Reader(std::string_view source) : source_{source} {}

  void complain(const Node& at, std::string message, std::string remedy = {}) {
    auto error = yaml::fail_at(source_, at, std::move(message), std::move(remedy));
    errors_.push_back(base::to_string(error.value()));
  }
  [[nodiscard]] const std::vector<std::string>& errors() const { return errors_; }

  // Whether `node` is a mapping; says so if not, and of each key that is none of `keys`.
  bool mapping(const Node& node, std::string_view what, std::span<const std::string_view> keys) {
    if (!expect(node, Node::Kind::mapping, what)) return false;
    for (const auto& entry : node.entries) {
      if (std::find(keys.begin(), keys.end(), entry.key.text) == keys.end()) {
        complain(entry.key, fmt::format("{} has no key '{}'", what, entry.key.text),
                 base::suggest(entry.key.text, keys));
      }
    }
    return true;
  }
  bool expect(const Node& node, Node::Kind kind, std::string_view what) {
    if (node.is(kind)) return true;
    complain(node, fmt::format("{} is {}, not {}", what, to_string(node.kind), to_string(kind)));
    return false;
  }
  const Node* require(const Node& node, std::string_view key, std::string_view what) {
    const Node* found = node.find(key);
    if (!found) complain(node, fmt::format("{} lacks '{}'", what, key));
    return found;
  }

  void text(const Node& node, std::string_view key, std::string& into) {
    const Node* found = node.find(key);
    if (!found || !expect(*found, Node::Kind::text, key)) return;
    into = found->text;
  }
  void word(const Node& node, std::string_view key, std::span<const std::string_view> words,
            std::string& into) {
    const Node* found = node.find(key);
    if (!found || !expect(*found, Node::Kind::text, key)) return;
    if (std::find(words.begin(), words.end(), found->text) == words.end()) {
      complain(*found, fmt::format("'{}' is no {}", found->text, key),
               base::suggest(found->text, words));
      return;
    }
    into = found->text;
  }
  void flag(const Node& node, std::string_view key, bool& into) {
    const Node* found = node.find(key);
    if (!found) return;
    if (found->text != "true" && found->text != "false") {
      complain(*found, fmt::format("{} is neither true nor false", key));
      return;
    }
    into = found->text == "true";
  }
  template <class Integer>
  void number(const Node& node, std::string_view key, Integer least, Integer most, Integer& into) {
    const Node* found = node.find(key);
    if (!found) return;
    if (const auto value = integer<Integer>(*found, key, least, most)) into = *value;
  }
  template <class Integer>
  std::optional<Integer> integer(const Node& node, std::string_view what, Integer least,
                                 Integer most) {
    Integer value{};
    const char* end = node.text.data() + node.text.size();
    const auto [stop, failed] = std::from_chars(node.text.data(), end, value);
    if (!node.is(Node::Kind::text) || failed != std::errc{} || stop != end || value < least ||
        value > most) {
      complain(node, fmt::format("{} is no number from {} to {}", what, least, most));
      return std::nullopt;
    }
    return value;
  }
  // "5 %", "5%" or "0.05".
  void share(const Node& node, std::string_view key, double& into) {
    const Node* found = node.find(key);
    if (!found) return;
    std::string_view rest = found->text;
    double scale = 1;
    if (rest.ends_with('%')) {
      rest.remove_suffix(1);
      while (rest.ends_with(' ')) rest.remove_suffix(1);
      scale = 0.01;
    }
    double value = 0;
    if (!parse_real(rest, value) || value * scale <= 0 || value * scale >= 1) {
      complain(*found, fmt::format("{} is no share between 0 and 1", key), "write 5 % or 0.05");
      return;
    }
    into = value * scale;
  }
  void positive(const Node& node, std::string_view key, double& into) {
    const Node* found = node.find(key);
    if (!found) return;
    double value = 0;
    if (!parse_real(found->text, value) || value <= 0) {
      complain(*found, fmt::format("{} is no number above 0", key));
      return;
    }
    into = value;
  }
  // "90s", "15m", "2h".
  void duration(const Node& node, std::string_view key, base::Duration& into) {
    const Node* found = node.find(key);
    if (!found) return;
    static const RE2 pattern{R"(([0-9]{1,6}) ?(s|m|h))"};
    std::int64_t count = 0;
    std::string unit;
    if (!RE2::FullMatch(found->text, pattern, &count, &unit) || count == 0) {
      complain(*found, fmt::format("{} is no length of time", key), "write 90s, 15m or 2h");
      return;
    }
    into = std::chrono::seconds{count * (unit == "s" ? 1 : unit == "m" ? 60 : 3600)};
  }
  std::vector<std::string> texts(const Node& node, std::string_view key) {
    const Node* found = node.find(key);
    std::vector<std::string> all;
    if (!found || !expect(*found, Node::Kind::sequence, key)) return all;
    for (const Node& item : found->items) {
      if (expect(item, Node::Kind::text, fmt::format("an entry of {}", key))) {
        all.push_back(item.text);
      }
    }
    return all;
  }

 private:
  static bool parse_real(std::string_view text, double& into) {
    const char* end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, into);
    return failed == std::errc{} && stop == end && std::isfinite(into);
  }

  std::string_view source_;
  std::vector<std::string> errors_;
};

template <std::size_t n>
std::optional<std::size_t> index_of(const std::array<std::string_view, n>& words,
                                    std::string_view word) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return std::nullopt;
  return static_cast<std::size_t>(found - words.begin());
}

// A name that is part of cell names and of file names.
bool is_name(std::string_view text) {
  static const RE2 pattern{"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}"};
  return RE2::FullMatch(text, pattern);
}

void read_name(Reader& reader, const Node& node, std::string_view what, std::string& into) {
  const Node* found = reader.require(node, "name", what);
  if (!found) return;
  if (!found->is(Node::Kind::text) || !is_name(found->text)) {
    reader.complain(*found, fmt::format("the name of {} is none", what),
                    "use letters, digits, '.', '_', '+' and '-', 100 at most");
    return;
  }
  into = found->text;
}

EnvironmentSpec read_environment(Reader& reader, const Node& root, std::string_view key) {
  static constexpr std::array<std::string_view, 3> keys{"label", "python", "lock"};
  EnvironmentSpec spec{.label = std::string{key}};
  const Node* node = reader.require(root, key, "the manifest");
  if (!node || !reader.mapping(*node, key, keys)) return spec;
  reader.text(*node, "label", spec.label);
  reader.text(*node, "python", spec.python);
  reader.text(*node, "lock", spec.lock);
  if (spec.python.empty() && spec.lock.empty()) {
    reader.complain(*node, fmt::format("{} names no environment", key),
                    "give `python: PATH` of an interpreter, or `lock: FILE` to make one from");
  }
  return spec;
}

void read_backends(Reader& reader, const Node& root, Manifest& manifest) {
  static constexpr std::array<std::string_view, 3> keys{"name", "module", "path"};
  const Node* list = reader.require(root, "backends", "the manifest");
  if (!list || !reader.expect(*list, Node::Kind::sequence, "backends")) return;
  std::set<std::string> seen;
  for (const Node& item : list->items) {
    BackendSpec backend;
    if (item.is(Node::Kind::text)) {
      backend.name = item.text;
      if (!index_of(k_backend_names, backend.name)) {
        reader.complain(item, fmt::format("'{}' is no backend that PyTorch brings", item.text),
                        base::suggest(item.text, k_backend_names) +
                            "; a PrivateUse1 device is written {name: …, module: …, path: …}");
        continue;
      }
    } else {
      if (!reader.mapping(item, "a backend", keys)) continue;
      read_name(reader, item, "a backend", backend.name);
      reader.text(item, "module", backend.module);
      reader.text(item, "path", backend.path);
    }
    if (!seen.insert(backend.name).second) {
      reader.complain(item, fmt::format("the backend '{}' stands twice", backend.name));
    }
    manifest.backends.push_back(std::move(backend));
  }
  if (list->items.empty()) reader.complain(*list, "backends is empty");
  const Node* fleet = root.find("fleet");
  manifest.fleet = reader.texts(root, "fleet");
  for (const auto& name : manifest.fleet) {
    if (!seen.contains(name)) {
      reader.complain(*fleet, fmt::format("the fleet's '{}' is no entry of backends", name));
    }
  }
}

void read_classes(Reader& reader, const Node& root, Manifest& manifest) {
  static constexpr std::array<std::string_view, 10> keys{
      "latency",   "latency_p95",      "throughput",   "peak_memory",  "drift",
      "tolerance", "determinism_runs", "graph_breaks", "compile_time", "rollback"};
  const Node* classes = reader.require(root, "classes", "the manifest");
  if (!classes || !reader.expect(*classes, Node::Kind::mapping, "classes")) return;
  for (const auto& entry : classes->entries) {
    Thresholds t;
    const Node& node = entry.value;
    if (!reader.mapping(node, fmt::format("the class '{}'", entry.key.text), keys)) continue;
    reader.share(node, "latency", t.latency);
    reader.share(node, "latency_p95", t.latency_p95);
    reader.share(node, "throughput", t.throughput);
    reader.share(node, "peak_memory", t.peak_memory);
    reader.share(node, "compile_time", t.compile_time);
    reader.positive(node, "drift", t.drift);
    reader.positive(node, "tolerance", t.tolerance);
    reader.number<std::size_t>(node, "determinism_runs", 2, 1000, t.determinism_runs);
    reader.number<std::size_t>(node, "graph_breaks", 0, 1000, t.graph_breaks);
    reader.duration(node, "rollback", t.rollback);
    manifest.classes.emplace(entry.key.text, t);
  }
}

void read_shape(Reader& reader, const Node& node, Workload& workload) {
  const Node* shape = node.find("shape");
  if (!shape || !reader.expect(*shape, Node::Kind::mapping, "shape")) return;
  for (const auto& entry : shape->entries) {
    const auto value = reader.integer<std::int64_t>(
        entry.value, fmt::format("shape.{}", entry.key.text), 1, std::int64_t{1} << 40);
    if (value) workload.shape.emplace(entry.key.text, *value);
  }
}

void read_frozen(Reader& reader, const Node& node, Workload& workload) {
  const Node* frozen = node.find("frozen");
  if (!frozen || !reader.expect(*frozen, Node::Kind::mapping, "frozen")) return;
  for (const auto& entry : frozen->entries) {
    if (!reader.expect(entry.value, Node::Kind::text, entry.key.text)) continue;
    workload.frozen.emplace(entry.key.text, entry.value.text);
  }
}

template <std::size_t n, class Enum>
void read_words(Reader& reader, const Node& node, std::string_view key,
                const std::array<std::string_view, n>& words, std::vector<Enum>& into) {
  const Node* list = node.find(key);
  if (!list || !reader.expect(*list, Node::Kind::sequence, key)) return;
  into.clear();
  for (const Node& item : list->items) {
    const auto found = index_of(words, item.text);
    if (!found) {
      reader.complain(item, fmt::format("'{}' is none of {}", item.text, key),
                      base::suggest(item.text, words));
      continue;
    }
    const auto value = static_cast<Enum>(*found);
    if (std::find(into.begin(), into.end(), value) != into.end()) {
      reader.complain(item, fmt::format("'{}' stands twice in {}", item.text, key));
      continue;
    }
    into.push_back(value);
  }
  if (list->items.empty()) reader.complain(*list, fmt::format("{} is empty", key));
}

Workload read_workload(Reader& reader, const Node& node) {
  static constexpr std::array<std::string_view, 22> keys{"name",
                                                         "workload",
                                                         "command",
                                                         "class",
                                                         "size",
                                                         "backends",
                                                         "phases",
                                                         "gates",
                                                         "precision",
                                                         "shape",
                                                         "production_sequence",
                                                         "seed",
                                                         "warmup",
                                                         "iterations",
                                                         "threads",
                                                         "ranks",
                                                         "time_limit",
                                                         "frozen",
                                                         "in_use",
                                                         "isolation_switch",
                                                         "isolation_tested",
                                                         "gate_on_cpu_time"};
  Workload w;
  if (!reader.mapping(node, "a workload", keys)) return w;
  read_name(reader, node, "a workload", w.name);
  reader.text(node, "workload", w.what);
  w.command = reader.texts(node, "command");
  if (w.what.empty() == w.command.empty()) {
    reader.complain(node,
                    fmt::format("the workload '{}' says not exactly one thing to run", w.name),
                    "give `workload: lane.case` (see `crosscheck gate workloads`), `workload: "
                    "python:module:function`, or `command: […]`");
  }
  if (const Node* klass = reader.require(node, "class", fmt::format("the workload '{}'", w.name))) {
    w.klass = klass->text;
  }
  reader.word(node, "size", k_sizes, w.size);
  reader.word(node, "precision", k_precisions, w.precision);
  read_words(reader, node, "phases", k_phase_names, w.phases);
  if (reader.require(node, "gates", fmt::format("the workload '{}'", w.name))) {
    read_words(reader, node, "gates", k_gate_names, w.gates);
  }
  w.backends = reader.texts(node, "backends");
  read_shape(reader, node, w);
  read_frozen(reader, node, w);
  reader.number<std::int64_t>(node, "production_sequence", 1, std::int64_t{1} << 40,
                              w.production_sequence);
  reader.number<std::uint64_t>(node, "seed", 0, std::uint64_t{1} << 62, w.seed);
  reader.number<std::size_t>(node, "warmup", 0, 100000, w.warmup);
  reader.number<std::size_t>(node, "iterations", 1, 1000000, w.iterations);
  reader.number<std::size_t>(node, "threads", 1, 4096, w.threads);
  reader.number<std::size_t>(node, "ranks", 2, 4096, w.ranks);
  reader.duration(node, "time_limit", w.time_limit);
  reader.flag(node, "in_use", w.in_use);
  reader.flag(node, "gate_on_cpu_time", w.gate_on_cpu_time);
  reader.text(node, "isolation_switch", w.isolation_switch);
  reader.text(node, "isolation_tested", w.isolation_tested);
  return w;
}

void read_workloads(Reader& reader, const Node& root, Manifest& manifest) {
  const Node* list = reader.require(root, "workloads", "the manifest");
  if (!list || !reader.expect(*list, Node::Kind::sequence, "workloads")) return;
  if (list->items.empty()) reader.complain(*list, "workloads is empty");
  std::set<std::string> seen;
  for (const Node& item : list->items) {
    auto workload = read_workload(reader, item);
    if (!workload.name.empty() && !seen.insert(workload.name).second) {
      reader.complain(item, fmt::format("the workload '{}' stands twice", workload.name));
    }
    if (!workload.klass.empty() && !manifest.classes.contains(workload.klass)) {
      std::vector<std::string_view> names;
      for (const auto& [name, thresholds] : manifest.classes) names.push_back(name);
      reader.complain(*item.find("class"), fmt::format("there is no class '{}'", workload.klass),
                      base::suggest(workload.klass, names));
    }
    for (const auto& name : workload.backends) {
      const auto known = std::any_of(manifest.backends.begin(), manifest.backends.end(),
                                     [&](const BackendSpec& b) { return b.name == name; });
      if (!known) {
        reader.complain(*item.find("backends"),
                        fmt::format("'{}' is no entry of the manifest's backends", name));
      }
    }
    manifest.workloads.push_back(std::move(workload));
  }
}

void read_claims(Reader& reader, const Node& root, Manifest& manifest) {
  static constexpr std::array<std::string_view, 6> keys{"id",   "source", "workload",
                                                        "gate", "gain",   "cost"};
  const Node* list = root.find("claims");
  if (!list || !reader.expect(*list, Node::Kind::sequence, "claims")) return;
  for (const Node& item : list->items) {
    Claim claim;
    if (!reader.mapping(item, "a claim", keys)) continue;
    for (const std::string_view key : {"id", "workload", "gain"}) {
      reader.require(item, key, "a claim");
    }
    reader.text(item, "id", claim.id);
    reader.text(item, "source", claim.source);
    reader.text(item, "workload", claim.workload);
    reader.text(item, "cost", claim.cost);
    reader.share(item, "gain", claim.gain);
    std::string gate{to_string(claim.gate)};
    reader.word(item, "gate", k_gate_names, gate);
    claim.gate = *parse_gate(gate);
    const auto known = std::any_of(manifest.workloads.begin(), manifest.workloads.end(),
                                   [&](const Workload& w) { return w.name == claim.workload; });
    if (!claim.workload.empty() && !known) {
      reader.complain(*item.find("workload"),
                      fmt::format("there is no workload '{}'", claim.workload));
    }
    manifest.claims.push_back(std::move(claim));
  }
}

void read_waivers(Reader& reader, const Node& root, Manifest& manifest) {
  static constexpr std::array<std::string_view, 4> keys{"cell", "owner", "reason", "expires"};
  const Node* list = root.find("waivers");
  if (!list || !reader.expect(*list, Node::Kind::sequence, "waivers")) return;
  for (const Node& item : list->items) {
    if (!reader.mapping(item, "a waiver", keys)) continue;
    bool whole = true;
    for (const std::string_view key : keys) {
      whole = reader.require(item, key, "a waiver") != nullptr && whole;
    }
    if (!whole) continue;
    Waiver waiver;
    reader.text(item, "cell", waiver.cell);
    reader.text(item, "owner", waiver.owner);
    reader.text(item, "reason", waiver.reason);
    const Node& expires = *item.find("expires");
    const auto time =
        base::parse_rfc3339(expires.text.size() == 10 ? expires.text + "T00:00:00Z" : expires.text);
    if (!time) {
      reader.complain(expires, "expires is no date", "write 2026-12-31");
      continue;
    }
    waiver.expires = *time;
    manifest.waivers.push_back(std::move(waiver));
  }
}

json::array array_of(const std::vector<std::string>& texts) {
  json::array all;
  for (const auto& text : texts) all.emplace_back(text);
  return all;
}

json::array names_of(const auto& values) {
  json::array names;
  for (const auto& value : values) names.emplace_back(to_string(value));
  return names;
}

json::object to_json(const Workload& w) {
  json::object shape;
  for (const auto& [key, value] : w.shape) shape[key] = value;
  json::object frozen;
  for (const auto& [key, value] : w.frozen) frozen[key] = value;
  json::array command = array_of(w.command);
  return {{"name", w.name},
          {"workload", w.what},
          {"command", std::move(command)},
          {"backends", array_of(w.backends)},
          {"class", w.klass},
          {"size", w.size},
          {"phases", names_of(w.phases)},
          {"gates", names_of(w.gates)},
          {"precision", w.precision},
          {"shape", std::move(shape)},
          {"production_sequence", w.production_sequence},
          {"seed", w.seed},
          {"warmup", w.warmup},
          {"iterations", w.iterations},
          {"threads", w.threads},
          {"ranks", w.ranks},
          {"time_limit_s", static_cast<double>(w.time_limit.count()) / 1e6},
          {"frozen", std::move(frozen)},
          {"in_use", w.in_use},
          {"isolation_switch", w.isolation_switch},
          {"isolation_tested", w.isolation_tested},
          {"gate_on_cpu_time", w.gate_on_cpu_time}};
}

json::object to_json(const Thresholds& t) {
  return {{"latency", t.latency},
          {"latency_p95", t.latency_p95},
          {"throughput", t.throughput},
          {"peak_memory", t.peak_memory},
          {"drift", t.drift},
          {"tolerance", t.tolerance},
          {"determinism_runs", t.determinism_runs},
          {"graph_breaks", t.graph_breaks},
          {"compile_time", t.compile_time},
          {"rollback_s", static_cast<double>(t.rollback.count()) / 1e6}};
}

json::object to_json(const EnvironmentSpec& e) {
  return {{"label", e.label}, {"python", e.python}, {"lock", e.lock}, {"lock_hash", e.lock_hash}};
}

void check_workload(const Workload& w, std::vector<Finding>& found) {
  const auto where = "workloads." + w.name;
  const auto refuse = [&](std::string message, std::string remedy) {
    found.push_back({true, where, std::move(message), std::move(remedy)});
  };
  const auto flag = [&](std::string message, std::string remedy) {
    found.push_back({false, where, std::move(message), std::move(remedy)});
  };
  if (w.warmup == 0) {
    refuse("nothing is set aside as warm-up, so the first iterations would be measured",
           "give `warmup: 5` or more");
  }
  const bool timed = requires_gate(w, Gate::latency) || requires_gate(w, Gate::throughput);
  if (timed && w.iterations < 59) {
    refuse(
        fmt::format("{} iterations have no 95th percentile, and a median without it hides stalls",
                    w.iterations),
        "give `iterations: 59` or more");
  }
  if (timed && !requires_gate(w, Gate::peak_memory)) {
    refuse("speed is judged without peak memory", "add peak_memory to its gates");
  }
  if (timed && !requires_gate(w, Gate::correctness)) {
    refuse("speed is judged without drift", "add correctness to its gates");
  }
  if (!requires_gate(w, Gate::rollback)) {
    refuse("no rollback is rehearsed", "add rollback to its gates");
  }
  if (w.production_sequence > 0) {
    const auto sequence = w.shape.find("sequence");
    if (sequence == w.shape.end() || sequence->second < w.production_sequence) {
      refuse(fmt::format("its sequences are shorter than production's {}", w.production_sequence),
             fmt::format("give `shape: {{sequence: {}}}`", w.production_sequence));
    }
  }
  if (w.gate_on_cpu_time && w.threads != 1) {
    refuse("CPU time stands for latency only where one thread computes", "give `threads: 1`");
  }
  if (!w.isolation_switch.empty() && w.isolation_tested.empty()) {
    flag("its isolation switch was never tried: a failure here cannot be isolated",
         "say in `isolation_tested` where it was");
  }
  for (const std::string_view key : {"code", "data"}) {
    if (!w.frozen.contains(std::string{key})) {
      flag(fmt::format("which {} it runs on is not said", key),
           fmt::format("give `frozen: {{{}: COMMIT_OR_DIGEST}}`", key));
    }
  }
}

}  // namespace

std::string_view to_string(Side side) { return side == Side::baseline ? "baseline" : "candidate"; }
std::string_view to_string(Gate gate) { return k_gate_names[static_cast<std::size_t>(gate)]; }
std::string_view to_string(Phase phase) { return k_phase_names[static_cast<std::size_t>(phase)]; }
std::optional<Gate> parse_gate(std::string_view name) {
  const auto found = index_of(k_gate_names, name);
  if (!found) return std::nullopt;
  return static_cast<Gate>(*found);
}

base::Result<Manifest> parse_manifest(std::string_view text, std::string_view source) {
  static constexpr std::array<std::string_view, 13> keys{
      "format",    "name",   "baseline", "candidate", "backends", "fleet", "classes",
      "workloads", "claims", "caveats",  "waivers",   "rollback", "plan"};
  const auto root = yaml::parse(text, source);
  if (!root) return tl::unexpected(root.error());
  Reader reader{source};
  Manifest manifest;
  if (reader.mapping(*root, "the manifest", keys)) {
    const Node* format = reader.require(*root, "format", "the manifest");
    if (format && format->text != "1") {
      reader.complain(*format, fmt::format("format {} is not known here", format->text),
                      "write `format: 1`");
    }
    read_name(reader, *root, "the manifest", manifest.name);
    manifest.baseline = read_environment(reader, *root, "baseline");
    manifest.candidate = read_environment(reader, *root, "candidate");
    read_backends(reader, *root, manifest);
    read_classes(reader, *root, manifest);
    read_workloads(reader, *root, manifest);
    read_claims(reader, *root, manifest);
    read_waivers(reader, *root, manifest);
    manifest.caveats = reader.texts(*root, "caveats");
    manifest.rollback = reader.texts(*root, "rollback");
    manifest.plan = reader.texts(*root, "plan");
  }
  if (reader.errors().empty()) return manifest;
  return base::fail(base::Fault::invalid_input,
                    fmt::format("{}", fmt::join(reader.errors(), "\n")));
}

std::vector<Finding> check(const Manifest& manifest, base::Time now) {
  std::vector<Finding> found;
  if (manifest.baseline.python == manifest.candidate.python &&
      manifest.baseline.lock == manifest.candidate.lock) {
    found.push_back(
        {true, "candidate", "it is the baseline itself", "name another interpreter or lock file"});
  }
  if (manifest.backends.size() == 1 && manifest.backends.front().name == "cuda") {
    found.push_back({false, "backends", "only the CUDA path is tested",
                     "add cpu, and what else your users run"});
  }
  for (const auto& workload : manifest.workloads) check_workload(workload, found);
  for (const auto& claim : manifest.claims) {
    if (claim.source.empty()) {
      found.push_back({true, "claims." + claim.id, "it names no source", "give `source: URL`"});
    }
    if (claim.cost.empty()) {
      found.push_back(
          {false, "claims." + claim.id, "what it costs to take up is not said", "give `cost: …`"});
    }
  }
  for (const auto& waiver : manifest.waivers) {
    if (waiver.expires <= now) {
      found.push_back({false, "waivers." + waiver.cell,
                       fmt::format("it expired on {}", base::to_rfc3339(waiver.expires)),
                       "decide again, or remove it"});
    }
  }
  if (manifest.caveats.empty()) {
    found.push_back(
        {false, "caveats", "none is written down", "say before the run what it will not show"});
  }
  return found;
}

json::object frozen_json(const Manifest& manifest) {
  json::array backends;
  for (const auto& b : manifest.backends) {
    backends.emplace_back(json::object{{"name", b.name}, {"module", b.module}, {"path", b.path}});
  }
  json::object classes;
  for (const auto& [name, thresholds] : manifest.classes) classes[name] = to_json(thresholds);
  json::array workloads;
  for (const auto& workload : manifest.workloads) workloads.emplace_back(to_json(workload));
  json::array claims;
  for (const auto& c : manifest.claims) {
    claims.emplace_back(json::object{{"id", c.id},
                                     {"source", c.source},
                                     {"workload", c.workload},
                                     {"gate", to_string(c.gate)},
                                     {"gain", c.gain},
                                     {"cost", c.cost}});
  }
  json::array fleet = array_of(manifest.fleet);
  json::array caveats = array_of(manifest.caveats);
  json::array rollback = array_of(manifest.rollback);
  return {{"format", 1},
          {"name", manifest.name},
          {"baseline", to_json(manifest.baseline)},
          {"candidate", to_json(manifest.candidate)},
          {"backends", std::move(backends)},
          {"fleet", std::move(fleet)},
          {"classes", std::move(classes)},
          {"workloads", std::move(workloads)},
          {"claims", std::move(claims)},
          {"caveats", std::move(caveats)},
          {"rollback", std::move(rollback)}};
}

json::object manifest_json(const Manifest& manifest) {
  // What only frozen_json has, and what it says otherwise.
  auto root = frozen_json(manifest);
  const auto spelled = [](base::Duration duration) {
    const auto s = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
    return s % 3600 == 0 ? fmt::format("{}h", s / 3600)
           : s % 60 == 0 ? fmt::format("{}m", s / 60)
                         : fmt::format("{}s", s);
  };
  for (const char* side : {"baseline", "candidate"}) {
    root[side].as_object().erase("lock_hash");
  }
  for (auto& backend : root["backends"].as_array()) {
    if (index_of(k_backend_names, std::string_view{backend.at("name").as_string()})) {
      backend = json::value(backend.at("name").as_string());
    }
  }
  for (const auto& [name, thresholds] : manifest.classes) {
    auto& object = root["classes"].as_object()[name].as_object();
    object.erase("rollback_s");
    object["rollback"] = spelled(thresholds.rollback);
  }
  std::size_t i = 0;
  for (const auto& workload : manifest.workloads) {
    auto& object = root["workloads"].as_array()[i++].as_object();
    object.erase("time_limit_s");
    object["time_limit"] = spelled(workload.time_limit);
    if (workload.production_sequence == 0) object.erase("production_sequence");
    if (workload.command.empty()) object.erase("command");
    if (workload.what.empty()) object.erase("workload");
  }
  auto& waivers = root["waivers"].emplace_array();
  for (const auto& w : manifest.waivers) {
    waivers.emplace_back(json::object{{"cell", w.cell},
                                      {"owner", w.owner},
                                      {"reason", w.reason},
                                      {"expires", base::to_rfc3339(w.expires)}});
  }
  root["plan"] = array_of(manifest.plan);
  return root;
}

std::string digest(const Manifest& manifest) {
  return base::sha256_hex(base::canonical_json(frozen_json(manifest)));
}

std::string to_string(const CellId& id) {
  return fmt::format("{}/{}/{}", id.workload, id.backend, to_string(id.phase));
}

std::vector<CellId> cells(const Manifest& manifest) {
  std::vector<CellId> all;
  for (const auto& workload : manifest.workloads) {
    for (const auto& backend : manifest.backends) {
      if (!workload.backends.empty() &&
          std::find(workload.backends.begin(), workload.backends.end(), backend.name) ==
              workload.backends.end()) {
        continue;
      }
      for (const Phase phase : workload.phases) all.push_back({workload.name, backend.name, phase});
    }
  }
  return all;
}

const Workload& workload_of(const Manifest& manifest, const CellId& id) {
  return *std::find_if(manifest.workloads.begin(), manifest.workloads.end(),
                       [&](const Workload& w) { return w.name == id.workload; });
}

bool requires_gate(const Workload& workload, Gate gate) {
  return std::find(workload.gates.begin(), workload.gates.end(), gate) != workload.gates.end();
}

}  // namespace crosscheck::gate
