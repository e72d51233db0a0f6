#include "model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <set>
#include <tuple>

#include "crosscheck/base/json.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/url.h"
#include "text.h"

namespace crosscheck::hud {
namespace {

// A commit, or the delivery that stands for one where upstream named none.
std::string commit_key(std::string_view head_sha, std::string_view delivery_id) {
  return head_sha.empty() ? "delivery " + std::string{delivery_id} : std::string{head_sha};
}
std::string commit_key(const Job& job) { return commit_key(job.head_sha, job.delivery_id); }

bool contains(std::string_view text, std::string_view lower_part) {
  return base::to_lower_ascii(text).find(lower_part) != std::string::npos;
}

}  // namespace

std::vector<LatestJob> latest_attempts(std::vector<Job> jobs) {
  using RunKey = std::pair<std::string, std::string>;  // repository, run id
  std::map<RunKey, base::Time> run_began;
  for (const auto& job : jobs) {
    const auto [it, is_new] = run_began.try_emplace({job.repo_key, job.run_id}, job.first_seen_at);
    if (!is_new) it->second = std::min(it->second, job.first_seen_at);
  }
  const auto order = [&](const Job& job) {
    return std::tuple{run_began.at({job.repo_key, job.run_id}), job.run_id, job.run_attempt,
                      job.id};
  };
  std::ranges::sort(jobs, [&](const Job& a, const Job& b) { return order(a) > order(b); });

  std::vector<LatestJob> latest;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::size_t> index;
  for (auto& job : jobs) {
    const auto [it, is_new] = index.try_emplace(
        {job.repo_key, commit_key(job), job.workflow, job.job_name}, latest.size());
    if (is_new) {
      latest.push_back({std::move(job), {}});
    } else {
      latest[it->second].earlier.push_back(std::move(job));
    }
  }
  return latest;
}

PassRate pass_rate(std::span<const LatestJob> jobs) {
  PassRate rate;
  for (const auto& latest : jobs) {
    if (!info(latest.job.state).counted) continue;
    ++rate.counted;
    if (latest.job.state == State::passed) ++rate.passed;
  }
  return rate;
}

std::optional<Percentiles> percentiles(std::vector<base::Duration> samples) {
  if (samples.empty()) return std::nullopt;
  std::ranges::sort(samples);
  const auto rank = [&](std::size_t p) { return samples[(samples.size() * p + 99) / 100 - 1]; };
  return Percentiles{rank(50), rank(95), static_cast<std::int64_t>(samples.size())};
}

std::optional<FailingSince> failing_since(std::span<const LatestJob> jobs) {
  struct Commit {
    State state = State::no_data;
    base::Time began{};
    const Job* first_failure = nullptr;
  };
  std::map<std::string, Commit> commits;
  for (const auto& latest : jobs) {
    const Job& job = latest.job;
    if (!info(job.state).counted) continue;
    auto& commit = commits[commit_key(job)];
    if (commit.state == State::no_data || job.first_seen_at < commit.began) {
      commit.began = job.first_seen_at;
    }
    commit.state = worse(commit.state, job.state);
    if (is_bad(job.state) &&
        (!commit.first_failure || job.first_seen_at < commit.first_failure->first_seen_at)) {
      commit.first_failure = &job;
    }
  }
  std::vector<const Commit*> order;
  order.reserve(commits.size());
  for (const auto& [key, commit] : commits) order.push_back(&commit);
  std::ranges::sort(order, std::greater{}, &Commit::began);
  std::optional<FailingSince> since;
  std::int64_t in_a_row = 0;
  for (const Commit* commit : order) {
    if (!is_bad(commit->state)) break;
    const Job& job = *commit->first_failure;
    since = FailingSince{job.first_seen_at, job.id, job.head_sha, ++in_a_row};
  }
  return since;
}

bool collects_results(std::string_view level) { return level != "L1"; }
bool can_block(std::string_view level) { return level == "L4"; }

std::string_view to_string(Freshness freshness) {
  switch (freshness) {
    case Freshness::fresh:
      return "fresh";
    case Freshness::no_recent_data:
      return "no_recent_data";
    case Freshness::never_reported:
      return "never_reported";
    case Freshness::not_collected:
      return "not_collected";
  }
  return "";
}

BackendSummary summarise(Backend backend, std::vector<Job> window,
                         std::optional<base::Time> last_report, base::Time now) {
  BackendSummary summary;
  summary.window_cut = static_cast<std::int64_t>(window.size()) >= k_window_attempts;
  summary.last_report = last_report;
  for (const auto& job : window) {
    if (!summary.last_report || job.newest_at() > *summary.last_report) {
      summary.last_report = job.newest_at();
    }
  }
  if (!collects_results(backend.level)) {
    summary.freshness = Freshness::not_collected;
  } else if (!summary.last_report) {
    summary.freshness = Freshness::never_reported;
  } else {
    summary.freshness =
        now - *summary.last_report <= k_fresh ? Freshness::fresh : Freshness::no_recent_data;
  }
  // Queue and end-to-end times of every attempt that has them: a re-run has none, so it adds
  // nothing.
  std::vector<base::Duration> queue;
  std::vector<base::Duration> end_to_end;
  for (const auto& job : window) {
    if (job.queue) queue.push_back(*job.queue);
    if (job.queue && job.execution) end_to_end.push_back(*job.queue + *job.execution);
  }
  summary.queue = percentiles(std::move(queue));
  summary.end_to_end = percentiles(std::move(end_to_end));

  auto jobs = latest_attempts(std::move(window));
  summary.rate = pass_rate(jobs);
  summary.failing = failing_since(jobs);
  if (!jobs.empty()) {
    const auto newest = commit_key(jobs.front().job);
    for (const auto& latest : jobs) {
      if (commit_key(latest.job) == newest) summary.state = worse(summary.state, latest.job.state);
    }
  }
  if (jobs.size() > k_spark_jobs) jobs.resize(k_spark_jobs);
  std::ranges::reverse(jobs);
  summary.recent = std::move(jobs);
  summary.backend = std::move(backend);
  return summary;
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::failed:
      return "failed";
    case Verdict::not_dispatched:
      return "not_dispatched";
    case Verdict::pending:
      return "pending";
    case Verdict::inconclusive:
      return "inconclusive";
    case Verdict::passed:
      return "passed";
    case Verdict::withdrawn:
      return "withdrawn";
    case Verdict::not_collected:
      return "not_collected";
  }
  return "";
}

State state_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::failed:
      return State::failed;
    case Verdict::not_dispatched:
      return State::dead;
    case Verdict::pending:
      return State::running;
    case Verdict::inconclusive:
      return State::neutral;
    case Verdict::passed:
      return State::passed;
    case Verdict::withdrawn:
      return State::withdrawn;
    case Verdict::not_collected:
      return State::no_data;
  }
  return State::no_data;
}

Verdict judge(std::string_view level, const std::optional<Dispatch>& dispatch,
              std::span<const LatestJob> jobs) {
  bool passed = false;
  bool open = false;
  bool cancelled = false;
  for (const auto& latest : jobs) {
    if (is_bad(latest.job.state)) return Verdict::failed;
    cancelled = cancelled || latest.job.state == State::cancelled;
    open = open || is_open(latest.job.state);
    passed = passed || latest.job.state == State::passed;
  }
  if (open) return Verdict::pending;
  // A newer dispatch of the same commit that has not been answered leaves the old answer standing.
  if (!jobs.empty()) return passed && !cancelled ? Verdict::passed : Verdict::inconclusive;
  if (!dispatch || dispatch->state == State::dead) return Verdict::not_dispatched;
  if (dispatch->state == State::withdrawn) return Verdict::withdrawn;
  if (!collects_results(level) && dispatch->state == State::dispatched)
    return Verdict::not_collected;
  return Verdict::pending;
}

Summary summarise(std::span<const BackendResult> backends) {
  std::map<Verdict, std::int64_t> n;
  std::int64_t total = 0;
  std::int64_t blocking_failures = 0;
  std::int64_t blocking_open = 0;
  for (const auto& backend : backends) {
    if (backend.verdict == Verdict::not_collected || backend.verdict == Verdict::withdrawn)
      continue;
    ++total;
    ++n[backend.verdict];
    if (!backend.can_block) continue;
    if (backend.verdict == Verdict::failed) ++blocking_failures;
    if (backend.verdict == Verdict::pending || backend.verdict == Verdict::not_dispatched)
      ++blocking_open;
  }
  const auto of_all = [total](std::int64_t k) {
    return total == 1 ? std::string{"The one backend"} : fmt::format("{} of {} backends", k, total);
  };
  if (total == 0) {
    return {Verdict::not_collected, false,
            backends.empty() ? "No backend was asked about this commit."
                             : "No backend that was asked about this commit reports results."};
  }
  const auto rest = [&](Verdict verdict, std::string_view words) {
    return n[verdict] == 0 ? std::string{} : fmt::format("; {} {}", n[verdict], words);
  };
  if (const auto failed = n[Verdict::failed]; failed > 0) {
    std::string sentence = of_all(failed) + " failed";
    if (blocking_failures == 0) {
      sentence += total == 1 ? " and does not block the merge" : "; none blocks the merge";
    } else if (blocking_failures == failed) {
      sentence += failed == 1 ? " and blocks the merge" : " and each blocks the merge";
    } else {
      sentence += fmt::format("; {} of them block{} the merge", blocking_failures,
                              blocking_failures == 1 ? "s" : "");
    }
    sentence += rest(Verdict::not_dispatched, "not dispatched");
    sentence += rest(Verdict::pending, "still pending");
    return {Verdict::failed, blocking_failures > 0, sentence + "."};
  }
  const auto may_block = [&](std::int64_t of) {
    if (blocking_open == 0) return std::string{"."};
    if (of == 1) return std::string{"; it may still block the merge."};
    return fmt::format("; {} of them may still block the merge.", blocking_open);
  };
  if (const auto dead = n[Verdict::not_dispatched]; dead > 0) {
    return {Verdict::not_dispatched, false,
            of_all(dead) + " could not be dispatched to" + rest(Verdict::pending, "still pending") +
                may_block(dead + n[Verdict::pending])};
  }
  if (const auto pending = n[Verdict::pending]; pending > 0) {
    std::string sentence = of_all(pending) + (pending == 1 ? " is pending" : " are pending");
    if (total != pending) sentence += "; none has failed";
    return {Verdict::pending, false, sentence + may_block(pending)};
  }
  if (const auto passed = n[Verdict::passed]; passed > 0) {
    if (passed == total) {
      return {
          Verdict::passed, false,
          total == 1 ? "The one backend passed." : fmt::format("All {} backends passed.", total)};
    }
    return {Verdict::passed, false,
            fmt::format("{} of {} backends passed; {} ended without a result.", passed, total,
                        total - passed)};
  }
  return {Verdict::inconclusive, false,
          total == 1 ? "The one backend ended without a result."
                     : fmt::format("All {} backends ended without a result.", total)};
}

std::vector<Change> join_changes(std::vector<Delivery> deliveries, std::vector<Dispatch> dispatches,
                                 std::vector<Job> jobs) {
  std::map<std::string, Change> changes;
  std::map<std::int64_t, std::string> commit_of;  // delivery's row id
  std::ranges::sort(deliveries, std::greater{}, &Delivery::id);
  for (auto& delivery : deliveries) {
    const auto key = commit_key(delivery.head_sha, delivery.delivery_id);
    commit_of[delivery.id] = key;
    auto& change = changes[key];
    change.head_sha = delivery.head_sha;
    change.at = std::max(change.at, delivery.received_at);
    change.deliveries.push_back(std::move(delivery));
  }
  struct Part {
    std::optional<Dispatch> dispatch;
    std::vector<Job> jobs;
  };
  std::map<std::string, std::map<std::string, Part>> parts;  // commit, repository
  for (auto& dispatch : dispatches) {
    const auto commit = commit_of.find(dispatch.delivery);
    if (commit == commit_of.end()) continue;
    auto& part = parts[commit->second][dispatch.repo_key];
    // The newest that was not withdrawn says where the backend stands.
    const auto rank = [](const Dispatch& d) {
      return std::pair{d.state != State::withdrawn, d.delivery};
    };
    if (!part.dispatch || rank(dispatch) > rank(*part.dispatch))
      part.dispatch = std::move(dispatch);
  }
  for (auto& job : jobs) {
    const auto key = commit_key(job);
    auto& change = changes[key];
    change.head_sha = job.head_sha;
    if (change.deliveries.empty()) change.at = std::max(change.at, job.first_seen_at);
    parts[key][job.repo_key].jobs.push_back(std::move(job));
  }
  std::vector<Change> result;
  for (auto& [key, change] : changes) {
    for (auto& [repo_key, part] : parts[key]) {
      BackendResult backend;
      backend.repo_key = repo_key;
      backend.dispatch = std::move(part.dispatch);
      backend.jobs = latest_attempts(std::move(part.jobs));
      if (backend.dispatch) {
        backend.repo = backend.dispatch->repo;
        backend.level = backend.dispatch->level;
        backend.device = backend.dispatch->device;
      } else {
        const Job& job = backend.jobs.front().job;
        backend.repo = job.repo;
        backend.level = job.level;
        backend.device = job.device;
      }
      // Failures first; within a state by name, so that a page's order does not change from report
      // to report.
      std::ranges::stable_sort(backend.jobs, [](const LatestJob& a, const LatestJob& b) {
        return std::tuple{!is_bad(a.job.state), a.job.workflow, a.job.job_name} <
               std::tuple{!is_bad(b.job.state), b.job.workflow, b.job.job_name};
      });
      backend.verdict = judge(backend.level, backend.dispatch, backend.jobs);
      // Only what upstream asked for can hold up a merge.
      backend.can_block = can_block(backend.level) && backend.dispatch.has_value();
      change.backends.push_back(std::move(backend));
    }
    std::ranges::stable_sort(change.backends, {}, &BackendResult::verdict);
    result.push_back(std::move(change));
  }
  std::ranges::stable_sort(result, std::greater{}, &Change::at);
  return result;
}

std::string job_group(std::string_view job_name) {
  std::string_view name = job_name;
  if (name.ends_with(')')) {
    if (const auto open = name.rfind('('); open != std::string_view::npos && open > 0) {
      name = name.substr(0, open);
      while (name.ends_with(' ')) name.remove_suffix(1);
    }
  }
  return std::string{name.empty() ? job_name : name};
}

namespace {

GridColumn column_of(const Job& job, bool ungrouped) {
  return {job.workflow, ungrouped ? job.job_name : job_group(job.job_name)};
}

bool commit_matches(const Change& change, std::string_view q) {
  std::string_view number = q;
  if (number.starts_with('#')) number.remove_prefix(1);
  if (change.head_sha.starts_with(q)) return true;
  return std::ranges::any_of(change.deliveries, [&](const Delivery& delivery) {
    return contains(delivery.pr_title, q) || contains(delivery.sender, q) ||
           (delivery.pr_number && std::to_string(*delivery.pr_number) == number);
  });
}

bool has_status(const Change& change, State status) {
  return std::ranges::any_of(change.backends, [&](const BackendResult& backend) {
    if (backend.jobs.empty()) return backend.dispatch && backend.dispatch->state == status;
    return std::ranges::any_of(backend.jobs,
                               [&](const LatestJob& latest) { return latest.job.state == status; });
  });
}

}  // namespace

Grid make_grid(std::vector<Change> changes, const GridFilter& filter) {
  const auto q = base::to_lower_ascii(filter.q);
  const auto column_matches = [&](const GridColumn& column) {
    return q.empty() || contains(column.name, q) || contains(column.workflow, q);
  };
  if (filter.status) {
    std::erase_if(changes,
                  [&](const Change& change) { return !has_status(change, *filter.status); });
  }
  // The text is a job's if any job bears it, else a commit's.
  bool q_is_job = false;
  for (const auto& change : changes) {
    for (const auto& backend : change.backends) {
      for (const auto& latest : backend.jobs) {
        q_is_job = q_is_job || (!q.empty() && column_matches(column_of(latest.job, true)));
      }
    }
  }
  if (!q.empty()) {
    std::erase_if(changes, [&](const Change& change) {
      if (!q_is_job) return !commit_matches(change, q);
      return std::ranges::none_of(change.backends, [&](const BackendResult& backend) {
        return std::ranges::any_of(backend.jobs, [&](const LatestJob& latest) {
          return column_matches(column_of(latest.job, true));
        });
      });
    });
  }
  Grid grid;
  grid.commits = static_cast<std::int64_t>(changes.size());
  const auto skip = static_cast<std::size_t>(filter.page - 1) * k_grid_rows;
  changes.erase(changes.begin(),
                changes.begin() + static_cast<std::ptrdiff_t>(std::min(skip, changes.size())));
  if (changes.size() > k_grid_rows) changes.resize(k_grid_rows);

  std::set<GridColumn> columns;
  for (const auto& change : changes) {
    for (const auto& backend : change.backends) {
      for (const auto& latest : backend.jobs) {
        if (q_is_job && !column_matches(column_of(latest.job, true))) continue;
        columns.insert(column_of(latest.job, filter.ungrouped));
      }
    }
  }
  for (const auto& column : columns) {
    if (grid.columns.size() == k_grid_columns) break;
    grid.columns.push_back(column);
  }
  for (auto& change : changes) {
    GridRow row;
    row.cells.resize(grid.columns.size());
    for (const auto& backend : change.backends) {
      for (const auto& latest : backend.jobs) {
        if (q_is_job && !column_matches(column_of(latest.job, true))) continue;
        const auto column = column_of(latest.job, filter.ungrouped);
        const auto at = std::ranges::lower_bound(grid.columns, column);
        if (at == grid.columns.end() || *at != column) continue;
        auto& cell = row.cells[static_cast<std::size_t>(at - grid.columns.begin())];
        if (!cell) cell.emplace();
        if (cell->jobs == 0 || info(latest.job.state).rank > info(cell->state).rank) {
          cell->state = latest.job.state;
          cell->job_id = latest.job.id;
        }
        ++cell->jobs;
        cell->attempts = std::max(cell->attempts, latest.attempts());
      }
    }
    row.change = std::move(change);
    grid.rows.push_back(std::move(row));
  }
  return grid;
}

std::string TestFilter::outcome_name() const {
  if (failing) return "failing";
  if (flaky) return "flaky";
  return outcome ? std::string{to_string(*outcome)} : "all";
}

Advice read_advice(std::string_view word_body) {
  Advice advice;
  const auto body = base::parse_json(word_body, "report");
  if (!body) return advice;
  const auto text = [](const base::json::value& object, std::string_view name) {
    const auto* value = base::find(object, name);
    return value != nullptr && value->is_string() ? base::to_utf8(value->get_string())
                                                  : std::string{};
  };
  if (const auto* given = base::find(*body, "workflow.triage_verdict"); given != nullptr) {
    TriageVerdict verdict{.category = text(*given, "category"), .summary = text(*given, "summary")};
    if (const auto* confidence = base::find(*given, "confidence"))
      verdict.confidence =
          confidence->is_string() ? text(*given, "confidence") : base::canonical_json(*confidence);
    if (const auto* pr = base::find(*given, "suspected_upstream.pr"); pr != nullptr)
      if (const auto* number = pr->if_int64()) verdict.suspected_pr = *number;
    verdict.suspected_commit =
        parse_sha(text(*given, "suspected_upstream.commit")).value_or(std::string{});
    verdict.reason = text(*given, "suspected_upstream.reason");
    const auto* list = base::find(*given, "evidence");
    if (list != nullptr && list->is_array())
      for (const auto& one : list->get_array()) {
        TriageVerdict::Evidence evidence{text(one, "job"), text(one, "test"), text(one, "excerpt"),
                                         text(one, "log_url")};
        if (!base::is_web_url(evidence.url)) evidence.url.clear();
        verdict.evidence.push_back(std::move(evidence));
      }
    if (!verdict.category.empty()) advice.verdict = std::move(verdict);
  }
  const auto* tests = base::find(*body, "workflow.failed_tests_detail");
  if (tests != nullptr && tests->is_array())
    for (const auto& one : tests->get_array()) {
      WordTest test{text(one, "name"), text(one, "classname"), text(one, "message"),
                    text(one, "stacktrace")};
      if (!test.name.empty()) advice.failed_tests.push_back(std::move(test));
    }
  return advice;
}

std::string error_line(const JobPage& page) {
  const Job& job = page.job;
  if (job.state == State::timed_out && job.concluded_by == "relay") {
    return "The job stopped reporting and was ended by the relay as timed out.";
  }
  if (!page.clusters.empty() && !page.clusters.front().line.empty())
    return page.clusters.front().line;
  if (!is_bad(job.state)) return {};
  if (page.run) {
    return "The stored results hold no failed test: the job failed outside the tests. Its log has "
           "the reason.";
  }
  return job.results_digest.empty()
             ? "The backend's CI sent no test results; its log has the reason."
             : "The backend's CI named test results that have not been uploaded; its log has the "
               "reason.";
}

std::string contradiction(const JobPage& page) {
  if (!page.run) return {};
  const auto& counts = page.run->counts;
  const auto bad = counts.failures() + counts.faults();
  if (page.job.state == State::passed && bad > 0) {
    return fmt::format(
        "The downstream concluded success; the stored results hold {} that did not pass.",
        count_of(bad, "test"));
  }
  const auto differs = [](const std::optional<std::int64_t>& word, std::int64_t stored) {
    return word && *word != stored;
  };
  // Backends count crashes, time-outs and faults as failures or not at all: only what has one
  // meaning is compared.
  if (differs(page.job.word_passed, counts[base::Outcome::passed])) {
    return fmt::format("The downstream says that {} passed; the stored results hold {}.",
                       *page.job.word_passed, counts[base::Outcome::passed]);
  }
  if (page.job.word_failed && *page.job.word_failed == 0 && counts.failures() > 0) {
    return fmt::format("The downstream says that none failed; the stored results hold {}.",
                       count_of(counts.failures(), "failure"));
  }
  return {};
}

}  // namespace crosscheck::hud
