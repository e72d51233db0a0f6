#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model.h"

// From values to what a template sees and what the JSON twin says. Pure.
namespace crosscheck::hud {

struct PageContext {
  base::Time now{};
  std::string upstream_repo = {};
  std::string upstream_url = {};  // empty: no links to upstream
};

struct Page {
  std::string title = {};
  std::string name = {};                     // of the template, and of the tab it belongs to
  boost::json::object twin = {};             // the JSON answer
  boost::json::object context = {};          // what the template sees
  std::optional<base::Time> newest_at = {};  // newest datum on the page
  int status = 200;
};

[[nodiscard]] Page fleet_page(const std::vector<BackendSummary>& fleet,
                              const std::vector<Change>& recent, const PageContext& context);
[[nodiscard]] Page grid_page(const BackendSummary& summary, const Grid& grid,
                             const GridFilter& filter, bool window_cut, const PageContext& context);
[[nodiscard]] Page pull_request_page(std::int64_t number, const std::vector<Change>& changes,
                                     const PageContext& context);
[[nodiscard]] Page commit_page(const Change& change, const PageContext& context);
[[nodiscard]] Page job_page(const JobPage& job, const PageContext& context);
[[nodiscard]] Page metrics_page();
// `status` with what happened and what to do next.
[[nodiscard]] Page error_page(int status, std::string what, std::string next);
[[nodiscard]] std::string badge(const std::optional<BackendSummary>& summary);

}  // namespace crosscheck::hud
