#include "ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "crosscheck/base/json.h"
#include "crosscheck/store/outdated.h"
#include "crosscheck/store/store.h"
#include "text.h"

namespace crosscheck::hud {
namespace {

namespace json = boost::json;
using base::Result;
using base::Time;

constexpr std::size_t k_name_limit = 512;
constexpr base::Duration k_day = std::chrono::hours{24};
// A relay that goes round looks at the outbox every second.
constexpr base::Duration k_late = std::chrono::minutes{5};

std::string name_of(const std::optional<std::string>& text) {
  return text ? base::to_utf8(*text, k_name_limit) : std::string{};
}
json::value text_or_false(const std::string& text) {
  return text.empty() ? json::value(false) : json::value(text);
}
json::object time_of_page(Time time, Time now) {
  return {{"iso", base::to_rfc3339(time)}, {"text", clock_text(time)}, {"age", age(time, now)}};
}
json::value time_of_page(const std::optional<Time>& time, Time now) {
  return time ? json::value(time_of_page(*time, now)) : json::value(false);
}
json::value time_of_twin(const std::optional<Time>& time) {
  return time ? json::value(base::to_rfc3339(*time)) : json::value(nullptr);
}
double number_of_seconds(base::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> k_states{
    {{"pending", "wait to be sent"},
     {"sending", "are being sent"},
     {"sent", "were sent"},
     {"dead", "given up: a person must act"},
     {"withdrawn", "taken back before they were sent"}}};

Result<void> read_dead_letters(store::Tx& tx, Ops& ops) {
  auto rows = tx.query(
      fmt::format(
          "SELECT x.id, d.delivery_id, d.event_type, d.pr_number, d.head_sha, x.repo, x.level, "
          "x.attempts, x.uncertain, x.last_error, x.created_at, "
          "CASE WHEN d.body IS NULL THEN 1 ELSE 0 END, "
          "CASE WHEN {} THEN 1 ELSE 0 END "
          "FROM dispatches x JOIN deliveries d ON d.id = x.delivery WHERE x.state = 'dead' "
          "ORDER BY x.id DESC LIMIT $1",
          store::is_superseded("d.id")),
      {k_ops_rows});
  if (!rows) return tl::unexpected(rows.error());
  for (const auto& row : *rows) {
    std::string why_not;
    if (row.integer(11) != 0) why_not = "past retention";
    if (row.integer(12) != 0) why_not = "superseded";
    ops.dead_letters.push_back({.kind = "dispatch",
                                .id = row.integer(0),
                                .says = {},
                                .delivery_id = name_of(row.text(1)),
                                .event_type = name_of(row.text(2)),
                                .pr_number = row.optional_integer(3),
                                .head_sha = name_of(row.optional_text(4)),
                                .repo = name_of(row.text(5)),
                                .level = name_of(row.text(6)),
                                .attempts = row.integer(7),
                                .uncertain = row.integer(8) != 0,
                                .reason = name_of(row.optional_text(9)),
                                .created_at = row.time(10),
                                .not_replayable = std::move(why_not)});
  }
  return {};
}

Result<void> read_dead_calls(store::Tx& tx, Ops& ops) {
  auto rows =
      tx.query(fmt::format("SELECT github_calls.id, d.delivery_id, d.event_type, d.pr_number, "
                           "d.head_sha, repo, kind, "
                           "says, attempts, uncertain, last_error, created_at, "
                           "CASE WHEN {} THEN 'superseded' WHEN payload = '{{}}' THEN "
                           "'past retention' ELSE '' END FROM github_calls "
                           "JOIN deliveries d ON d.id = github_calls.delivery WHERE state = 'dead' "
                           "ORDER BY github_calls.id DESC LIMIT $1",
                           store::k_is_replaced),
               {k_ops_rows});
  if (!rows) return tl::unexpected(rows.error());
  for (const auto& row : *rows)
    ops.dead_letters.push_back({.kind = "call",
                                .id = row.integer(0),
                                .says = name_of(row.text(6)) + " " + name_of(row.text(7)),
                                .delivery_id = name_of(row.text(1)),
                                .event_type = name_of(row.text(2)),
                                .pr_number = row.optional_integer(3),
                                .head_sha = name_of(row.optional_text(4)),
                                .repo = name_of(row.text(5)),
                                .level = {},
                                .attempts = row.integer(8),
                                .uncertain = row.integer(9) != 0,
                                .reason = name_of(row.optional_text(10)),
                                .created_at = row.time(11),
                                .not_replayable = row.text(12)});
  return {};
}

Result<void> read_dead_reports(store::Tx& tx, Ops& ops) {
  auto rows = tx.query(
      "SELECT f.id, f.delivery_id, j.event_type, j.pr_number, j.head_sha, f.repo, j.job_name, "
      "f.attempts, f.uncertain, f.last_error, f.created_at, j.level FROM forwards f "
      "JOIN jobs j ON j.id = f.job WHERE f.state = 'dead' ORDER BY f.id DESC LIMIT $1",
      {k_ops_rows});
  if (!rows) return tl::unexpected(rows.error());
  for (const auto& row : *rows)
    ops.dead_letters.push_back({.kind = "report",
                                .id = row.integer(0),
                                .says = name_of(row.text(6)),
                                .delivery_id = name_of(row.text(1)),
                                .event_type = name_of(row.text(2)),
                                .pr_number = row.optional_integer(3),
                                .head_sha = name_of(row.optional_text(4)),
                                .repo = name_of(row.text(5)),
                                .level = name_of(row.text(11)),
                                .attempts = row.integer(7),
                                .uncertain = row.integer(8) != 0,
                                .reason = name_of(row.optional_text(9)),
                                .created_at = row.time(10),
                                .not_replayable = {}});
  return {};
}

// What was sent or taken back stays for ever: it is counted, and not looked at.
Result<void> read_outbox(store::Tx& tx, const std::string& table,
                         std::vector<OutboxState>& outbox) {
  auto states = tx.query("SELECT state, COUNT(*) FROM " + table + " GROUP BY state");
  if (!states) return tl::unexpected(states.error());
  auto oldest = tx.query("SELECT state, MIN(created_at) FROM " + table +
                         " WHERE state IN ('pending', 'sending', 'dead') GROUP BY state");
  if (!oldest) return tl::unexpected(oldest.error());
  for (const auto& [state, means] : k_states) {
    OutboxState entry{std::string{state}};
    for (const auto& row : *states)
      if (row.text(0) == state) entry.count = row.integer(1);
    for (const auto& row : *oldest)
      if (row.text(0) == state) entry.oldest_at = row.time(1);
    outbox.push_back(std::move(entry));
  }
  return {};
}

Result<void> read_kept_back(store::Tx& tx, Ops& ops) {
  constexpr std::string_view k_prefix = "shadow: ";
  auto rows = tx.query(
      "SELECT d.delivery_id, x.repo, x.last_error, x.created_at FROM (SELECT delivery, repo, "
      "last_error, created_at FROM dispatches WHERE state = 'withdrawn' UNION ALL SELECT delivery, "
      "repo, last_error, created_at FROM github_calls WHERE state = 'withdrawn') x "
      "JOIN deliveries d ON d.id = x.delivery WHERE x.last_error LIKE 'shadow: %' "
      "ORDER BY x.created_at DESC LIMIT $1",
      {k_ops_rows});
  if (!rows) return tl::unexpected(rows.error());
  for (const auto& row : *rows)
    ops.kept_back.push_back({name_of(row.text(0)), name_of(row.text(1)),
                             name_of(row.text(2)).substr(k_prefix.size()), row.time(3)});
  return {};
}

Result<void> read_timed_out(store::Tx& tx, Ops& ops, Time now) {
  constexpr std::string_view k_where =
      " FROM jobs WHERE first_seen_at >= $1 AND concluded_by = 'relay' AND "
      "conclusion = 'timed_out'";
  auto count = tx.query("SELECT COUNT(*)" + std::string{k_where}, {now - k_window});
  if (!count) return tl::unexpected(count.error());
  ops.timed_out = count->front().integer(0);
  auto rows = tx.query("SELECT id, repo, word_workflow, job_name, completed_at" +
                           std::string{k_where} + " ORDER BY completed_at DESC, id DESC LIMIT $2",
                       {now - k_window, k_ops_rows});
  if (!rows) return tl::unexpected(rows.error());
  for (const auto& row : *rows)
    ops.timed_out_jobs.push_back({row.integer(0), name_of(row.text(1)), name_of(row.text(2)),
                                  name_of(row.text(3)), row.optional_time(4).value_or(Time{})});
  return {};
}

// What the page says of a form that was refused: its own words, since anybody may write an address.
std::string_view words_of(std::string_view fault) {
  if (fault == "unauthorized") return "the token is unknown, was revoked or has expired";
  if (fault == "forbidden") return "the token's role does not allow it";
  if (fault == "not_found") return "there is no such dispatch, call or report";
  if (fault == "conflict")
    return "it is no longer dead, or was superseded, or its event is past its retention";
  return "it was not understood";
}

json::object entry_of_page(const DeadLetter& letter, Time now) {
  return {{"kind", letter.kind},
          {"id", letter.id},
          {"says", text_or_false(letter.says)},
          {"delivery_id", letter.delivery_id},
          {"event", letter.event_type},
          {"pr", letter.pr_number ? json::value(*letter.pr_number) : json::value(false)},
          {"sha", text_or_false(letter.head_sha)},
          {"short_sha", text_or_false(short_sha(letter.head_sha))},
          {"repo", letter.repo},
          {"level", letter.level},
          {"attempts", count_of(letter.attempts, "attempt")},
          {"uncertain", letter.uncertain},
          {"reason", text_or_false(letter.reason)},
          {"created", time_of_page(letter.created_at, now)},
          {"replayable", letter.not_replayable.empty()},
          {"not_replayable", text_or_false(letter.not_replayable)}};
}

json::object entry_of_twin(const DeadLetter& letter) {
  json::object entry{{letter.kind, letter.id},
                     {"delivery_id", letter.delivery_id},
                     {"event_type", letter.event_type},
                     {"repo", letter.repo},
                     {"level", letter.level},
                     {"attempts", letter.attempts},
                     {"uncertain", letter.uncertain},
                     {"reason", letter.reason},
                     {"created_at", base::to_rfc3339(letter.created_at)},
                     {"replayable", letter.not_replayable.empty()}};
  if (letter.pr_number) entry["pr_number"] = *letter.pr_number;
  if (!letter.says.empty()) entry["says"] = letter.says;
  if (!letter.not_replayable.empty()) entry["not_replayable"] = letter.not_replayable;
  return entry;
}

// What the process says of itself, on the page and in its twin.
void add_live(Page& page, const Live& live, Time now) {
  json::array refusals;
  json::array refusals_twin;
  for (const auto& refusal : live.refusals) {
    refusals.push_back(json::object{{"kind", refusal.kind},
                                    {"reason", refusal.reason},
                                    {"n", refusal.count},
                                    {"last", time_of_page(refusal.last_at, now)},
                                    {"detail", text_or_false(refusal.last_detail)}});
    refusals_twin.push_back(json::object{{"kind", refusal.kind},
                                         {"reason", refusal.reason},
                                         {"count", refusal.count},
                                         {"last_at", base::to_rfc3339(refusal.last_at)},
                                         {"last_detail", refusal.last_detail}});
  }
  json::array budgets;
  json::array budgets_twin;
  for (const auto& budget : live.budgets) {
    budgets.push_back(
        json::object{{"account", budget.account.empty() ? "the App itself" : budget.account},
                     {"resource", budget.resource},
                     {"limit", budget.limit},
                     {"remaining", budget.remaining},
                     {"low", budget.remaining * 10 < budget.limit},
                     {"resets", clock_text(budget.resets_at)}});
    budgets_twin.push_back(json::object{{"account", budget.account},
                                        {"resource", budget.resource},
                                        {"limit", budget.limit},
                                        {"remaining", budget.remaining},
                                        {"resets_at", base::to_rfc3339(budget.resets_at)}});
  }
  const auto& list = live.allowlist;
  page.context["live"] = json::object{{"started", time_of_page(live.started_at, now)},
                                      {"shadow", live.shadow},
                                      {"settings_digest", live.settings_digest.substr(0, 16)},
                                      {"sending", live.sender.sending},
                                      {"sender_running", live.sender.running},
                                      {"sender_error", text_or_false(live.sender.error)},
                                      {"allowlist_source", list.source},
                                      {"allowlist_digest", list.digest.substr(0, 16)},
                                      {"allowlist_loaded", time_of_page(list.loaded_at, now)},
                                      {"allowlist_error", text_or_false(list.error)},
                                      {"has_refusals", !refusals.empty()},
                                      {"refusals", std::move(refusals)},
                                      {"has_budgets", !budgets.empty()},
                                      {"budgets", std::move(budgets)}};
  page.twin["process"] =
      json::object{{"started_at", base::to_rfc3339(live.started_at)},
                   {"shadow", live.shadow},
                   {"settings_digest", live.settings_digest},
                   {"sender", json::object{{"running", live.sender.running},
                                           {"sending", live.sender.sending},
                                           {"error", live.sender.error}}},
                   {"allowlist", json::object{{"source", list.source},
                                              {"digest", list.digest},
                                              {"loaded_at", time_of_twin(list.loaded_at)},
                                              {"error", list.error}}},
                   {"refusals", std::move(refusals_twin)},
                   {"github_api_budget", std::move(budgets_twin)}};
}

}  // namespace

Result<Ops> read_ops(store::Tx& tx, Time now) {
  Ops ops;
  auto events = tx.query("SELECT MAX(received_at) FROM deliveries");
  if (!events) return tl::unexpected(events.error());
  ops.newest_event_at = events->front().optional_time(0);
  auto recent = tx.query("SELECT COUNT(*) FROM deliveries WHERE received_at > $1", {now - k_day});
  if (!recent) return tl::unexpected(recent.error());
  ops.events_a_day = recent->front().integer(0);
  if (auto read = read_outbox(tx, "dispatches", ops.outbox); !read)
    return tl::unexpected(read.error());
  if (auto read = read_outbox(tx, "github_calls", ops.calls); !read)
    return tl::unexpected(read.error());
  if (auto read = read_outbox(tx, "forwards", ops.forwards); !read)
    return tl::unexpected(read.error());
  for (const auto* outbox : {&ops.outbox, &ops.calls, &ops.forwards})
    for (const auto& entry : *outbox)
      if (entry.state == "dead") ops.dead += entry.count;
  auto due = tx.query(
      "SELECT MIN(not_before) FROM dispatches WHERE state = 'pending' AND not_before <= $1", {now});
  if (!due) return tl::unexpected(due.error());
  ops.oldest_due_at = due->front().optional_time(0);
  if (auto read = read_dead_letters(tx, ops); !read) return tl::unexpected(read.error());
  if (auto read = read_dead_calls(tx, ops); !read) return tl::unexpected(read.error());
  if (auto read = read_dead_reports(tx, ops); !read) return tl::unexpected(read.error());
  if (auto read = read_kept_back(tx, ops); !read) return tl::unexpected(read.error());
  if (auto read = read_timed_out(tx, ops, now); !read) return tl::unexpected(read.error());
  auto audit = store::audit_tail(tx, k_ops_rows);
  if (!audit) return tl::unexpected(audit.error());
  ops.audit = std::move(*audit);
  return ops;
}

base::Duration relay_lag(const Ops& ops, Time now) {
  return ops.oldest_due_at ? std::max(now - *ops.oldest_due_at, base::Duration{0})
                           : base::Duration{0};
}

Page ops_page(const Ops& ops, const std::optional<Live>& live, const OpsNotice& notice,
              const PageContext& context) {
  const Time now = context.now;
  const auto lag = relay_lag(ops, now);
  Page page{.title = "Operations", .name = "ops"};
  page.newest_at = ops.newest_event_at;
  json::array outbox;
  json::object outbox_twin;
  json::object calls_twin;
  json::object forwards_twin;
  const auto twin_of = [](const OutboxState& e) {
    return json::object{{"count", e.count}, {"oldest_at", time_of_twin(e.oldest_at)}};
  };
  for (std::size_t i = 0; i < ops.outbox.size(); ++i) {
    const auto& entry = ops.outbox[i];
    const auto& calls = ops.calls[i];
    const auto& forwards = ops.forwards[i];
    const bool is_open = entry.state == "pending" || entry.state == "sending";
    outbox.push_back(json::object{
        {"state", entry.state},
        {"means", k_states[i].second},
        {"n", entry.count},
        {"calls", calls.count},
        {"forwards", forwards.count},
        {"bad", entry.state == "dead" && entry.count + calls.count + forwards.count > 0},
        {"oldest", is_open ? time_of_page(entry.oldest_at, now) : json::value(false)}});
    outbox_twin[entry.state] = twin_of(entry);
    calls_twin[calls.state] = twin_of(calls);
    forwards_twin[forwards.state] = twin_of(forwards);
  }
  json::array letters;
  json::array letters_twin;
  for (const auto& letter : ops.dead_letters) {
    letters.push_back(entry_of_page(letter, now));
    letters_twin.push_back(entry_of_twin(letter));
  }
  json::array kept_back;
  json::array kept_back_twin;
  for (const auto& entry : ops.kept_back) {
    kept_back.push_back(json::object{{"delivery_id", entry.delivery_id},
                                     {"repo", entry.repo},
                                     {"what", entry.what},
                                     {"when", time_of_page(entry.at, now)}});
    kept_back_twin.push_back(json::object{{"delivery_id", entry.delivery_id},
                                          {"repo", entry.repo},
                                          {"what", entry.what},
                                          {"at", base::to_rfc3339(entry.at)}});
  }
  json::array timed_out;
  json::array timed_out_twin;
  for (const auto& job : ops.timed_out_jobs) {
    timed_out.push_back(json::object{{"id", job.id},
                                     {"repo", job.repo},
                                     {"workflow", job.workflow},
                                     {"name", job.job_name},
                                     {"when", time_of_page(job.at, now)}});
    timed_out_twin.push_back(json::object{{"id", job.id},
                                          {"repo", job.repo},
                                          {"workflow", job.workflow},
                                          {"job_name", job.job_name},
                                          {"at", base::to_rfc3339(job.at)}});
  }
  json::array audit;
  json::array audit_twin;
  for (const auto& entry : ops.audit) {
    audit.push_back(json::object{{"when", time_of_page(entry.at, now)},
                                 {"actor", entry.actor},
                                 {"origin", text_or_false(entry.origin)},
                                 {"action", entry.action},
                                 {"subject", entry.subject},
                                 {"outcome", entry.outcome}});
    json::object shown{{"at", base::to_rfc3339(entry.at)},
                       {"actor", entry.actor},
                       {"action", entry.action},
                       {"subject", entry.subject},
                       {"outcome", entry.outcome}};
    if (!entry.origin.empty()) shown["origin"] = entry.origin;
    audit_twin.push_back(std::move(shown));
  }
  page.twin = {
      {"lag_seconds", number_of_seconds(lag)},
      {"events_last_24_hours", ops.events_a_day},
      {"outbox", std::move(outbox_twin)},
      {"github_calls", std::move(calls_twin)},
      {"forwards", std::move(forwards_twin)},
      {"dead_letters", std::move(letters_twin)},
      {"kept_back", std::move(kept_back_twin)},
      {"timed_out", json::object{{"window_days",
                                  std::chrono::duration_cast<std::chrono::days>(k_window).count()},
                                 {"count", ops.timed_out},
                                 {"jobs", std::move(timed_out_twin)}}},
      {"audit", std::move(audit_twin)}};
  std::string said;
  if (notice.armed) {
    said = count_of(*notice.armed, "dispatch") + " put back into the outbox";
    if (*notice.armed != 1)
      said = fmt::format("{} dispatches put back into the outbox", *notice.armed);
    if (notice.left > 0) said += fmt::format(", {} left dead", notice.left);
  }
  page.context = {{"said", text_or_false(said)},
                  {"refused", notice.refused.empty() ? json::value(false)
                                                     : json::value(words_of(notice.refused))},
                  {"lag", seconds(lag)},
                  {"late", lag >= k_late},
                  {"newest_event", time_of_page(ops.newest_event_at, now)},
                  {"events_a_day", ops.events_a_day},
                  {"outbox", std::move(outbox)},
                  {"has_dead", ops.dead > 0},
                  {"dead", ops.dead},
                  {"dead_cut", ops.dead > std::ssize(ops.dead_letters)},
                  {"dead_shown", ops.dead_letters.size()},
                  {"letters", std::move(letters)},
                  {"has_kept_back", !ops.kept_back.empty()},
                  {"kept_back", std::move(kept_back)},
                  {"days", std::chrono::duration_cast<std::chrono::days>(k_window).count()},
                  {"timed_out", ops.timed_out},
                  {"has_timed_out", ops.timed_out > 0},
                  {"timed_out_jobs", std::move(timed_out)},
                  {"has_audit", !ops.audit.empty()},
                  {"audit", std::move(audit)},
                  {"live", false}};
  if (live) add_live(page, *live, now);
  return page;
}

}  // namespace crosscheck::hud
