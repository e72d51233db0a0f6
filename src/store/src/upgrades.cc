#include "crosscheck/store/upgrades.h"

namespace crosscheck::store {
namespace {

constexpr const char* k_select =
    "SELECT id, matrix, name, decision, decided_at, bundle, report, published_at FROM upgrades ";

StoredUpgrade stored(const Row& row) {
  return {.id = row.integer(0),
          .upgrade = {.matrix = row.text(1),
                      .name = row.text(2),
                      .decision = row.text(3),
                      .decided_at = row.time(4),
                      .bundle = row.text(5),
                      .report = row.text(6)},
          .published_at = row.time(7)};
}

}  // namespace

base::Result<PublishedUpgrade> publish_upgrade(Tx& tx, const Upgrade& upgrade, base::Time now) {
  if (upgrade.report.size() > k_largest_upgrade_report) {
    return base::fail(base::Fault::invalid_input,
                      "the report has " + std::to_string(upgrade.report.size()) + " bytes, " +
                          std::to_string(k_largest_upgrade_report) + " at most",
                      "split the matrix into several manifests");
  }
  const auto written = tx.query(
      "INSERT INTO upgrades (matrix, name, decision, decided_at, bundle, report, published_at) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (matrix) DO UPDATE SET name = excluded.name,"
      " decision = excluded.decision, decided_at = excluded.decided_at, bundle = excluded.bundle, "
      "report = excluded.report, published_at = excluded.published_at "
      "WHERE excluded.decided_at > upgrades.decided_at RETURNING id",
      {upgrade.matrix, upgrade.name, upgrade.decision, upgrade.decided_at, upgrade.bundle,
       upgrade.report, now});
  if (!written) return tl::unexpected(written.error());
  if (!written->empty()) return PublishedUpgrade{written->front().integer(0), true};
  const auto there = tx.query("SELECT id FROM upgrades WHERE matrix = $1", {upgrade.matrix});
  if (!there) return tl::unexpected(there.error());
  return PublishedUpgrade{there->front().integer(0), false};
}

base::Result<std::vector<StoredUpgrade>> list_upgrades(Tx& tx, std::size_t most,
                                                       std::size_t skipped) {
  const auto rows =
      tx.query(std::string{k_select} + "ORDER BY decided_at DESC, id DESC LIMIT $1 OFFSET $2",
               {static_cast<std::int64_t>(most), static_cast<std::int64_t>(skipped)});
  if (!rows) return tl::unexpected(rows.error());
  std::vector<StoredUpgrade> all;
  for (const Row& row : *rows) all.push_back(stored(row));
  return all;
}

base::Result<std::optional<StoredUpgrade>> find_upgrade(Tx& tx, std::int64_t id) {
  const auto rows = tx.query(std::string{k_select} + "WHERE id = $1", {id});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  return stored(rows->front());
}

}  // namespace crosscheck::store
