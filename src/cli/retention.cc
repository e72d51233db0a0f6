#include "retention.h"

namespace crosscheck::cli {

std::filesystem::path jobs_dir(const Settings& settings) {
  return std::filesystem::path{settings.state_dir} / "jobs";
}

relay::Retention retention_of(const Settings& settings) {
  return {.bodies_days = settings.retention_bodies_days,
          .logs_days = settings.retention_logs_days,
          .results_days = settings.retention_results_days,
          .events_days = settings.retention_events_days,
          .logs = jobs_dir(settings)};
}

}  // namespace crosscheck::cli
