#pragma once

#include "crosscheck/relay/retention.h"
#include "settings.h"

namespace crosscheck::cli {

[[nodiscard]] relay::Retention retention_of(const Settings& settings);
// Where local jobs write.
[[nodiscard]] std::filesystem::path jobs_dir(const Settings& settings);

}  // namespace crosscheck::cli
