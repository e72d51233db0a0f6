#include "run_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "command.h"
#include "config_files.h"
#include "crosscheck/runner/fork_server.h"
#include "governing.h"

namespace crosscheck::cli {
namespace {

using base::fail;
using base::Fault;

// Of a file, where it was not measured.
constexpr base::Duration k_collection = std::chrono::seconds{1};

// What the configuration lists and the suite does not have: said, since a promise that nobody keeps
// looks like one that is kept.
void print_findings(const std::vector<config::Finding>& findings) {
  constexpr std::size_t k_shown = 20;
  for (std::size_t i = 0; i < findings.size() && i < k_shown; ++i) {
    std::fprintf(stderr, "%s\n", config::to_string(findings[i]).c_str());
  }
  if (findings.size() > k_shown) {
    std::fprintf(stderr, "and %zu more: crosscheck config check --inventory\n",
                 findings.size() - k_shown);
  }
}

}  // namespace

CLI::Option* add_run_options(CLI::App& command, RunOptions& options) {
  add_probe_options(command, options.probe);
  add_selection_options(command, options.selection);
  command
      .add_option("-j,--jobs", options.jobs,
                  "Processes at once; default: by cores and memory, at most 4")
      ->check(CLI::Range(1, 1024));
  auto* config = command.add_option(
      "--config", options.configs,
      "Test configuration: what must pass, may fail or is skipped; several must agree");
  command.add_option("--shard", options.shard,
                     "Run one part of the selection: 2/4, or what `crosscheck plan` emitted");
  command.add_option("--timeout", options.timeout, "Seconds that one test may take")
      ->capture_default_str();
  command
      .add_option(
          "--memory", options.memory_mib,
          "MiB that a process and what it started may hold before they are killed; default: "
          "nine tenths of the machine's; 0: no limit")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
  command.add_flag("--no-fork-server", options.no_fork_server,
                   "Import torch anew in every process, instead of forking one that has");
  return config;
}

base::Result<base::Duration> seconds(double given, const char* option, bool may_be_zero) {
  constexpr double k_least = 0.001;
  constexpr double k_most = 1e7;
  if (!(given >= k_least && given <= k_most) && !(given == 0 && may_be_zero)) {
    return fail(Fault::usage,
                fmt::format("{}: expected seconds from {} to {:.0f}{}", option, k_least, k_most,
                            may_be_zero ? ", or 0 for no limit" : ""));
  }
  return base::Duration{std::llround(given * 1e6)};
}

base::Result<PreparedRun> prepare_run(RunOptions& options) {
  PreparedRun run;
  auto& request = run.request;
  const auto timeout = seconds(options.timeout, "--timeout", false);
  if (!timeout) return tl::unexpected(timeout.error());
  request.limits.test = *timeout;
  request.limits.start = options.probe.collect_limit();
  constexpr std::int64_t k_mib = std::int64_t{1} << 20;
  request.limits.memory =
      options.memory_mib ? *options.memory_mib * k_mib : runner::default_memory_limit();
  request.workers = options.jobs;
  request.show = progress_style();
  if (!options.configs.empty()) {
    auto loaded = load_configs(options.configs);
    if (!loaded) return tl::unexpected(loaded.error());
    run.config = std::move(*loaded);
  }
  auto selection = read_selection(options.selection);
  if (!selection) return tl::unexpected(selection.error());
  request.selection = std::move(*selection);
  if (!options.shard.empty()) {
    auto shard = runner::parse_shard(options.shard);
    if (!shard) return tl::unexpected(shard.error());
    request.shard = std::move(*shard);
  }
  if (!options.selection.inventory.empty()) {
    auto inventory = adopt_inventory(options.selection, options.probe);
    if (!inventory) return tl::unexpected(inventory.error());
    request.inventory = std::move(*inventory);
  }
  auto setup = resolve(options.probe);
  if (!setup) return tl::unexpected(setup.error());
  request.setup = std::move(*setup);
  // A configuration says which files are of interest, where nobody else does.
  run.partial = !options.probe.files.empty();
  if (run.config && options.selection.inventory.empty() && !run.partial) {
    auto files = governed_files(*run.config, runner::suite_files(request.setup));
    if (!files) return tl::unexpected(files.error());
    request.setup.suite.files = std::move(*files);
  }
  request.setup.torch = request.inventory.environment.torch;
  return run;
}

base::Result<void> collect_for(PreparedRun& run, const RunOptions& options, int interrupt_fd) {
  auto& request = run.request;
  request.interrupt_fd = interrupt_fd;
  if (!options.no_fork_server) {
    request.setup.fork_server = std::make_shared<runner::ForkServer>(request.setup, interrupt_fd);
  }
  runner::Took took;
  runner::CallOptions call;
  call.interrupt_fd = interrupt_fd;
  call.took = &took;
  if (options.selection.inventory.empty()) {
    if (is_interactive()) std::fprintf(stderr, "collecting…\r");
    call.limit = options.probe.collect_limit();
    auto inventory = runner::collect(request.setup, call);
    if (!inventory) return tl::unexpected(inventory.error());
    const auto files = std::max<std::size_t>(runner::suite_files(request.setup).size(), 1);
    request.start_cost = took.start + took.rest / static_cast<std::int64_t>(files);
    request.environment = inventory->environment;
    request.inventory = std::move(*inventory);
  } else {
    auto environment = runner::read_environment(request.setup, call);
    if (!environment) return tl::unexpected(environment.error());
    request.start_cost = took.start + k_collection;
    request.environment = std::move(*environment);
  }
  if (!run.config) return {};
  auto governed = govern(*run.config, request.inventory, run.partial);
  if (!governed) return tl::unexpected(governed.error());
  print_findings(governed->findings);
  request.governing = std::move(governed->governing);
  return {};
}

runner::RunRequest::Show progress_style() {
  using Show = runner::RunRequest::Show;
  if (is_interactive()) return Show::drawn;
  return std::getenv("CI") != nullptr ? Show::quiet : Show::plain;
}

}  // namespace crosscheck::cli
