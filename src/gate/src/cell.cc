#include "crosscheck/gate/cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "crosscheck/base/digest.h"

namespace crosscheck::gate {
namespace {

// How many pairs of the baseline against itself: a second helping where the first leaves doubt.
constexpr std::array<std::size_t, 2> k_aa_looks{8, 16};
// Half precision rounds each step: the method grants it a wider multiple.
constexpr double k_half_precision_drift = 3;
// Rounding in float64 moves a reference by far less, a wrong kernel by far more.
constexpr double k_same_reference = 1e-9;

enum class Series : std::uint8_t { aa, first, second };
std::string_view prefix(Series series) {
  switch (series) {
    case Series::aa:
      return "aa";
    case Series::first:
      return "1";
    case Series::second:
      return "2";
  }
  return "";
}

struct Quantity {
  std::string_view name;
  Gate gate = Gate::latency;
  Better better = Better::lower;
  std::optional<double> LaunchResult::* value = nullptr;
};
constexpr Quantity k_p50{"p50", Gate::latency, Better::lower, &LaunchResult::p50_wall_s};
constexpr Quantity k_p95{"p95", Gate::latency, Better::lower, &LaunchResult::p95_wall_s};
constexpr Quantity k_cpu{"cpu", Gate::latency, Better::lower, &LaunchResult::p50_cpu_s};
constexpr Quantity k_throughput{"throughput", Gate::throughput, Better::higher,
                                &LaunchResult::throughput};
constexpr Quantity k_memory{"peak_memory", Gate::peak_memory, Better::lower,
                            &LaunchResult::peak_memory_bytes};

std::vector<Quantity> timed(const Workload& workload) {
  std::vector<Quantity> all;
  if (requires_gate(workload, Gate::latency)) {
    if (workload.gate_on_cpu_time) {
      all.push_back(k_cpu);
    } else {
      all.push_back(k_p50);
      all.push_back(k_p95);
    }
  }
  if (requires_gate(workload, Gate::throughput)) all.push_back(k_throughput);
  if (requires_gate(workload, Gate::peak_memory)) all.push_back(k_memory);
  return all;
}

double margin_of(const Quantity& quantity, const Thresholds& thresholds) {
  if (quantity.name == k_p95.name) return thresholds.latency_p95;
  if (quantity.gate == Gate::throughput) return thresholds.throughput;
  if (quantity.gate == Gate::peak_memory) return thresholds.peak_memory;
  return thresholds.latency;
}

// A cell's launches, by what they are for.
class Log {
 public:
  explicit Log(std::span<const Logged> logged) : logged_{logged} {
    for (const Logged& entry : logged) {
      if (entry.request.purpose != Purpose::timing) continue;
      if (!failed_timing_ && entry.result.status != LaunchStatus::ok) failed_timing_ = &entry;
      const auto place = parse_key(entry.request.key);
      if (!place) continue;
      auto& pairs = pairs_[static_cast<std::size_t>(place->series)];
      if (pairs.size() <= place->pair) pairs.resize(place->pair + 1);
      pairs[place->pair][place->slot] = &entry;
    }
  }

  [[nodiscard]] const LaunchResult* find(Side side, Purpose purpose, std::string_view key) const {
    for (const Logged& entry : logged_) {
      if (entry.request.side == side && entry.request.purpose == purpose &&
          entry.request.key == key) {
        return &entry.result;
      }
    }
    return nullptr;
  }
  [[nodiscard]] bool has(Series series, std::size_t pair, std::size_t slot) const {
    const auto& pairs = pairs_[static_cast<std::size_t>(series)];
    return pair < pairs.size() && pairs[pair][slot];
  }
  // Whole pairs in a row.
  [[nodiscard]] std::size_t pairs(Series series) const {
    std::size_t count = 0;
    while (has(series, count, 0) && has(series, count, 1)) ++count;
    return count;
  }
  // ln(candidate / baseline) of the first `count` pairs; of the A/A series ln(slot 1 / slot 0).
  // Nothing if a launch lacks the quantity.
  [[nodiscard]] std::optional<std::vector<double>> differences(Series series,
                                                               const Quantity& quantity,
                                                               std::size_t count) const {
    const auto& pairs = pairs_[static_cast<std::size_t>(series)];
    std::vector<double> all;
    for (std::size_t pair = 0; pair < count; ++pair) {
      std::array<double, 2> values{};
      for (std::size_t slot = 0; slot < 2; ++slot) {
        const Logged& entry = *pairs[pair][slot];
        const auto value = entry.result.*quantity.value;
        if (!value || *value <= 0) return std::nullopt;
        const bool second =
            series == Series::aa ? slot == 1 : entry.request.side == Side::candidate;
        values[second ? 1 : 0] = *value;
      }
      all.push_back(std::log(values[1] / values[0]));
    }
    return all;
  }
  // What the whole pairs of the first session measured.
  void samples(const Quantity& quantity, Comparison& into) const {
    for (std::size_t pair = 0; pair < pairs(Series::first); ++pair) {
      for (const Logged* entry : pairs_[static_cast<std::size_t>(Series::first)][pair]) {
        const auto value = entry->result.*quantity.value;
        if (!value) continue;
        (entry->request.side == Side::baseline ? into.baseline : into.candidate).push_back(*value);
      }
    }
  }
  [[nodiscard]] const Logged* failed_timing() const { return failed_timing_; }
  static std::string slot_key(Series series, std::size_t pair, std::size_t slot) {
    return fmt::format("{}/{}/{}", prefix(series), pair, slot);
  }

 private:
  struct Place {
    Series series = Series::aa;
    std::size_t pair = 0;
    std::size_t slot = 0;
  };
  // What slot_key wrote.
  static std::optional<Place> parse_key(std::string_view key) {
    for (const Series series : {Series::aa, Series::first, Series::second}) {
      const auto begin = prefix(series);
      if (!key.starts_with(begin)) continue;
      Place place{.series = series};
      const char* end = key.data() + key.size();
      const auto [stop, failed] = std::from_chars(key.data() + begin.size() + 1, end, place.pair);
      if (failed != std::errc{} || stop + 2 != end) continue;
      place.slot = *(stop + 1) == '1' ? 1 : 0;
      if (place.pair < k_most_pairs && slot_key(series, place.pair, place.slot) == key)
        return place;
    }
    return std::nullopt;
  }

  std::span<const Logged> logged_;
  std::array<std::vector<std::array<const Logged*, 2>>, 3> pairs_;
  const Logged* failed_timing_ = nullptr;
};

// The baseline against itself. Nothing: more pairs are needed.
std::optional<bool> fit(const Log& log, const Quantity& quantity, double margin,
                        Comparison* comparison = nullptr) {
  const auto pairs = log.pairs(Series::aa);
  for (const auto look : k_aa_looks) {
    if (pairs < look) return std::nullopt;
    const auto differences = log.differences(Series::aa, quantity, look);
    if (!differences) return false;
    const auto found = interval(*differences, k_alpha);
    if (comparison) comparison->aa = found;
    if (found && is_equivalent(*found, margin)) return true;
  }
  return false;
}

// What a session says of a quantity. Nothing: more pairs are needed.
struct Look {
  Verdict verdict = Verdict::inconclusive;
  std::optional<Interval> interval;
};
std::optional<Look> look(const Log& log, Series series, const Quantity& quantity, double margin) {
  const auto pairs = log.pairs(series);
  Look last;
  for (const auto size : k_looks) {
    if (pairs < size) return std::nullopt;
    const auto differences = log.differences(series, quantity, size);
    if (!differences) return Look{};
    last.interval = interval(*differences, k_look_alpha);
    if (last.interval) last.verdict = judge(*last.interval, margin, quantity.better);
    if (last.verdict != Verdict::inconclusive) return last;
  }
  return last;
}

// As `look`, but of what there is so far: for progress.
Look look_so_far(const Log& log, Series series, const Quantity& quantity, double margin) {
  if (const auto found = look(log, series, quantity, margin)) return *found;
  Look partial;
  const auto pairs = log.pairs(series);
  for (const auto size : k_looks) {
    if (pairs < size) break;
    if (const auto differences = log.differences(series, quantity, size)) {
      partial.interval = interval(*differences, k_look_alpha);
    }
  }
  return partial;
}

Comparison compare(const Log& log, const Quantity& quantity, double margin) {
  Comparison result{.quantity = quantity.name, .better = quantity.better, .margin = margin};
  const auto is_fit = fit(log, quantity, margin, &result);
  if (!is_fit) return result;
  if (!*is_fit) {
    result.status = Status::unfit;
    return result;
  }
  log.samples(quantity, result);
  const auto first = look_so_far(log, Series::first, quantity, margin);
  result.interval = first.interval;
  if (first.interval) {
    result.detectable =
        minimum_detectable_effect(*first.interval, margin, quantity.better, k_look_alpha);
  }
  switch (first.verdict) {
    case Verdict::pass:
      result.status = Status::pass;
      break;
    case Verdict::inconclusive:
      result.status =
          look(log, Series::first, quantity, margin) ? Status::inconclusive : Status::not_run;
      break;
    case Verdict::fail: {
      const auto second = look(log, Series::second, quantity, margin);
      result.recurred = look_so_far(log, Series::second, quantity, margin).interval;
      // What does not recur was the machine's.
      result.status = !second                            ? Status::not_run
                      : second->verdict == Verdict::fail ? Status::fail
                                                         : Status::inconclusive;
      break;
    }
  }
  return result;
}

// Heads or tails for the order within a pair, the same for the same seed.
bool coin(std::uint64_t seed, const CellId& id, Series series, std::size_t pair) {
  const auto hex =
      base::sha256_hex(fmt::format("{}\n{}\n{}\n{}", seed, to_string(id), prefix(series), pair));
  return base::hex_value(hex.front()) % 2 == 1;
}

std::optional<LaunchRequest> next_of(const Log& log, const CellId& id, Series series,
                                     std::uint64_t seed) {
  const auto pair = log.pairs(series);
  const std::size_t slot = log.has(series, pair, 0) ? 1 : 0;
  const bool candidate = series != Series::aa && (slot == 1) != coin(seed, id, series, pair);
  return LaunchRequest{.cell = id,
                       .side = candidate ? Side::candidate : Side::baseline,
                       .purpose = Purpose::timing,
                       .key = Log::slot_key(series, pair, slot),
                       .checkpoint = {}};
}

struct ExactStep {
  Side side = Side::baseline;
  Purpose purpose = Purpose::exact;
  std::string_view key;
  std::string_view checkpoint;  // below the folder of checkpoints
};
// The baseline twice, for it must agree with itself; then each side reads what the other wrote.
constexpr std::array<ExactStep, 5> k_exact{{
    {Side::baseline, Purpose::exact, "exact/0", "baseline"},
    {Side::candidate, Purpose::exact, "exact/0", "candidate"},
    {Side::baseline, Purpose::exact, "exact/1", ""},
    {Side::baseline, Purpose::reading, "reading/0", "candidate"},
    {Side::candidate, Purpose::reading, "reading/0", "baseline"},
}};

bool needs(const ExactStep& step, const Workload& workload) {
  if (step.purpose == Purpose::reading) return requires_gate(workload, Gate::rollback);
  if (step.key == "exact/1") return requires_gate(workload, Gate::correctness);
  return true;
}

// The launches of a cell end early where the sides cannot be compared.
bool ended_early(const Log& log) {
  for (const Side side : {Side::baseline, Side::candidate}) {
    const auto* exact = log.find(side, Purpose::exact, "exact/0");
    if (exact && exact->status != LaunchStatus::ok) return true;
  }
  return log.failed_timing() != nullptr;
}

std::string one_line(const LaunchResult& result) {
  return result.failure_mode.empty() ? result.reason
                                     : fmt::format("{}: {}", result.failure_mode, result.reason);
}

std::string percent(double share) { return fmt::format("{:+.2f} %", share * 100); }

std::string describe(const Comparison& c) {
  if (!c.interval) {
    return c.aa && c.status == Status::unfit
               ? fmt::format(
                     "{}: the baseline against itself lies within {} to {}, beyond the "
                     "margin of {:.1f} %",
                     c.quantity, percent(std::expm1(c.aa->lower)), percent(std::expm1(c.aa->upper)),
                     c.margin * 100)
               : fmt::format("{}: no launch gives it", c.quantity);
  }
  auto text = fmt::format(
      "{}: {} ({} to {}, {} pairs; margin {:.1f} %, a change of {:.1f} % would be "
      "found)",
      c.quantity, percent(std::expm1(c.interval->estimate)), percent(std::expm1(c.interval->lower)),
      percent(std::expm1(c.interval->upper)), c.interval->pairs, c.margin * 100,
      c.detectable.value_or(0) * 100);
  if (c.recurred) {
    text += fmt::format("; second session {} to {}", percent(std::expm1(c.recurred->lower)),
                        percent(std::expm1(c.recurred->upper)));
  }
  return text;
}

// The worst of them: a gate passes only if all of its quantities do.
Status worst(const std::vector<Comparison>& comparisons) {
  constexpr std::array order{Status::fail, Status::not_run, Status::unfit, Status::inconclusive};
  for (const Status status : order) {
    for (const auto& c : comparisons) {
      if (c.status == status) return status;
    }
  }
  return Status::pass;
}

void judge_timed(const Log& log, const Workload& workload, const Thresholds& thresholds,
                 GateResult& into) {
  for (const auto& quantity : timed(workload)) {
    if (quantity.gate != into.gate) continue;
    into.comparisons.push_back(compare(log, quantity, margin_of(quantity, thresholds)));
  }
  if (log.pairs(Series::aa) == 0) return;
  into.status = worst(into.comparisons);
  std::vector<std::string> parts;
  for (const auto& c : into.comparisons) parts.push_back(describe(c));
  into.reason = fmt::format("{}", fmt::join(parts, "; "));
  for (const Series series : {Series::aa, Series::first, Series::second}) {
    for (std::size_t pair = 0; pair < log.pairs(series); ++pair) {
      into.launches.push_back(Log::slot_key(series, pair, 0));
      into.launches.push_back(Log::slot_key(series, pair, 1));
    }
  }
}

// How far the sides' float64 references lie from each other, as a share of their size.
double references_apart(const LaunchResult::Output& a, const LaunchResult::Output& b) {
  if (!a.reference_norm || !b.reference_norm || !a.reference_projection ||
      !b.reference_projection) {
    return 0;
  }
  const double apart = std::max(std::abs(*a.reference_norm - *b.reference_norm),
                                std::abs(*a.reference_projection - *b.reference_projection));
  return apart == 0 ? 0 : apart / std::max(*a.reference_norm, *b.reference_norm);
}

// What is wrong with the candidate's numbers, or empty. `what` names them.
std::string drift(std::string_view what, const std::optional<LaunchResult::Output>& baseline,
                  const std::optional<LaunchResult::Output>& candidate, double multiple,
                  double tolerance, std::string& numbers) {
  if (!baseline && !candidate) return {};
  if (!candidate) return fmt::format("the candidate gives no {}", what);
  if (!baseline) return {};
  if (candidate->nan > baseline->nan || candidate->inf > baseline->inf) {
    return fmt::format("{}: {} NaN and {} infinite, the baseline {} and {}", what, candidate->nan,
                       candidate->inf, baseline->nan, baseline->inf);
  }
  if (candidate->shape != baseline->shape) {
    return fmt::format("{}: shape {}, the baseline's {}", what, candidate->shape, baseline->shape);
  }
  if (!candidate->rmse || !baseline->rmse) {
    return candidate->digest == baseline->digest
               ? std::string{}
               : fmt::format(
                     "{}: other bytes than the baseline's, and no error against float64 to "
                     "judge them by",
                     what);
  }
  if (const double apart = references_apart(*baseline, *candidate); apart > k_same_reference) {
    return fmt::format(
        "{}: computed in float64 they lie {:.3g} of their size apart: other inputs, or another "
        "computation",
        what, apart);
  }
  const double allowed = multiple * *baseline->rmse + tolerance / 10;
  const auto comparison = fmt::format("{}: RMSE {:.3g}, the baseline's {:.3g}, allowed {:.3g}",
                                      what, *candidate->rmse, *baseline->rmse, allowed);
  if (*candidate->rmse > allowed) return comparison;
  numbers += (numbers.empty() ? "" : "; ") + comparison;
  return {};
}

void judge_correctness(const Log& log, const Workload& workload, const Thresholds& thresholds,
                       GateResult& into) {
  const auto* baseline = log.find(Side::baseline, Purpose::exact, "exact/0");
  const auto* again = log.find(Side::baseline, Purpose::exact, "exact/1");
  const auto* candidate = log.find(Side::candidate, Purpose::exact, "exact/0");
  into.launches = {"exact/0", "exact/1"};
  if (!baseline || !again || !candidate) return;
  const bool half = workload.precision == "float16" || workload.precision == "bfloat16";
  const double multiple =
      half ? std::max(thresholds.drift, k_half_precision_drift) : thresholds.drift;
  std::string numbers;
  const auto compare_all = [&](const LaunchResult& left, const LaunchResult& right) {
    auto wrong =
        drift("output", left.output, right.output, multiple, thresholds.tolerance, numbers);
    if (wrong.empty()) {
      wrong = drift("gradients", left.gradients, right.gradients, multiple, thresholds.tolerance,
                    numbers);
    }
    return wrong;
  };
  if (const auto wrong =
          again->status == LaunchStatus::ok ? compare_all(*baseline, *again) : one_line(*again);
      !wrong.empty()) {
    into.status = Status::unfit;
    into.reason = "the baseline does not agree with itself: " + wrong;
    return;
  }
  if (!baseline->output) {
    into.status = Status::inconclusive;
    into.reason = "the workload gives no output to compare";
    return;
  }
  numbers.clear();
  if (auto wrong = compare_all(*baseline, *candidate); !wrong.empty()) {
    into.status = Status::fail;
    into.reason = std::move(wrong);
    return;
  }
  if (candidate->recovery && !candidate->recovery->ok) {
    into.status = Status::fail;
    into.reason = "a killed rank is not recovered from: " + candidate->recovery->reason;
    return;
  }
  into.status = Status::pass;
  into.reason = numbers.empty() ? "the same bytes" : numbers;
}

void judge_determinism(const Log& log, GateResult& into) {
  const auto* baseline = log.find(Side::baseline, Purpose::exact, "exact/0");
  const auto* candidate = log.find(Side::candidate, Purpose::exact, "exact/0");
  into.launches = {"exact/0"};
  if (!baseline || !candidate) return;
  if (!candidate->determinism || !baseline->determinism) {
    into.status = Status::inconclusive;
    into.reason = "the workload was not repeated";
    return;
  }
  const auto& found = *candidate->determinism;
  const auto runs = static_cast<std::size_t>(std::max<std::int64_t>(found.runs, 0));
  if (found.mismatches == 0) {
    into.status = Status::pass;
    into.reason = fmt::format("0 mismatches in {} runs: at most {:.0f} % of runs differ", runs,
                              rate_bound(runs) * 100);
    return;
  }
  into.reason = fmt::format("{} mismatches in {} runs, the baseline {} in {}", found.mismatches,
                            runs, baseline->determinism->mismatches, baseline->determinism->runs);
  into.status = baseline->determinism->mismatches == 0 ? Status::fail : Status::inconclusive;
}

void judge_compile(const Log& log, const Thresholds& thresholds, GateResult& into) {
  const auto* baseline = log.find(Side::baseline, Purpose::exact, "exact/0");
  const auto* candidate = log.find(Side::candidate, Purpose::exact, "exact/0");
  into.launches = {"exact/0"};
  if (!baseline || !candidate) return;
  std::vector<std::string> worse;
  std::vector<std::string> notes;
  if (candidate->silent_fallback && !baseline->silent_fallback) {
    worse.emplace_back("it falls back silently");
  }
  if (baseline->counters && candidate->counters) {
    const auto& b = *baseline->counters;
    const auto& c = *candidate->counters;
    const auto breaks =
        fmt::format("{} graph breaks, the baseline {}", c.graph_breaks, b.graph_breaks);
    const bool more =
        c.graph_breaks > b.graph_breaks + static_cast<std::int64_t>(thresholds.graph_breaks);
    (more ? worse : notes).push_back(breaks);
    if (c.recompiles > b.recompiles) {
      worse.push_back(fmt::format("{} recompiles, the baseline {}", c.recompiles, b.recompiles));
    }
    if (c.captured_calls == 0 && b.captured_calls > 0) {
      worse.emplace_back("nothing is captured any more");
    }
  } else if (baseline->counters) {
    worse.emplace_back("it compiles nothing any more");
  }
  for (const auto& [name, step] : baseline->exports) {
    const auto found = candidate->exports.find(name);
    if (!step.ok) {
      if (found != candidate->exports.end() && found->second.ok) {
        notes.push_back(fmt::format("{} works now", name));
      }
      continue;
    }
    if (found == candidate->exports.end() || !found->second.ok) {
      worse.push_back(
          fmt::format("{} fails: {}", name,
                      found == candidate->exports.end() ? "not tried" : found->second.reason));
    } else {
      notes.push_back(fmt::format("{} works", name));
    }
  }
  if (!worse.empty()) {
    into.status = Status::fail;
    into.reason = fmt::format("{}", fmt::join(worse, "; "));
  } else if (notes.empty()) {
    into.status = Status::inconclusive;
    into.reason = "the workload compiles and exports nothing";
  } else {
    into.status = Status::pass;
    into.reason = fmt::format("{}", fmt::join(notes, "; "));
  }
}

void judge_rollback(const Manifest& manifest, const Log& log, const Thresholds& thresholds,
                    const std::optional<Rehearsal>& rehearsal, GateResult& into) {
  const auto* back = log.find(Side::baseline, Purpose::reading, "reading/0");
  const auto* forth = log.find(Side::candidate, Purpose::reading, "reading/0");
  into.launches = {"exact/0", "reading/0"};
  if (!back || !forth) return;
  // Attention alone keeps none, for instance.
  const auto* baseline = log.find(Side::baseline, Purpose::exact, "exact/0");
  const auto* candidate = log.find(Side::candidate, Purpose::exact, "exact/0");
  const bool stateless = baseline && candidate && !baseline->checkpoint && !candidate->checkpoint;
  const auto wrong = [&](const LaunchResult& result) -> std::string {
    if (result.status != LaunchStatus::ok) return one_line(result);
    if (!result.checkpoint && stateless) return {};
    if (!result.checkpoint) return "nothing was read";
    return result.checkpoint->ok ? std::string{} : result.checkpoint->reason;
  };
  if (const auto reason = wrong(*back); !reason.empty()) {
    into.status = Status::fail;
    into.reason = "the baseline cannot read the candidate's checkpoint: " + reason;
    return;
  }
  if (const auto reason = wrong(*forth); !reason.empty()) {
    into.status = Status::fail;
    into.reason = "the candidate cannot read the baseline's checkpoint: " + reason;
    return;
  }
  const std::string state =
      stateless ? "the workload keeps no state" : "checkpoints are read both ways";
  if (manifest.rollback.empty()) {
    into.status = Status::pass;
    into.reason = state + "; switching back is choosing the interpreter";
    return;
  }
  if (!rehearsal) {
    into.status = Status::inconclusive;
    into.reason =
        state + ", but the rollback was not rehearsed: crosscheck gate rollback-rehearsal";
    return;
  }
  if (!rehearsal->ok || rehearsal->took > thresholds.rollback) {
    into.status = Status::fail;
    into.reason = rehearsal->ok ? fmt::format("the rehearsed rollback took {} of {}",
                                              base::to_human(rehearsal->took),
                                              base::to_human(thresholds.rollback))
                                : "the rehearsed rollback failed: " + rehearsal->reason;
    return;
  }
  into.status = Status::pass;
  into.reason =
      fmt::format("{}; the rehearsed rollback took {}", state, base::to_human(rehearsal->took));
}

// Where a side does not run at all, no gate says more than that.
bool judge_broken(const Log& log, GateResult& into) {
  for (const Side side : {Side::baseline, Side::candidate}) {
    const auto* exact = log.find(side, Purpose::exact, "exact/0");
    if (!exact || exact->status == LaunchStatus::ok) continue;
    into.launches = {"exact/0"};
    into.reason = fmt::format(
        "the {} {}: {}", to_string(side),
        exact->status == LaunchStatus::not_run ? "does not run here" : "fails", one_line(*exact));
    into.status = exact->status == LaunchStatus::not_run ? Status::not_run
                  : side == Side::baseline               ? Status::unfit
                                                         : Status::fail;
    // What runs on the baseline and is missing from the candidate was lost.
    if (side == Side::candidate && exact->status == LaunchStatus::not_run) {
      into.status = Status::fail;
    }
    return true;
  }
  return false;
}

}  // namespace

std::string_view to_string(Status status) {
  switch (status) {
    case Status::pass:
      return "PASS";
    case Status::fail:
      return "FAIL";
    case Status::inconclusive:
      return "INCONCLUSIVE";
    case Status::unfit:
      return "UNFIT";
    case Status::not_run:
      return "NOT_RUN";
  }
  return "";
}

std::optional<LaunchRequest> next_launch(const Manifest& manifest, const CellId& id,
                                         std::span<const Logged> logged, std::uint64_t seed,
                                         const std::string& checkpoints) {
  const Workload& workload = workload_of(manifest, id);
  const Thresholds& thresholds = manifest.classes.at(workload.klass);
  const Log log{logged};
  for (const auto& step : k_exact) {
    if (ended_early(log)) return std::nullopt;
    if (!needs(step, workload) || log.find(step.side, step.purpose, step.key)) continue;
    const bool writes_nothing = step.checkpoint.empty() || !requires_gate(workload, Gate::rollback);
    return LaunchRequest{
        .cell = id,
        .side = step.side,
        .purpose = step.purpose,
        .key = std::string{step.key},
        .checkpoint = writes_nothing
                          ? std::string{}
                          : fmt::format("{}/{}/{}", checkpoints, to_string(id), step.checkpoint)};
  }
  if (ended_early(log)) return std::nullopt;
  const auto quantities = timed(workload);
  std::vector<Quantity> fit_ones;
  for (const auto& quantity : quantities) {
    const auto is_fit = fit(log, quantity, margin_of(quantity, thresholds));
    if (!is_fit) return next_of(log, id, Series::aa, seed);
    if (*is_fit) fit_ones.push_back(quantity);
  }
  for (const auto& quantity : fit_ones) {
    const double margin = margin_of(quantity, thresholds);
    const auto first = look(log, Series::first, quantity, margin);
    if (!first) return next_of(log, id, Series::first, seed);
    if (first->verdict == Verdict::fail && !look(log, Series::second, quantity, margin)) {
      return next_of(log, id, Series::second, seed);
    }
  }
  return std::nullopt;
}

Remaining remaining(const Manifest& manifest, const CellId& id, std::span<const Logged> logged) {
  const Workload& workload = workload_of(manifest, id);
  const Log log{logged};
  if (ended_early(log)) return {};
  Remaining left;
  for (const auto& step : k_exact) {
    if (!needs(step, workload) || log.find(step.side, step.purpose, step.key)) continue;
    ++left.least;
    ++left.most;
  }
  if (timed(workload).empty() || !next_launch(manifest, id, logged, 0, {})) return left;
  const auto add = [&](Series series, std::size_t least, std::size_t most, bool likely) {
    const auto done = 2 * log.pairs(series) + (log.has(series, log.pairs(series), 0) ? 1 : 0);
    left.least += likely && done < 2 * least ? 2 * least - done : 0;
    left.most += done < 2 * most ? 2 * most - done : 0;
  };
  const bool first_began = log.has(Series::first, 0, 0);
  if (!first_began) add(Series::aa, k_aa_looks.front(), k_aa_looks.back(), true);
  add(Series::first, k_looks.front(), k_looks.back(), true);
  add(Series::second, k_looks.front(), k_looks.back(), false);
  return left;
}

std::vector<GateResult> judge_cell(const Manifest& manifest, const CellId& id,
                                   std::span<const Logged> logged,
                                   const std::optional<Rehearsal>& rehearsal) {
  const Workload& workload = workload_of(manifest, id);
  const Thresholds& thresholds = manifest.classes.at(workload.klass);
  const Log log{logged};
  std::vector<GateResult> results;
  for (std::size_t i = 0; i < k_gates; ++i) {
    GateResult result{.gate = static_cast<Gate>(i)};
    if (!requires_gate(workload, result.gate)) continue;
    if (!judge_broken(log, result)) {
      switch (result.gate) {
        case Gate::correctness:
          judge_correctness(log, workload, thresholds, result);
          break;
        case Gate::latency:
        case Gate::throughput:
        case Gate::peak_memory:
          judge_timed(log, workload, thresholds, result);
          break;
        case Gate::determinism:
          judge_determinism(log, result);
          break;
        case Gate::compile_export:
          judge_compile(log, thresholds, result);
          break;
        case Gate::rollback:
          judge_rollback(manifest, log, thresholds, rehearsal, result);
          break;
      }
    }
    if (const Logged* failed = log.failed_timing();
        failed && (result.status == Status::not_run || result.gate == Gate::correctness)) {
      const bool candidate = failed->request.side == Side::candidate;
      result.status = candidate ? Status::fail : Status::unfit;
      result.reason = fmt::format("the {} failed while it was measured ({}): {}",
                                  to_string(failed->request.side), failed->request.key,
                                  one_line(failed->result));
      result.launches = {failed->request.key};
    }
    if (result.reason.empty()) {
      result.status = Status::not_run;
      result.reason = "not measured yet";
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace crosscheck::gate
