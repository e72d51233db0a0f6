#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "model.h"

namespace crosscheck::store {
class Tx;
}

// SQL to plain values. Every query uses an index and reads a bounded number of rows.
namespace crosscheck::hud {

// One request's reads: all on one snapshot.
class Queries {
 public:
  explicit Queries(store::Tx& tx) : tx_{tx} {}

  // Listed ones first, by level from L4 down, then by name.
  [[nodiscard]] base::Result<std::vector<Backend>> backends();
  [[nodiscard]] base::Result<std::optional<Backend>> backend(std::string_view repo_key);
  // The attempts first seen in k_window, newest first, at most k_window_attempts.
  [[nodiscard]] base::Result<std::vector<Job>> window(std::string_view repo_key, base::Time now);
  [[nodiscard]] base::Result<BackendSummary> summary(Backend backend, base::Time now);
  // The newest `limit` deliveries that were dispatched, as changes.
  [[nodiscard]] base::Result<std::vector<Change>> recent_changes(std::int64_t limit);
  // Newest commit first; empty if nothing is known of the pull request.
  [[nodiscard]] base::Result<std::vector<Change>> pull_request(std::int64_t number);
  // Full SHAs that begin with `prefix`, at most two.
  [[nodiscard]] base::Result<std::vector<std::string>> find_commits(const std::string& prefix);
  [[nodiscard]] base::Result<std::optional<Change>> commit(const std::string& sha);
  struct GridPage {
    Grid grid;
    bool window_cut = false;  // older commits exist than were searched
  };
  [[nodiscard]] base::Result<GridPage> grid(std::string_view repo_key, const GridFilter& filter);
  // `filter` nothing: failures if there are any, else all.
  [[nodiscard]] base::Result<std::optional<JobPage>> job(std::int64_t id,
                                                         std::optional<TestFilter> filter,
                                                         std::string q, std::int64_t page);

 private:
  base::Result<std::vector<Change>> changes_of(std::vector<Delivery> deliveries);
  base::Result<std::vector<Dispatch>> dispatches_of(const std::vector<Delivery>& deliveries);
  base::Result<std::vector<Job>> jobs_of(const std::vector<Delivery>& deliveries,
                                         std::string_view repo_key);
  base::Result<std::vector<Job>> jobs_where(std::string_view column,
                                            const std::vector<std::string>& values,
                                            std::string_view repo_key);
  base::Result<void> add_counts(std::vector<Change>& changes);
  base::Result<std::optional<Run>> run_of(const Job& job);
  base::Result<std::vector<Cluster>> clusters(std::int64_t run);
  base::Result<void> add_tests(JobPage& page);
  base::Result<void> add_check_runs(JobPage& page);

  store::Tx& tx_;
};

}  // namespace crosscheck::hud
