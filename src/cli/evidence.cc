#include "evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "crosscheck/base/repo_name.h"
#include "results_file.h"

namespace crosscheck::cli {
namespace {

using base::Fault;
using base::Result;

Result<void> read_store(const Globals& globals, const EvidenceOptions& options,
                        const std::vector<std::string>& devices, reconcile::History& history) {
  const auto filter = run_filter(options, devices);
  if (!filter) return tl::unexpected(filter.error());
  const auto store = open_store(globals);
  if (!store) return tl::unexpected(store.error());
  return (*store)->read([&](store::Tx& tx) -> Result<void> {
    const auto runs = store::list_runs(tx, *filter);
    if (!runs) return tl::unexpected(runs.error());
    for (const std::string& id : options.runs)
      if (std::none_of(runs->begin(), runs->end(),
                       [&](const store::StoredRun& run) { return run.header.run_id == id; }))
        return base::fail(Fault::not_found, fmt::format("there is no run {} in the store", id));
    for (const store::StoredRun& run : *runs) {
      const auto results = store::read_results(tx, run.id);
      if (!results) return tl::unexpected(results.error());
      history.add(run.header, *results);
    }
    return {};
  });
}

}  // namespace

bool fits(const EvidenceOptions& options, const std::vector<std::string>& devices,
          const base::RunHeader& header) {
  const base::Combination& combination = header.combination;
  const auto names = reconcile::circumstances(reconcile::run_of(header)).devices;
  return (options.backend.empty() || options.backend == combination.backend) &&
         std::all_of(devices.begin(), devices.end(), [&](const std::string& device) {
           return device == combination.device ||
                  std::find(names.begin(), names.end(), device) != names.end();
         });
}

Result<store::RunFilter> run_filter(const EvidenceOptions& options,
                                    const std::vector<std::string>& devices) {
  store::RunFilter filter;
  if (!options.repo.empty()) {
    const auto repo = base::RepoName::parse(options.repo);
    if (!repo) return base::fail(Fault::usage, "--repo: " + repo.error().message);
    filter.repo_key = repo->key();
  }
  filter.run_ids = options.runs;
  filter.backend = options.backend;
  filter.devices = devices;
  filter.most = options.runs.empty() ? options.last : options.runs.size();
  return filter;
}

Result<std::unique_ptr<store::Store>> open_store(const Globals& globals) {
  const auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  return store::open(*url, {.create = false, .migrate = false, .read_only = true});
}

void complete_from(const reconcile::Run& run, config::Circumstances& where) {
  config::Circumstances there = reconcile::circumstances(run);
  if (!where.platform) where.platform = std::move(there.platform);
  if (!where.torch) where.torch = there.torch;
  if (where.devices.empty()) where.devices = std::move(there.devices);
}

void add_evidence_options(CLI::App& command, EvidenceOptions& options) {
  command.add_option("--results", options.results,
                     "Results files that `crosscheck run --results` wrote; the store is not read");
  command.add_option("--runs", options.runs, "Ids of runs in the store; default: the newest")
      ->excludes("--results");
  command.add_option("--last", options.last, "So many of the newest runs")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--backend", options.backend, "Only runs of this backend");
  command.add_option("--repo", options.repo,
                     "Runs that this repository (OWNER/NAME) uploaded; default: made here");
}

void add_rule_options(CLI::App& command, reconcile::Options& options) {
  command.add_option("--passes", options.passes, "Passes in a row for a promotion")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--window", options.window,
                  "A test is flaky by what so many of the newest runs saw")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

Result<void> read_evidence(const Globals& globals, const EvidenceOptions& options,
                           const std::vector<std::string>& devices, reconcile::History& history) {
  if (options.results.empty()) {
    if (auto read = read_store(globals, options, devices, history); !read) return read;
  }
  for (const std::string& path : options.results) {
    const auto file = read_results_file(path);
    if (!file) return tl::unexpected(file.error());
    const base::RunResults& run = file->run;
    if (fits(options, devices, run.header)) history.add(run.header, run.results);
  }
  std::set<std::string> subjects;
  for (const reconcile::Run* run : history.runs())
    subjects.insert(
        fmt::format("backend {}, device {}", run->combination.backend, run->combination.device));
  if (subjects.size() < 2) return {};
  std::string all;
  for (const std::string& subject : subjects) all += "\n  " + subject;
  return base::fail(Fault::usage, "the runs are of more than one backend or device:" + all,
                    "choose with --backend and --device");
}

}  // namespace crosscheck::cli
