#pragma once

#include <cstdint>
#include <vector>

#include "crosscheck/store/upgrades.h"
#include "pages.h"

// What upgrade gates decided: docs/gate.md has the reports. What a report lacks, the pages leave
// out; they never refuse one.
namespace crosscheck::hud {

inline constexpr std::size_t k_upgrades_a_page = 20;
// `upgrades` are those of page `number`, and one more where there is a next page.
[[nodiscard]] Page upgrades_page(const std::vector<store::StoredUpgrade>& upgrades,
                                 std::int64_t number, const PageContext& context);
[[nodiscard]] Page upgrade_page(const store::StoredUpgrade& upgrade, const PageContext& context);

}  // namespace crosscheck::hud
