#include "readiness.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "crosscheck/store/store.h"
#include "queries.h"
#include "text.h"

namespace crosscheck::hud {
namespace {

namespace json = boost::json;
using base::Result;

static_assert(k_promotion_window == k_window, "the same rows make the same numbers on every page");

constexpr std::string_view k_nothing = "–";

double in_seconds(base::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
std::int64_t days_of(base::Duration duration) {
  return std::chrono::floor<std::chrono::days>(duration).count();
}

// `met` counts when there are enough samples.
Readiness judge(std::int64_t samples, std::int64_t least, bool met) {
  if (samples < std::max<std::int64_t>(least, 1)) return Readiness::insufficient_data;
  return met ? Readiness::met : Readiness::not_met;
}

Criterion tenure(const Backend& backend, const ReadinessTargets& targets, base::Time now) {
  const auto days = backend.listed ? std::max<std::int64_t>(days_of(now - backend.since), 0) : 0;
  return {.name = "tenure",
          .label = "Time at its level",
          .definition = "tenure",
          .measured = static_cast<double>(days),
          .measured_text = count_of(days, "day"),
          .target = static_cast<double>(targets.tenure_days),
          .target_text = fmt::format("≥ {}", count_of(targets.tenure_days, "day")),
          .samples = std::nullopt,
          .verdict = days >= targets.tenure_days ? Readiness::met : Readiness::not_met};
}

Criterion median(std::string name, std::string label, std::string definition,
                 const std::optional<Percentiles>& measured, std::int64_t target_minutes,
                 std::int64_t least) {
  const base::Duration target = std::chrono::minutes{target_minutes};
  Criterion criterion{.name = std::move(name),
                      .label = std::move(label),
                      .definition = std::move(definition),
                      .measured = std::nullopt,
                      .measured_text = std::string{k_nothing},
                      .target = in_seconds(target),
                      .target_text = "< " + base::to_human(target),
                      .samples = measured ? measured->n : 0,
                      .verdict = Readiness::insufficient_data};
  if (!measured) return criterion;
  criterion.measured = in_seconds(measured->p50);
  criterion.measured_text = seconds(measured->p50);
  criterion.verdict = judge(measured->n, least, measured->p50 < target);
  return criterion;
}

// `part` of `whole` jobs.
Criterion share(std::string name, std::string label, std::string definition, std::int64_t part,
                std::int64_t whole, std::int64_t target_percent, bool at_least,
                std::int64_t least) {
  const bool met =
      at_least ? part * 100 >= target_percent * whole : part * 100 < target_percent * whole;
  Criterion criterion{.name = std::move(name),
                      .label = std::move(label),
                      .definition = std::move(definition),
                      .measured = std::nullopt,
                      .measured_text = std::string{k_nothing},
                      .target = static_cast<double>(target_percent),
                      .target_text = fmt::format("{} {} %", at_least ? "≥" : "<", target_percent),
                      .samples = whole,
                      .verdict = judge(whole, least, met)};
  if (whole == 0) return criterion;
  criterion.measured = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  criterion.measured_text = fmt::format("{} % ({}/{})", percent(part, whole), part, whole);
  return criterion;
}

Assessment assess_window(const Backend& backend, std::vector<Job> jobs, base::Duration window,
                         const ReadinessTargets& targets, base::Time now) {
  const BackendSummary times = summarise(backend, jobs, std::nullopt, now);
  const auto latest = latest_attempts(std::move(jobs));
  const auto timed_out = std::ranges::count_if(
      latest, [](const LatestJob& job) { return job.job.state == State::timed_out; });
  const std::int64_t least = targets.least_samples;
  return {.window = window,
          .verdict = Readiness::met,
          .criteria = {median("queue_p50", "Queue time, median", "queue", times.queue,
                              targets.queue_minutes, least),
                       median("end_to_end_p50", "End to end, median", "end-to-end",
                              times.end_to_end, targets.end_to_end_minutes, least),
                       share("time_outs", "Timed out", "time-outs", timed_out, times.rate.counted,
                             targets.time_out_percent, false, least),
                       share("pass_rate", "Pass rate", "pass-rate", times.rate.passed,
                             times.rate.counted, targets.pass_percent, true, least)}};
}

void conclude(Assessment& assessment) {
  const auto has = [&](Readiness verdict) {
    return std::ranges::count(assessment.criteria, verdict, &Criterion::verdict) > 0;
  };
  assessment.verdict = has(Readiness::not_met)             ? Readiness::not_met
                       : has(Readiness::insufficient_data) ? Readiness::insufficient_data
                                                           : Readiness::met;
}

json::object to_json(const Assessment& assessment) {
  json::array criteria;
  for (const Criterion& c : assessment.criteria) {
    criteria.push_back(
        json::object{{"name", c.name},
                     {"verdict", to_string(c.verdict)},
                     {"measured", c.measured ? json::value(*c.measured) : json::value(nullptr)},
                     {"measured_text", c.measured_text},
                     {"target", c.target},
                     {"target_text", c.target_text},
                     {"samples", c.samples ? json::value(*c.samples) : json::value(nullptr)}});
  }
  return {{"verdict", to_string(assessment.verdict)},
          {"window_days", days_of(assessment.window)},
          {"criteria", std::move(criteria)}};
}

json::object state_of_page(Readiness readiness) {
  switch (readiness) {
    case Readiness::met:
      return {{"name", "passed"}, {"label", "met"}, {"glyph", info(State::passed).glyph}};
    case Readiness::not_met:
      return {{"name", "failed"}, {"label", "not met"}, {"glyph", info(State::failed).glyph}};
    case Readiness::insufficient_data:
      break;
  }
  return {{"name", "no_data"}, {"label", "insufficient data"}, {"glyph", "?"}};
}

json::object assessment_of_page(const Assessment& assessment) {
  json::array criteria;
  for (const Criterion& c : assessment.criteria) {
    criteria.push_back(json::object{{"label", c.label},
                                    {"definition", c.definition},
                                    {"measured", c.measured_text},
                                    {"target", c.target_text},
                                    {"samples", c.samples ? json::value(std::to_string(*c.samples))
                                                          : json::value(std::string{k_nothing})},
                                    {"state", state_of_page(c.verdict)}});
  }
  return {{"days", days_of(assessment.window)},
          {"state", state_of_page(assessment.verdict)},
          {"criteria", std::move(criteria)}};
}

std::string sentence_of(const BackendReadiness& readiness) {
  if (!readiness.listed) return "It is no longer on the allowlist.";
  if (readiness.to_be_demoted())
    return fmt::format("It does not keep up with {} over the last {} days.", readiness.level,
                       days_of(k_demotion_window));
  switch (readiness.promotion.verdict) {
    case Readiness::met:
      return "Every criterion for L3 and L4 is met.";
    case Readiness::not_met:
      return "Not every criterion for L3 and L4 is met.";
    case Readiness::insufficient_data:
      break;
  }
  return "There is not enough data yet to say.";
}

}  // namespace

std::string_view to_string(Readiness readiness) {
  switch (readiness) {
    case Readiness::met:
      return "met";
    case Readiness::not_met:
      return "not_met";
    case Readiness::insufficient_data:
      return "insufficient_data";
  }
  return "";
}

bool BackendReadiness::to_be_demoted() const {
  return (level == "L3" || level == "L4") && stay.verdict == Readiness::not_met;
}

BackendReadiness assess(const Backend& backend, const std::vector<Job>& window,
                        const ReadinessTargets& targets, base::Time now) {
  BackendReadiness readiness{
      .repo = backend.repo,
      .level = backend.level,
      .device = backend.device,
      .listed = backend.listed,
      .promotion = {},
      .stay = {},
      .window_cut = static_cast<std::int64_t>(window.size()) >= k_window_attempts,
      .newest_at = std::nullopt};
  std::vector<Job> last_days;
  for (const Job& job : window) {
    readiness.newest_at = std::max(readiness.newest_at.value_or(base::Time{}), job.newest_at());
    if (job.first_seen_at > now - k_demotion_window) last_days.push_back(job);
  }
  readiness.promotion = assess_window(backend, window, k_promotion_window, targets, now);
  auto& criteria = readiness.promotion.criteria;
  criteria.insert(criteria.begin(), tenure(backend, targets, now));
  conclude(readiness.promotion);
  readiness.stay = assess_window(backend, std::move(last_days), k_demotion_window, targets, now);
  conclude(readiness.stay);
  return readiness;
}

json::object to_json(const BackendReadiness& readiness) {
  return {
      {"backend", readiness.repo},
      {"page", "/b/" + readiness.repo + "/readiness"},
      {"level", readiness.level},
      {"device", readiness.device.empty() ? json::value(nullptr) : json::value(readiness.device)},
      {"listed", readiness.listed},
      {"promotion", to_json(readiness.promotion)},
      {"stay", to_json(readiness.stay)},
      {"to_be_demoted", readiness.to_be_demoted()},
      {"window_cut", readiness.window_cut},
      {"newest_report_at", readiness.newest_at ? json::value(base::to_rfc3339(*readiness.newest_at))
                                               : json::value(nullptr)}};
}

Page readiness_page(const BackendReadiness& readiness, const PageContext& /*context*/) {
  Page page{.title = "Readiness of " + readiness.repo,
            .name = "readiness",
            .twin = to_json(readiness),
            .newest_at = readiness.newest_at};
  page.context = {{"repo", readiness.repo},
                  {"level", readiness.level},
                  {"sentence", sentence_of(readiness)},
                  {"bad", readiness.to_be_demoted()},
                  {"window_cut", readiness.window_cut},
                  {"attempts", k_window_attempts},
                  {"promotion", assessment_of_page(readiness.promotion)},
                  {"stay", assessment_of_page(readiness.stay)}};
  return page;
}

Result<std::vector<BackendReadiness>> read_readiness(store::Store& store,
                                                     const ReadinessTargets& targets,
                                                     base::Time now) {
  return store.read_value([&](store::Tx& tx) -> Result<std::vector<BackendReadiness>> {
    Queries queries{tx};
    const auto backends = queries.backends();
    if (!backends) return tl::unexpected(backends.error());
    std::vector<BackendReadiness> all;
    for (const Backend& backend : *backends) {
      if (!backend.listed || !collects_results(backend.level)) continue;
      const auto window = queries.window(backend.repo_key, now);
      if (!window) return tl::unexpected(window.error());
      all.push_back(assess(backend, *window, targets, now));
    }
    return all;
  });
}

}  // namespace crosscheck::hud
