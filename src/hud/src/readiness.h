#pragma once

#include <vector>

#include "crosscheck/hud/readiness.h"
#include "model.h"
#include "pages.h"

namespace crosscheck::hud {

// `window`: the attempts first seen in k_promotion_window. Pure.
[[nodiscard]] BackendReadiness assess(const Backend& backend, const std::vector<Job>& window,
                                      const ReadinessTargets& targets, base::Time now);
[[nodiscard]] Page readiness_page(const BackendReadiness& readiness, const PageContext& context);

}  // namespace crosscheck::hud
