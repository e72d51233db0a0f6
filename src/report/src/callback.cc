#include "crosscheck/report/report.h"

namespace crosscheck::report {
namespace {

using base::json::object;
using base::json::value;

object combination_json(const base::Combination& c) {
  auto json = base::to_json(c);
  json["digest"] = c.digest();
  return json;
}

value text_or_null(const std::optional<std::string>& text) {
  return text ? value(*text) : value(nullptr);
}

}  // namespace

std::string conclude(const base::RunResults& results) {
  return !results.results.empty() && results.ok() ? "success" : "failure";
}

object callback_body(const JobContext& job, base::Time now,
                     const std::optional<Completion>& completion) {
  // Seconds, as the callback action of PyTorch's relay sends.
  const auto stamp = base::to_rfc3339(std::chrono::floor<std::chrono::seconds>(now));
  object workflow{{"schema_version", "1"},
                  {"status", completion ? "completed" : "in_progress"},
                  {"conclusion", completion ? value(completion->conclusion) : value(nullptr)},
                  {"name", job.workflow},
                  {"url", job.url},
                  {"run_id", job.run_id},
                  {"run_attempt", job.run_attempt},
                  {"job_name", job.job},
                  {"check_run_id", text_or_null(job.check_run_id)},
                  {"started_at", completion ? value(nullptr) : value(stamp)},
                  {"completed_at", completion ? value(stamp) : value(nullptr)}};
  if (completion) {
    workflow["artifact_url"] = text_or_null(completion->artifact_url);
    if (const auto& results = completion->results) {
      workflow["started_at"] =
          base::to_rfc3339(std::chrono::floor<std::chrono::seconds>(results->header.started_at));
      const auto counts = results->counts();
      // The wire knows three numbers: what went as expected, what must be looked at, what did not
      // run.
      workflow["test_results"] =
          object{{"passed", counts.passes()},
                 {"failed", counts.failures() + counts.faults()},
                 {"skipped", counts[base::Outcome::skipped] + counts[base::Outcome::not_run]}};
      object crosscheck{{"schema", base::RunHeader::k_schema},
                        {"combination", combination_json(results->header.combination)}};
      if (completion->results_digest) crosscheck["results_digest"] = *completion->results_digest;
      workflow["crosscheck"] = std::move(crosscheck);
    }
  }
  return {{"event_type", job.event_type},
          {"delivery_id", job.delivery_id},
          {"payload", job.payload},
          {"workflow", std::move(workflow)}};
}

std::string_view to_string(Answer answer) {
  switch (answer) {
    case Answer::accepted:
      return "accepted";
    case Answer::duplicate:
      return "duplicate";
    case Answer::ignored:
      return "ignored";
  }
  return "accepted";
}

}  // namespace crosscheck::report
