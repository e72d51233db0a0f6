#include "crosscheck/relay/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <utility>

#include "crosscheck/base/json.h"

namespace crosscheck::relay {
namespace {

using base::Result;
using base::Time;
namespace json = base::json;

constexpr std::size_t k_concurrency = 8;
constexpr std::int64_t k_longest_wait = 3600;  // seconds, whatever Retry-After says

std::string seconds_or_null(const std::optional<base::Duration>& duration, bool wanted) {
  if (!duration || !wanted) return "null";
  return fmt::format("{:.3f}", std::chrono::duration<double>{*duration}.count());
}

class Forwards final : public Outgoing {
 public:
  Forwards(net::Client& client, const base::Clock& clock, ForwardOptions options)
      : client_{client}, clock_{clock}, options_{std::move(options)} {}

  [[nodiscard]] const Table& table() const override { return table_; }

  [[nodiscard]] Result<Parcel> load(store::Tx& /*tx*/, std::int64_t /*id*/, int /*attempt*/,
                                    const store::Row& row, std::size_t first) override {
    auto envelope = std::make_shared<const std::string>(
        row.is_null(first + 2) ? std::string{} : store::as_text(row.bytes(first + 2)));
    Parcel parcel{row.text(first), row.text(first + 1), "hud", {}};
    parcel.send = [this, envelope = std::move(envelope)](auto done) {
      send(*envelope, std::move(done));
    };
    return parcel;
  }

  [[nodiscard]] Result<void> follow_up(store::Tx& tx, std::int64_t id, const Answer& /*answer*/,
                                       Time /*now*/) override {
    auto done = tx.execute("UPDATE forwards SET body = NULL WHERE id = $1", {id});
    if (!done) return tl::unexpected(done.error());
    return {};
  }

  [[nodiscard]] std::size_t room() const override {
    const std::size_t sending = *sending_;
    return sending >= k_concurrency ? 0 : k_concurrency - sending;
  }

 private:
  void send(const std::string& envelope, std::function<void(Answer)> done) {
    net::ClientRequest request;
    request.method = "POST";
    request.url = options_.url;
    request.headers = {{"Content-Type", "application/json"}, {"x-hud-internal-bot", options_.key}};
    request.body = envelope;
    request.body_limit = std::size_t{64} * 1024;
    ++*sending_;
    client_.send(std::move(request), [sending = sending_, &clock = clock_,
                                      done = std::move(done)](const net::ClientResult& result) {
      --*sending;
      done(judge_forward(result, clock.now()));
    });
  }

  const Table table_{.name = "forwards",
                     .columns = "delivery_id, repo, body",
                     .channel = std::string{k_forward_channel},
                     .ready =
                         "NOT EXISTS (SELECT 1 FROM forwards e WHERE e.job = forwards.job AND "
                         "e.id < forwards.id AND e.state IN ('pending', 'sending'))",
                     .outdated = "1 = 0",  // each is wanted, in its turn
                     .outdated_reason = {}};
  net::Client& client_;
  const base::Clock& clock_;
  const ForwardOptions options_;
  const std::shared_ptr<std::atomic<std::size_t>> sending_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

}  // namespace

std::string make_envelope(const Forwarded& what, std::string_view body) {
  // Neither a repository's name nor a level has a character that JSON writes otherwise.
  return fmt::format(R"({{"trusted":{{"ci_metrics":{{"queue_time":{},"execution_time":{}}},)"
                     R"("verified_repo":"{}","downstream_repo_level":"{}"}},)"
                     R"("untrusted":{{"callback_payload":{}}}}})",
                     seconds_or_null(what.state.queue, !what.completed),
                     seconds_or_null(what.state.execution, what.completed), what.repo.full_name(),
                     to_string(what.level), body);
}

Result<void> forward_report(store::Tx& tx, const Forwarded& what, std::string_view body, Time now) {
  auto done = tx.execute(
      "INSERT INTO forwards (job, delivery_id, repo_key, repo, body, state, not_before, "
      "created_at) "
      "SELECT $1, delivery_id, $2, $3, $4, 'pending', $5, $5 FROM jobs WHERE id = $1",
      {what.job, what.repo.key(), what.repo.full_name(), store::to_bytes(make_envelope(what, body)),
       now});
  if (!done) return tl::unexpected(done.error());
  tx.notify(k_forward_channel);
  return {};
}

Result<void> forward_conclusion(store::Tx& tx, const Forwarded& what, Time now) {
  auto rows = tx.query(
      "SELECT j.word_body, d.body FROM jobs j LEFT JOIN deliveries d ON d.id = j.delivery "
      "WHERE j.id = $1",
      {what.job});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return {};
  const auto& row = rows->front();
  auto word = base::parse_json(row.text(0), "report");
  if (!word || !word->is_object()) return {};
  auto& body = word->get_object();
  if (!row.is_null(1))
    if (auto payload = base::parse_json(store::as_text(row.bytes(1)), "event"))
      body["payload"] = std::move(*payload);
  if (auto* workflow = body.if_contains("workflow"); workflow != nullptr && workflow->is_object()) {
    auto& said = workflow->get_object();
    said["status"] = "completed";
    said["conclusion"] = what.state.conclusion.value_or("timed_out");
    said["started_at"] = nullptr;
    said["completed_at"] = base::to_rfc3339(now);
  }
  return forward_report(tx, what, json::serialize(*word), now);
}

Answer judge_forward(const net::ClientResult& result, Time now) {
  using Kind = Answer::Kind;
  if (!result) return {Kind::retry_later, std::nullopt, "HUD: " + result.error().error.message};
  const int status = result->status;
  if (status >= 200 && status < 300) return {};
  Answer answer{Kind::retry_later, std::nullopt, "HUD answered " + std::to_string(status)};
  if (const auto wait = result->headers.get("Retry-After")) {
    std::int64_t seconds = 0;
    const auto [end, error] = std::from_chars(wait->data(), wait->data() + wait->size(), seconds);
    if (error == std::errc{} && end == wait->data() + wait->size() && seconds > 0)
      answer.not_before = now + std::chrono::seconds{std::min(seconds, k_longest_wait)};
  }
  // Of these it would say the same again. A wrong key, a wrong address and too many calls are set
  // right by somebody, and then nothing is lost.
  const bool is_refusal = status >= 400 && status < 500 && status != 401 && status != 403 &&
                          status != 404 && status != 408 && status != 429;
  if (is_refusal) answer.kind = Kind::rejected;
  return answer;
}

Forwarder::Forwarder(store::Store& store, const base::Clock& clock, net::Client& client,
                     ForwardOptions options)
    : LeasedOutbox{store,
                   clock,
                   std::make_unique<Forwards>(client, clock, std::move(options)),
                   // One place takes them all, so none holds up the others.
                   {.concurrency = k_concurrency, .per_repository = k_concurrency}} {}

Result<std::int64_t> arm_forwards_again(store::Tx& tx, std::string_view condition,
                                        const store::Parameter& value, Time now) {
  auto armed = tx.execute(
      fmt::format("UPDATE forwards SET state = 'pending', uncertain = 0, not_before = $2, "
                  "created_at = $2 WHERE state = 'dead' AND body IS NOT NULL AND {}",
                  condition),
      {value, now});
  if (armed && *armed > 0) tx.notify(k_forward_channel);
  return armed;
}

Result<std::int64_t> forget_forwarded(store::Store& store, Time before) {
  return store.write_value([&](store::Tx& tx) {
    return tx.execute("DELETE FROM forwards WHERE state = 'sent' AND sent_at < $1", {before});
  });
}

}  // namespace crosscheck::relay
