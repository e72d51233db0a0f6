#include "crosscheck/relay/dispatcher.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "superseded.h"

namespace crosscheck::relay {
namespace {

using base::Result;

// What the dispatches of a delivery have in common; the latest are kept, for a delivery's
// dispatches are claimed a few at a time. Used by one thread.
class Deliveries {
 public:
  // The one to `repo`, but for what only its own row says.
  Result<Dispatch> get(store::Tx& tx, std::int64_t id, const base::RepoName& repo) {
    if (const auto found = kept_.find(id); found != kept_.end()) {
      Dispatch known = found->second;
      known.repo = repo;
      return known;
    }
    auto rows = tx.query(
        "SELECT delivery_id, event_type, pr_number, body FROM deliveries WHERE id = $1", {id});
    if (!rows) return tl::unexpected(rows.error());
    if (rows->empty())
      return base::fail(base::Fault::internal, "delivery " + std::to_string(id) + " has no record");
    const auto& row = rows->front();
    Dispatch common{.repo = repo,
                    .event_type = row.text(1),
                    .delivery_id = row.text(0),
                    .pr_number = row.optional_integer(2)};
    if (row.is_null(3)) return common;
    common.body = std::make_shared<const std::string>(store::as_text(row.bytes(3)));
    if (common.body->size() > k_largest) return common;
    if (kept_.size() == k_most) kept_.erase(kept_.begin());
    return kept_.emplace(id, std::move(common)).first->second;
  }

 private:
  static constexpr std::size_t k_most = 16;
  static constexpr std::size_t k_largest = 256 * 1024;  // bytes of a body
  std::map<std::int64_t, Dispatch> kept_;               // by id: the first is the oldest
};

class Dispatches final : public Outgoing {
 public:
  explicit Dispatches(DispatchTarget& target) : target_{target} {}

  [[nodiscard]] const Table& table() const override { return table_; }

  [[nodiscard]] Result<Parcel> load(store::Tx& tx, std::int64_t id, int attempt,
                                    const store::Row& row, std::size_t first) override {
    auto repo = base::RepoName::parse(row.text(first + 1));
    if (!repo) return tl::unexpected(repo.error());
    auto dispatch = deliveries_.get(tx, row.integer(first), *repo);
    if (!dispatch) return tl::unexpected(dispatch.error());
    dispatch->id = id;
    dispatch->attempt = attempt;
    Parcel parcel{dispatch->delivery_id, dispatch->repo.full_name(), dispatch->event_type, {}};
    if (!dispatch->body)
      parcel.send = [](const auto& done) {
        done({Answer::Kind::rejected, std::nullopt,
              "the event's body is past its retention period"});
      };
    else
      parcel.send = [this, dispatch = *std::move(dispatch)](auto done) mutable {
        target_.send(std::move(dispatch), std::move(done));
      };
    return parcel;
  }

  [[nodiscard]] std::size_t room() const override { return target_.room(); }

 private:
  const Table table_{.name = "dispatches",
                     .columns = "delivery, repo",
                     .channel = std::string{k_dispatch_channel},
                     .outdated = superseded(),
                     .outdated_reason = std::string{k_superseded_reason}};
  DispatchTarget& target_;
  Deliveries deliveries_;
};

}  // namespace

Dispatcher::Dispatcher(store::Store& store, const base::Clock& clock, DispatchTarget& target,
                       DispatcherOptions options)
    : LeasedOutbox{store, clock, std::make_unique<Dispatches>(target), std::move(options)} {}

}  // namespace crosscheck::relay
