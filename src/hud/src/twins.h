#pragma once

#include <boost/json/object.hpp>
#include <vector>

#include "model.h"

// The JSON twins: the same values as the pages, under the same names everywhere. Times are RFC
// 3339, durations are seconds.
namespace crosscheck::hud {

[[nodiscard]] boost::json::object twin_of(const base::OutcomeCounts& counts);
[[nodiscard]] boost::json::object to_json(const Job& job);
[[nodiscard]] boost::json::object to_json(const LatestJob& job);
[[nodiscard]] boost::json::object to_json(const BackendSummary& summary);
[[nodiscard]] boost::json::object to_json(const Delivery& delivery);
[[nodiscard]] boost::json::object to_json(const Dispatch& dispatch);
[[nodiscard]] boost::json::object to_json(const Change& change);
// Without its jobs, for lists of changes.
[[nodiscard]] boost::json::object brief_json(const Change& change);
[[nodiscard]] boost::json::object to_json(const Grid& grid);
[[nodiscard]] boost::json::object to_json(const JobPage& page);

}  // namespace crosscheck::hud
