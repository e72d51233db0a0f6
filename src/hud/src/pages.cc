#include "pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <ranges>

#include "crosscheck/base/html.h"
#include "crosscheck/base/json.h"
#include "crosscheck/hud/readiness.h"
#include "crosscheck/net/http.h"
#include "text.h"
#include "twins.h"

namespace crosscheck::hud {
namespace {

namespace json = boost::json;

constexpr std::size_t k_detail_limit =
    6 * 1024;  // of a traceback on the page; the twin has all of it
constexpr std::size_t k_body_limit = 16 * 1024;
constexpr std::size_t k_word_tests = 25;  // of those a report names; the twin has all

json::object state_of_page(State state) {
  const auto& entry = info(state);
  return {{"name", entry.name}, {"label", entry.label}, {"glyph", entry.glyph}};
}
json::value text_or_false(const std::string& text) {
  return text.empty() ? json::value(false) : json::value(text);
}
json::value time_of_page(const std::optional<base::Time>& time, base::Time now) {
  if (!time) return false;
  return json::object{
      {"iso", base::to_rfc3339(*time)}, {"text", clock_text(*time)}, {"age", age(*time, now)}};
}
json::value duration_of_page(const std::optional<base::Duration>& duration) {
  return duration ? json::value(seconds(*duration)) : json::value(false);
}
json::value percentiles_of_page(const std::optional<Percentiles>& percentiles) {
  if (!percentiles) return false;
  return json::object{{"p50", seconds(percentiles->p50)},
                      {"p95", seconds(percentiles->p95)},
                      {"n", percentiles->n}};
}

json::value commit_link(std::string_view sha, const PageContext& context) {
  if (sha.empty() || context.upstream_url.empty() || context.upstream_repo.empty()) return false;
  return json::value(fmt::format("{}/{}/commit/{}", context.upstream_url, context.upstream_repo,
                                 net::percent_encode(sha)));
}
json::value pull_link(std::optional<std::int64_t> number, const PageContext& context) {
  if (!number || context.upstream_url.empty() || context.upstream_repo.empty()) return false;
  return json::value(
      fmt::format("{}/{}/pull/{}", context.upstream_url, context.upstream_repo, *number));
}

json::value verdict_of_page(const std::optional<TriageVerdict>& verdict,
                            const PageContext& context) {
  if (!verdict) return false;
  json::array evidence;
  for (const auto& one : verdict->evidence)
    evidence.push_back(json::object{{"job", text_or_false(one.job)},
                                    {"test", text_or_false(one.test)},
                                    {"excerpt", text_or_false(one.excerpt)},
                                    {"url", text_or_false(one.url)}});
  return json::object{
      {"category", verdict->category},
      {"confidence", text_or_false(verdict->confidence)},
      {"summary", text_or_false(verdict->summary)},
      {"suspect", verdict->suspected_pr || !verdict->suspected_commit.empty()},
      {"pr", verdict->suspected_pr ? json::value(*verdict->suspected_pr) : json::value(false)},
      {"pr_link", pull_link(verdict->suspected_pr, context)},
      {"sha", text_or_false(short_sha(verdict->suspected_commit))},
      {"sha_link", commit_link(verdict->suspected_commit, context)},
      {"reason", text_or_false(verdict->reason)},
      {"evidence", std::move(evidence)}};
}

// Bars from old to new: a failure is tall and filled, a pass is low and hollow, the rest is a line.
std::string sparkline(const std::vector<LatestJob>& recent) {
  constexpr int k_step = 6;
  std::string svg;
  std::string label;
  std::vector<std::pair<State, int>> counts;
  int x = static_cast<int>(k_spark_jobs - recent.size()) * k_step;
  for (const auto& latest : recent) {
    const auto state = latest.job.state;
    const auto& entry = info(state);
    const auto found = std::ranges::find(counts, state, &std::pair<State, int>::first);
    if (found == counts.end()) {
      counts.emplace_back(state, 1);
    } else {
      ++found->second;
    }
    if (is_bad(state)) {
      svg += fmt::format("<rect class=\"sp-bad\" x=\"{}\" y=\"1\" width=\"4\" height=\"18\">", x);
    } else if (state == State::passed) {
      svg +=
          fmt::format("<rect class=\"sp-pass\" x=\"{}.5\" y=\"10.5\" width=\"3\" height=\"8\">", x);
    } else {
      svg += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"17\" width=\"4\" height=\"2\">",
                         is_open(state) ? "sp-open" : "sp-rest", x);
    }
    svg += fmt::format("<title>{}: {}</title></rect>", base::escape_html(latest.job.job_name),
                       entry.label);
    x += k_step;
  }
  for (const auto& [state, n] : counts) {
    label += fmt::format("{}{} {}", label.empty() ? "" : ", ", n, info(state).label);
  }
  return fmt::format(
      "<svg class=\"spark\" viewBox=\"0 0 {0} 20\" width=\"{0}\" height=\"20\" role=\"img\" "
      "aria-label=\"Last {1}: {2}\">{3}</svg>",
      static_cast<int>(k_spark_jobs) * k_step,
      count_of(static_cast<std::int64_t>(recent.size()), "job"), label.empty() ? "none" : label,
      svg);
}

json::object level_of_page(std::string_view level) {
  std::string_view means = "gets events; results are not collected";
  if (level == "L2") means = "results are shown here";
  if (level == "L3")
    means = "results are shown here, and on the pull request when its label is set; never blocks";
  if (level == "L4")
    means = "results are shown here and on the pull request; a failure blocks the merge";
  return {{"name", level}, {"means", means}};
}

json::object summary_of_page(const BackendSummary& summary, const PageContext& context) {
  std::string oncalls;
  for (const auto& oncall : summary.backend.oncalls)
    oncalls += (oncalls.empty() ? "" : ", ") + oncall;
  json::value rate = false;
  if (summary.rate.counted > 0) {
    rate = json::object{{"percent", percent(summary.rate.passed, summary.rate.counted)},
                        {"passed", summary.rate.passed},
                        {"counted", summary.rate.counted}};
  }
  json::value failing = false;
  if (summary.failing) {
    failing = json::object{{"when", time_of_page(summary.failing->at, context.now)},
                           {"job", summary.failing->job_id},
                           {"sha", text_or_false(short_sha(summary.failing->head_sha))},
                           {"commits", count_of(summary.failing->commits, "commit")}};
  }
  const bool fresh = summary.freshness == Freshness::fresh;
  std::string_view stale;
  switch (summary.freshness) {
    case Freshness::fresh:
      break;
    case Freshness::no_recent_data:
      stale = "no recent data";
      break;
    case Freshness::never_reported:
      stale = "no report yet";
      break;
    case Freshness::not_collected:
      stale = "results not collected";
      break;
  }
  return {{"repo", summary.backend.repo},
          {"level", level_of_page(summary.backend.level)},
          {"device", text_or_false(summary.backend.device)},
          {"oncalls", text_or_false(oncalls)},
          {"unlisted", !summary.backend.listed},
          {"collected", collects_results(summary.backend.level)},
          {"state", state_of_page(summary.state)},
          {"bad", is_bad(summary.state)},
          {"fresh", fresh},
          {"stale", stale.empty() ? json::value(false) : json::value(stale)},
          {"last_report", time_of_page(summary.last_report, context.now)},
          {"has_recent", !summary.recent.empty()},
          {"spark", sparkline(summary.recent)},
          {"rate", std::move(rate)},
          {"failing", std::move(failing)},
          {"queue", percentiles_of_page(summary.queue)},
          {"end_to_end", percentiles_of_page(summary.end_to_end)},
          {"window_cut", summary.window_cut}};
}

// Stored counts where there are any, else the downstream's word, marked as such.
json::value counts_of_page(const Job& job) {
  if (job.counts) {
    const auto bad = job.counts->failures() + job.counts->faults();
    return json::object{{"stored", true},
                        {"bad", bad},
                        {"any_bad", bad > 0},
                        {"passed", (*job.counts)[base::Outcome::passed]},
                        {"skipped", (*job.counts)[base::Outcome::skipped]},
                        {"total", job.counts->total()}};
  }
  if (!job.word_passed && !job.word_failed) return false;
  return json::object{{"stored", false},
                      {"bad", job.word_failed.value_or(0)},
                      {"any_bad", job.word_failed.value_or(0) > 0},
                      {"passed", job.word_passed.value_or(0)},
                      {"skipped", job.word_skipped.value_or(0)},
                      {"total", job.word_passed.value_or(0) + job.word_failed.value_or(0) +
                                    job.word_skipped.value_or(0)}};
}

json::object job_line(const LatestJob& latest, const PageContext& context) {
  const Job& job = latest.job;
  json::array earlier;
  for (const auto& other : latest.earlier) {
    earlier.push_back(json::object{{"id", other.id}, {"state", state_of_page(other.state)}});
  }
  return {{"id", job.id},
          {"name", job.job_name},
          {"workflow", job.workflow},
          {"state", state_of_page(job.state)},
          {"bad", is_bad(job.state)},
          {"attempts", latest.attempts() > 1 ? json::value(latest.attempts()) : json::value(false)},
          {"earlier", std::move(earlier)},
          {"counts", counts_of_page(job)},
          {"url", text_or_false(job.url)},
          {"queue", duration_of_page(job.queue)},
          {"execution", duration_of_page(job.execution)},
          {"when", time_of_page(job.newest_at(), context.now)},
          {"by_relay", job.concluded_by == "relay"}};
}

std::string change_title(const Change& change) {
  if (!change.deliveries.empty() && !change.deliveries.front().pr_title.empty()) {
    return change.deliveries.front().pr_title;
  }
  if (!change.deliveries.empty()) {
    const auto& delivery = change.deliveries.front();
    const auto& ref = delivery.git_ref.empty() ? delivery.head_ref : delivery.git_ref;
    return ref.empty() ? delivery.event_type : delivery.event_type + " " + ref;
  }
  for (const auto& backend : change.backends) {
    if (!backend.jobs.empty()) return backend.jobs.front().job.event_type + " report";
  }
  return "commit";
}

std::optional<std::int64_t> change_pr(const Change& change) {
  for (const auto& delivery : change.deliveries) {
    if (delivery.pr_number) return delivery.pr_number;
  }
  return std::nullopt;
}

json::object change_of_page(const Change& change, const PageContext& context) {
  const auto summary = summarise(change.backends);
  json::array backends;
  for (const auto& backend : change.backends) {
    json::array jobs;
    for (const auto& latest : backend.jobs) jobs.push_back(job_line(latest, context));
    json::value dispatch = false;
    if (backend.dispatch) {
      dispatch = json::object{{"state", state_of_page(backend.dispatch->state)},
                              {"dead", backend.dispatch->state == State::dead},
                              {"attempts", count_of(backend.dispatch->attempts, "attempt")},
                              {"error", text_or_false(backend.dispatch->last_error)},
                              {"uncertain", backend.dispatch->uncertain},
                              {"created", time_of_page(backend.dispatch->created_at, context.now)},
                              {"sent", time_of_page(backend.dispatch->sent_at, context.now)}};
    }
    if (backend.verdict == Verdict::not_collected) {
      dispatch.get_object()["state"].get_object()["label"] = "sent; L1 results are not collected";
    }
    auto state = state_of_page(state_of(backend.verdict));
    std::string verdict{to_string(backend.verdict)};
    std::ranges::replace(verdict, '_', ' ');
    state["label"] = verdict;
    backends.push_back(
        json::object{{"repo", backend.repo},
                     {"level", level_of_page(backend.level)},
                     {"device", text_or_false(backend.device)},
                     {"verdict", std::move(state)},
                     {"failed", backend.verdict == Verdict::failed},
                     {"unclassified", backend.verdict == Verdict::failed},
                     {"blocks", backend.can_block && backend.verdict == Verdict::failed},
                     {"may_block", backend.can_block && backend.verdict != Verdict::failed &&
                                       backend.verdict != Verdict::passed},
                     {"has_jobs", !jobs.empty()},
                     {"jobs", std::move(jobs)},
                     {"dispatch", std::move(dispatch)}});
  }
  const auto pr = change_pr(change);
  auto state = state_of_page(state_of(summary.verdict));
  std::string verdict{to_string(summary.verdict)};
  std::ranges::replace(verdict, '_', ' ');
  state["label"] = verdict;
  const Delivery* delivery = change.deliveries.empty() ? nullptr : &change.deliveries.front();
  json::array events;
  for (const auto& each : change.deliveries) {
    events.push_back(json::object{{"event", each.event_type},
                                  {"action", text_or_false(each.action)},
                                  {"id", each.delivery_id},
                                  {"when", time_of_page(each.received_at, context.now)}});
  }
  return {{"title", change_title(change)},
          {"sha", text_or_false(change.head_sha)},
          {"short_sha", text_or_false(short_sha(change.head_sha))},
          {"pr", pr ? json::value(*pr) : json::value(false)},
          {"branch", text_or_false(delivery ? delivery->head_ref : std::string{})},
          {"base", text_or_false(delivery ? delivery->base_ref : std::string{})},
          {"sender", text_or_false(delivery ? delivery->sender : std::string{})},
          {"events", std::move(events)},
          {"verdict", std::move(state)},
          {"sentence", summary.sentence},
          {"blocks", summary.blocks},
          {"when", time_of_page(change.at, context.now)},
          {"upstream", commit_link(change.head_sha, context)},
          {"pull", pull_link(pr, context)},
          {"has_backends", !backends.empty()},
          {"backends", std::move(backends)}};
}

std::optional<base::Time> newest_of(const Change& change) {
  std::optional<base::Time> newest = change.at;
  for (const auto& backend : change.backends) {
    for (const auto& latest : backend.jobs) newest = std::max(*newest, latest.job.newest_at());
  }
  return newest;
}

std::string plain_title(const Change& change) {
  const auto pr = change_pr(change);
  return pr ? fmt::format("#{} {}", *pr, change_title(change)) : change_title(change);
}

json::value page_link(const std::string& path,
                      std::vector<std::pair<std::string, std::string>> query, std::int64_t page,
                      bool exists) {
  if (!exists) return false;
  if (page > 1) query.emplace_back("page", std::to_string(page));
  return json::value(path + query_string(query));
}

std::string grid_cells(const GridRow& row, const std::vector<GridColumn>& columns) {
  std::string html;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto& cell = row.cells[i];
    if (!cell) {
      html += "<td></td>";
      continue;
    }
    const auto& entry = info(cell->state);
    std::string label = fmt::format("{}: {}", columns[i].name, entry.label);
    if (cell->jobs > 1) label += fmt::format(", worst of {} jobs", cell->jobs);
    if (cell->attempts > 1) label += fmt::format(", {} attempts", cell->attempts);
    html += fmt::format(
        "<td><a class=\"cell st-{0}\" href=\"/job/{1}\" aria-label=\"{2}\" "
        "title=\"{2}\"{3}>{4}{5}</a></td>",
        entry.name, cell->job_id, base::escape_html(label), is_bad(cell->state) ? " data-fail" : "",
        entry.glyph, cell->attempts > 1 ? fmt::format("<sup>{}</sup>", cell->attempts) : "");
  }
  return html;
}

json::value number_text(const std::optional<double>& value) {
  return value ? json::value(fmt::format("{:.6g}", *value)) : json::value(false);
}

// The end of a traceback says what happened, its beginning where it came from: both are kept.
std::pair<std::string, bool> cut_detail(const std::string& detail) {
  if (detail.size() <= k_detail_limit) return {detail, false};
  const auto line = detail.find('\n', detail.size() - k_detail_limit * 3 / 4);
  const auto tail = line == std::string::npos ? detail.size() - k_detail_limit * 3 / 4 : line + 1;
  return {base::to_utf8(std::string_view{detail}.substr(0, k_detail_limit / 4)) + "\n[…]\n" +
              base::to_utf8(std::string_view{detail}.substr(tail)),
          true};
}

json::object test_of_page(const Test& test, const std::vector<std::string>& command) {
  const auto& outcome = info(test.outcome);
  auto state = state_of_page(outcome.as);
  state["label"] = outcome.label;
  std::string variant;
  for (const auto& [name, value] : test.variant) {
    variant += fmt::format("{}{} {}", variant.empty() ? "" : " · ", name, value);
  }
  const bool bad = base::is_failure(test.outcome) || base::is_fault(test.outcome);
  const auto line = first_line(test.message);
  const bool more =
      test.message.find('\n') != std::string::npos || test.message.size() > line.size();
  auto [detail, cut] = cut_detail(test.detail);
  std::string kind{to_string(test.kind)};
  std::ranges::replace(kind, '_', ' ');
  json::value mismatch = false;
  if (test.mismatch) {
    mismatch = json::object{{"absolute", number_text(test.mismatch->absolute)},
                            {"relative", number_text(test.mismatch->relative)},
                            {"absolute_tolerance", number_text(test.mismatch->absolute_tolerance)},
                            {"relative_tolerance", number_text(test.mismatch->relative_tolerance)}};
  }
  std::string place = test.node_id;
  std::string prefix;
  if (const auto last = test.node_id.rfind("::"); last != std::string::npos) {
    prefix = test.node_id.substr(0, last + 2);
    place = test.node_id.substr(last + 2);
  }
  return {{"id", test.id},
          {"prefix", prefix},
          {"name", place},
          {"variant", text_or_false(variant)},
          {"state", std::move(state)},
          {"bad", bad},
          {"kind",
           bad && test.kind != base::FailureKind::none ? json::value(kind) : json::value(false)},
          {"line", text_or_false(line)},
          {"message", more ? json::value(test.message) : json::value(false)},
          {"detail", text_or_false(detail)},
          {"has_more", more || !detail.empty()},
          {"detail_cut", cut},
          {"again", text_or_false(bad ? shell_line(repeated(command, test.node_id)) : "")},
          {"mismatch", std::move(mismatch)},
          {"attempt", test.attempt > 1 ? json::value(test.attempt) : json::value(false)},
          {"seconds", seconds(test.duration)}};
}

}  // namespace

Page fleet_page(const std::vector<BackendSummary>& fleet, const std::vector<Change>& recent,
                const PageContext& context) {
  Page page{.title = "Fleet", .name = "fleet"};
  json::array twins;
  json::array rows;
  std::int64_t failing = 0;
  std::int64_t silent = 0;
  std::int64_t listed = 0;
  for (const auto& summary : fleet) {
    twins.push_back(to_json(summary));
    rows.push_back(summary_of_page(summary, context));
    if (summary.backend.listed) ++listed;
    if (summary.failing) ++failing;
    if (summary.freshness == Freshness::no_recent_data) ++silent;
    if (summary.last_report)
      page.newest_at = std::max(page.newest_at.value_or(base::Time{}), *summary.last_report);
  }
  json::array change_twins;
  json::array changes;
  for (const auto& change : recent) {
    change_twins.push_back(brief_json(change));
    changes.push_back(change_of_page(change, context));
    page.newest_at = std::max(page.newest_at.value_or(base::Time{}), *newest_of(change));
  }
  page.twin = {{"backends", std::move(twins)}, {"recent_changes", std::move(change_twins)}};
  std::string sentence = count_of(listed, "backend") + " listed";
  sentence += failing == 0 ? "; none is failing" : fmt::format("; {} failing", failing);
  if (silent > 0) sentence += fmt::format("; {} without recent data", silent);
  page.context = {{"empty", fleet.empty()},
                  {"backends", std::move(rows)},
                  {"sentence", sentence + "."},
                  {"has_changes", !changes.empty()},
                  {"changes", std::move(changes)}};
  return page;
}

Page grid_page(const BackendSummary& summary, const Grid& grid, const GridFilter& filter,
               bool window_cut, const PageContext& context) {
  const auto& repo = summary.backend.repo;
  const std::string path = "/b/" + repo;
  Page page{.title = repo, .name = "grid", .newest_at = summary.last_report};
  page.twin = {
      {"summary", to_json(summary)},
      {"filter",
       {{"event", filter.event},
        {"branch", filter.branch},
        {"q", filter.q},
        {"status", filter.status ? json::value(info(*filter.status).name) : json::value("")},
        {"group", !filter.ungrouped},
        {"page", filter.page}}},
      {"window_cut", window_cut},
      {"grid", to_json(grid)}};
  const std::string status{filter.status ? info(*filter.status).name : ""};
  std::vector<std::pair<std::string, std::string>> query{{"event", filter.event},
                                                         {"branch", filter.branch},
                                                         {"q", filter.q},
                                                         {"status", status},
                                                         {"group", filter.ungrouped ? "off" : ""}};
  json::array groups;
  for (std::size_t i = 0; i < grid.columns.size();) {
    std::size_t end = i;
    while (end < grid.columns.size() && grid.columns[end].workflow == grid.columns[i].workflow)
      ++end;
    groups.push_back(json::object{{"workflow", grid.columns[i].workflow}, {"span", end - i}});
    i = end;
  }
  json::array columns;
  for (const auto& column : grid.columns) columns.push_back(json::object{{"name", column.name}});
  json::array rows;
  for (const auto& row : grid.rows) {
    auto change = change_of_page(row.change, context);
    if (!row.change.backends.empty()) {
      const auto& backend = row.change.backends.front();
      auto state =
          state_of_page(backend.jobs.empty() && backend.dispatch ? backend.dispatch->state
                                                                 : state_of(backend.verdict));
      change["row_state"] = std::move(state);
      change["no_jobs"] = backend.jobs.empty();
      change["dispatch_error"] = backend.jobs.empty() && backend.dispatch
                                     ? text_or_false(backend.dispatch->last_error)
                                     : json::value(false);
    } else {
      change["row_state"] = state_of_page(State::no_data);
      change["no_jobs"] = true;
      change["dispatch_error"] = false;
    }
    change["span"] = grid.columns.size();
    change["cells"] = grid_cells(row, grid.columns);
    change.erase("backends");
    rows.push_back(std::move(change));
    if (const auto at = newest_of(row.change); at && (!page.newest_at || *at > *page.newest_at))
      page.newest_at = at;
  }
  const auto option = [](std::string_view value, std::string_view label, bool selected) {
    return json::object{{"value", value}, {"label", label}, {"selected", selected}};
  };
  json::array events{option("", "any event", filter.event.empty())};
  for (const std::string_view event : {"pull_request", "push", "nightly", "periodic"}) {
    events.push_back(option(event, event, filter.event == event));
  }
  json::array statuses{option("", "any state", !filter.status)};
  for (const auto& state : states()) {
    if (state.state == State::no_data) continue;
    statuses.push_back(option(state.name, state.label, filter.status == state.state));
  }
  auto grouped = query;
  grouped.back().second = filter.ungrouped ? "" : "off";
  const auto begin = (filter.page - 1) * static_cast<std::int64_t>(k_grid_rows);
  const auto end = begin + static_cast<std::int64_t>(grid.rows.size());
  const bool filtered = !query_string(query).empty();
  page.context = {
      {"summary", summary_of_page(summary, context)},
      {"path", path},
      {"q", filter.q},
      {"branch", filter.branch},
      {"events", std::move(events)},
      {"statuses", std::move(statuses)},
      {"group_off", filter.ungrouped},
      {"group_link", path + query_string(grouped)},
      {"filtered", filtered},
      {"has_rows", !rows.empty()},
      {"has_columns", !columns.empty()},
      {"columns_cut", grid.columns.size() == k_grid_columns},
      {"groups", std::move(groups)},
      {"columns", std::move(columns)},
      {"rows", std::move(rows)},
      {"range", grid.rows.empty() ? json::value(false)
                                  : json::value(fmt::format("{}–{} of {}", begin + 1, end,
                                                            count_of(grid.commits, "commit")))},
      {"window_cut", window_cut},
      {"window", k_grid_window},
      {"previous", page_link(path, query, filter.page - 1, filter.page > 1)},
      {"next", page_link(path, query, filter.page + 1, end < grid.commits && !grid.rows.empty())}};
  return page;
}

Page pull_request_page(std::int64_t number, const std::vector<Change>& changes,
                       const PageContext& context) {
  const Change& head = changes.front();
  Page page{.title = fmt::format("#{} {}", number, change_title(head)), .name = "pr"};
  json::array twins;
  json::array earlier;
  for (const auto& change : changes) {
    twins.push_back(to_json(change));
    if (&change != &head) earlier.push_back(change_of_page(change, context));
    page.newest_at = std::max(page.newest_at.value_or(base::Time{}), *newest_of(change));
  }
  page.twin = {{"pr_number", number},
               {"title", change_title(head)},
               {"sentence", summarise(head.backends).sentence},
               {"commits", std::move(twins)}};
  page.context = {{"number", number},
                  {"change", change_of_page(head, context)},
                  {"has_earlier", !earlier.empty()},
                  {"earlier", std::move(earlier)}};
  return page;
}

Page commit_page(const Change& change, const PageContext& context) {
  Page page{.title = fmt::format("{} {}", short_sha(change.head_sha), plain_title(change)),
            .name = "commit",
            .newest_at = newest_of(change)};
  page.twin = to_json(change);
  page.context = {{"change", change_of_page(change, context)}};
  return page;
}

Page job_page(const JobPage& job, const PageContext& context) {
  const Job& it = job.job;
  Page page{.title = fmt::format("{} {} · {} · job {}", it.job_name, info(it.state).label, it.repo,
                                 it.id),
            .name = "job",
            .newest_at = it.newest_at()};
  page.twin = to_json(job);
  const std::string path = "/job/" + std::to_string(it.id);

  json::array attempts;
  for (const auto& other : job.attempts) {
    attempts.push_back(json::object{{"id", other.id},
                                    {"current", other.id == it.id},
                                    {"run_id", other.run_id},
                                    {"attempt", other.run_attempt},
                                    {"state", state_of_page(other.state)},
                                    {"when", time_of_page(other.newest_at(), context.now)}});
  }
  json::array check_runs;
  for (const auto& check : job.check_runs)
    check_runs.push_back(json::object{{"status", check.status},
                                      {"state", check.state},
                                      {"reason", text_or_false(check.reason)},
                                      {"when", time_of_page(check.at, context.now)}});
  const bool is_latest = job.attempts.empty() || job.attempts.front().id == it.id;

  json::value run = false;
  json::array outcomes_shown;
  if (job.run) {
    const auto& counts = job.run->counts;
    const auto bad = counts.failures() + counts.faults();
    const auto current = job.filter.outcome_name();
    const auto tab = [&](std::string_view name, std::string_view label, std::int64_t n) {
      outcomes_shown.push_back(json::object{
          {"name", name},
          {"label", label},
          {"n", n},
          {"href",
           path + query_string({{"outcome", std::string{name}}, {"q", job.filter.q}}) + "#tests"},
          {"current", current == name}});
    };
    tab("failing", "failures and faults", bad);
    json::array counted;
    const auto count = [&](std::string_view name, std::string_view label, State as,
                           std::int64_t n) {
      auto state = state_of_page(as);
      state["label"] = label;
      counted.push_back(json::object{{"name", name},
                                     {"n", n},
                                     {"zero", n == 0},
                                     {"state", std::move(state)},
                                     {"href", path + "?outcome=" + std::string{name} + "#tests"}});
      if (n > 0 || current == name) tab(name, label, n);
    };
    for (const auto& outcome : outcomes()) {
      count(to_string(outcome.outcome), outcome.label, outcome.as, counts[outcome.outcome]);
    }
    count("flaky", "flaky", State::neutral, counts.flaky());
    tab("all", "all", counts.total());
    json::array environment;
    for (const auto& [name, value] : job.run->environment) {
      environment.push_back(json::object{{"name", name}, {"value", value}});
    }
    const auto& combination = job.run->combination;
    run = json::object{
        {"key", job.run->run_key},
        {"counts", std::move(counted)},
        {"total", counts.total()},
        {"failures", counts.failures()},
        {"faults", counts.faults()},
        {"bad", bad > 0},
        {"command", text_or_false(shell_line(repeated(job.run->command)))},
        {"selection", text_or_false(job.run->selection)},
        {"started", time_of_page(job.run->started_at, context.now)},
        {"finished", time_of_page(job.run->finished_at, context.now)},
        {"duration", job.run->finished_at
                         ? json::value(seconds(*job.run->finished_at - job.run->started_at))
                         : json::value(false)},
        {"has_environment", !environment.empty()},
        {"environment", std::move(environment)},
        {"backend", combination.backend},
        {"backend_revision", combination.backend_revision},
        {"core_revision", combination.core_revision},
        {"suite_revision", combination.suite_revision},
        {"device", combination.device},
        {"environment_digest", combination.environment_digest.substr(0, 16)},
        {"digest", combination.digest().substr(0, 16)}};
  }
  json::array clusters;
  const auto* counts = job.run ? &job.run->counts : nullptr;
  auto other_errors = counts != nullptr ? counts->failures() + counts->faults() : 0;
  for (const auto& cluster : job.clusters) {
    other_errors -= cluster.tests;
    std::string kind{to_string(cluster.kind)};
    std::ranges::replace(kind, '_', ' ');
    clusters.push_back(json::object{{"tests", count_of(cluster.tests, "test")},
                                    {"kind", kind},
                                    {"line", text_or_false(cluster.line)}});
  }
  json::array tests;
  for (const auto& test : job.tests) {
    tests.push_back(test_of_page(test, job.run ? job.run->command : std::vector<std::string>{}));
  }

  const std::vector<std::pair<std::string, std::string>> query{
      {"outcome", job.filter.outcome_name()}, {"q", job.filter.q}};
  const auto word_number = [](const std::optional<std::int64_t>& n) {
    return n ? json::value(*n) : json::value(false);
  };
  auto word_body = job.word_body;
  if (const auto parsed = base::parse_json(word_body, "report"))
    word_body = base::pretty_json(*parsed);
  json::array word_tests;
  for (const auto& test : job.advice.failed_tests | std::views::take(k_word_tests))
    word_tests.push_back(json::object{{"name", test.name},
                                      {"class", text_or_false(test.class_name)},
                                      {"line", text_or_false(first_line(test.message))},
                                      {"stack", text_or_false(test.stacktrace)}});
  const bool body_cut = word_body.size() > k_body_limit;
  if (body_cut) word_body = base::to_utf8(word_body, k_body_limit);

  json::value dispatch = false;
  if (job.dispatch) {
    dispatch = json::object{{"created", time_of_page(job.dispatch->created_at, context.now)},
                            {"sent", time_of_page(job.dispatch->sent_at, context.now)},
                            {"attempts", count_of(job.dispatch->attempts, "attempt")},
                            {"uncertain", job.dispatch->uncertain}};
  }
  const bool waits = !it.results_digest.empty() && !job.run;
  page.context = {
      {"id", it.id},
      {"name", it.job_name},
      {"workflow", it.workflow},
      {"repo", it.repo},
      {"level", level_of_page(it.level)},
      {"blocks", can_block(it.level) && is_bad(it.state) && job.dispatch.has_value()},
      {"device", text_or_false(it.device)},
      {"state", state_of_page(it.state)},
      {"bad", is_bad(it.state)},
      {"error", text_or_false(error_line(job))},
      {"contradiction", text_or_false(contradiction(job))},
      {"event", it.event_type},
      {"action", text_or_false(job.delivery ? job.delivery->action : std::string{})},
      {"delivery_id", it.delivery_id},
      {"sha", text_or_false(it.head_sha)},
      {"short_sha", text_or_false(short_sha(it.head_sha))},
      {"upstream", commit_link(it.head_sha, context)},
      {"pr", it.pr_number ? json::value(*it.pr_number) : json::value(false)},
      {"title", text_or_false(job.delivery ? job.delivery->pr_title : std::string{})},
      {"dispatch", std::move(dispatch)},
      {"check_runs", std::move(check_runs)},
      {"has_check_runs", !job.check_runs.empty()},
      {"first_seen", time_of_page(it.first_seen_at, context.now)},
      {"started", time_of_page(it.started_at, context.now)},
      {"completed", time_of_page(it.completed_at, context.now)},
      {"queue", duration_of_page(it.queue)},
      {"execution", duration_of_page(it.execution)},
      {"concluded_by", text_or_false(it.concluded_by)},
      {"completed_first", it.completed_first},
      {"run_id", it.run_id},
      {"run_attempt", it.run_attempt},
      {"conclusion", text_or_false(it.word_conclusion())},
      {"relay_conclusion", text_or_false(it.relay_conclusion())},
      {"url", text_or_false(it.url)},
      {"word_counts", it.word_passed || it.word_failed || it.word_skipped},
      {"word_passed", word_number(it.word_passed)},
      {"word_failed", word_number(it.word_failed)},
      {"word_skipped", word_number(it.word_skipped)},
      {"unverified", job.commit == CommitState::unverified},
      {"missing_commit", job.commit == CommitState::missing},
      {"verdict", verdict_of_page(job.advice.verdict, context)},
      {"word_tests", std::move(word_tests)},
      {"many_word_tests", count_of(std::ssize(job.advice.failed_tests), "test")},
      {"has_word_tests", !job.advice.failed_tests.empty()},
      {"more_word_tests", job.advice.failed_tests.size() > k_word_tests},
      {"word_body", text_or_false(word_body)},
      {"word_body_cut", body_cut},
      {"word_combination", job.run ? json::value(false) : text_or_false(job.word_combination)},
      {"results_digest", text_or_false(it.results_digest)},
      {"results_wait", waits},
      {"no_results", !job.run && !waits},
      {"attempts", std::move(attempts)},
      {"many_attempts", job.attempts.size() > 1},
      {"superseded", is_latest ? json::value(false) : json::value(job.attempts.front().id)},
      {"run", std::move(run)},
      {"clusters", std::move(clusters)},
      {"many_clusters", job.clusters.size() > 1},
      {"other_errors", other_errors > 0 ? json::value(count_of(other_errors, "test")) : false},
      {"tabs", std::move(outcomes_shown)},
      {"outcome", job.filter.outcome_name()},
      {"q", job.filter.q},
      {"path", path},
      {"json_path", path + ".json" +
                        query_string({{"outcome", job.filter.outcome_name()},
                                      {"q", job.filter.q},
                                      {"page", std::to_string(job.filter.page)}})},
      {"has_tests", !tests.empty()},
      {"tests", std::move(tests)},
      {"page", job.filter.page},
      {"paged", job.filter.page > 1 || job.more_tests},
      {"previous", page_link(path, query, job.filter.page - 1, job.filter.page > 1)},
      {"next", page_link(path, query, job.filter.page + 1, job.more_tests)}};
  return page;
}

Page metrics_page() {
  Page page{.title = "What the numbers mean", .name = "metrics"};
  json::array table;
  json::array twin;
  for (const auto& state : states()) {
    twin.push_back(json::object{{"name", state.name},
                                {"label", state.label},
                                {"glyph", state.glyph},
                                {"counted", state.counted},
                                {"meaning", state.meaning}});
    auto row = state_of_page(state.state);
    row["counted"] = state.counted;
    row["meaning"] = state.meaning;
    table.push_back(std::move(row));
  }
  json::array upgrade_table;
  json::array upgrade_twin;
  for (const auto& word : upgrade_words()) {
    auto row = state_of_page(word.as);
    row["label"] = word.word;
    row["meaning"] = word.meaning;
    upgrade_table.push_back(std::move(row));
    upgrade_twin.push_back(json::object{{"word", word.word}, {"meaning", word.meaning}});
  }
  const auto days = std::chrono::duration_cast<std::chrono::days>(k_window).count();
  page.twin = {{"window_days", days},
               {"window_attempts", k_window_attempts},
               {"fresh_hours", std::chrono::duration_cast<std::chrono::hours>(k_fresh).count()},
               {"pass_rate",
                "Of the latest attempt of each job in the window: passed, divided by passed, "
                "failed and timed out. "
                "Skipped, cancelled, neutral and unfinished jobs are in neither number."},
               {"upgrade_words", std::move(upgrade_twin)},
               {"states", std::move(twin)}};
  const auto days_of = [](base::Duration d) {
    return std::chrono::duration_cast<std::chrono::days>(d).count();
  };
  page.context = {{"days", days},
                  {"promotion_days", days_of(k_promotion_window)},
                  {"demotion_days", days_of(k_demotion_window)},
                  {"attempts", k_window_attempts},
                  {"hours", std::chrono::duration_cast<std::chrono::hours>(k_fresh).count()},
                  {"upgrade_words", std::move(upgrade_table)},
                  {"states", std::move(table)}};
  return page;
}

Page error_page(int status, std::string what, std::string next) {
  Page page{.title = what, .name = "error"};
  page.status = status;
  page.twin = {{"error", what}, {"next", next}, {"status", status}};
  page.context = {{"status", status}, {"what", what}, {"next", text_or_false(next)}};
  return page;
}

std::string badge(const std::optional<BackendSummary>& summary) {
  std::string text = "unknown backend";
  std::string_view colour = "#57606a";
  if (summary && summary->freshness != Freshness::fresh) {
    text = "no recent data";
  } else if (summary && summary->rate.counted > 0) {
    text = fmt::format("{} {} · {}/{}", is_bad(summary->state) ? "✕" : "✓",
                       is_bad(summary->state) ? "failing" : "passing", summary->rate.passed,
                       summary->rate.counted);
    colour = is_bad(summary->state) ? "#b34700" : "#0072b2";
  } else if (summary) {
    text = "no result yet";
  }
  const auto width =
      8 * static_cast<int>(text.size() -
                           static_cast<std::size_t>(std::ranges::count_if(text, [](char c) {
                             return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
                           })));
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"20\" role=\"img\" "
      "aria-label=\"crosscheck: {1}\">"
      "<title>crosscheck: {1}</title><rect width=\"84\" height=\"20\" fill=\"#24292f\"/>"
      "<rect x=\"84\" width=\"{2}\" height=\"20\" fill=\"{3}\"/>"
      "<g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\" "
      "text-anchor=\"middle\">"
      "<text x=\"42\" y=\"14\">crosscheck</text><text x=\"{4}\" y=\"14\">{1}</text></g></svg>\n",
      84 + width + 12, base::escape_html(text), width + 12, colour, 84 + (width + 12) / 2);
}

}  // namespace crosscheck::hud
