#include "crosscheck/relay/replay.h"

#include "arm_again.h"
#include "crosscheck/base/json.h"
#include "crosscheck/relay/dispatcher.h"
#include "crosscheck/relay/forward.h"
#include "crosscheck/relay/github_calls.h"
#include "crosscheck/store/access.h"
#include "superseded.h"

namespace crosscheck::relay {
namespace {

using base::Fault;
using base::Result;

// What a replay comes down to in SQL.
struct Selection {
  std::string subject;     // for people
  std::string dispatches;  // condition on a row of `dispatches`, with $1; empty: none
  std::string calls;       // the same on `github_calls`
  std::string reports;     // the same on `forwards`
  store::Parameter value{std::nullopt};
};

Result<Selection> select(store::Tx& tx, const ReplayWhat& what) {
  if (const auto* dispatch = std::get_if<ReplayDispatch>(&what))
    return Selection{"dispatch " + std::to_string(dispatch->id), "id = $1", "", "", dispatch->id};
  if (const auto* call = std::get_if<ReplayCall>(&what))
    return Selection{"call " + std::to_string(call->id), "", "id = $1", "", call->id};
  if (const auto* report = std::get_if<ReplayReport>(&what))
    return Selection{"report " + std::to_string(report->id), "", "", "id = $1", report->id};
  if (const auto* delivery = std::get_if<ReplayDelivery>(&what)) {
    auto rows = tx.query("SELECT id FROM deliveries WHERE delivery_id = $1", {delivery->id});
    if (!rows) return tl::unexpected(rows.error());
    const std::string shown = base::to_utf8(delivery->id, 256);
    if (rows->empty()) return base::fail(Fault::not_found, "there is no delivery " + shown);
    return Selection{"delivery " + shown, "delivery = $1", "delivery = $1",
                     "job IN (SELECT id FROM jobs WHERE delivery = $1)", rows->front().integer(0)};
  }
  return Selection{"all that is dead", "id >= $1", "id >= $1", "id >= $1", std::int64_t{0}};
}

Result<void> refuse_call(store::Tx& tx, std::int64_t id) {
  auto rows = tx.query("SELECT state, repo, payload FROM github_calls WHERE id = $1", {id});
  if (!rows) return tl::unexpected(rows.error());
  const std::string name = "call " + std::to_string(id);
  if (rows->empty()) return base::fail(Fault::not_found, "there is no " + name);
  const auto& row = rows->front();
  if (row.text(0) != "dead")
    return base::fail(Fault::conflict, name + " for " + row.text(1) + " is " + row.text(0),
                      "only dead calls are replayed");
  if (row.text(2) == "{}")
    return base::fail(Fault::conflict, name + " for " + row.text(1) + ": it is past its retention");
  return base::fail(Fault::conflict, name + " for " + row.text(1) + " was replaced by a newer one");
}

Result<void> refuse_report(store::Tx& tx, std::int64_t id) {
  auto rows = tx.query("SELECT state, repo FROM forwards WHERE id = $1", {id});
  if (!rows) return tl::unexpected(rows.error());
  const std::string name = "report " + std::to_string(id);
  if (rows->empty()) return base::fail(Fault::not_found, "there is no " + name);
  return base::fail(Fault::conflict,
                    name + " of " + rows->front().text(1) + " is " + rows->front().text(0),
                    "only dead reports are replayed");
}

// Why one dispatch stays as it is.
Result<void> refuse_one(store::Tx& tx, std::int64_t id) {
  auto rows = tx.query("SELECT state, repo, CASE WHEN " + superseded() +
                           " THEN 1 ELSE 0 END FROM dispatches WHERE id = $1",
                       {id});
  if (!rows) return tl::unexpected(rows.error());
  const std::string name = "dispatch " + std::to_string(id);
  if (rows->empty()) return base::fail(Fault::not_found, "there is no " + name);
  const auto& row = rows->front();
  if (row.text(0) != "dead")
    return base::fail(Fault::conflict, name + " to " + row.text(1) + " is " + row.text(0),
                      "only dead dispatches are replayed");
  if (row.integer(2) != 0)
    return base::fail(Fault::conflict,
                      name + " to " + row.text(1) + " is " + std::string{k_superseded_reason});
  return base::fail(Fault::conflict, name + ": its event is past its retention",
                    "redeliver the event from the App's delivery log on GitHub");
}

}  // namespace

Result<std::int64_t> arm_again(store::Tx& tx, std::string_view condition,
                               const store::Parameter& value, base::Time now) {
  auto armed = tx.execute(
      "UPDATE dispatches SET state = 'pending', uncertain = 0, not_before = $2, created_at = $2 "
      "WHERE state = 'dead' AND " +
          std::string{condition} +
          " AND EXISTS (SELECT 1 FROM deliveries b WHERE b.id = dispatches.delivery "
          "AND b.body IS NOT NULL) AND NOT " +
          superseded(),
      {value, now});
  if (armed && *armed > 0) tx.notify(k_dispatch_channel);
  return armed;
}

Result<Replayed> replay(store::Tx& tx, const ReplayWhat& what, const Asker& asker, base::Time now) {
  const auto selection = select(tx, what);
  if (!selection) return tl::unexpected(selection.error());
  Replayed done;
  const auto arm = [&](const std::string& condition, const char* table,
                       auto arm_rows) -> Result<void> {
    if (condition.empty()) return {};
    const auto armed = arm_rows(tx, condition, selection->value, now);
    if (!armed) return tl::unexpected(armed.error());
    auto left = tx.query(
        std::string{"SELECT COUNT(*) FROM "} + table + " WHERE state = 'dead' AND " + condition,
        {selection->value});
    if (!left) return tl::unexpected(left.error());
    done.armed += *armed;
    done.left += left->front().integer(0);
    return {};
  };
  if (auto armed = arm(selection->dispatches, "dispatches", arm_again); !armed)
    return tl::unexpected(armed.error());
  if (auto armed = arm(selection->calls, "github_calls", arm_calls_again); !armed)
    return tl::unexpected(armed.error());
  if (auto armed = arm(selection->reports, "forwards", arm_forwards_again); !armed)
    return tl::unexpected(armed.error());
  if (done.armed == 0) {
    Result<void> refused;
    if (const auto* dispatch = std::get_if<ReplayDispatch>(&what))
      refused = refuse_one(tx, dispatch->id);
    if (const auto* call = std::get_if<ReplayCall>(&what)) refused = refuse_call(tx, call->id);
    if (const auto* report = std::get_if<ReplayReport>(&what))
      refused = refuse_report(tx, report->id);
    if (!refused) return tl::unexpected(refused.error());
  }
  std::string outcome = std::to_string(done.armed) + " armed again";
  if (done.left > 0) outcome += ", " + std::to_string(done.left) + " left dead";
  if (auto noted = store::audit(
          tx, {now, asker.actor, asker.origin, "replay", selection->subject, std::move(outcome)});
      !noted)
    return tl::unexpected(noted.error());
  return done;
}

}  // namespace crosscheck::relay
