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
  std::string subject;    // for people
  std::string condition;  // on a row of `dispatches`, `github_calls` or `jobs`, with $1
  store::Parameter value{std::nullopt};
};

Result<Selection> select(store::Tx& tx, const ReplayWhat& what) {
  if (const auto* dispatch = std::get_if<ReplayDispatch>(&what))
    return Selection{"dispatch " + std::to_string(dispatch->id), "id = $1", dispatch->id};
  if (const auto* delivery = std::get_if<ReplayDelivery>(&what)) {
    auto rows = tx.query("SELECT id FROM deliveries WHERE delivery_id = $1", {delivery->id});
    if (!rows) return tl::unexpected(rows.error());
    const std::string shown = base::to_utf8(delivery->id, 256);
    if (rows->empty()) return base::fail(Fault::not_found, "there is no delivery " + shown);
    return Selection{"delivery " + shown, "delivery = $1", rows->front().integer(0)};
  }
  return Selection{"all that is dead", "id >= $1", std::int64_t{0}};
}

// Why one dispatch stays as it is.
Result<void> refuse_one(store::Tx& tx, std::int64_t id) {
  auto rows = tx.query("SELECT state, repo, CASE WHEN " + std::string{k_superseded} +
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
          std::string{k_superseded},
      {value, now});
  if (armed && *armed > 0) tx.notify(k_dispatch_channel);
  return armed;
}

Result<Replayed> replay(store::Tx& tx, const ReplayWhat& what, const Asker& asker, base::Time now) {
  const auto selection = select(tx, what);
  if (!selection) return tl::unexpected(selection.error());
  auto armed = arm_again(tx, selection->condition, selection->value, now);
  if (!armed) return tl::unexpected(armed.error());
  if (const auto* one = std::get_if<ReplayDispatch>(&what)) {
    if (*armed == 0)
      if (auto refused = refuse_one(tx, one->id); !refused) return tl::unexpected(refused.error());
  } else {
    // The condition holds on rows of the other outboxes as well.
    for (const auto arm : {arm_calls_again, arm_forwards_again}) {
      const auto more = arm(tx, selection->condition, selection->value, now);
      if (!more) return tl::unexpected(more.error());
      *armed += *more;
    }
  }
  auto left =
      tx.query("SELECT COUNT(*) FROM dispatches WHERE state = 'dead' AND " + selection->condition,
               {selection->value});
  if (!left) return tl::unexpected(left.error());
  const Replayed done{*armed, left->front().integer(0)};
  std::string outcome = std::to_string(done.armed) + " armed again";
  if (done.left > 0) outcome += ", " + std::to_string(done.left) + " left dead";
  if (auto noted = store::audit(
          tx, {now, asker.actor, asker.origin, "replay", selection->subject, std::move(outcome)});
      !noted)
    return tl::unexpected(noted.error());
  return done;
}

}  // namespace crosscheck::relay
