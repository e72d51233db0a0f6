#include "crosscheck/runner/run.h"
#include "crosscheck/runner/fork_server.h"

#include <cmath>
#include <cstdio>

#include "command.h"
#include "config_files.h"
#include "crosscheck/base/file.h"
#include "crosscheck/runner/output.h"
#include "governing.h"
#include "probe_options.h"
#include "run_import.h"
#include "selection_options.h"

namespace crosscheck::cli {
namespace {

using base::fail;
using base::Fault;

struct Options {
  ProbeOptions probe;
  std::size_t jobs = 0;
  SelectionOptions selection;
  std::vector<std::string> configs;
  bool observe = false;
  bool skip_xfail = false;
  std::string shard;
  int retries = 0;
  bool fail_on_flaky = false;
  double timeout = 300;
  double file_timeout = 0;  // 0: no limit
  std::optional<std::int64_t> memory_mib;
  std::int64_t leak_mib = 512;
  std::string backend;
  std::string backend_revision;
  std::string junit;
  std::string results;
  bool no_store = false;
  bool resuming = false;
  std::string resume;
  bool no_fork_server = false;
  std::vector<std::string> command;
  ImportOptions import;
};

base::Result<base::Duration> seconds(double given, const char* option, bool may_be_zero) {
  if (!std::isfinite(given) || given < 0 || given > 1e7 || (given == 0 && !may_be_zero)) {
    return fail(Fault::usage,
                std::string{option} + (may_be_zero ? ": expected seconds, or 0 for no limit"
                                                   : ": expected seconds above 0"));
  }
  return base::Duration{std::llround(given * 1e6)};
}

base::Result<runner::Limits> limits(const Options& options) {
  runner::Limits limits;
  const auto test = seconds(options.timeout, "--timeout", false);
  if (!test) return tl::unexpected(test.error());
  const auto file = seconds(options.file_timeout, "--file-timeout", true);
  if (!file) return tl::unexpected(file.error());
  constexpr std::int64_t k_mib = std::int64_t{1} << 20;
  limits.test = *test;
  limits.file = *file;
  limits.memory = options.memory_mib ? *options.memory_mib * k_mib : runner::default_memory_limit();
  limits.leak = {options.leak_mib * k_mib, options.leak_mib * k_mib};
  return limits;
}

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

base::Result<base::ExitCode> run_tests(const Globals& globals, Options& options) {
  const auto checked = limits(options);
  if (!checked) return tl::unexpected(checked.error());
  if (auto writable = runner::check_writable({options.junit, options.results, ""}); !writable) {
    return tl::unexpected(writable.error());
  }
  std::optional<config::Config> config;
  if (!options.configs.empty()) {
    auto loaded = load_configs(options.configs);
    if (!loaded) return tl::unexpected(loaded.error());
    config = std::move(*loaded);
  }
  runner::RunRequest request;
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
  bool partial = !options.probe.files.empty();
  if (config && options.selection.inventory.empty() && !partial) {
    auto files = governed_files(*config, runner::suite_files(request.setup));
    if (!files) return tl::unexpected(files.error());
    request.setup.suite.files = std::move(*files);
  }
  request.setup.torch = request.inventory.environment.torch;

  // Before torch is imported: a store that cannot be written is known at once.
  std::unique_ptr<store::Store> store;
  if (!options.no_store) {
    const auto url = store_url(globals);
    if (!url) return tl::unexpected(url.error());
    auto opened = store::open(*url);
    if (!opened) return tl::unexpected(opened.error());
    store = std::move(*opened);
    request.store = store.get();
    request.store_name = store::redact(*url);
  }
  auto interrupts = Interrupts::watch();
  if (!interrupts) return tl::unexpected(interrupts.error());
  request.interrupt_fd = interrupts->fd();
  if (!options.no_fork_server)
    request.setup.fork_server =
        std::make_shared<runner::ForkServer>(request.setup, interrupts->fd());
  runner::CallOptions call;
  call.interrupt_fd = interrupts->fd();
  if (options.selection.inventory.empty()) {
    if (is_interactive()) std::fprintf(stderr, "collecting…\r");
    auto inventory = runner::collect(request.setup, call);
    if (!inventory) return tl::unexpected(inventory.error());
    request.environment = inventory->environment;
    request.inventory = std::move(*inventory);
  } else {
    auto environment = runner::read_environment(request.setup, call);
    if (!environment) return tl::unexpected(environment.error());
    request.environment = std::move(*environment);
  }

  if (config) {
    auto governed = govern(*config, request.inventory, partial);
    if (!governed) return tl::unexpected(governed.error());
    print_findings(governed->findings);
    request.governing = std::move(governed->governing);
    request.govern = {options.observe, options.skip_xfail};
  }
  if (options.resuming) request.resume = options.resume;
  request.retries = options.retries;
  request.backend = options.backend;
  request.backend_revision = options.backend_revision;
  request.command = options.command;
  request.workers = options.jobs;
  request.limits = *checked;
  request.junit_file = options.junit;
  request.results_file = options.results;
  using Show = runner::RunRequest::Show;
  request.show = is_interactive()               ? Show::drawn
                 : std::getenv("CI") != nullptr ? Show::quiet
                                                : Show::plain;
  const auto report = runner::run(request);
  if (!report) return tl::unexpected(report.error());
  const runner::Files files{options.junit, options.results, request.store_name};
  if (globals.json) {
    std::printf("%s\n",
                base::pretty_json(runner::summary_json(report->results, files, report->interrupted))
                    .c_str());
  } else {
    std::printf("%s", runner::summary_text(report->results, files, report->interrupted).c_str());
  }
  const bool flaky = report->results.counts().flaky() > 0;
  return report->ok() && !(flaky && options.fail_on_flaky) ? base::ExitCode::ok
                                                           : base::ExitCode::no;
}

std::vector<std::string> command_line() {
  // As the kernel has it: CLI11 hands on no argument vector.
  std::vector<std::string> arguments;
  const auto text = base::read_file("/proc/self/cmdline", std::size_t{1} << 20).value_or("");
  std::size_t begin = 0;
  while (begin < text.size()) {
    const auto end = std::min(text.find('\0', begin), text.size());
    arguments.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  // A store's URL may hold a password.
  for (auto& argument : arguments) argument = store::redact(argument);
  return arguments;
}

const Registration k_registration{
    "run", [](CLI::App& app, Globals& globals, Action& action) {
      static Options options;
      auto* command =
          app.add_subcommand("run", "Run tests on a device; a crash or a hang costs one test");
      add_probe_options(*command, options.probe);
      add_selection_options(*command, options.selection);
      command
          ->add_option("-j,--jobs", options.jobs,
                       "Processes at once; default: by cores and memory, at most 4")
          ->check(CLI::Range(1, 1024));
      auto* config = command->add_option(
          "--config", options.configs,
          "Test configuration: what must pass, may fail or is skipped; several must agree");
      command
          ->add_flag("--observe", options.observe,
                     "Run everything whatever the configuration says, and score it")
          ->needs(config);
      command
          ->add_flag("--skip-xfail", options.skip_xfail,
                     "Leave out what the configuration says may fail")
          ->needs(config);
      command->add_option("--shard", options.shard,
                          "Run one part of the selection: 2/4, or what `crosscheck plan` emitted");
      command
          ->add_option("--retries", options.retries,
                       "Further attempts of a test that fails; one that then passes is flaky")
          ->check(CLI::Range(0, 100));
      command->add_flag("--fail-on-flaky", options.fail_on_flaky, "Exit 1 if a test is flaky");
      command->add_option("--timeout", options.timeout, "Seconds that one test may take")
          ->capture_default_str();
      command->add_option("--file-timeout", options.file_timeout,
                          "Seconds that one file may take, all its tests; default: no limit");
      command
          ->add_option("--memory", options.memory_mib,
                       "MiB that a process and what it started may hold before they are killed; "
                       "default: nine tenths of "
                       "the machine's; 0: no limit")
          ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
      command
          ->add_option("--leak", options.leak_mib,
                       "MiB by which a test may leave memory larger, of its process or of the "
                       "device, without being named; 0: none is")
          ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30))
          ->capture_default_str();
      command->add_option("--backend", options.backend, "Backend's name; default: the device's");
      command->add_option("--backend-revision", options.backend_revision,
                          "Backend's commit or version; default: unknown");
      command->add_option("--junit", options.junit, "File for JUnit XML");
      command->add_option("--results", options.results,
                          "File for all results (JSON lines; gzipped if it ends in .gz)");
      auto* no_store =
          command->add_flag("--no-store", options.no_store, "Keep nothing in the store");
      auto* resume =
          command
              ->add_option("--resume", options.resume,
                           "Go on with a run that was interrupted or killed: with this id; "
                           "default: the latest of the same subject and selection")
              ->expected(0, 1)
              ->excludes(no_store);
      command->add_flag("--no-fork-server", options.no_fork_server,
                        "Import torch anew in every process, instead of forking one that has");
      add_import_options(*command, options.import);
      command->footer(
          "Exits 0 if nothing failed that must pass, 1 if something did or it was interrupted.\n"
          "Examples:\n"
          "  crosscheck run --device refdev --quick --junit junit.xml\n"
          "  crosscheck run --select /test_forward.*float32/ -j 2 --timeout 60\n"
          "  crosscheck run --config tests.yaml --device refdev --retries 2\n"
          "  crosscheck run --import junit.xml console.log --backend mine --torch 2.13.0");
      command->callback([&, resume] {
        options.command = command_line();
        options.resuming = resume->count() > 0;
        action = [&] {
          if (options.import.files.empty()) return run_tests(globals, options);
          return run_import(globals, options.import,
                            {options.probe.device_given ? options.probe.device : "",
                             options.backend, options.backend_revision, options.selection.inventory,
                             options.junit, options.results, options.no_store, options.command});
        };
      });
    }};

}  // namespace
}  // namespace crosscheck::cli
