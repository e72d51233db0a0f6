#include "queries.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "crosscheck/base/json.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/base/url.h"
#include "crosscheck/store/store.h"
#include "text.h"

namespace crosscheck::hud {
namespace {

namespace json = base::json;
using base::Result;
using store::Parameters;
using store::Row;

constexpr std::int64_t k_max_jobs = 20'000;  // of one page
constexpr std::int64_t k_max_deliveries = 100;
constexpr std::int64_t k_max_reports = 200;
constexpr std::int64_t k_max_clusters = 8;
constexpr std::size_t k_name_limit = 512;

constexpr std::string_view k_job_columns =
    "id, delivery_id, event_type, repo_key, repo, level, device, head_sha, pr_number, run_id, "
    "run_attempt, job_name, word_workflow, state, conclusion, concluded_by, completed_first, "
    "first_seen_at, started_at, completed_at, queue_us, execution_us, word_url, word_passed, "
    "word_failed, word_skipped, results_digest";
constexpr std::string_view k_delivery_columns =
    "d.id, d.delivery_id, d.event_type, d.action, d.pr_number, d.pr_title, d.head_sha, d.head_ref, "
    "d.base_sha, d.base_ref, d.git_ref, d.sender, d.received_at";
constexpr std::string_view k_dispatch_columns =
    "x.delivery, x.repo_key, x.repo, x.level, x.device, x.state, x.uncertain, x.attempts, "
    "x.last_error, x.created_at, x.sent_at";
constexpr std::size_t k_delivery_width = 13;

// Failures and faults, as base::is_failure and base::is_fault have them.
constexpr std::string_view k_failing =
    "('failed', 'crashed', 'timed_out', 'environment_error', 'harness_error')";
// Only the latest attempt of a test counts.
constexpr std::string_view k_latest =
    "NOT EXISTS (SELECT 1 FROM test_results n WHERE n.run = r.run AND n.test = r.test AND "
    "n.attempt > r.attempt)";

// What counts as flaky and not by its outcome, as base::is_flaky_after_failure has it.
constexpr std::string_view k_flaky =
    "(r.attempt > 1 AND r.outcome NOT IN ('failed', 'crashed', 'timed_out', 'environment_error', "
    "'harness_error', 'not_run') AND EXISTS (SELECT 1 FROM test_results e WHERE e.run = r.run AND "
    "e.test = r.test AND e.attempt < r.attempt AND "
    "e.outcome IN ('failed', 'crashed', 'timed_out')))";

std::string name_of(const std::optional<std::string>& text) {
  return text ? base::to_utf8(*text, k_name_limit) : std::string{};
}

std::optional<base::Duration> duration_of(const Row& row, std::size_t column) {
  const auto micros = row.optional_integer(column);
  if (!micros) return std::nullopt;
  return base::Duration{*micros};
}

Job read_job(const Row& row) {
  Job job;
  job.id = row.integer(0);
  job.delivery_id = name_of(row.text(1));
  job.event_type = name_of(row.text(2));
  job.repo_key = row.text(3);
  job.repo = name_of(row.text(4));
  job.level = name_of(row.text(5));
  job.device = name_of(row.optional_text(6));
  job.head_sha = name_of(row.optional_text(7));
  job.pr_number = row.optional_integer(8);
  job.run_id = name_of(row.text(9));
  job.run_attempt = row.integer(10);
  job.job_name = name_of(row.text(11));
  job.workflow = name_of(row.text(12));
  job.conclusion = name_of(row.optional_text(14));
  job.state = job_state(row.text(13), job.conclusion);
  job.concluded_by = name_of(row.optional_text(15));
  job.completed_first = row.integer(16) != 0;
  job.first_seen_at = row.time(17);
  job.started_at = row.optional_time(18);
  job.completed_at = row.optional_time(19);
  job.queue = duration_of(row, 20);
  job.execution = duration_of(row, 21);
  if (auto url = row.optional_text(22); url && base::is_web_url(*url)) job.url = std::move(*url);
  job.word_passed = row.optional_integer(23);
  job.word_failed = row.optional_integer(24);
  job.word_skipped = row.optional_integer(25);
  job.results_digest = name_of(row.optional_text(26));
  return job;
}

std::vector<Job> read_jobs(const std::vector<Row>& rows) {
  std::vector<Job> jobs;
  jobs.reserve(rows.size());
  for (const auto& row : rows) jobs.push_back(read_job(row));
  return jobs;
}

Delivery read_delivery(const Row& row) {
  Delivery delivery;
  delivery.id = row.integer(0);
  delivery.delivery_id = name_of(row.text(1));
  delivery.event_type = name_of(row.text(2));
  delivery.action = name_of(row.optional_text(3));
  delivery.pr_number = row.optional_integer(4);
  delivery.pr_title = name_of(row.optional_text(5));
  delivery.head_sha = name_of(row.optional_text(6));
  delivery.head_ref = name_of(row.optional_text(7));
  delivery.base_sha = name_of(row.optional_text(8));
  delivery.base_ref = name_of(row.optional_text(9));
  delivery.git_ref = name_of(row.optional_text(10));
  delivery.sender = name_of(row.optional_text(11));
  delivery.received_at = row.time(12);
  return delivery;
}

Dispatch read_dispatch(const Row& row, std::size_t at = 0) {
  Dispatch dispatch;
  dispatch.delivery = row.integer(at);
  dispatch.repo_key = row.text(at + 1);
  dispatch.repo = name_of(row.text(at + 2));
  dispatch.level = name_of(row.text(at + 3));
  dispatch.device = name_of(row.optional_text(at + 4));
  dispatch.state = dispatch_state(row.text(at + 5));
  dispatch.uncertain = row.integer(at + 6) != 0;
  dispatch.attempts = row.integer(at + 7);
  dispatch.last_error = name_of(row.optional_text(at + 8));
  dispatch.created_at = row.time(at + 9);
  dispatch.sent_at = row.optional_time(at + 10);
  return dispatch;
}

Backend read_backend(const Row& row) {
  Backend backend;
  backend.repo_key = row.text(0);
  backend.repo = name_of(row.text(1));
  backend.level = name_of(row.text(2));
  backend.device = name_of(row.optional_text(3));
  if (const auto oncalls = base::parse_json(row.text(4), "on-calls");
      oncalls && oncalls->is_array()) {
    for (const auto& oncall : oncalls->get_array()) {
      if (oncall.is_string())
        backend.oncalls.push_back(base::to_utf8(oncall.get_string(), k_name_limit));
    }
  }
  backend.listed = row.integer(5) != 0;
  backend.since = row.time(6);
  return backend;
}

// JSON that this program wrote: what does not parse is shown as nothing, never as an error.
base::OutcomeCounts read_counts(std::string_view text) {
  const auto value = base::parse_json(text, "counts");
  if (!value || !value->is_object()) return {};
  return base::read_counts(value->get_object());
}

std::vector<std::pair<std::string, std::string>> read_pairs(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const auto value = base::parse_json(text, "pairs");
  if (!value || !value->is_object()) return pairs;
  for (const auto& [name, item] : value->get_object()) {
    pairs.emplace_back(base::to_utf8(name, k_name_limit),
                       item.is_string() ? base::to_utf8(item.get_string(), k_name_limit)
                                        : base::canonical_json(item));
  }
  return pairs;
}

std::optional<base::Mismatch> read_mismatch(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const auto value = base::parse_json(*text, "mismatch");
  if (!value || !value->is_object()) return std::nullopt;
  const auto mismatch = base::read_mismatch(value->get_object());
  return mismatch ? std::optional{*mismatch} : std::nullopt;
}

// "$3, $4, $5" for three values after two; appends them to `parameters`.
template <class T>
std::string in_list(Parameters& parameters, const std::vector<T>& values) {
  std::string list;
  for (const auto& value : values) {
    parameters.emplace_back(value);
    list += fmt::format("{}${}", list.empty() ? "" : ", ", parameters.size());
  }
  return list;
}

std::string like_part(std::string_view text) {
  std::string pattern = "%";
  for (const char c : base::to_lower_ascii(text)) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + '%';
}

template <class T>
std::vector<T> unique(std::vector<T> values) {
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
  return values;
}

}  // namespace

Result<std::vector<Backend>> Queries::backends() {
  auto rows = tx_.query(
      "SELECT repo_key, repo, level, device, oncalls, listed, since FROM backends "
      "ORDER BY listed DESC, level DESC, repo_key LIMIT 500");
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Backend> result;
  for (const auto& row : *rows) result.push_back(read_backend(row));
  return result;
}

Result<std::optional<Backend>> Queries::backend(std::string_view repo_key) {
  auto rows = tx_.query(
      "SELECT repo_key, repo, level, device, oncalls, listed, since FROM backends WHERE repo_key = "
      "$1",
      {repo_key});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  return read_backend(rows->front());
}

Result<std::vector<Job>> Queries::window(std::string_view repo_key, base::Time now) {
  auto rows =
      tx_.query(fmt::format("SELECT {} FROM jobs WHERE repo_key = $1 AND first_seen_at > $2 "
                            "ORDER BY first_seen_at DESC LIMIT {}",
                            k_job_columns, k_window_attempts),
                {repo_key, now - k_window});
  if (!rows) return tl::unexpected(rows.error());
  return read_jobs(*rows);
}

Result<BackendSummary> Queries::summary(Backend backend, base::Time now) {
  const auto key = backend.repo_key;
  auto window = this->window(key, now);
  if (!window) return tl::unexpected(window.error());
  std::optional<base::Time> last_report;
  if (window->empty()) {
    auto last = tx_.query(
        "SELECT COALESCE(completed_at, first_seen_at) FROM jobs WHERE repo_key = $1 "
        "ORDER BY first_seen_at DESC LIMIT 1",
        {key});
    if (!last) return tl::unexpected(last.error());
    if (!last->empty()) last_report = last->front().time(0);
  }
  return summarise(std::move(backend), std::move(*window), last_report, now);
}

Result<std::vector<Dispatch>> Queries::dispatches_of(const std::vector<Delivery>& deliveries) {
  if (deliveries.empty()) return std::vector<Dispatch>{};
  std::vector<std::int64_t> ids;
  ids.reserve(deliveries.size());
  for (const auto& delivery : deliveries) ids.push_back(delivery.id);
  Parameters parameters;
  const auto list = in_list(parameters, ids);
  auto rows = tx_.query(fmt::format("SELECT {} FROM dispatches x WHERE x.delivery IN ({}) LIMIT {}",
                                    k_dispatch_columns, list, k_max_jobs),
                        parameters);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Dispatch> dispatches;
  for (const auto& row : *rows) dispatches.push_back(read_dispatch(row));
  return dispatches;
}

Result<std::vector<Job>> Queries::jobs_where(std::string_view column,
                                             const std::vector<std::string>& values,
                                             std::string_view repo_key) {
  if (values.empty()) return std::vector<Job>{};
  Parameters parameters;
  const auto list = in_list(parameters, values);
  std::string sql =
      fmt::format("SELECT {} FROM jobs WHERE {} IN ({})", k_job_columns, column, list);
  if (!repo_key.empty()) {
    parameters.emplace_back(repo_key);
    sql += fmt::format(" AND repo_key = ${}", parameters.size());
  }
  auto rows = tx_.query(sql + fmt::format(" ORDER BY id DESC LIMIT {}", k_max_jobs), parameters);
  if (!rows) return tl::unexpected(rows.error());
  return read_jobs(*rows);
}

Result<std::vector<Job>> Queries::jobs_of(const std::vector<Delivery>& deliveries,
                                          std::string_view repo_key) {
  std::vector<std::string> shas;
  std::vector<std::string> without_sha;
  for (const auto& delivery : deliveries) {
    if (delivery.head_sha.empty()) {
      without_sha.push_back(delivery.delivery_id);
    } else {
      shas.push_back(delivery.head_sha);
    }
  }
  auto jobs = jobs_where("head_sha", unique(std::move(shas)), repo_key);
  if (!jobs) return jobs;
  auto others = jobs_where("delivery_id", unique(std::move(without_sha)), repo_key);
  if (!others) return others;
  jobs->insert(jobs->end(), std::make_move_iterator(others->begin()),
               std::make_move_iterator(others->end()));
  return jobs;
}

Result<void> Queries::add_counts(std::vector<Change>& changes) {
  std::set<std::string> digests;
  using File = std::pair<std::string, std::string>;  // whose, and its digest
  const auto each_job = [&](auto use) {
    for (auto& change : changes) {
      for (auto& backend : change.backends) {
        for (auto& latest : backend.jobs) use(latest.job);
      }
    }
  };
  each_job([&](Job& job) {
    if (!job.results_digest.empty()) digests.insert(job.results_digest);
  });
  if (digests.empty()) return {};
  Parameters parameters;
  const auto list = in_list(parameters, std::vector<std::string>{digests.begin(), digests.end()});
  auto rows = tx_.query(
      fmt::format("SELECT repo_key, results_digest, counts FROM runs WHERE results_digest IN ({}) "
                  "AND finished_at IS NOT NULL ORDER BY id",
                  list),
      parameters);
  if (!rows) return tl::unexpected(rows.error());
  std::map<File, base::OutcomeCounts> counts;
  for (const auto& row : *rows) {
    counts.try_emplace({row.text(0), row.text(1)}, read_counts(row.text(2)));
  }
  each_job([&](Job& job) {
    if (const auto found = counts.find({job.repo_key, job.results_digest}); found != counts.end()) {
      job.counts = found->second;
    }
  });
  return {};
}

Result<std::vector<Change>> Queries::changes_of(std::vector<Delivery> deliveries) {
  auto dispatches = dispatches_of(deliveries);
  if (!dispatches) return tl::unexpected(dispatches.error());
  auto jobs = jobs_of(deliveries, {});
  if (!jobs) return tl::unexpected(jobs.error());
  auto changes = join_changes(std::move(deliveries), std::move(*dispatches), std::move(*jobs));
  if (auto added = add_counts(changes); !added) return tl::unexpected(added.error());
  return changes;
}

Result<std::vector<Change>> Queries::recent_changes(std::int64_t limit) {
  auto rows = tx_.query(
      fmt::format("SELECT {} FROM deliveries d WHERE EXISTS (SELECT 1 FROM dispatches x WHERE "
                  "x.delivery = d.id) ORDER BY d.id DESC LIMIT {}",
                  k_delivery_columns, limit));
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Delivery> deliveries;
  for (const auto& row : *rows) deliveries.push_back(read_delivery(row));
  return changes_of(std::move(deliveries));
}

Result<std::vector<Change>> Queries::pull_request(std::int64_t number) {
  auto rows = tx_.query(fmt::format("SELECT {} FROM deliveries d WHERE d.pr_number = $1 "
                                    "ORDER BY d.received_at DESC LIMIT {}",
                                    k_delivery_columns, k_max_deliveries),
                        {number});
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Delivery> deliveries;
  for (const auto& row : *rows) deliveries.push_back(read_delivery(row));
  return changes_of(std::move(deliveries));
}

Result<std::vector<std::string>> Queries::find_commits(const std::string& prefix) {
  // Past every text that begins with `prefix`: 'g' follows the hex digits.
  const Parameters range{prefix, prefix + 'g'};
  std::set<std::string> shas;
  for (const std::string_view table : {"deliveries", "jobs"}) {
    auto rows = tx_.query(fmt::format("SELECT DISTINCT head_sha FROM {} WHERE head_sha >= $1 AND "
                                      "head_sha < $2 LIMIT 2",
                                      table),
                          range);
    if (!rows) return tl::unexpected(rows.error());
    for (const auto& row : *rows) shas.insert(row.text(0));
  }
  if (shas.contains(prefix)) return std::vector<std::string>{prefix};
  return std::vector<std::string>{shas.begin(), shas.end()};
}

Result<std::optional<Change>> Queries::commit(const std::string& sha) {
  auto rows = tx_.query(
      fmt::format("SELECT {} FROM deliveries d WHERE d.head_sha = $1 ORDER BY d.id DESC LIMIT {}",
                  k_delivery_columns, k_max_deliveries),
      {sha});
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Delivery> deliveries;
  for (const auto& row : *rows) deliveries.push_back(read_delivery(row));
  auto dispatches = dispatches_of(deliveries);
  if (!dispatches) return tl::unexpected(dispatches.error());
  auto jobs = jobs_where("head_sha", {sha}, {});
  if (!jobs) return tl::unexpected(jobs.error());
  auto changes = join_changes(std::move(deliveries), std::move(*dispatches), std::move(*jobs));
  if (auto added = add_counts(changes); !added) return tl::unexpected(added.error());
  if (changes.empty()) return std::nullopt;
  return std::move(changes.front());
}

Result<Queries::GridPage> Queries::grid(std::string_view repo_key, const GridFilter& filter) {
  Parameters parameters{repo_key};
  std::string where;
  if (!filter.event.empty()) {
    parameters.emplace_back(filter.event);
    where += fmt::format(" AND d.event_type = ${}", parameters.size());
  }
  if (!filter.branch.empty()) {
    parameters.emplace_back(filter.branch);
    const auto branch = parameters.size();
    parameters.emplace_back("refs/heads/" + filter.branch);
    where += fmt::format(
        " AND (d.base_ref = ${0} OR d.head_ref = ${0} OR d.git_ref = ${0} OR d.git_ref = ${1})",
        branch, branch + 1);
  }
  auto rows = tx_.query(
      fmt::format(
          "SELECT {}, {} FROM (SELECT * FROM dispatches WHERE repo_key = $1 ORDER BY "
          "created_at DESC LIMIT {}) x JOIN deliveries d ON d.id = x.delivery WHERE 1 = 1{}",
          k_delivery_columns, k_dispatch_columns, k_grid_window, where),
      parameters);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Delivery> deliveries;
  std::vector<Dispatch> dispatches;
  for (const auto& row : *rows) {
    deliveries.push_back(read_delivery(row));
    dispatches.push_back(read_dispatch(row, k_delivery_width));
  }
  // Reports without an event before them: nightly and periodic.
  std::vector<Job> reports;
  if (filter.branch.empty()) {
    Parameters of_reports{repo_key};
    std::string event;
    if (!filter.event.empty()) {
      of_reports.emplace_back(filter.event);
      event = " AND event_type = $2";
    }
    auto report_rows = tx_.query(
        fmt::format("SELECT {} FROM jobs WHERE repo_key = $1 AND delivery IS NULL{} ORDER BY "
                    "first_seen_at DESC LIMIT {}",
                    k_job_columns, event, k_max_reports),
        of_reports);
    if (!report_rows) return tl::unexpected(report_rows.error());
    reports = read_jobs(*report_rows);
  }
  GridPage page;
  page.window_cut = static_cast<std::int64_t>(rows->size()) >= k_grid_window;

  // The order of commits needs no jobs: without a filter on them only the page's are read.
  auto wanted = deliveries;
  if (filter.q.empty() && !filter.status) {
    const auto order = join_changes(deliveries, dispatches, reports);
    wanted.clear();
    const auto begin = static_cast<std::size_t>(filter.page - 1) * k_grid_rows;
    for (auto i = begin; i < std::min(begin + k_grid_rows, order.size()); ++i) {
      wanted.insert(wanted.end(), order[i].deliveries.begin(), order[i].deliveries.end());
    }
  }
  auto jobs = jobs_of(wanted, repo_key);
  if (!jobs) return tl::unexpected(jobs.error());
  std::set<std::int64_t> known;
  for (const auto& job : *jobs) known.insert(job.id);
  for (auto& report : reports) {
    if (!known.contains(report.id)) jobs->push_back(std::move(report));
  }
  page.grid = make_grid(
      join_changes(std::move(deliveries), std::move(dispatches), std::move(*jobs)), filter);
  return page;
}

Result<std::optional<Run>> Queries::run_of(const Job& job) {
  if (job.results_digest.empty()) return std::nullopt;
  auto rows = tx_.query(
      "SELECT r.id, r.run_key, r.command, r.selection, r.environment, r.started_at, r.finished_at, "
      "r.counts, c.backend, c.backend_revision, c.core_revision, c.suite_revision, c.device, "
      "c.environment_digest FROM runs r JOIN combinations c ON c.digest = r.combination "
      "WHERE r.results_digest = $1 AND r.repo_key = $2 AND r.finished_at IS NOT NULL "
      "ORDER BY r.id LIMIT 1",
      {job.results_digest, job.repo_key});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  const Row& row = rows->front();
  Run run;
  run.id = row.integer(0);
  run.run_key = name_of(row.text(1));
  if (const auto command = base::parse_json(row.text(2), "command");
      command && command->is_array()) {
    for (const auto& argument : command->get_array()) {
      if (argument.is_string()) run.command.push_back(base::to_utf8(argument.get_string(), 4096));
    }
  }
  run.selection = name_of(row.text(3));
  run.environment = read_pairs(row.text(4));
  run.started_at = row.time(5);
  run.finished_at = row.optional_time(6);
  run.counts = read_counts(row.text(7));
  run.combination = {name_of(row.text(8)),  name_of(row.text(9)),  name_of(row.text(10)),
                     name_of(row.text(11)), name_of(row.text(12)), name_of(row.text(13))};
  return run;
}

Result<std::vector<Cluster>> Queries::clusters(std::int64_t run) {
  auto groups = tx_.query(
      fmt::format("SELECT r.kind, r.fingerprint, COUNT(*), MIN(r.test) FROM test_results r WHERE "
                  "r.run = $1 AND r.outcome IN {} AND {} GROUP BY r.kind, r.fingerprint "
                  "ORDER BY COUNT(*) DESC, MIN(r.test) LIMIT {}",
                  k_failing, k_latest, k_max_clusters),
      {run});
  if (!groups) return tl::unexpected(groups.error());
  if (groups->empty()) return std::vector<Cluster>{};
  Parameters parameters{run};
  std::vector<std::int64_t> tests;
  for (const auto& row : *groups) tests.push_back(row.integer(3));
  const auto list = in_list(parameters, tests);
  auto messages = tx_.query(
      fmt::format(
          "SELECT r.test, r.message FROM test_results r WHERE r.run = $1 AND r.test IN ({}) "
          "ORDER BY r.test, r.attempt",
          list),
      parameters);
  if (!messages) return tl::unexpected(messages.error());
  std::map<std::int64_t, std::string> lines;
  for (const auto& row : *messages) lines[row.integer(0)] = first_line(row.text(1));
  std::vector<Cluster> clusters;
  for (const auto& row : *groups) {
    clusters.push_back({base::parse_failure_kind(row.text(0)).value_or(base::FailureKind::other),
                        name_of(row.text(1)), row.integer(2), lines[row.integer(3)]});
  }
  return clusters;
}

Result<void> Queries::add_tests(JobPage& page) {
  const bool whole = page.filter.failing;
  const auto size = whole ? k_failing_page : k_tests_page;
  Parameters parameters{page.run->id};
  std::string where = fmt::format("r.run = $1 AND {}", k_latest);
  if (page.filter.failing) {
    where += fmt::format(" AND r.outcome IN {}", k_failing);
  } else if (page.filter.outcome) {
    parameters.emplace_back(to_string(*page.filter.outcome));
    where += fmt::format(" AND r.outcome = $2 AND NOT {}", k_flaky);
  } else if (page.filter.flaky) {
    where += fmt::format(" AND {}", k_flaky);
  }
  if (!page.filter.q.empty()) {
    parameters.emplace_back(like_part(page.filter.q));
    where += fmt::format(" AND LOWER(r.node_id) LIKE ${} ESCAPE '\\'", parameters.size());
  }
  auto rows = tx_.query(
      fmt::format(
          "SELECT r.test, r.node_id, t.file, t.class_name, t.method, t.variant, r.attempt, "
          "r.outcome, r.kind, r.fingerprint, r.message, r.detail, r.mismatch, r.duration_us "
          "FROM test_results r JOIN tests t ON t.id = r.test WHERE {} "
          "ORDER BY r.test LIMIT {} OFFSET {}",
          where, size + 1, (page.filter.page - 1) * size),
      parameters);
  if (!rows) return tl::unexpected(rows.error());
  page.more_tests = static_cast<std::int64_t>(rows->size()) > size;
  for (const auto& row : *rows) {
    if (static_cast<std::int64_t>(page.tests.size()) == size) break;
    Test test;
    test.id = row.integer(0);
    test.node_id = base::to_utf8(row.text(1), 2 * k_name_limit);
    test.file = name_of(row.text(2));
    test.class_name = name_of(row.text(3));
    test.method = name_of(row.text(4));
    test.variant = read_pairs(row.text(5));
    test.attempt = row.integer(6);
    test.outcome = base::parse_outcome(row.text(7)).value_or(base::Outcome::not_run);
    test.kind = base::parse_failure_kind(row.text(8)).value_or(base::FailureKind::other);
    test.fingerprint = name_of(row.text(9));
    test.message = base::to_utf8(row.text(10));
    test.detail = base::to_utf8(row.text(11));
    test.mismatch = read_mismatch(row.optional_text(12));
    test.duration = base::Duration{row.integer(13)};
    page.tests.push_back(std::move(test));
  }
  return {};
}

Result<void> Queries::add_check_runs(JobPage& page) {
  auto rows = tx_.query(
      "SELECT payload, state, last_error, COALESCE(sent_at, created_at), says FROM github_calls "
      "WHERE "
      "job = $1 AND kind = 'create_check_run' ORDER BY id",
      {page.job.id});
  if (!rows) return tl::unexpected(rows.error());
  for (const auto& row : *rows) {
    const auto body = base::parse_json(row.text(0), "payload");
    if (!body) continue;
    const auto conclusion = base::require_string(*body, "conclusion");
    const auto status = conclusion ? conclusion : base::require_string(*body, "status");
    // Past its retention, what remains is what it was about.
    page.check_runs.push_back({status.value_or(name_of(row.text(4))), row.text(1),
                               name_of(row.optional_text(2)), row.time(3)});
  }
  return {};
}

Result<std::optional<JobPage>> Queries::job(std::int64_t id, std::optional<TestFilter> filter,
                                            std::string q, std::int64_t page_number) {
  auto rows = tx_.query(
      fmt::format("SELECT {}, word_body, word_combination, delivery, commit_verified FROM jobs "
                  "WHERE id = $1",
                  k_job_columns),
      {id});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  JobPage page;
  page.job = read_job(rows->front());
  page.word_body = base::to_utf8(rows->front().text(27));
  page.word_combination = name_of(rows->front().optional_text(28));
  page.advice = read_advice(page.word_body);
  page.commit = static_cast<CommitState>(rows->front().integer(30));
  if (const auto delivery = rows->front().optional_integer(29)) {
    auto joined = tx_.query(
        fmt::format("SELECT {}, {} FROM deliveries d JOIN dispatches x ON x.delivery = d.id AND "
                    "x.repo_key = $2 WHERE d.id = $1",
                    k_delivery_columns, k_dispatch_columns),
        {*delivery, page.job.repo_key});
    if (!joined) return tl::unexpected(joined.error());
    if (!joined->empty()) {
      page.delivery = read_delivery(joined->front());
      page.dispatch = read_dispatch(joined->front(), k_delivery_width);
    }
  }
  auto siblings = page.job.head_sha.empty()
                      ? jobs_where("delivery_id", {page.job.delivery_id}, page.job.repo_key)
                      : jobs_where("head_sha", {page.job.head_sha}, page.job.repo_key);
  if (!siblings) return tl::unexpected(siblings.error());
  std::erase_if(*siblings, [&](const Job& other) {
    return other.job_name != page.job.job_name || other.workflow != page.job.workflow;
  });
  for (auto& latest : latest_attempts(std::move(*siblings))) {
    page.attempts.push_back(std::move(latest.job));
    page.attempts.insert(page.attempts.end(), latest.earlier.begin(), latest.earlier.end());
  }
  if (auto added = add_check_runs(page); !added) return tl::unexpected(added.error());
  auto found = run_of(page.job);
  if (!found) return tl::unexpected(found.error());
  page.run = std::move(*found);
  if (page.run) {
    page.job.counts = page.run->counts;
    const auto bad = page.run->counts.failures() + page.run->counts.faults();
    if (bad > 0) {
      auto grouped = clusters(page.run->id);
      if (!grouped) return tl::unexpected(grouped.error());
      page.clusters = std::move(*grouped);
    }
    page.filter.failing = bad > 0;
  }
  if (filter) page.filter = *filter;
  page.filter.q = std::move(q);
  page.filter.page = page_number;
  if (page.run) {
    if (auto added = add_tests(page); !added) return tl::unexpected(added.error());
  }
  return page;
}

}  // namespace crosscheck::hud
