#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosscheck/base/outcome.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/base/time.h"
#include "state.h"

// What the pages show, as plain values, and the pure functions that make them out of rows. Text
// that came from outside is well-formed UTF-8 here, without control characters.
namespace crosscheck::hud {

inline constexpr base::Duration k_window = std::chrono::days{14};
inline constexpr std::int64_t k_window_attempts = 1000;
inline constexpr std::size_t k_spark_jobs = 30;
inline constexpr base::Duration k_fresh = std::chrono::hours{24};

// One attempt of a job: a row of `jobs`.
struct Job {
  std::int64_t id = 0;
  std::string delivery_id = {};
  std::string event_type = {};
  std::string repo_key = {};
  std::string repo = {};
  std::string level = {};
  std::string device = {};
  std::string head_sha = {};
  std::optional<std::int64_t> pr_number = {};
  std::string run_id = {};
  std::int64_t run_attempt = 1;
  std::string job_name = {};
  std::string workflow = {};  // downstream's word
  State state = State::no_data;
  std::string conclusion = {};    // whoever gave it; empty while it runs
  std::string concluded_by = {};  // downstream, relay
  bool completed_first = false;
  base::Time first_seen_at{};
  std::optional<base::Time> started_at = {};
  std::optional<base::Time> completed_at = {};
  std::optional<base::Duration> queue = {};
  std::optional<base::Duration> execution = {};
  std::string url = {};  // downstream's word; a web address, else empty
  std::optional<std::int64_t> word_passed = {};
  std::optional<std::int64_t> word_failed = {};
  std::optional<std::int64_t> word_skipped = {};
  std::string results_digest = {};
  std::optional<base::OutcomeCounts> counts = {};  // of the stored results

  [[nodiscard]] base::Time newest_at() const { return completed_at.value_or(first_seen_at); }
  // The conclusion, where the relay ended a job that went silent or was stopped; else empty.
  [[nodiscard]] std::string relay_conclusion() const {
    return concluded_by == "relay" ? conclusion : std::string{};
  }
  // The conclusion, where the downstream said it; else empty.
  [[nodiscard]] std::string word_conclusion() const {
    return concluded_by == "relay" ? std::string{} : conclusion;
  }
};

// A job is a backend, a commit, a workflow and a job name; everything that ran under that name on
// that commit is an attempt of it, and the latest one is what counts.
struct LatestJob {
  Job job = {};                   // the latest attempt
  std::vector<Job> earlier = {};  // the others, newest first
  [[nodiscard]] std::int64_t attempts() const {
    return static_cast<std::int64_t>(earlier.size()) + 1;
  }
};
// Newest job first. Runs are ordered by their first report, attempts within a run by number: a late
// report of an old attempt does not make it the latest.
[[nodiscard]] std::vector<LatestJob> latest_attempts(std::vector<Job> jobs);

// Latest attempt of each job; skipped, cancelled, neutral and unfinished ones are in neither
// number.
struct PassRate {
  std::int64_t passed = 0;
  std::int64_t counted = 0;
  friend bool operator==(const PassRate&, const PassRate&) = default;
};
[[nodiscard]] PassRate pass_rate(std::span<const LatestJob> jobs);

// Nearest rank.
struct Percentiles {
  base::Duration p50{0};
  base::Duration p95{0};
  std::int64_t n = 0;
};
[[nodiscard]] std::optional<Percentiles> percentiles(std::vector<base::Duration> samples);

// The job that began the failures which no commit with a counted result has ended since.
struct FailingSince {
  base::Time at{};
  std::int64_t job_id = 0;
  std::string head_sha = {};
  std::int64_t commits = 0;  // failing in a row
};
[[nodiscard]] std::optional<FailingSince> failing_since(std::span<const LatestJob> jobs);

struct Backend {
  std::string repo_key = {};
  std::string repo = {};
  std::string level = {};
  std::string device = {};
  std::vector<std::string> oncalls = {};
  bool listed = true;
  base::Time since{};
};
// L1 gets events; its results are not collected.
[[nodiscard]] bool collects_results(std::string_view level);
[[nodiscard]] bool can_block(std::string_view level);

enum class Freshness : std::uint8_t { fresh, no_recent_data, never_reported, not_collected };
[[nodiscard]] std::string_view to_string(Freshness freshness);

struct BackendSummary {
  Backend backend = {};
  State state = State::no_data;  // worst job of the newest commit
  Freshness freshness = Freshness::never_reported;
  std::optional<base::Time> last_report = {};
  std::vector<LatestJob> recent = {};  // at most k_spark_jobs, oldest first
  PassRate rate = {};
  std::optional<FailingSince> failing = {};
  std::optional<Percentiles> queue = {};
  std::optional<Percentiles> end_to_end = {};
  bool window_cut =
      false;  // more attempts in the window than k_window_attempts: the newest were taken
};
[[nodiscard]] BackendSummary summarise(Backend backend, std::vector<Job> window,
                                       std::optional<base::Time> last_report, base::Time now);

// A row of `dispatches`.
struct Dispatch {
  std::int64_t delivery = 0;
  std::string repo_key = {};
  std::string repo = {};
  std::string level = {};
  std::string device = {};
  State state = State::pending;
  bool uncertain = false;
  std::int64_t attempts = 0;
  std::string last_error = {};
  base::Time created_at{};
  std::optional<base::Time> sent_at = {};
};

// A row of `deliveries`, without its body.
struct Delivery {
  std::int64_t id = 0;
  std::string delivery_id = {};
  std::string event_type = {};
  std::string action = {};
  std::optional<std::int64_t> pr_number = {};
  std::string pr_title = {};
  std::string head_sha = {};
  std::string head_ref = {};
  std::string base_sha = {};
  std::string base_ref = {};
  std::string git_ref = {};
  std::string sender = {};
  base::Time received_at{};
};

enum class Verdict : std::uint8_t {
  failed,
  not_dispatched,
  pending,
  inconclusive,  // ended; a job was cancelled, or none passed
  passed,
  withdrawn,
  not_collected,
};
[[nodiscard]] std::string_view to_string(Verdict verdict);
[[nodiscard]] State state_of(Verdict verdict);

// One backend's answer to one commit.
struct BackendResult {
  std::string repo_key = {};
  std::string repo = {};
  std::string level = {};
  std::string device = {};
  std::optional<Dispatch> dispatch = {};  // none: a report without an event before it
  std::vector<LatestJob> jobs = {};
  Verdict verdict = Verdict::pending;
  bool can_block = false;
};
[[nodiscard]] Verdict judge(std::string_view level, const std::optional<Dispatch>& dispatch,
                            std::span<const LatestJob> jobs);

// One commit upstream with every backend's answer to it.
struct Change {
  std::string head_sha = {};
  std::vector<Delivery> deliveries =
      {};  // newest first; none for a commit known from reports alone
  std::vector<BackendResult> backends = {};
  base::Time at{};  // newest delivery or report
};
struct Summary {
  Verdict verdict = Verdict::pending;
  bool blocks = false;
  std::string sentence = {};
};
[[nodiscard]] Summary summarise(std::span<const BackendResult> backends);
// Joins rows on the commit: newest change first, backends with the worst verdict first.
[[nodiscard]] std::vector<Change> join_changes(std::vector<Delivery> deliveries,
                                               std::vector<Dispatch> dispatches,
                                               std::vector<Job> jobs);

struct GridFilter {
  std::string event = {};
  std::string branch = {};
  std::string q = {};
  std::optional<State> status = {};
  bool ungrouped = false;  // a column a job, not a group of jobs
  std::int64_t page = 1;
};
struct GridCell {
  State state = State::no_data;
  std::int64_t job_id = 0;  // the worst job
  std::int64_t jobs = 0;
  std::int64_t attempts = 0;  // of the job with the most
};
struct GridColumn {
  std::string workflow = {};
  std::string name = {};
  friend auto operator<=>(const GridColumn&, const GridColumn&) = default;
};
struct GridRow {
  Change change = {};  // of this backend alone
  std::vector<std::optional<GridCell>> cells = {};
};
struct Grid {
  std::vector<GridColumn> columns = {};
  std::vector<GridRow> rows = {};
  std::int64_t commits = 0;  // that match
};
inline constexpr std::size_t k_grid_rows = 25;
inline constexpr std::size_t k_grid_columns = 120;
inline constexpr std::int64_t k_grid_window = 500;
// "test (default, 1, 3)" is in group "test": shards and variants of one job share a column.
[[nodiscard]] std::string job_group(std::string_view job_name);
[[nodiscard]] Grid make_grid(std::vector<Change> changes, const GridFilter& filter);

// A stored run of tests behind a job.
struct Run {
  std::int64_t id = 0;
  std::string run_key = {};
  base::Combination combination = {};
  std::vector<std::string> command = {};
  std::string selection = {};
  std::vector<std::pair<std::string, std::string>> environment = {};
  base::Time started_at{};
  std::optional<base::Time> finished_at = {};
  base::OutcomeCounts counts = {};
};
struct Test {
  std::int64_t id = 0;
  std::string node_id = {};
  std::string file = {};
  std::string class_name = {};
  std::string method = {};
  std::vector<std::pair<std::string, std::string>> variant = {};
  std::int64_t attempt = 1;
  base::Outcome outcome = base::Outcome::not_run;
  base::FailureKind kind = base::FailureKind::none;
  std::string fingerprint = {};
  std::string message = {};
  std::string detail = {};
  std::optional<base::Mismatch> mismatch = {};
  base::Duration duration{0};
};
// Failures that are alike.
struct Cluster {
  base::FailureKind kind = base::FailureKind::none;
  std::string fingerprint = {};
  std::int64_t tests = 0;
  std::string line = {};  // the error's first line, of one of them
};
struct TestFilter {
  bool failing = false;                       // failures and faults
  bool flaky = false;                         // failed, and not in the latest attempt
  std::optional<base::Outcome> outcome = {};  // neither: all
  std::string q = {};
  std::int64_t page = 1;
  [[nodiscard]] std::string outcome_name() const;
};
inline constexpr std::int64_t k_failing_page = 25;
inline constexpr std::int64_t k_tests_page = 100;

// Whether upstream has the commit of a report that no dispatch came before.
enum class CommitState : std::int64_t { unverified = 0, verified = 1, missing = 2 };

// What newer actions add to a report, in the form that the relay keeps it in. All of it is the
// downstream's word.
struct TriageVerdict {
  struct Evidence {
    std::string job = {};
    std::string test = {};
    std::string excerpt = {};
    std::string url = {};  // a web address, else empty
  };
  std::string category = {};
  std::string confidence = {};
  std::string summary = {};
  std::optional<std::int64_t> suspected_pr = {};
  std::string suspected_commit = {};  // hex digits, else empty
  std::string reason = {};
  std::vector<Evidence> evidence = {};
};
struct WordTest {
  std::string name = {};
  std::string class_name = {};
  std::string message = {};
  std::string stacktrace = {};
};
struct Advice {
  std::optional<TriageVerdict> verdict = {};
  std::vector<WordTest> failed_tests = {};
};
[[nodiscard]] Advice read_advice(std::string_view word_body);

// What of a job was sent to its pull request, or is to be.
struct CheckRun {
  std::string status;  // its conclusion once it has one
  std::string state;   // of the call: pending, sending, sent, dead, withdrawn
  std::string reason;  // why it was not sent
  base::Time at{};     // sent, or written
};

struct JobPage {
  Job job = {};
  std::optional<Delivery> delivery = {};
  std::optional<Dispatch> dispatch = {};
  std::vector<CheckRun> check_runs = {};  // oldest first
  std::vector<Job> attempts = {};         // of the same job, newest first, this one included
  std::optional<Run> run = {};
  CommitState commit = CommitState::verified;
  std::string word_body = {};
  std::string word_combination = {};
  Advice advice = {};
  std::vector<Cluster> clusters = {};
  TestFilter filter = {};
  std::vector<Test> tests = {};
  bool more_tests = false;
};
// The line that says why a job is not green; empty for one that is.
[[nodiscard]] std::string error_line(const JobPage& page);
// Where the stored results and the downstream's conclusion contradict each other; else empty.
[[nodiscard]] std::string contradiction(const JobPage& page);

}  // namespace crosscheck::hud
