#include "crosscheck/relay/check_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace crosscheck::relay {
namespace {

namespace json = base::json;

constexpr std::string_view k_prefix = "crcr/";
constexpr std::string_view k_stable_id = "pr:";
constexpr std::size_t k_title_limit = 200;
constexpr std::size_t k_message_limit = 300;
constexpr std::size_t k_listed_jobs = 50;

// What a run may end with; `stale` only GitHub itself says.
constexpr std::array<std::string_view, 7> k_conclusions{
    "action_required", "cancelled", "failure", "neutral", "skipped", "success", "timed_out"};

// "timed_out" as "Timed out".
std::string capitalised(std::string_view name) {
  std::string text = base::to_utf8(name, k_title_limit);
  std::ranges::replace(text, '_', ' ');
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

// A downstream's text inside Markdown: no link, no mention, no image, one line.
std::string code(std::string_view text, std::size_t limit = k_title_limit) {
  std::string plain = base::to_utf8(text, limit);
  for (char& c : plain) {
    if (c == '`') c = '\'';
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  return plain.empty() ? "(empty)" : "`" + plain + "`";
}

std::string rfc3339_seconds(base::Time time) {
  return base::to_rfc3339(std::chrono::floor<std::chrono::seconds>(time));
}

void add_counts(std::string& summary, const JobToShow& job) {
  if (!job.passed && !job.failed && !job.skipped) return;
  std::string counts;
  for (const auto& [number, name] :
       {std::pair{job.passed, "passed"}, std::pair{job.failed, "failed"},
        std::pair{job.skipped, "skipped"}})
    if (number) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", *number, name);
  summary += fmt::format("\n\nTests: {}{}.", counts,
                         job.counted ? "" : " (as the backend says; no results were uploaded)");
}

std::string summary_of(const JobToShow& job) {
  std::string summary = fmt::format("{}: workflow {}, job {}, run {}", job.repo.full_name(),
                                    code(job.workflow), code(job.job_name), code(job.run_id));
  if (job.run_attempt > 1) summary += fmt::format(", attempt {}", job.run_attempt);
  summary += ".";
  if (job.job.state == JobState::completed) {
    const auto& conclusion = job.job.conclusion;
    if (job.job.concluded_by == ConcludedBy::relay)
      summary += "\n\nThe backend went silent: the relay itself ended this job.";
    else if (!conclusion)
      summary += "\n\nThe backend reported no conclusion, so it is shown as neutral.";
    else if (github_conclusion(conclusion) != *conclusion)
      summary += fmt::format(
          "\n\nThe backend reported the conclusion {}, which GitHub does not know, so it is shown "
          "as "
          "neutral.",
          code(*conclusion));
    if (job.replaced)
      summary += fmt::format(
          "\n\nThis report came after the relay had ended the job as {}, and replaces that.",
          code(*job.replaced));
    if (job.job.execution)
      summary += fmt::format("\n\nRan for {}.", base::to_human(*job.job.execution));
    add_counts(summary, job);
  }
  if (!job.details_url.empty()) summary += "\n\nRun: " + job.details_url;
  if (!job.page_url.empty()) summary += "\n\nResults: " + job.page_url;
  return summary;
}

std::string failed_tests_text(const std::vector<FailedTest>& tests) {
  std::string text;
  for (const FailedTest& test : tests) {
    const auto line_end = test.message.find('\n');
    std::string line = fmt::format("- {} {}", code(test.name, 500), test.outcome);
    if (!test.message.empty())
      line += ": " + code(std::string_view{test.message}.substr(0, line_end), k_message_limit);
    line += "\n";
    if (text.size() + line.size() > k_output_limit) break;
    text += line;
  }
  return text;
}

json::object output_of(std::string_view title, std::string_view summary) {
  return {{"title", title}, {"summary", base::to_utf8(summary, k_output_limit)}};
}

bool passes(std::string_view conclusion) {
  return conclusion == "success" || conclusion == "neutral" || conclusion == "skipped";
}

}  // namespace

bool wants_check_run(const CheckRunFacts& facts) {
  if (facts.is_shown || facts.level == Level::L4) return true;
  return facts.level == Level::L3 && facts.has_label && !facts.is_being_demoted;
}

std::string_view github_conclusion(const std::optional<std::string>& conclusion) {
  const auto* found = std::ranges::find(k_conclusions, conclusion.value_or(""));
  return found == k_conclusions.end() ? "neutral" : *found;
}

std::string check_run_name(const base::RepoName& repo, std::string_view workflow,
                           std::string_view job_name) {
  return fmt::format("{}{}/{}/{}", k_prefix, repo.full_name(), workflow, job_name);
}

json::object check_run_of(const JobToShow& job) {
  const bool ended = job.job.state == JobState::completed;
  json::object body{{"name", check_run_name(job.repo, job.workflow, job.job_name)},
                    {"head_sha", job.head_sha},
                    {"external_id", fmt::format("{}:{}", job.run_id, job.pr_number)},
                    {"status", to_string(job.job.state)}};
  if (!job.details_url.empty()) body["details_url"] = job.details_url;
  if (job.job.started_at) body["started_at"] = rfc3339_seconds(*job.job.started_at);
  std::string title = "In progress";
  if (ended) {
    body["conclusion"] = github_conclusion(job.job.conclusion);
    if (job.job.completed_at) body["completed_at"] = rfc3339_seconds(*job.job.completed_at);
    title = job.job.conclusion ? capitalised(*job.job.conclusion) : "Completed";
  }
  json::object output = output_of(title, summary_of(job));
  if (ended && !job.failed_tests.empty())
    output["text"] = "First failed tests:\n\n" + failed_tests_text(job.failed_tests);
  if (auto* text = output.if_contains("text"))
    *text = base::to_utf8(text->as_string(), k_output_limit);
  body["output"] = std::move(output);
  return body;
}

std::optional<ShownRun> parse_check_run(std::string_view name, std::string_view external_id) {
  if (!name.starts_with(k_prefix)) return std::nullopt;
  name.remove_prefix(k_prefix.size());
  const auto first = name.find('/');
  if (first == std::string_view::npos) return std::nullopt;
  const auto second = name.find('/', first + 1);
  if (second == std::string_view::npos || second + 1 == name.size()) return std::nullopt;
  auto repo = base::RepoName::parse(name.substr(0, second));
  const std::string_view run_id = external_id.substr(0, external_id.find(':'));
  if (!repo || run_id.empty() || run_id.size() > 256 || base::to_utf8(run_id) != run_id)
    return std::nullopt;
  return ShownRun{*std::move(repo), std::string{run_id}};
}

bool is_actions_run(std::string_view run_id) {
  return !run_id.empty() && run_id.size() <= 20 &&
         run_id.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string stable_check_name(const base::RepoName& repo) {
  return std::string{k_prefix} + repo.full_name();
}

json::object check_run_of(const StableCheck& check) {
  constexpr std::array<std::string_view, 3> states{"queued", "in_progress", "completed"};
  json::object body{{"name", stable_check_name(check.repo)},
                    {"head_sha", check.head_sha},
                    {"external_id", fmt::format("{}{}", k_stable_id, check.pr_number)},
                    {"status", states[static_cast<std::size_t>(check.state)]}};
  std::string title = check.state == StableState::queued ? "Queued" : "In progress";
  if (check.state == StableState::completed) {
    body["conclusion"] = check.conclusion;
    title = capitalised(check.conclusion);
  }
  body["output"] = output_of(title, check.summary);
  return body;
}

std::optional<base::RepoName> parse_stable_check(std::string_view name,
                                                 std::string_view external_id) {
  if (!name.starts_with(k_prefix) || !external_id.starts_with(k_stable_id)) return std::nullopt;
  auto repo = base::RepoName::parse(name.substr(k_prefix.size()));
  if (!repo) return std::nullopt;
  return *std::move(repo);
}

StableVerdict decide_stable(const StableFacts& facts, const StablePolicy& policy, base::Time now) {
  if (!facts.is_open)
    return {"cancelled", now, "The pull request was closed before all jobs had ended."};
  if (facts.jobs.empty()) {
    if (facts.dispatch_state == "withdrawn")
      return {"skipped", now, "Not dispatched: " + facts.dispatch_error + "."};
    if (facts.dispatch_state == "dead")
      return {"failure", now, "The event could not be dispatched: " + facts.dispatch_error};
    // `active_at` may be ahead of a clock that was set back: then this waits the longer.
    const auto deadline = facts.active_at + policy.silence;
    if (now < deadline) return {"", deadline, ""};
    return {"failure", now,
            "The backend reported no job within " + base::to_human(policy.silence) +
                " of the dispatch."};
  }
  if (std::ranges::any_of(facts.jobs,
                          [](const auto& job) { return job.state == JobState::in_progress; }))
    return {"", now + policy.settle, ""};
  if (const auto settled = facts.active_at + policy.settle; now < settled) return {"", settled, ""};

  std::string failed;
  std::size_t failures = 0;
  bool any_success = false;
  for (const auto& job : facts.jobs) {
    const std::string conclusion = job.conclusion.value_or("(none)");
    any_success = any_success || conclusion == "success";
    if (passes(conclusion)) continue;
    if (++failures <= k_listed_jobs)
      failed += fmt::format("\n- {}: {}", code(job.name, 500), code(conclusion));
  }
  if (failures > k_listed_jobs) failed += "\n- …";
  std::string summary =
      fmt::format("{} of {} jobs passed.", facts.jobs.size() - failures, facts.jobs.size());
  if (failures > 0) return {"failure", now, summary + "\n" + failed};
  return {any_success ? "success" : "neutral", now, std::move(summary)};
}

}  // namespace crosscheck::relay
