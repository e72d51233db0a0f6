#include "crosscheck/runner/plan.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <cstdio>
#include <memory>
#include <set>

#include "command.h"
#include "config_files.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/text.h"
#include "crosscheck/config/govern.h"
#include "crosscheck/runner/run.h"
#include "crosscheck/runner/shard.h"
#include "crosscheck/runner/times.h"
#include "probe_options.h"
#include "selection_options.h"

namespace crosscheck::cli {
namespace {

using base::Duration;
using base::fail;
using base::Fault;
namespace json = base::json;

// Of one matrix, as GitHub documents it.
constexpr std::size_t k_matrix_limit = 256;

// What --emit takes.
constexpr const char* k_json = "json";
constexpr const char* k_github_matrix = "github-matrix";

struct Options {
  ProbeOptions probe;
  SelectionOptions selection;
  std::size_t shards = 0;
  std::string emit;  // empty: text
  std::vector<std::string> configs;
  std::string backend;
  bool no_store = false;
};

struct Plan {
  struct Part {
    runner::Shard shard;
    std::size_t files = 0;
    Duration expected{0};
  };
  std::vector<Part> parts;
  std::size_t tests = 0;
  std::size_t timed = 0;     // of the tests: with a recorded time
  std::size_t left_out = 0;  // likewise: that the configuration does not run
  std::string selection;
  base::Combination combination;
};

// None where there is no store yet: a plan makes none.
base::Result<runner::KnownTimes> times_of(const Globals& globals,
                                          const base::Combination& combination) {
  const auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  const auto store =
      store::open(*url, {.create = false, .migrate = false, .read_only = true, .readers = 1});
  if (!store && store.error().fault == Fault::not_found && globals.db.empty()) {
    return runner::KnownTimes{};
  }
  if (!store) return tl::unexpected(store.error());
  return runner::known_times(**store, combination);
}

// What the configuration does not run takes no time; it stays in the selection, and is reported.
base::Result<std::size_t> spare_left_out(const Options& options, const runner::Inventory& inventory,
                                         const std::vector<std::size_t>& selected,
                                         std::vector<Duration>& expected) {
  if (options.configs.empty()) return 0;
  const auto config = load_configs(options.configs);
  if (!config) return tl::unexpected(config.error());
  const auto suite = suite_of(inventory, options.selection.inventory, {});
  if (!suite) return tl::unexpected(suite.error());
  const config::Governor governor{*config, suite->circumstances};
  const auto rulings = governor.rule(suite->collected.tests);
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < selected.size(); ++i) {
    if (rulings[selected[i]].mode != config::Mode::skip) continue;
    expected[i] = Duration{0};
    ++left_out;
  }
  return left_out;
}

base::Result<Plan> make_plan(const Globals& globals, Options& options) {
  const auto selection = read_selection(options.selection);
  if (!selection) return tl::unexpected(selection.error());
  runner::RunRequest request;
  if (!options.selection.inventory.empty()) {
    auto inventory = adopt_inventory(options.selection, options.probe);
    if (!inventory) return tl::unexpected(inventory.error());
    request.inventory = std::move(*inventory);
    request.setup.device.name = options.probe.device;
  } else {
    auto setup = resolve(options.probe);
    if (!setup) return tl::unexpected(setup.error());
    request.setup = std::move(*setup);
    auto interrupts = Interrupts::watch();
    if (!interrupts) return tl::unexpected(interrupts.error());
    runner::CallOptions call;
    call.interrupt_fd = interrupts->fd();
    call.limit = options.probe.collect_limit();
    if (is_interactive()) std::fprintf(stderr, "collecting…\r");
    auto inventory = runner::collect(request.setup, call);
    if (!inventory) return tl::unexpected(inventory.error());
    request.inventory = std::move(*inventory);
  }
  request.environment = request.inventory.environment;
  request.backend = options.backend;
  const auto& tests = request.inventory.tests;
  const auto selected = runner::select(tests, *selection);
  if (!selected) return tl::unexpected(selected.error());

  Plan plan;
  plan.tests = selected->size();
  plan.selection = request.inventory.suite.name + " suite, " + selection->describe();
  plan.combination = runner::combination_of(request);
  runner::KnownTimes times;
  if (!options.no_store) {
    auto known = times_of(globals, plan.combination);
    if (!known) return tl::unexpected(known.error());
    times = std::move(*known);
  }
  const runner::PlanOptions defaults;
  auto expected = runner::expected_times(tests, *selected, times, defaults);
  const auto left_out = spare_left_out(options, request.inventory, *selected, expected);
  if (!left_out) return tl::unexpected(left_out.error());
  plan.left_out = *left_out;
  for (const auto i : *selected) plan.timed += times.count(tests[i].id);
  // No job for nothing.
  const auto count = std::min(options.shards, selected->size());
  for (auto& shard : runner::partition(tests, *selected, expected, defaults.start_cost, count)) {
    Plan::Part part;
    std::set<std::string_view> files;
    for (auto i = shard.begin; i < shard.end; ++i) files.insert(tests[(*selected)[i]].id.file);
    part.files = files.size();
    part.expected = runner::expected_of(shard, tests, *selected, expected, defaults.start_cost);
    part.shard = std::move(shard);
    plan.parts.push_back(std::move(part));
  }
  return plan;
}

double seconds(Duration duration) { return static_cast<double>(duration.count()) / 1e6; }

json::object to_json(const Plan::Part& part) {
  return {{"shard", to_string(part.shard)},
          {"index", part.shard.index},
          {"count", part.shard.count},
          {"tests", part.shard.end - part.shard.begin},
          {"files", part.files},
          {"expected_seconds", seconds(part.expected)}};
}

json::object to_json(const Plan& plan) {
  json::array shards;
  for (const auto& part : plan.parts) shards.push_back(to_json(part));
  auto combination = base::to_json(plan.combination);
  return {{"shards", std::move(shards)},
          {"tests", plan.tests},
          {"tests_with_recorded_time", plan.timed},
          {"tests_left_out", plan.left_out},
          {"selection", plan.selection},
          {"combination", std::move(combination)}};
}

// What `fromJSON` makes a matrix of: its entries' values are shown in the jobs' names.
std::string github_matrix(const Plan& plan) {
  json::array include;
  for (const auto& part : plan.parts) {
    include.push_back(json::object{
        {"shard", to_string(part.shard)},
        {"name", fmt::format("{}/{}", part.shard.index, part.shard.count)},
        {"expected", base::to_human(std::chrono::round<std::chrono::seconds>(part.expected))}});
  }
  return json::serialize(json::object{{"include", std::move(include)}});
}

std::string to_text(const Plan& plan) {
  std::string text;
  for (const auto& part : plan.parts) {
    const auto range = part.shard.end - part.shard.begin;
    text += fmt::format("{}  {} of {}, about {}\n", to_string(part.shard),
                        base::count_of(range, "test"), base::count_of(part.files, "file"),
                        base::to_human(part.expected));
  }
  text += fmt::format("{}, {} of them with a recorded time", base::count_of(plan.tests, "test"),
                      plan.timed);
  if (plan.left_out > 0) {
    text += fmt::format(", {} that the configuration does not run", plan.left_out);
  }
  return text + "\n";
}

base::Result<base::ExitCode> run_plan(const Globals& globals, Options& options) {
  if (options.emit == k_github_matrix && options.shards > k_matrix_limit) {
    return fail(Fault::usage,
                fmt::format("--shards {}: a matrix of GitHub Actions has at most {} jobs",
                            options.shards, k_matrix_limit),
                "plan fewer shards");
  }
  const auto plan = make_plan(globals, options);
  if (!plan) return tl::unexpected(plan.error());
  if (plan->parts.size() < options.shards) {
    std::fprintf(stderr, "note: %zu shards are enough for %zu tests\n", plan->parts.size(),
                 plan->tests);
  }
  if (options.emit == k_github_matrix) {
    std::printf("%s\n", github_matrix(*plan).c_str());
    std::fprintf(stderr, "%s", to_text(*plan).c_str());
  } else if (options.emit == k_json || globals.json) {
    std::printf("%s\n", base::pretty_json(to_json(*plan)).c_str());
  } else {
    std::printf("%s", to_text(*plan).c_str());
  }
  return base::ExitCode::ok;
}

const Registration k_registration{
    "plan", [](CLI::App& app, Globals& globals, Action& action) {
      static Options options;
      auto* command = app.add_subcommand(
          "plan", "Divide tests into shards that take equally long, for several jobs");
      add_probe_options(*command, options.probe);
      add_selection_options(*command, options.selection);
      command->add_option("--shards", options.shards, "How many")
          ->required()
          ->check(CLI::Range(std::size_t{1}, runner::Shard::k_most));
      command
          ->add_option("--emit", options.emit,
                       "json, or github-matrix: one line for a workflow's fromJSON; default: text")
          ->check(CLI::IsMember({k_json, k_github_matrix}));
      command
          ->add_option("--config", options.configs,
                       "Test configuration that the jobs will run on: what it skips takes no time")
          ->needs(command->get_option("--inventory"));
      command->add_option("--backend", options.backend,
                          "Whose recorded times count; default: the device's name");
      command->add_flag("--no-store", options.no_store, "Look up no recorded times");
      command->footer(
          "Each shard's text is for `crosscheck run --shard`, with the same inventory and "
          "selection.\n"
          "Example:\n  crosscheck plan --shards 4 --inventory inventory.jsonl --emit "
          "github-matrix");
      command->callback([&] { action = [&] { return run_plan(globals, options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
