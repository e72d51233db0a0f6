#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"

namespace crosscheck::relay {

enum class JobState : std::uint8_t { in_progress, completed };
[[nodiscard]] std::string_view to_string(JobState state);
[[nodiscard]] std::optional<JobState> parse_job_state(std::string_view name);

enum class ConcludedBy : std::uint8_t { downstream, relay };
[[nodiscard]] std::string_view to_string(ConcludedBy by);
[[nodiscard]] std::optional<ConcludedBy> parse_concluded_by(std::string_view name);

// Where a downstream job stands, by the relay's clock.
struct Job {
  JobState state = JobState::in_progress;
  std::optional<std::string> conclusion;  // as reported, or the relay's own (see `concluded_by`)
  std::optional<ConcludedBy> concluded_by;
  bool completed_first = false;  // no in_progress came before
  std::optional<base::Time> started_at;
  std::optional<base::Time> completed_at;
  std::optional<base::Duration> queue;      // dispatch to in_progress; none on a re-run
  std::optional<base::Duration> execution;  // in_progress to completed
  friend bool operator==(const Job&, const Job&) = default;
};

// What a callback says, or what the relay itself says of a job that went silent or is known to be
// over (`expired`).
enum class ReportKind : std::uint8_t { started, finished, expired };
struct Report {
  ReportKind kind = ReportKind::started;
  std::optional<std::string> conclusion;  // of `finished`; of `expired`: "timed_out" if not given
};

// What a report did to a job. The names are API: answers and metrics show them.
enum class Effect : std::uint8_t {
  advanced,
  duplicate,  // said again what is known
  late,       // came after the end: changes nothing
  replaced,   // a report in place of the relay's own conclusion
};
[[nodiscard]] std::string_view to_string(Effect effect);

// Why a report was refused. The names are API.
enum class Refusal : std::uint8_t { contradicts_earlier_report, nothing_to_expire };
[[nodiscard]] std::string_view to_string(Refusal refusal);

struct Transition {
  Job job;
  Effect effect = Effect::advanced;
};

// Returns `job` as it stands after `report`, or why the report is refused. No `job` means that
// nothing was reported yet. `dispatched_at` is nothing where it has no meaning (re-runs, nightly
// reports). Pure, so that a caller who loses a store race can read again and retry.
[[nodiscard]] base::Result<Transition, Refusal> advance(const std::optional<Job>& job,
                                                        const Report& report,
                                                        std::optional<base::Time> dispatched_at,
                                                        base::Time now);

}  // namespace crosscheck::relay
