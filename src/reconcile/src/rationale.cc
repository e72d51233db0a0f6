#include "rationale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "crosscheck/base/json.h"
#include "crosscheck/base/operators.h"

namespace crosscheck::reconcile {
namespace {

using base::FailureKind;
using base::Outcome;
using config::Reason;
using Verdict = Sighting::Verdict;

constexpr std::size_t k_most_evidence = 3;
constexpr std::size_t k_most_operators = 8;
constexpr std::size_t k_headline = 200;

// C++'s names, as messages have them: "not implemented for 'Half'".
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> k_scalar_types{
    {{"Half", "float16"},
     {"BFloat16", "bfloat16"},
     {"Float", "float32"},
     {"Double", "float64"},
     {"Long", "int64"},
     {"Int", "int32"},
     {"Short", "int16"},
     {"Char", "int8"},
     {"Byte", "uint8"},
     {"Bool", "bool"},
     {"ComplexHalf", "complex32"},
     {"ComplexFloat", "complex64"},
     {"ComplexDouble", "complex128"}}};

std::string dtype_in(std::string_view message) {
  for (const auto& [scalar, dtype] : k_scalar_types)
    if (message.find(fmt::format("'{}'", scalar)) != std::string_view::npos)
      return std::string{dtype};
  return {};
}

bool has_number(const base::Mismatch& mismatch) {
  for (const auto& value : {mismatch.absolute, mismatch.relative, mismatch.absolute_tolerance,
                            mismatch.relative_tolerance})
    if (value && std::isfinite(*value)) return true;
  return false;
}

// What the failure shows of the device; undecided where it shows nothing of it.
Reason reason_of(const Subject& subject) {
  const Failure& failure = *subject.standing.newest->failure;
  if (failure.outcome == Outcome::timed_out) return Reason::timeout;
  if (failure.kind == FailureKind::out_of_memory) return Reason::out_of_memory;
  if (failure.outcome == Outcome::crashed) return Reason::crash;
  switch (failure.kind) {
    case FailureKind::unsupported_operator:
      return base::named_operator(failure.message).empty() ? Reason::undecided
                                                           : Reason::unsupported_operator;
    case FailureKind::unsupported_dtype:
      return subject.test->dtype.empty() && dtype_in(failure.message).empty()
                 ? Reason::undecided
                 : Reason::unsupported_dtype;
    case FailureKind::numerical_mismatch:
      return failure.mismatch && has_number(*failure.mismatch) ? Reason::numerical_mismatch
                                                               : Reason::undecided;
    case FailureKind::device_error:
      return Reason::device_error;
    case FailureKind::signal:
      return Reason::crash;
    case FailureKind::timeout:
      return Reason::timeout;
    case FailureKind::out_of_memory:
      return Reason::out_of_memory;
    case FailureKind::none:
    case FailureKind::assertion:
    case FailureKind::import_error:
    case FailureKind::other:
      return Reason::undecided;
  }
  return Reason::undecided;
}

std::string verdict_text(const Sighting& sighting) {
  if (sighting.verdict == Verdict::passed) return "passed";
  std::string text{sighting.verdict == Verdict::flaky ? "failed, then passed when tried again"
                                                      : base::to_string(sighting.failure->outcome)};
  if (!sighting.failure->fingerprint.empty())
    text += fmt::format(", fingerprint {}", sighting.failure->fingerprint);
  return text;
}

// One a run, newest first.
class EvidenceList {
 public:
  void add(const Sighting& sighting) {
    const auto same = std::find_if(all_.begin(), all_.end(),
                                   [&](const Sighting* one) { return one->run == sighting.run; });
    if (same == all_.end()) all_.push_back(&sighting);
  }
  [[nodiscard]] std::vector<config::Evidence> list(std::size_t most) {
    std::sort(all_.begin(), all_.end(),
              [](const Sighting* a, const Sighting* b) { return before(*b->run, *a->run); });
    std::vector<config::Evidence> evidence;
    for (const Sighting* one : all_) {
      if (evidence.size() == most) break;
      evidence.push_back({"run", fmt::format("{}: {}", reference(*one->run), verdict_text(*one))});
    }
    return evidence;
  }

 private:
  std::vector<const Sighting*> all_;
};

// "since torch 2.13.0 -> 2.14.0"; of one that no run saw pass, the oldest run that saw it.
std::string since(const Standing& standing) {
  const Run& first = *standing.since->run;
  if (!standing.last_good)
    return fmt::format("in every run that saw it, since {}", reference(first));
  const std::string changed = difference(standing.last_good->run->combination, first.combination);
  if (changed.empty()) return fmt::format("since {}, where nothing else changed", reference(first));
  return fmt::format("since {} ({})", changed, reference(first));
}

void add_mismatch(const Failure& failure, config::Rationale& rationale) {
  const auto add = [&](std::string_view key, const std::optional<double>& value) {
    if (value && std::isfinite(*value))
      rationale.mismatch.emplace_back(key, fmt::format("{}", *value));
  };
  add("absolute", failure.mismatch->absolute);
  add("relative", failure.mismatch->relative);
  add("absolute_tolerance", failure.mismatch->absolute_tolerance);
  add("relative_tolerance", failure.mismatch->relative_tolerance);
}

Explained explain_pass(std::span<const Subject* const> subjects, const Options& options,
                       Explained explained) {
  EvidenceList evidence;
  std::size_t least = subjects.front()->standing.passes;
  for (const Subject* subject : subjects) {
    least = std::min(least, subject->standing.passes);
    const std::size_t shown = std::min(options.passes, subject->standing.passes);
    for (std::size_t i = 0; i < shown; ++i) evidence.add(subject->sightings[i]);
  }
  explained.rationale.reason = Reason::passed_on_device;
  explained.rationale.evidence = evidence.list(std::max(k_most_evidence, options.passes));
  explained.why =
      fmt::format("passed {} {} in a row, up to {}", least, least == 1 ? "time" : "times",
                  reference(*subjects.front()->standing.newest->run));
  return explained;
}

Explained explain_flaky(std::span<const Subject* const> subjects, const Options& options,
                        Explained explained) {
  EvidenceList evidence;
  const std::vector<Sighting>& sightings = subjects.front()->sightings;
  std::size_t passes = 0;
  std::size_t seen = 0;
  for (const Sighting& sighting : sightings) {
    if (seen++ == options.window) break;
    passes += sighting.verdict == Verdict::passed ? 1 : 0;
    if (sighting.verdict == Verdict::flaky || seen == 1 ||
        sighting.verdict != sightings[seen - 2].verdict)
      evidence.add(sighting);
  }
  seen = std::min(seen, sightings.size());
  explained.rationale.reason = Reason::flaky;
  explained.rationale.evidence = evidence.list(k_most_evidence);
  explained.rationale.text =
      fmt::format("passed in {} of the last {} runs", passes, std::min(seen, options.window));
  explained.why = "flaky: " + explained.rationale.text;
  return explained;
}

Explained explain_failure(std::span<const Subject* const> subjects, Explained explained) {
  // The reason that most have; of several, the first in the list.
  std::map<Reason, std::vector<const Subject*>> by_reason;
  for (const Subject* subject : subjects) by_reason[reason_of(*subject)].push_back(subject);
  const auto& [reason, group] = *std::max_element(
      by_reason.begin(), by_reason.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const Subject& first = *group.front();
  const Failure& failure = *first.standing.newest->failure;
  config::Rationale& rationale = explained.rationale;
  rationale.reason = reason;
  EvidenceList evidence;
  std::set<std::string> operators;
  std::set<std::string> dtypes;
  const Failure* worst = nullptr;
  for (const Subject* subject : group) {
    const Failure& one = *subject->standing.newest->failure;
    evidence.add(*subject->standing.newest);
    if (reason == Reason::unsupported_operator) operators.insert(base::named_operator(one.message));
    if (reason == Reason::unsupported_dtype)
      dtypes.insert(subject->test->dtype.empty() ? dtype_in(one.message) : subject->test->dtype);
    if (reason == Reason::numerical_mismatch &&
        (!worst || one.mismatch->absolute.value_or(0) > worst->mismatch->absolute.value_or(0)))
      worst = &one;
  }
  for (const std::string& name : operators)
    if (rationale.operators.size() < k_most_operators) rationale.operators.push_back(name);
  rationale.dtypes.assign(dtypes.begin(), dtypes.end());
  if (worst) add_mismatch(*worst, rationale);
  rationale.evidence = evidence.list(k_most_evidence);
  const std::string message = headline(failure.message, k_headline);
  rationale.text = fmt::format("{} {}: {}", base::to_string(failure.outcome), since(first.standing),
                               message.empty() ? "no message" : message);
  explained.why = fmt::format("{}, {}", to_string(reason), rationale.text);
  if (group.size() < subjects.size())
    explained.why +=
        fmt::format(" (this reason for {} of {} tests)", group.size(), subjects.size());
  return explained;
}

}  // namespace

bool is_persons(const config::Rationale& rationale) {
  return rationale.decided_by == config::Decider::person || rationale.reason == Reason::person;
}
bool is_expired(const config::Rationale& rationale, std::string_view today) {
  return !rationale.expires.empty() && std::string_view{rationale.expires} < today;
}
bool is_about_scope(Reason reason) {
  return reason == Reason::not_for_this_device || reason == Reason::out_of_scope ||
         reason == Reason::superseded;
}

std::string headline(std::string_view text, std::size_t most) {
  std::string line = base::to_utf8(text.substr(0, text.find('\n')));
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  std::string cut = base::to_utf8(line, most);
  return cut.size() < line.size() ? cut + "…" : cut;
}

std::string reference(const Run& run) {
  return fmt::format("run {}, {}, torch {}", run.id,
                     base::to_rfc3339(std::chrono::floor<std::chrono::seconds>(run.started_at)),
                     torch_version(run.combination));
}

Explained explain_decision(std::span<const Subject* const> subjects, config::Mode mode,
                           const Options& options, std::string_view today) {
  Explained explained;
  explained.rationale.decided_by = config::Decider::rule;
  explained.rationale.decided_at = today;
  std::vector<const Subject*> failing;
  std::vector<const Subject*> flaky;
  std::vector<const Subject*> passing;
  for (const Subject* subject : subjects) {
    const Standing& standing = subject->standing;
    if (standing.flaky) {
      flaky.push_back(subject);
    } else if (standing.fails > 0) {
      failing.push_back(subject);
    } else if (standing.passes > 0) {
      passing.push_back(subject);
    }
  }
  if (mode == config::Mode::mandatory_success)
    return explain_pass(subjects, options, std::move(explained));
  if (!failing.empty() && failing.size() >= flaky.size())
    return explain_failure(failing, std::move(explained));
  if (!flaky.empty()) return explain_flaky(flaky, options, std::move(explained));
  explained.rationale.reason = Reason::undecided;
  explained.why = passing.empty() ? "no run has shown it"
                                  : fmt::format("passed {} of {} times in a row",
                                                passing.front()->standing.passes, options.passes);
  return explained;
}

}  // namespace crosscheck::reconcile
