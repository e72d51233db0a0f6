#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/store/store.h"

// What upgrade gates decided: written by `crosscheck gate publish`, read by the HUD.
namespace crosscheck::store {

struct Upgrade {
  std::string matrix = {};  // SHA-256 of what was frozen: names it on every machine
  std::string name = {};
  std::string decision = {};
  base::Time decided_at{};
  std::string bundle = {};  // SHA-256 of what it was judged from
  std::string report = {};  // JSON
};
inline constexpr std::size_t k_largest_upgrade_report = 8U << 20U;

struct PublishedUpgrade {
  std::int64_t id = 0;
  bool changed = false;
};
// One row a matrix: a later decision replaces an earlier one and keeps its id; one that is not
// later changes nothing. `invalid_input` for a report that is too large.
[[nodiscard]] base::Result<PublishedUpgrade> publish_upgrade(Tx& tx, const Upgrade& upgrade,
                                                             base::Time now);

struct StoredUpgrade {
  std::int64_t id = 0;
  Upgrade upgrade = {};
  base::Time published_at{};
};
// Newest decision first.
[[nodiscard]] base::Result<std::vector<StoredUpgrade>> list_upgrades(Tx& tx, std::size_t most,
                                                                     std::size_t skipped = 0);
[[nodiscard]] base::Result<std::optional<StoredUpgrade>> find_upgrade(Tx& tx, std::int64_t id);

}  // namespace crosscheck::store
