#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/time.h"
#include "crosscheck/relay/allowlist.h"
#include "crosscheck/relay/job.h"

// Check runs as GitHub takes them. Values only.
namespace crosscheck::relay {

inline constexpr std::size_t k_output_limit = 65'535;  // of a summary or a text, GitHub's

// What decides whether a job of a pull request is shown there.
struct CheckRunFacts {
  Level level = Level::L1;
  bool has_label = false;         // the pull request carries the device's
  bool is_being_demoted = false;  // a demotion of the backend is open
  bool is_shown = false;          // a check run of this job was made before
};
// Always at L4; at L3 while the label is there and no demotion is open. What is shown as running is
// finished in any case: nobody else would.
[[nodiscard]] bool wants_check_run(const CheckRunFacts& facts);

struct FailedTest {
  std::string name;
  std::string outcome;
  std::string message;
};

// A job as its check run shows it.
struct JobToShow {
  base::RepoName repo;
  std::string workflow = {};
  std::string job_name = {};
  std::string run_id = {};
  std::int64_t run_attempt = 1;
  std::string head_sha = {};
  std::int64_t pr_number = 0;
  Job job = {};
  std::optional<std::string> replaced = {};  // the relay's own conclusion that a report replaced
  std::string details_url = {};              // of the run; empty: none
  std::string page_url = {};                 // of the job on the HUD; empty: none
  std::optional<std::int64_t> passed = {};
  std::optional<std::int64_t> failed = {};
  std::optional<std::int64_t> skipped = {};
  bool counted = false;  // the numbers are of uploaded results, not the backend's word
  std::vector<FailedTest> failed_tests = {};  // the first of them
};
// The body of POST /repos/{owner}/{repo}/check-runs.
[[nodiscard]] base::json::object check_run_of(const JobToShow& job);

// "crcr/<owner>/<repo>/<workflow>/<job>"
[[nodiscard]] std::string check_run_name(const base::RepoName& repo, std::string_view workflow,
                                         std::string_view job_name);

// A conclusion that GitHub takes for `conclusion`: `neutral` for what it does not know.
[[nodiscard]] std::string_view github_conclusion(const std::optional<std::string>& conclusion);

// Which run a check run stands for, by its name and external id.
struct ShownRun {
  base::RepoName repo;
  std::string run_id;
};
[[nodiscard]] std::optional<ShownRun> parse_check_run(std::string_view name,
                                                      std::string_view external_id);
// Runs on GitHub Actions have numbers; others cannot be started again through GitHub.
[[nodiscard]] bool is_actions_run(std::string_view run_id);

// The stable check of an L4 backend, "crcr/<owner>/<repo>".
enum class StableState : std::uint8_t { queued, in_progress, completed };
struct StableCheck {
  base::RepoName repo;
  std::string head_sha;
  std::int64_t pr_number = 0;
  StableState state = StableState::queued;
  std::string conclusion = {};  // of `completed`
  std::string summary = {};
};
[[nodiscard]] base::json::object check_run_of(const StableCheck& check);
[[nodiscard]] std::string stable_check_name(const base::RepoName& repo);
// Whether a check run is a stable one, by its name and external id; whose.
[[nodiscard]] std::optional<base::RepoName> parse_stable_check(std::string_view name,
                                                               std::string_view external_id);

// What a stable check is decided by.
struct StableFacts {
  struct JobFacts {
    std::string name;  // workflow / job, the latest of each
    JobState state = JobState::in_progress;
    std::optional<std::string> conclusion;
  };
  std::vector<JobFacts> jobs = {};
  base::Time active_at{};  // the last dispatch or report
  bool is_open = true;     // the pull request is
  std::string dispatch_state = "sent";
  std::string dispatch_error = {};
};
struct StablePolicy {
  base::Duration settle = std::chrono::minutes{5};  // jobs that follow others begin within it
  base::Duration silence =
      std::chrono::hours{6};  // after it a backend that said nothing has failed
};
struct StableVerdict {
  std::string conclusion;  // empty: not yet…
  base::Time look_at{};    // …look again then
  std::string summary;
};
// All jobs have ended and nothing was heard for the settle time: the worst of them. No word at all
// until the deadline: failure.
[[nodiscard]] StableVerdict decide_stable(const StableFacts& facts, const StablePolicy& policy,
                                          base::Time now);

}  // namespace crosscheck::relay
