#include "crosscheck/reconcile/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace crosscheck::reconcile {
namespace {

using base::Outcome;

// Whether an attempt says that the device does what the test asks; nothing: it says neither.
std::optional<bool> evidence(Outcome outcome) {
  if (outcome == Outcome::passed || outcome == Outcome::xpassed) return true;
  if (base::is_failure(outcome)) return false;
  return std::nullopt;
}

}  // namespace

Outcome observed(const base::TestResult& result) {
  return result.governed ? result.governed->observed : result.outcome;
}

Run run_of(const base::RunHeader& header) {
  Run run{header.run_id, header.combination, header.started_at, {}};
  for (const auto& [name, value] : header.environment)
    if (name == "machine") run.machine = value;
  return run;
}

bool before(const Run& a, const Run& b) {
  return std::tie(a.started_at, a.id) < std::tie(b.started_at, b.id);
}

std::string_view torch_version(const base::Combination& combination) {
  const std::string_view revision = combination.core_revision;
  return revision.substr(0, revision.find(' '));
}

config::Circumstances circumstances(const Run& run) {
  config::Circumstances where;
  if (!run.machine.empty()) where.platform = run.machine;
  if (const auto version = config::parse_version(torch_version(run.combination)))
    where.torch = *version;
  // "type: model", or the type alone.
  const std::string& device = run.combination.device;
  const auto colon = device.find(": ");
  where.devices.push_back(device.substr(0, colon));
  if (colon != std::string::npos) where.devices.push_back(device.substr(colon + 2));
  return where;
}

std::string difference(const base::Combination& before, const base::Combination& after) {
  std::string text;
  for (const auto& [what, a, b] :
       {std::tuple{"torch", &before.core_revision, &after.core_revision},
        std::tuple{"backend", &before.backend_revision, &after.backend_revision},
        std::tuple{"tests", &before.suite_revision, &after.suite_revision},
        std::tuple{"device", &before.device, &after.device},
        std::tuple{"environment", &before.environment_digest, &after.environment_digest}}) {
    if (*a == *b) continue;
    constexpr std::size_t k_shown = 40;
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", what, a->substr(0, k_shown),
                        b->substr(0, k_shown));
  }
  return text;
}

std::size_t History::Hash::operator()(const base::TestId& id) const {
  std::size_t hash = 0;
  for (const std::string* part : {&id.file, &id.class_name, &id.method, &id.variant})
    hash = hash * 31 + std::hash<std::string>{}(*part);
  return hash;
}

void History::add(const base::RunHeader& header, std::span<const base::TestResult> results) {
  Run run = run_of(header);
  std::uint32_t number = 0;
  while (number < runs_.size() && *runs_[number] != run) ++number;
  if (number == runs_.size()) runs_.push_back(std::make_unique<const Run>(std::move(run)));

  for (const base::TestResult& result : results) {
    Seen& seen = tests_[result.id];
    if (seen.node.empty() || before(*runs_[seen.node_run], *runs_[number])) {
      seen.node = result.node_id;
      seen.node_run = number;
    }
    const Outcome outcome = observed(result);
    const auto says = evidence(outcome);
    if (!says) continue;
    Attempt attempt{number, result.attempt, *says, 0};
    if (!*says) {
      attempt.failure = static_cast<std::uint32_t>(failures_.size());
      failures_.push_back(std::make_unique<const Failure>(
          Failure{outcome, result.kind, result.fingerprint, result.message, result.mismatch}));
    }
    seen.attempts.push_back(attempt);
  }
}

std::vector<const Run*> History::runs() const {
  std::vector<const Run*> all;
  all.reserve(runs_.size());
  for (const auto& run : runs_) all.push_back(run.get());
  std::sort(all.begin(), all.end(), [](const Run* a, const Run* b) { return before(*b, *a); });
  return all;
}

std::vector<Sighting> History::of(const base::TestId& test, const Counts* counts) const {
  std::vector<Sighting> sightings;
  const auto found = tests_.find(test);
  if (found == tests_.end()) return sightings;
  std::vector<Attempt> attempts = found->second.attempts;
  const auto newer = [&](const Attempt& a, const Attempt& b) {
    if (a.run != b.run) return before(*runs_[b.run], *runs_[a.run]);
    return a.number > b.number;
  };
  std::stable_sort(attempts.begin(), attempts.end(), newer);
  for (const Attempt& attempt : attempts) {
    const Run* run = runs_[attempt.run].get();
    if (counts && !counts->at(run)) continue;
    const auto verdict = attempt.passed ? Sighting::Verdict::passed : Sighting::Verdict::failed;
    if (sightings.empty() || sightings.back().run != run) {
      sightings.push_back({run, verdict, nullptr});
    } else if (sightings.back().verdict != verdict) {
      sightings.back().verdict = Sighting::Verdict::flaky;
    }
    if (!attempt.passed && !sightings.back().failure)
      sightings.back().failure = failures_[attempt.failure].get();
  }
  return sightings;
}

std::vector<History::Known> History::tests() const {
  std::vector<Known> all;
  all.reserve(tests_.size());
  for (const auto& [id, seen] : tests_) all.push_back({id, seen.node});
  std::sort(all.begin(), all.end(), [](const Known& a, const Known& b) { return a.id < b.id; });
  return all;
}

Standing standing(std::span<const Sighting> sightings, std::size_t window) {
  using Verdict = Sighting::Verdict;
  Standing now;
  if (sightings.empty()) return now;
  now.newest = &sightings.front();
  if (now.newest->verdict == Verdict::passed) {
    while (now.passes < sightings.size() && sightings[now.passes].verdict == Verdict::passed)
      ++now.passes;
  } else if (now.newest->verdict == Verdict::failed) {
    while (now.fails < sightings.size() && sightings[now.fails].verdict == Verdict::failed)
      ++now.fails;
    now.since = &sightings[now.fails - 1];
    if (now.fails < sightings.size()) now.last_good = &sightings[now.fails];
  }
  struct Changes {
    const base::Combination* combination;
    Verdict last;
    int changes = 0;
  };
  std::vector<Changes> of_combinations;
  for (const Sighting& sighting : sightings.first(std::min(window, sightings.size()))) {
    if (sighting.verdict == Verdict::flaky) {
      now.flaky = true;
      break;
    }
    const base::Combination& combination = sighting.run->combination;
    const auto same =
        std::find_if(of_combinations.begin(), of_combinations.end(),
                     [&](const Changes& one) { return *one.combination == combination; });
    if (same == of_combinations.end()) {
      of_combinations.push_back({&combination, sighting.verdict});
    } else if (same->last != sighting.verdict) {
      same->last = sighting.verdict;
      now.flaky = now.flaky || ++same->changes > 1;
    }
  }
  return now;
}

}  // namespace crosscheck::reconcile
