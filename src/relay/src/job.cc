#include "crosscheck/relay/job.h"

#include <algorithm>

namespace crosscheck::relay {
namespace {

using base::Duration;
using base::Time;

// Never negative: the clock may have been set back in between.
Duration between(Time from, Time to) { return std::max(to - from, Duration{0}); }

Job complete(Job job, const std::optional<std::string>& conclusion, ConcludedBy by, Time now) {
  job.state = JobState::completed;
  job.conclusion = conclusion;
  job.concluded_by = by;
  job.completed_at = now;
  if (job.started_at) job.execution = between(*job.started_at, now);
  return job;
}

}  // namespace

std::string_view to_string(JobState state) {
  return state == JobState::in_progress ? "in_progress" : "completed";
}

std::optional<JobState> parse_job_state(std::string_view name) {
  if (name == "in_progress") return JobState::in_progress;
  if (name == "completed") return JobState::completed;
  return std::nullopt;
}

std::string_view to_string(ConcludedBy by) {
  return by == ConcludedBy::downstream ? "downstream" : "relay";
}

std::optional<ConcludedBy> parse_concluded_by(std::string_view name) {
  if (name == "downstream") return ConcludedBy::downstream;
  if (name == "relay") return ConcludedBy::relay;
  return std::nullopt;
}

std::string_view to_string(Effect effect) {
  switch (effect) {
    case Effect::advanced:
      return "advanced";
    case Effect::duplicate:
      return "duplicate";
    case Effect::late:
      return "late";
    case Effect::replaced:
      return "replaced";
  }
  return "";
}

std::string_view to_string(Refusal refusal) {
  switch (refusal) {
    case Refusal::contradicts_earlier_report:
      return "contradicts_earlier_report";
    case Refusal::nothing_to_expire:
      return "nothing_to_expire";
  }
  return "";
}

base::Result<Transition, Refusal> advance(const std::optional<Job>& job, const Report& report,
                                          std::optional<Time> dispatched_at, Time now) {
  if (!job) {
    Job first;
    switch (report.kind) {
      case ReportKind::started:
        first.started_at = now;
        if (dispatched_at) first.queue = between(*dispatched_at, now);
        return Transition{first, Effect::advanced};
      case ReportKind::finished:
        first.completed_first = true;
        return Transition{complete(first, report.conclusion, ConcludedBy::downstream, now),
                          Effect::advanced};
      case ReportKind::expired:
        return tl::unexpected(Refusal::nothing_to_expire);
    }
  }
  if (job->state == JobState::in_progress) {
    switch (report.kind) {
      case ReportKind::started:
        return Transition{*job, Effect::duplicate};
      case ReportKind::finished:
        return Transition{complete(*job, report.conclusion, ConcludedBy::downstream, now),
                          Effect::advanced};
      case ReportKind::expired:
        return Transition{
            complete(*job, report.conclusion.value_or("timed_out"), ConcludedBy::relay, now),
            Effect::advanced};
    }
  }
  switch (report.kind) {
    case ReportKind::started:
      return Transition{*job, Effect::late};
    case ReportKind::expired:
      return Transition{*job, Effect::late};
    case ReportKind::finished:
      break;
  }
  if (job->concluded_by == ConcludedBy::relay)
    return Transition{complete(*job, report.conclusion, ConcludedBy::downstream, now),
                      Effect::replaced};
  if (job->conclusion == report.conclusion) return Transition{*job, Effect::duplicate};
  return tl::unexpected(Refusal::contradicts_earlier_report);
}

}  // namespace crosscheck::relay
