#include "crosscheck/reconcile/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "command.h"
#include "config_files.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/store/run_history.h"
#include "evidence.h"
#include "results_file.h"

namespace crosscheck::cli {
namespace {

using base::ExitCode;
using base::Fault;
using base::Result;
namespace json = base::json;

// So many matches are listed, and runs shown of one.
constexpr std::size_t k_most_matches = 50;

struct ExplainOptions {
  std::string test;
  std::vector<std::string> files;
  std::string inventory;
  Where where;
  EvidenceOptions evidence;
  reconcile::Options rules;
};

struct Match {
  base::TestId id;
  std::string node;
  std::optional<reconcile::Origin> origin = {};
  std::string source = {};
};

std::string written(const base::TestId& id) {
  std::string name = id.file + "::";
  if (!id.class_name.empty()) name += id.class_name + "::";
  return name + id.method;
}

// How well a test answers to what was asked: 3 by its address or identity, 2 by its whole name,
// with or without the file; 1 by a part of it; 0 not at all.
int rank(const base::TestId& id, const std::string& node, const std::string& asked) {
  if (node == asked || to_string(id) == asked) return 3;
  const std::string name = written(id);
  if (name == asked || name.ends_with("::" + asked)) return 2;
  const std::string part = base::to_lower_ascii(asked);
  for (const std::string& text : {name, node, to_string(id)})
    if (base::to_lower_ascii(text).find(part) != std::string::npos) return 1;
  return 0;
}

// The best ones.
std::vector<Match> best(std::vector<Match> all, const std::string& asked) {
  int most = 1;
  for (const Match& match : all) most = std::max(most, rank(match.id, match.node, asked));
  std::erase_if(all, [&](const Match& match) { return rank(match.id, match.node, asked) < most; });
  return all;
}

std::vector<Match> of_inventory(const runner::Inventory& inventory, const std::string& path,
                                const std::string& asked) {
  std::vector<Match> all;
  for (const runner::CollectedTest& test : inventory.tests) {
    if (rank(test.id, test.node_id, asked) == 0) continue;
    const runner::Suite& suite = inventory.suite;
    all.push_back(
        {test.id, test.node_id,
         reconcile::Origin{
             path,
             fmt::format("{} suite{}{}", suite.name, suite.root.empty() ? "" : " of ", suite.root),
             inventory.environment.torch, inventory.device, test.line, test.markers},
         test.source});
  }
  return best(std::move(all), asked);
}

// What is known of runs: a store, or files.
class Knowledge {
 public:
  static Result<Knowledge> open(const Globals& globals, const ExplainOptions& options) {
    Knowledge known{options};
    if (!options.evidence.results.empty()) {
      for (const std::string& path : options.evidence.results) {
        auto file = read_results_file(path);
        if (!file) return tl::unexpected(file.error());
        known.files_.push_back(std::move(file->run));
      }
      std::stable_sort(known.files_.begin(), known.files_.end(), [](const auto& a, const auto& b) {
        return reconcile::before(run_of(b.header), run_of(a.header));
      });
      return known;
    }
    auto filter = run_filter(options.evidence, options.where.devices);
    if (!filter) return tl::unexpected(filter.error());
    known.filter_ = std::move(*filter);
    auto store = open_store(globals);
    // With an inventory, what it and the configuration say can be told without a store.
    if (!store && !(store.error().fault == Fault::not_found && !options.inventory.empty()))
      return tl::unexpected(store.error());
    if (store) known.store_ = std::move(*store);
    return known;
  }

  [[nodiscard]] Result<std::vector<Match>> find(const std::string& asked) const {
    std::vector<Match> all;
    if (store_) {
      const auto tests = store_->read_value(
          [&](store::Tx& tx) { return store::find_tests(tx, asked, k_most_matches + 1); });
      if (!tests) return tl::unexpected(tests.error());
      for (const store::StoredTest& test : *tests) all.push_back({test.test, test.node_id});
    } else {
      reconcile::History history;
      for (const base::RunResults& run : files_) history.add(run.header, run.results);
      for (reconcile::History::Known& test : history.tests())
        if (rank(test.id, test.node, asked) > 0) all.push_back({std::move(test.id), test.node});
    }
    return best(std::move(all), asked);
  }

  [[nodiscard]] Result<std::vector<reconcile::RunOfTest>> runs_of(const base::TestId& id) const {
    std::vector<reconcile::RunOfTest> all;
    for (const base::RunResults& run : files_) {
      if (!fits(options_.evidence, options_.where.devices, run.header)) continue;
      reconcile::RunOfTest one{run_of(run.header), {}, {}};
      for (const base::TestResult& result : run.results)
        if (result.id == id) one.attempts.push_back(result);
      if (!one.attempts.empty()) all.push_back(std::move(one));
    }
    if (!store_) return all;
    const auto stored =
        store_->read_value([&](store::Tx& tx) { return store::runs_of_test(tx, id, filter_); });
    if (!stored) return tl::unexpected(stored.error());
    for (const store::RunOfTest& one : *stored)
      all.push_back({run_of(one.run.header), one.job_url, one.attempts});
    return all;
  }

 private:
  explicit Knowledge(const ExplainOptions& options) : options_{options} {}

  static reconcile::Run run_of(const base::RunHeader& header) { return reconcile::run_of(header); }

  const ExplainOptions& options_;
  store::RunFilter filter_;
  std::unique_ptr<store::Store> store_;
  std::vector<base::RunResults> files_;  // newest first
};

Result<ExitCode> run_explain(const Globals& globals, const ExplainOptions& options) {
  std::optional<config::Config> config;
  if (!options.files.empty()) {
    auto loaded = load_configs(options.files);
    if (!loaded) return tl::unexpected(loaded.error());
    config = std::move(*loaded);
  }
  auto where = circumstances(options.where);
  if (!where) return tl::unexpected(where.error());
  auto known = Knowledge::open(globals, options);
  if (!known) return tl::unexpected(known.error());

  std::vector<Match> matches;
  if (options.inventory.empty()) {
    auto found = known->find(options.test);
    if (!found) return tl::unexpected(found.error());
    matches = std::move(*found);
  } else {
    const auto inventory = load_inventory(options.inventory);
    if (!inventory) return tl::unexpected(inventory.error());
    auto suite = suite_of(*inventory, options.inventory, options.where);
    if (!suite) return tl::unexpected(suite.error());
    *where = std::move(suite->circumstances);
    matches = of_inventory(*inventory, options.inventory, options.test);
  }
  if (matches.empty())
    return base::fail(
        Fault::not_found,
        fmt::format("no test answers to '{}' in {}", options.test,
                    !options.inventory.empty() ? options.inventory : "the runs that are known"),
        "give pytest's address of it, Class::method, or a part of them");
  std::vector<reconcile::Explanation> all;
  std::optional<config::Governor> governor;
  for (Match& match : matches) {
    reconcile::Explanation one;
    one.test = config::collected_test(std::move(match.id), match.node);
    one.node = std::move(match.node);
    one.origin = std::move(match.origin);
    one.test.source = std::move(match.source);
    if (all.size() < k_most_matches) {
      auto runs = known->runs_of(one.test.id);
      if (!runs) return tl::unexpected(runs.error());
      one.runs = std::move(*runs);
    }
    if (config) {
      if (!governor) {
        // The command line and the inventory go first, then the newest run.
        if (!one.runs.empty()) complete_from(one.runs.front().run, *where);
        governor.emplace(*config, *where);
      }
      one.word = {governor->rule(one.test), governor->candidates(one.test)};
      one.outlook = reconcile::outlook(*one.word, one.test, one.runs, options.rules, today());
    }
    all.push_back(std::move(one));
  }
  if (globals.json) {
    json::array tests;
    for (const reconcile::Explanation& one : all)
      if (tests.size() < k_most_matches) tests.push_back(reconcile::to_json(one));
    print_json(json::object{{"matches", all.size()}, {"tests", std::move(tests)}});
    return ExitCode::ok;
  }
  if (all.size() == 1) {
    print(reconcile::to_text(all.front()));
    return ExitCode::ok;
  }
  print(fmt::format("{} tests answer to '{}'; name one for all that is known of it:\n", all.size(),
                    options.test));
  for (std::size_t i = 0; i < all.size() && i < k_most_matches; ++i)
    print("  " + reconcile::to_line(all[i]) + "\n");
  if (all.size() > k_most_matches)
    print(fmt::format("  and {} more\n", all.size() - k_most_matches));
  return ExitCode::ok;
}

const Registration k_registration{
    "explain", [](CLI::App& app, Globals& globals, Action& action) {
      static ExplainOptions options;
      auto* command = app.add_subcommand(
          "explain",
          "Say all that is known of a test: how it was collected, what the configuration says and "
          "why, what runs saw, what would change the decision");
      command
          ->add_option("test", options.test,
                       "pytest's address of it, Class::method, or a part; several are listed")
          ->required();
      command->add_option("--config", options.files,
                          "Test configurations (YAML); several are one configuration");
      command->add_option(
          "--inventory", options.inventory,
          "All tests, as `crosscheck collect` wrote them; default: those of the runs");
      add_where(*command, options.where);
      add_evidence_options(*command, options.evidence);
      add_rule_options(*command, options.rules);
      command->footer(
          "Example:\n"
          "  crosscheck explain TestViewOps::test_view --config tests.yaml --inventory "
          "inventory.jsonl");
      command->callback([&] { action = [&] { return run_explain(globals, options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
