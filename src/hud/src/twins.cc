#include "twins.h"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "text.h"

namespace crosscheck::hud {
namespace {

namespace json = boost::json;

json::value text_or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}
template <class T>
json::value or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}
json::value time_or_null(const std::optional<base::Time>& time) {
  return time ? json::value(base::to_rfc3339(*time)) : json::value(nullptr);
}
double in_seconds(base::Duration duration) { return static_cast<double>(duration.count()) / 1e6; }
json::value seconds_or_null(const std::optional<base::Duration>& duration) {
  return duration ? json::value(in_seconds(*duration)) : json::value(nullptr);
}
json::value to_json(const std::optional<Percentiles>& percentiles) {
  if (!percentiles) return nullptr;
  return json::object{{"p50_seconds", in_seconds(percentiles->p50)},
                      {"p95_seconds", in_seconds(percentiles->p95)},
                      {"n", percentiles->n}};
}
json::object to_object(const std::vector<std::pair<std::string, std::string>>& pairs) {
  json::object object;
  for (const auto& [name, value] : pairs) object[name] = value;
  return object;
}

}  // namespace

json::object twin_of(const base::OutcomeCounts& counts) {
  json::object object;
  for (const auto& outcome : outcomes())
    object[to_string(outcome.outcome)] = counts[outcome.outcome];
  object["flaky"] = counts.flaky();
  object["total"] = counts.total();
  object["failures"] = counts.failures();
  object["faults"] = counts.faults();
  return object;
}

json::object to_json(const Job& job) {
  return {{"id", job.id},
          {"page", "/job/" + std::to_string(job.id)},
          {"state", info(job.state).name},
          {"established",
           {{"backend", job.repo},
            {"level", job.level},
            {"device", text_or_null(job.device)},
            {"event", job.event_type},
            {"delivery_id", job.delivery_id},
            {"head_sha", text_or_null(job.head_sha)},
            {"pr_number", or_null(job.pr_number)},
            {"first_seen_at", base::to_rfc3339(job.first_seen_at)},
            {"started_at", time_or_null(job.started_at)},
            {"completed_at", time_or_null(job.completed_at)},
            {"queue_seconds", seconds_or_null(job.queue)},
            {"execution_seconds", seconds_or_null(job.execution)},
            {"concluded_by", text_or_null(job.concluded_by)},
            {"conclusion", text_or_null(job.relay_conclusion())},
            {"completed_without_start", job.completed_first}}},
          {"word",
           {{"workflow", job.workflow},
            {"job_name", job.job_name},
            {"run_id", job.run_id},
            {"run_attempt", job.run_attempt},
            {"conclusion", text_or_null(job.word_conclusion())},
            {"url", text_or_null(job.url)},
            {"passed", or_null(job.word_passed)},
            {"failed", or_null(job.word_failed)},
            {"skipped", or_null(job.word_skipped)}}},
          {"results",
           {{"digest", text_or_null(job.results_digest)},
            {"counts", job.counts ? json::value(twin_of(*job.counts)) : json::value(nullptr)}}}};
}

json::object to_json(const LatestJob& latest) {
  auto object = to_json(latest.job);
  object["attempts"] = latest.attempts();
  json::array earlier;
  for (const auto& job : latest.earlier) {
    earlier.push_back(json::object{{"id", job.id},
                                   {"page", "/job/" + std::to_string(job.id)},
                                   {"state", info(job.state).name}});
  }
  object["earlier"] = std::move(earlier);
  return object;
}

json::object to_json(const BackendSummary& summary) {
  json::array oncalls;
  for (const auto& oncall : summary.backend.oncalls) oncalls.emplace_back(oncall);
  json::array recent;
  for (const auto& latest : summary.recent) {
    recent.push_back(json::object{{"id", latest.job.id}, {"state", info(latest.job.state).name}});
  }
  json::value failing = nullptr;
  if (summary.failing) {
    failing = json::object{{"at", base::to_rfc3339(summary.failing->at)},
                           {"job", summary.failing->job_id},
                           {"head_sha", text_or_null(summary.failing->head_sha)},
                           {"commits", summary.failing->commits}};
  }
  json::object rate{{"passed", summary.rate.passed}, {"counted", summary.rate.counted}};
  rate["percent"] = summary.rate.counted == 0
                        ? json::value(nullptr)
                        : json::value(percent(summary.rate.passed, summary.rate.counted));
  return {{"backend", summary.backend.repo},
          {"page", "/b/" + summary.backend.repo},
          {"level", summary.backend.level},
          {"device", text_or_null(summary.backend.device)},
          {"oncalls", std::move(oncalls)},
          {"listed", summary.backend.listed},
          {"listed_since", base::to_rfc3339(summary.backend.since)},
          {"state", info(summary.state).name},
          {"freshness", to_string(summary.freshness)},
          {"last_report_at", time_or_null(summary.last_report)},
          {"pass_rate", std::move(rate)},
          {"failing_since", std::move(failing)},
          {"queue", to_json(summary.queue)},
          {"end_to_end", to_json(summary.end_to_end)},
          {"window_cut", summary.window_cut},
          {"recent", std::move(recent)}};
}

json::object to_json(const Delivery& delivery) {
  return {{"delivery_id", delivery.delivery_id},
          {"event", delivery.event_type},
          {"action", text_or_null(delivery.action)},
          {"pr_number", or_null(delivery.pr_number)},
          {"title", text_or_null(delivery.pr_title)},
          {"head_sha", text_or_null(delivery.head_sha)},
          {"head_ref", text_or_null(delivery.head_ref)},
          {"base_ref", text_or_null(delivery.base_ref)},
          {"ref", text_or_null(delivery.git_ref)},
          {"sender", text_or_null(delivery.sender)},
          {"received_at", base::to_rfc3339(delivery.received_at)}};
}

json::object to_json(const Dispatch& dispatch) {
  return {{"state", info(dispatch.state).name},
          {"attempts", dispatch.attempts},
          {"uncertain", dispatch.uncertain},
          {"last_error", text_or_null(dispatch.last_error)},
          {"created_at", base::to_rfc3339(dispatch.created_at)},
          {"sent_at", time_or_null(dispatch.sent_at)}};
}

json::object to_json(const Change& change) {
  json::array deliveries;
  for (const auto& delivery : change.deliveries) deliveries.push_back(to_json(delivery));
  json::array backends;
  for (const auto& backend : change.backends) {
    json::array jobs;
    for (const auto& latest : backend.jobs) jobs.push_back(to_json(latest));
    backends.push_back(
        json::object{{"backend", backend.repo},
                     {"level", backend.level},
                     {"device", text_or_null(backend.device)},
                     {"verdict", to_string(backend.verdict)},
                     {"can_block", backend.can_block},
                     {"blocks", backend.can_block && backend.verdict == Verdict::failed},
                     {"dispatch", backend.dispatch ? json::value(to_json(*backend.dispatch))
                                                   : json::value(nullptr)},
                     {"jobs", std::move(jobs)}});
  }
  const auto summary = summarise(change.backends);
  return {{"head_sha", text_or_null(change.head_sha)},
          {"at", base::to_rfc3339(change.at)},
          {"verdict", to_string(summary.verdict)},
          {"blocks", summary.blocks},
          {"sentence", summary.sentence},
          {"deliveries", std::move(deliveries)},
          {"backends", std::move(backends)}};
}

json::object brief_json(const Change& change) {
  const auto summary = summarise(change.backends);
  json::array backends;
  for (const auto& backend : change.backends) {
    backends.push_back(
        json::object{{"backend", backend.repo},
                     {"verdict", to_string(backend.verdict)},
                     {"dispatch", backend.dispatch ? json::value(to_json(*backend.dispatch))
                                                   : json::value(nullptr)}});
  }
  return {{"head_sha", text_or_null(change.head_sha)},
          {"at", base::to_rfc3339(change.at)},
          {"verdict", to_string(summary.verdict)},
          {"blocks", summary.blocks},
          {"sentence", summary.sentence},
          {"delivery", change.deliveries.empty() ? json::value(nullptr)
                                                 : json::value(to_json(change.deliveries.front()))},
          {"backends", std::move(backends)}};
}

json::object to_json(const Grid& grid) {
  json::array columns;
  for (const auto& column : grid.columns) {
    columns.push_back(json::object{{"workflow", column.workflow}, {"name", column.name}});
  }
  json::array rows;
  for (const auto& row : grid.rows) {
    json::array cells;
    for (const auto& cell : row.cells) {
      if (!cell) {
        cells.emplace_back(nullptr);
        continue;
      }
      cells.push_back(json::object{{"state", info(cell->state).name},
                                   {"job", cell->job_id},
                                   {"jobs", cell->jobs},
                                   {"attempts", cell->attempts}});
    }
    auto change = brief_json(row.change);
    change["cells"] = std::move(cells);
    rows.push_back(std::move(change));
  }
  return {{"commits", grid.commits}, {"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

json::object to_json(const JobPage& page) {
  auto object = to_json(page.job);
  object["delivery"] = page.delivery ? json::value(to_json(*page.delivery)) : json::value(nullptr);
  object["dispatch"] = page.dispatch ? json::value(to_json(*page.dispatch)) : json::value(nullptr);
  json::array check_runs;
  for (const auto& check : page.check_runs)
    check_runs.push_back(json::object{{"status", check.status},
                                      {"state", check.state},
                                      {"reason", text_or_null(check.reason)},
                                      {"at", base::to_rfc3339(check.at)}});
  object["check_runs"] = std::move(check_runs);
  json::array attempts;
  for (const auto& job : page.attempts) attempts.push_back(to_json(job));
  object["attempts"] = std::move(attempts);
  object["error"] = text_or_null(error_line(page));
  object["contradiction"] = text_or_null(contradiction(page));
  object["run"] = nullptr;
  if (page.run) {
    const auto& run = *page.run;
    json::array command;
    for (const auto& argument : run.command) command.emplace_back(argument);
    auto combination = base::to_json(run.combination);
    combination["digest"] = run.combination.digest();
    object["run"] = {{"run_id", run.run_key},
                     {"combination", std::move(combination)},
                     {"command", std::move(command)},
                     {"command_line", shell_line(run.command)},
                     {"selection", run.selection},
                     {"environment", to_object(run.environment)},
                     {"started_at", base::to_rfc3339(run.started_at)},
                     {"finished_at", time_or_null(run.finished_at)},
                     {"counts", twin_of(run.counts)}};
  }
  json::array clusters;
  for (const auto& cluster : page.clusters) {
    clusters.push_back(json::object{{"kind", to_string(cluster.kind)},
                                    {"fingerprint", cluster.fingerprint},
                                    {"tests", cluster.tests},
                                    {"line", cluster.line}});
  }
  object["errors"] = std::move(clusters);
  json::array tests;
  for (const auto& test : page.tests) {
    json::value mismatch = nullptr;
    if (test.mismatch) {
      auto numbers = base::to_json(*test.mismatch);
      for (const auto* name :
           {"absolute", "relative", "absolute_tolerance", "relative_tolerance"}) {
        numbers.emplace(name, nullptr);
      }
      mismatch = std::move(numbers);
    }
    tests.push_back(json::object{{"node_id", test.node_id},
                                 {"file", test.file},
                                 {"class", test.class_name},
                                 {"method", test.method},
                                 {"variant", to_object(test.variant)},
                                 {"attempt", test.attempt},
                                 {"outcome", to_string(test.outcome)},
                                 {"kind", to_string(test.kind)},
                                 {"fingerprint", text_or_null(test.fingerprint)},
                                 {"message", test.message},
                                 {"detail", test.detail},
                                 {"mismatch", std::move(mismatch)},
                                 {"seconds", in_seconds(test.duration)}});
  }
  object["filter"] = {{"outcome", page.filter.outcome_name()},
                      {"q", page.filter.q},
                      {"page", page.filter.page},
                      {"more", page.more_tests}};
  object["tests"] = std::move(tests);
  object["commit_verified"] = page.commit == CommitState::verified;
  object["commit_missing"] = page.commit == CommitState::missing;
  object["word_triage_verdict"] = nullptr;
  if (const auto& verdict = page.advice.verdict) {
    json::array evidence;
    for (const auto& one : verdict->evidence)
      evidence.push_back(json::object{{"job", one.job},
                                      {"test", one.test},
                                      {"excerpt", one.excerpt},
                                      {"log_url", text_or_null(one.url)}});
    object["word_triage_verdict"] = {
        {"category", verdict->category},
        {"confidence", text_or_null(verdict->confidence)},
        {"summary", text_or_null(verdict->summary)},
        {"suspected_pr",
         verdict->suspected_pr ? json::value(*verdict->suspected_pr) : json::value(nullptr)},
        {"suspected_commit", text_or_null(verdict->suspected_commit)},
        {"reason", text_or_null(verdict->reason)},
        {"evidence", std::move(evidence)}};
  }
  json::array word_tests;
  for (const auto& test : page.advice.failed_tests)
    word_tests.push_back(json::object{{"name", test.name},
                                      {"class", test.class_name},
                                      {"message", test.message},
                                      {"stacktrace", test.stacktrace}});
  object["word_failed_tests"] = std::move(word_tests);
  object["word_body"] = text_or_null(page.word_body);
  object["word_combination"] = text_or_null(page.word_combination);
  return object;
}

}  // namespace crosscheck::hud
