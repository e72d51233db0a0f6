#include "crosscheck/relay/github_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <set>

#include "crosscheck/base/json.h"
#include "crosscheck/relay/check_run.h"
#include "crosscheck/store/outdated.h"
#include "github_answer.h"

namespace crosscheck::relay {
namespace {

using base::Result;
namespace json = base::json;

constexpr std::array<std::string_view, 4> k_kinds{"create_check_run", "rerun_failed_jobs", "rerun",
                                                  "list_check_suite"};
constexpr int k_page = 100;
constexpr int k_most_pages = 100;

constexpr std::string_view k_replaced_reason = "a later state of the same check run took its place";

// No earlier call of the same order is still to leave.
constexpr std::string_view k_in_order =
    "NOT EXISTS (SELECT 1 FROM github_calls b WHERE b.order_key = github_calls.order_key "
    "AND b.id < github_calls.id AND b.state IN ('pending', 'sending'))";

// The check runs of a suite, page after page. Lives as long as a call is in progress.
class SuiteListing : public std::enable_shared_from_this<SuiteListing> {
 public:
  SuiteListing(github::App& app, base::RepoName upstream, std::int64_t suite,
               std::function<void(Answer)> done)
      : app_{app}, upstream_{std::move(upstream)}, suite_{suite}, done_{std::move(done)} {}

  void ask(int page) {
    app_.call(upstream_, github::AppCall::get,
              fmt::format("/repos/{}/check-suites/{}/check-runs?per_page={}&page={}",
                          upstream_.full_name(), suite_, k_page, page),
              {}, [self = shared_from_this(), page](github::CallAnswer answer) {
                self->on_page(page, std::move(answer));
              });
  }

 private:
  void on_page(int page, github::CallAnswer answer) {
    if (answer.kind != github::CallAnswer::Kind::sent) return done_(answer_of(std::move(answer)));
    const auto body = base::parse_json(answer.content, "answer");
    const auto* list = body ? base::find(*body, "check_runs") : nullptr;
    if (list == nullptr || !list->is_array())
      return done_({Answer::Kind::retry_later, std::nullopt,
                    "listing the suite's check runs: the answer is no list"});
    const auto& runs = list->get_array();
    for (const json::value& run : runs) {
      const auto name = base::require_string(run, "name");
      const auto external_id = base::require_string(run, "external_id");
      if (name && external_id && parse_check_run(*name, *external_id))
        found_.push_back(json::object{{"name", *name}, {"external_id", *external_id}});
    }
    if (std::ssize(runs) == k_page && page < k_most_pages) return ask(page + 1);
    Answer all;
    all.content = json::serialize(found_);
    done_(std::move(all));
  }

  github::App& app_;
  const base::RepoName upstream_;
  const std::int64_t suite_;
  const std::function<void(Answer)> done_;
  json::array found_;
};

class Calls final : public Outgoing {
 public:
  Calls(CallTarget& target, const AllowlistFile& allowlist)
      : target_{target}, allowlist_{allowlist} {}

  [[nodiscard]] const Table& table() const override { return table_; }

  [[nodiscard]] Result<Parcel> load(store::Tx& tx, std::int64_t /*id*/, int /*attempt*/,
                                    const store::Row& row, std::size_t first) override {
    const auto kind = parse_call_kind(row.text(first));
    auto repo = base::RepoName::parse(row.text(first + 1));
    if (!repo) return tl::unexpected(repo.error());
    auto delivery =
        tx.query("SELECT delivery_id FROM deliveries WHERE id = $1", {row.integer(first + 3)});
    if (!delivery) return tl::unexpected(delivery.error());
    Parcel parcel{delivery->empty() ? "" : delivery->front().text(0),
                  repo->full_name(),
                  row.text(first) + " " + row.text(first + 4),
                  {}};
    if (!kind) {
      parcel.send = [](const auto& done) {
        done({Answer::Kind::rejected, std::nullopt, "a kind of call that this version has not"});
      };
      return parcel;
    }
    parcel.send = [this, kind = *kind, repo = *std::move(repo), payload = row.text(first + 2)](
                      auto done) { target_.send(kind, repo, payload, std::move(done)); };
    return parcel;
  }

  // A suite's runs, each once: only what is listed at L3 or above.
  [[nodiscard]] Result<void> follow_up(store::Tx& tx, std::int64_t id, const Answer& answer,
                                       base::Time now) override {
    if (answer.content.empty()) return {};
    auto rows = tx.query("SELECT kind, delivery FROM github_calls WHERE id = $1", {id});
    if (!rows) return tl::unexpected(rows.error());
    if (rows->empty() || rows->front().text(0) != to_string(CallKind::list_check_suite)) return {};
    const auto list = base::parse_json(answer.content, "answer");
    if (!list || !list->is_array()) return {};
    const auto allowlist = allowlist_.current();
    std::set<std::pair<std::string, std::string>> seen;
    for (const json::value& item : list->get_array()) {
      const auto shown = parse_check_run(base::require_string(item, "name").value_or(""),
                                         base::require_string(item, "external_id").value_or(""));
      if (!shown || !is_actions_run(shown->run_id)) continue;
      const Backend* backend = allowlist->find(shown->repo);
      if (backend == nullptr || backend->level < Level::L3) continue;
      if (!seen.emplace(shown->repo.key(), shown->run_id).second) continue;
      if (auto queued = queue_once(
              tx, rerun_of(CallKind::rerun, rows->front().integer(1), backend->repo, shown->run_id),
              now);
          !queued)
        return tl::unexpected(queued.error());
    }
    return {};
  }

  [[nodiscard]] std::size_t room() const override { return target_.room(); }

 private:
  const Table table_{.name = "github_calls",
                     .columns = "kind, repo, payload, delivery, says",
                     .channel = std::string{k_call_channel},
                     .ready = std::string{k_in_order},
                     .outdated = std::string{store::k_is_replaced},
                     .outdated_reason = std::string{k_replaced_reason}};
  CallTarget& target_;
  const AllowlistFile& allowlist_;
};

}  // namespace

std::string_view to_string(CallKind kind) { return k_kinds[static_cast<std::size_t>(kind)]; }

std::optional<CallKind> parse_call_kind(std::string_view name) {
  const auto* found = std::ranges::find(k_kinds, name);
  if (found == k_kinds.end()) return std::nullopt;
  return static_cast<CallKind>(found - k_kinds.begin());
}

GithubCall rerun_of(CallKind kind, std::int64_t delivery, const base::RepoName& repo,
                    const std::string& run_id) {
  GithubCall call{.kind = kind, .delivery = delivery, .repo = repo};
  call.subject = json::serialize(json::array{"run", repo.key(), run_id});
  call.order_key = call.subject;
  call.says = fmt::format("{} for {}", to_string(kind), delivery);
  call.payload = json::serialize(json::object{{"run_id", run_id}});
  return call;
}

Result<bool> queue_call(store::Tx& tx, const GithubCall& call, base::Time now) {
  auto added = tx.query(
      "INSERT INTO github_calls (kind, delivery, repo_key, repo, subject, says, order_key, job, "
      "payload, state, not_before, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, "
      "'pending', $10, $10) ON CONFLICT (subject, says) DO NOTHING RETURNING id",
      {to_string(call.kind), call.delivery, call.repo.key(), call.repo.full_name(), call.subject,
       call.says, call.order_key, call.job, call.payload, now});
  if (!added) return tl::unexpected(added.error());
  if (added->empty()) return false;
  if (call.kind == CallKind::create_check_run) {
    auto withdrawn = tx.execute(
        "UPDATE github_calls SET state = 'withdrawn', last_error = $1 WHERE order_key = $2 AND "
        "subject = $3 AND id < $4 AND state = 'pending'",
        {k_replaced_reason, call.order_key, call.subject, added->front().integer(0)});
    if (!withdrawn) return tl::unexpected(withdrawn.error());
  }
  tx.notify(k_call_channel);
  return true;
}

Result<bool> queue_once(store::Tx& tx, const GithubCall& call, base::Time now) {
  auto waiting = tx.query(
      "SELECT 1 FROM github_calls WHERE order_key = $1 AND state IN ('pending', 'sending') LIMIT 1",
      {call.order_key});
  if (!waiting) return tl::unexpected(waiting.error());
  if (!waiting->empty()) return false;
  return queue_call(tx, call, now);
}

Result<std::int64_t> arm_calls_again(store::Tx& tx, std::string_view condition,
                                     const store::Parameter& value, base::Time now) {
  auto armed = tx.execute(
      fmt::format("UPDATE github_calls SET state = 'pending', uncertain = 0, not_before = $2, "
                  "created_at = $2 WHERE state = 'dead' AND payload <> '{{}}' AND {} AND NOT {}",
                  condition, store::k_is_replaced),
      {value, now});
  if (armed && *armed > 0) tx.notify(k_call_channel);
  return armed;
}

void GithubCallTarget::send(CallKind kind, const base::RepoName& repo, const std::string& payload,
                            std::function<void(Answer)> done) {
  ++*sending_;
  auto answered = [sending = sending_, done = std::move(done)](Answer answer) {
    --*sending;
    done(std::move(answer));
  };
  if (kind == CallKind::create_check_run) {
    // What follows from an answer is read from its content: of a check run nothing.
    app_.call(upstream_, github::AppCall::create_check_run,
              "/repos/" + upstream_.full_name() + "/check-runs", payload,
              [answered = std::move(answered)](github::CallAnswer answer) {
                answer.content.clear();
                answered(answer_of(std::move(answer)));
              });
    return;
  }
  const auto asked = base::parse_json(payload, "payload");
  if (kind == CallKind::list_check_suite) {
    const auto suite = asked ? base::require_int(*asked, "suite") : tl::unexpected{asked.error()};
    if (!suite) return answered({Answer::Kind::rejected, std::nullopt, suite.error().message});
    std::make_shared<SuiteListing>(app_, upstream_, *suite, std::move(answered))->ask(1);
    return;
  }
  const auto run_id =
      asked ? base::require_string(*asked, "run_id") : tl::unexpected{asked.error()};
  if (!run_id || !is_actions_run(*run_id))
    return answered({Answer::Kind::rejected, std::nullopt, "the run is not on GitHub Actions"});
  app_.call(repo, github::AppCall::rerun,
            fmt::format("/repos/{}/actions/runs/{}/{}", repo.full_name(), *run_id,
                        kind == CallKind::rerun ? "rerun" : "rerun-failed-jobs"),
            {}, [answered = std::move(answered)](github::CallAnswer answer) {
              answer.content.clear();
              answered(answer_of(std::move(answer)));
            });
}

std::size_t GithubCallTarget::room() const {
  const std::size_t sending = *sending_;
  return sending >= concurrency_ ? 0 : concurrency_ - sending;
}

CallSender::CallSender(store::Store& store, const base::Clock& clock, CallTarget& target,
                       const AllowlistFile& allowlist, OutboxOptions options)
    : LeasedOutbox{store, clock, std::make_unique<Calls>(target, allowlist), std::move(options)} {}

}  // namespace crosscheck::relay
