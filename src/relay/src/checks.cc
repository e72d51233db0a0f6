#include "crosscheck/relay/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/relay/github_calls.h"
#include "crosscheck/relay/shadow_target.h"

namespace crosscheck::relay {
namespace {

using base::Result;
using base::Time;
namespace json = base::json;

constexpr std::int64_t k_failed_tests = 20;
constexpr std::string_view k_demotion = "crcr-demotion/";

// Check runs of one name on one commit: GitHub shows the newest.
std::string order_key(std::string_view head_sha, std::string_view name) {
  return base::sha256_hex(json::serialize(json::array{head_sha, name}));
}

bool lists(std::string_view labels, std::string_view label) {
  const auto list = base::parse_json(labels, "labels");
  return list && list->is_array() &&
         std::ranges::any_of(list->get_array(), [&](const json::value& name) {
           return name.is_string() && name.get_string() == label;
         });
}

struct JobRow {
  std::int64_t delivery = 0;
  std::string repo_key;
  JobToShow show;
  std::optional<std::string> results_digest;
  std::optional<std::string> url;
};

Result<std::optional<JobRow>> read_job(store::Tx& tx, std::int64_t id) {
  // An attempt that a later one followed says nothing any more: its check run would hide the
  // later's, which has the same name.
  auto rows = tx.query(
      "SELECT delivery, repo_key, repo, word_workflow, job_name, run_id, run_attempt, head_sha, "
      "pr_number, state, conclusion, concluded_by, started_at, completed_at, execution_us, "
      "word_url, "
      "word_passed, word_failed, word_skipped, results_digest FROM jobs WHERE id = $1 "
      "AND delivery IS NOT NULL AND pr_number IS NOT NULL AND head_sha IS NOT NULL "
      "AND NOT EXISTS (SELECT 1 FROM jobs n WHERE n.delivery_id = jobs.delivery_id "
      "AND n.repo_key = jobs.repo_key AND n.run_id = jobs.run_id AND n.job_name = jobs.job_name "
      "AND n.run_attempt > jobs.run_attempt)",
      {id});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  const auto& row = rows->front();
  auto repo = base::RepoName::parse(row.text(2));
  if (!repo) return tl::unexpected(repo.error());
  JobRow job{row.integer(0), row.text(1), {.repo = *std::move(repo)}, {}, {}};
  JobToShow& show = job.show;
  show.workflow = row.text(3);
  show.job_name = row.text(4);
  show.run_id = row.text(5);
  show.run_attempt = row.integer(6);
  show.head_sha = row.text(7);
  show.pr_number = row.integer(8);
  show.job.state = parse_job_state(row.text(9)).value_or(JobState::completed);
  show.job.conclusion = row.optional_text(10);
  show.job.concluded_by = parse_concluded_by(row.optional_text(11).value_or(""));
  show.job.started_at = row.optional_time(12);
  show.job.completed_at = row.optional_time(13);
  if (const auto us = row.optional_integer(14)) show.job.execution = base::Duration{*us};
  job.url = row.optional_text(15);
  show.passed = row.optional_integer(16);
  show.failed = row.optional_integer(17);
  show.skipped = row.optional_integer(18);
  job.results_digest = row.optional_text(19);
  return job;
}

// The numbers and the first failures of uploaded results, where there are any.
Result<void> add_results(store::Tx& tx, JobRow& job) {
  if (!job.results_digest || job.show.job.state != JobState::completed) return {};
  auto runs = tx.query(
      "SELECT id, counts FROM runs WHERE results_digest = $1 AND repo_key = $2 AND finished_at IS "
      "NOT NULL ORDER BY id LIMIT 1",
      {*job.results_digest, job.repo_key});
  if (!runs) return tl::unexpected(runs.error());
  if (runs->empty()) return {};
  base::OutcomeCounts counts;
  if (const auto numbers = base::parse_json(runs->front().text(1), "counts");
      numbers && numbers->is_object())
    counts = base::read_counts(numbers->get_object());
  job.show.counted = true;
  job.show.passed = counts.passes();
  job.show.failed = counts.failures() + counts.faults();
  job.show.skipped = counts[base::Outcome::skipped] + counts[base::Outcome::not_run];
  auto failed = tx.query(
      "SELECT r.node_id, r.outcome, r.message FROM test_results r WHERE r.run = $1 AND r.outcome "
      "IN "
      "('failed', 'crashed', 'timed_out', 'environment_error', 'harness_error') AND NOT EXISTS "
      "(SELECT 1 FROM test_results n WHERE n.run = r.run AND n.test = r.test AND n.attempt > "
      "r.attempt) ORDER BY r.test LIMIT $2",
      {runs->front().integer(0), k_failed_tests});
  if (!failed) return tl::unexpected(failed.error());
  for (const auto& row : *failed)
    job.show.failed_tests.push_back({row.text(0), row.text(1), row.text(2)});
  return {};
}

// Nothing of this is asked at L4.
Result<CheckRunFacts> facts_of(store::Tx& tx, const CheckOptions& options,
                               const JobReported& reported, const JobRow& job) {
  CheckRunFacts facts{.level = reported.level};
  if (facts.level == Level::L4) return facts;
  auto shown = tx.query("SELECT 1 FROM github_calls WHERE job = $1 LIMIT 1", {reported.job});
  if (!shown) return tl::unexpected(shown.error());
  facts.is_shown = !shown->empty();
  if (facts.is_shown || facts.level != Level::L3) return facts;
  auto pull_request =
      tx.query("SELECT labels FROM pull_requests WHERE number = $1", {job.show.pr_number});
  if (!pull_request) return tl::unexpected(pull_request.error());
  facts.has_label =
      !pull_request->empty() &&
      lists(pull_request->front().text(0), options.label_prefix + std::string{reported.device});
  if (!facts.has_label) return facts;
  auto demotion =
      tx.query("SELECT 1 FROM pull_requests WHERE own_branch = $1 AND is_open = 1 LIMIT 1",
               {std::string{k_demotion} + job.repo_key});
  if (!demotion) return tl::unexpected(demotion.error());
  facts.is_being_demoted = !demotion->empty();
  return facts;
}

// What is said once: a state, whose word its end is, and how it ended.
std::string says_of(const Job& job) {
  if (job.state == JobState::in_progress) return std::string{to_string(job.state)};
  return fmt::format("{} {} {}", to_string(job.state),
                     to_string(job.concluded_by.value_or(ConcludedBy::downstream)),
                     job.conclusion.value_or("-"));
}

std::string details_url(const CheckOptions& options, const JobRow& job) {
  const std::string at_home = fmt::format("{}/{}/actions/runs/{}", options.web_url,
                                          job.show.repo.full_name(), job.show.run_id);
  if (is_actions_run(job.show.run_id) && (!job.url || job.url->starts_with(options.web_url + "/")))
    return at_home;
  return job.url.value_or("");
}

struct StableRow {
  std::int64_t id = 0;
  std::int64_t delivery = 0;
  StableCheck check;
  std::int64_t round = 1;
};

Result<void> say_stable(store::Tx& tx, const StableRow& row, Time now) {
  const StableCheck& check = row.check;
  constexpr std::array<std::string_view, 3> states{"queued", "in_progress", "completed"};
  GithubCall call{.kind = CallKind::create_check_run, .delivery = row.delivery, .repo = check.repo};
  call.subject = json::serialize(json::array{"stable_check", row.id});
  call.says = fmt::format("{} {}", states[static_cast<std::size_t>(check.state)], row.round);
  call.order_key = order_key(check.head_sha, stable_check_name(check.repo));
  call.payload = json::serialize(check_run_of(check));
  auto queued = queue_call(tx, call, now);
  if (!queued) return tl::unexpected(queued.error());
  return {};
}

Result<std::optional<StableRow>> read_stable(store::Tx& tx, std::string_view condition,
                                             const store::Parameters& parameters) {
  auto rows = tx.query(
      "SELECT id, delivery, repo, head_sha, pr_number, round, conclusion FROM stable_checks "
      "WHERE " +
          std::string{condition},
      parameters);
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  const auto& row = rows->front();
  auto repo = base::RepoName::parse(row.text(2));
  if (!repo) return tl::unexpected(repo.error());
  StableRow stable{row.integer(0),
                   row.integer(1),
                   {.repo = *std::move(repo), .head_sha = row.text(3), .pr_number = row.integer(4)},
                   row.integer(5)};
  stable.check.conclusion = row.optional_text(6).value_or("");
  return stable;
}

// A report for a commit that has a stable check: it is open again if it was concluded, unless its
// pull request is over.
Result<void> touch_stable_check(store::Tx& tx, const JobRow& job, const StablePolicy& policy,
                                Time now) {
  auto stable =
      read_stable(tx, "repo_key = $1 AND head_sha = $2", {job.repo_key, job.show.head_sha});
  if (!stable) return tl::unexpected(stable.error());
  if (!*stable) return {};
  StableRow& row = **stable;
  const bool reopens = !row.check.conclusion.empty();
  if (reopens) {
    auto over = tx.query("SELECT 1 FROM pull_requests WHERE number = $1 AND is_open = 0",
                         {row.check.pr_number});
    if (!over) return tl::unexpected(over.error());
    if (!over->empty()) return {};
    ++row.round;
  }
  auto touched = tx.execute(
      "UPDATE stable_checks SET conclusion = NULL, round = $1, active_at = $2, look_at = $3 "
      "WHERE id = $4",
      {row.round, now, now + policy.settle, row.id});
  if (!touched) return tl::unexpected(touched.error());
  if (!reopens) return {};
  row.check.state = StableState::in_progress;
  row.check.summary = "The backend reports again.";
  return say_stable(tx, row, now);
}

}  // namespace

Result<void> note_pull_request(store::Tx& tx, const UpstreamEvent& event, Time now) {
  if (event.type != "pull_request" || !event.pr_number) return {};
  json::array labels;
  for (const std::string& label : event.labels) labels.emplace_back(label);
  auto noted = tx.execute(
      "INSERT INTO pull_requests (number, is_open, labels, own_branch, said_at) VALUES ($1, $2, "
      "$3, "
      "$4, $5) ON CONFLICT (number) DO UPDATE SET is_open = $2, labels = $3, own_branch = $4, "
      "said_at = $5 WHERE pull_requests.said_at <= $5",
      {*event.pr_number, event.pr_is_open, json::serialize(labels), event.own_branch,
       event.said_at.value_or(now)});
  if (!noted) return tl::unexpected(noted.error());
  return {};
}

Result<void> open_stable_check(store::Tx& tx, const Backend& backend, const UpstreamEvent& event,
                               std::int64_t delivery, const StablePolicy& policy, Time now) {
  // A push of a ciflow tag is of a commit that has its check, and not every backend listens to it.
  if (backend.level != Level::L4 || event.type != "pull_request" || !event.pr_is_open ||
      !event.pr_number || !event.head_sha)
    return {};
  auto opened = tx.query(
      "INSERT INTO stable_checks (delivery, repo_key, repo, head_sha, pr_number, round, active_at, "
      "look_at) VALUES ($1, $2, $3, $4, $5, 1, $6, $7) ON CONFLICT (repo_key, head_sha) DO UPDATE "
      "SET delivery = $1, repo = $3, pr_number = $5, round = stable_checks.round + 1, "
      "conclusion = NULL, active_at = $6, look_at = $7 RETURNING id, round",
      {delivery, backend.repo.key(), backend.repo.full_name(), *event.head_sha, *event.pr_number,
       now, now + policy.settle});
  if (!opened) return tl::unexpected(opened.error());
  StableRow row{opened->front().integer(0),
                delivery,
                {.repo = backend.repo, .head_sha = *event.head_sha, .pr_number = *event.pr_number},
                opened->front().integer(1)};
  row.check.summary = "Waiting for the backend's jobs.";
  return say_stable(tx, row, now);
}

Result<std::optional<std::string>> show_job(store::Tx& tx, const CheckOptions& options,
                                            const JobReported& reported, Time now) {
  auto job = read_job(tx, reported.job);
  if (!job) return tl::unexpected(job.error());
  if (!*job) return std::nullopt;
  if (reported.level == Level::L4)
    if (auto touched = touch_stable_check(tx, **job, options.stable, now); !touched)
      return tl::unexpected(touched.error());
  const auto facts = facts_of(tx, options, reported, **job);
  if (!facts) return tl::unexpected(facts.error());
  if (!wants_check_run(*facts)) return std::nullopt;
  if (auto added = add_results(tx, **job); !added) return tl::unexpected(added.error());
  JobToShow& show = (*job)->show;
  show.replaced = reported.replaced;
  show.details_url = details_url(options, **job);
  if (!options.pages_url.empty())
    show.page_url = fmt::format("{}/job/{}", options.pages_url, reported.job);
  GithubCall call{
      .kind = CallKind::create_check_run, .delivery = (*job)->delivery, .repo = show.repo};
  call.job = reported.job;
  call.subject = json::serialize(json::array{"job", reported.job});
  call.says = says_of(show.job);
  const std::string name = check_run_name(show.repo, show.workflow, show.job_name);
  call.order_key = order_key(show.head_sha, name);
  call.payload = json::serialize(check_run_of(show));
  const auto queued = queue_call(tx, call, now);
  if (!queued) return tl::unexpected(queued.error());
  return *queued ? std::optional{name} : std::nullopt;
}

Result<std::vector<std::string>> show_labeled(store::Tx& tx, const CheckOptions& options,
                                              const Allowlist& allowlist,
                                              const UpstreamEvent& event, std::string_view device,
                                              Time now) {
  std::vector<std::string> shown;
  for (const Backend& backend : allowlist.backends()) {
    if (backend.level != Level::L3 || backend.device != device) continue;
    auto jobs = tx.query(
        "SELECT id, job_name FROM jobs WHERE head_sha = $1 AND repo_key = $2 AND pr_number = $3 "
        "ORDER BY id",
        {event.head_sha, backend.repo.key(), event.pr_number});
    if (!jobs) return tl::unexpected(jobs.error());
    for (const auto& row : *jobs) {
      const auto queued =
          show_job(tx, options, {row.integer(0), backend.level, backend.device, {}}, now);
      if (!queued) return tl::unexpected(queued.error());
      if (*queued) shown.push_back(backend.repo.full_name() + "/" + row.text(1));
    }
  }
  return shown;
}

Result<bool> conclude_stable_check(store::Tx& tx, const CheckOptions& options, std::int64_t check,
                                   Time now) {
  auto stable = read_stable(tx, "id = $1 AND conclusion IS NULL", {check});
  if (!stable) return tl::unexpected(stable.error());
  if (!*stable) return false;
  StableRow& row = **stable;
  auto known = tx.query(
      "SELECT s.active_at, COALESCE(p.is_open, 1), COALESCE(d.state, 'withdrawn'), "
      "COALESCE(d.last_error, 'no dispatch is on record') FROM stable_checks s "
      "LEFT JOIN pull_requests p ON p.number = s.pr_number "
      "LEFT JOIN dispatches d ON d.delivery = s.delivery AND d.repo_key = s.repo_key "
      "WHERE s.id = $1",
      {check});
  if (!known) return tl::unexpected(known.error());
  const auto& record = known->front();
  StableFacts facts{.active_at = record.time(0),
                    .is_open = record.integer(1) != 0,
                    .dispatch_state = record.text(2),
                    .dispatch_error = record.text(3)};
  // Of each name only the latest: a re-run takes the place of what it repeats.
  auto jobs = tx.query(
      "SELECT word_workflow, job_name, state, conclusion FROM jobs WHERE head_sha = $1 AND "
      "repo_key = $2 AND delivery IS NOT NULL AND NOT EXISTS (SELECT 1 FROM jobs n WHERE "
      "n.head_sha = jobs.head_sha AND n.repo_key = jobs.repo_key AND n.delivery IS NOT NULL AND "
      "n.word_workflow = jobs.word_workflow AND n.job_name = jobs.job_name AND n.id > jobs.id) "
      "ORDER BY id",
      {row.check.head_sha, row.check.repo.key()});
  if (!jobs) return tl::unexpected(jobs.error());
  for (const auto& job : *jobs)
    facts.jobs.push_back({job.text(0) + " / " + job.text(1),
                          parse_job_state(job.text(2)).value_or(JobState::completed),
                          job.optional_text(3)});
  const auto verdict = decide_stable(facts, options.stable, now);
  auto written =
      tx.execute("UPDATE stable_checks SET conclusion = $1, look_at = $2 WHERE id = $3",
                 {verdict.conclusion.empty() ? std::nullopt : std::optional{verdict.conclusion},
                  verdict.look_at, check});
  if (!written) return tl::unexpected(written.error());
  if (verdict.conclusion.empty()) return true;
  // What a shadow kept back is another relay's to show.
  if (facts.jobs.empty() && facts.dispatch_error.starts_with(k_shadow_reason)) return true;
  row.check.state = StableState::completed;
  row.check.conclusion = verdict.conclusion;
  row.check.summary = verdict.summary;
  if (auto said = say_stable(tx, row, now); !said) return tl::unexpected(said.error());
  return true;
}

}  // namespace crosscheck::relay
