#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"

namespace crosscheck::store {
class Store;
}

// Whether a backend is ready for L3 and L4, and whether one that is there keeps its level: one
// definition for the page and the command.
namespace crosscheck::hud {

// What is asked of a backend. The windows are fixed.
struct ReadinessTargets {
  std::int64_t tenure_days = 30;          // at its present level, at least
  std::int64_t queue_minutes = 30;        // median, less
  std::int64_t end_to_end_minutes = 180;  // median, less
  std::int64_t time_out_percent = 1;      // of the jobs, less
  std::int64_t pass_percent = 90;         // of the jobs, at least
  std::int64_t least_samples = 20;        // with fewer, a criterion has insufficient data
};
inline constexpr base::Duration k_promotion_window = std::chrono::days{14};
inline constexpr base::Duration k_demotion_window = std::chrono::days{7};

enum class Readiness : std::uint8_t { met, not_met, insufficient_data };  // the names are API
[[nodiscard]] std::string_view to_string(Readiness readiness);

struct Criterion {
  std::string name;                     // API
  std::string label;                    // for people
  std::string definition;               // its place on /help/metrics
  std::optional<double> measured;       // days, seconds or percent; none without a sample
  std::string measured_text;            // "94.1 %", "12 min"; "–" for none
  double target = 0;                    // in the same unit
  std::string target_text;              // "≥ 90 %"
  std::optional<std::int64_t> samples;  // none where the relay itself knows
  Readiness verdict = Readiness::met;
};

// What was measured in one window. Not met where one criterion is not; else insufficient data where
// one has it; else met.
struct Assessment {
  base::Duration window{};
  Readiness verdict = Readiness::met;
  std::vector<Criterion> criteria;
};

struct BackendReadiness {
  std::string repo;
  std::string level;
  std::string device;  // empty: none
  bool listed = true;
  Assessment promotion;     // over k_promotion_window
  Assessment stay;          // over k_demotion_window: whether it keeps its level
  bool window_cut = false;  // more attempts in the window than are read: the newest were taken
  std::optional<base::Time> newest_at;
  // L3 or L4, and over the last days one criterion is not met.
  [[nodiscard]] bool to_be_demoted() const;
};
[[nodiscard]] boost::json::object to_json(const BackendReadiness& readiness);

// Of every listed backend whose results are collected, from L4 down, then by name.
[[nodiscard]] base::Result<std::vector<BackendReadiness>> read_readiness(
    store::Store& store, const ReadinessTargets& targets, base::Time now);

}  // namespace crosscheck::hud
