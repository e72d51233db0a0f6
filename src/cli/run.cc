#include "crosscheck/runner/run.h"

#include <cmath>
#include <cstdio>

#include "command.h"
#include "crosscheck/base/file.h"
#include "crosscheck/runner/output.h"
#include "probe_options.h"
#include "results_file.h"
#include "run_import.h"

namespace crosscheck::cli {
namespace {

using base::fail;
using base::Fault;

struct Options {
  ProbeOptions probe;
  std::size_t jobs = 0;
  bool quick = false;
  std::vector<std::string> patterns;
  std::string tests_from;
  std::string inventory;
  double timeout = 300;
  std::string backend;
  std::string backend_revision;
  std::string junit;
  std::string results;
  bool no_store = false;
  std::vector<std::string> command;
  ImportOptions import;
};

base::Result<std::vector<std::string>> read_names(const std::string& file) {
  const auto text = base::read_file(file);
  if (!text) return tl::unexpected(text.error());
  std::vector<std::string> names;
  std::size_t begin = 0;
  while (begin < text->size()) {
    const auto end = std::min(text->find('\n', begin), text->size());
    auto line = text->substr(begin, end - begin);
    begin = end + 1;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line.front() != '#') names.push_back(std::move(line));
  }
  return names;
}

// What the inventory says of itself stands where the command line says nothing.
base::Result<void> adopt(const runner::Inventory& inventory, ProbeOptions& options) {
  if (!options.device_given) options.device = inventory.device;
  if (!options.suite_given) {
    options.suite = inventory.suite.name == "bundled" ? "bundled" : inventory.suite.root;
    if (options.files.empty()) options.files = inventory.suite.files;
  }
  if (options.device != inventory.device) {
    return fail(Fault::environment,
                "the inventory was collected for device '" + inventory.device +
                    "', but this run is on '" + options.device + "'",
                "collect an inventory for this device, or choose the other with --device");
  }
  return {};
}

base::Result<base::ExitCode> run_tests(const Globals& globals, Options& options) {
  if (!std::isfinite(options.timeout) || options.timeout <= 0 || options.timeout > 1e7) {
    return fail(Fault::usage, "--timeout: expected seconds above 0");
  }
  if (auto writable = runner::check_writable({options.junit, options.results, ""}); !writable) {
    return tl::unexpected(writable.error());
  }
  runner::RunRequest request;
  request.selection.quick = options.quick;
  request.selection.patterns = options.patterns;
  if (!options.tests_from.empty()) {
    auto names = read_names(options.tests_from);
    if (!names) return tl::unexpected(names.error());
    request.selection.node_ids = std::move(*names);
  }
  if (!options.inventory.empty()) {
    auto inventory = load_inventory(options.inventory);
    if (!inventory) return tl::unexpected(inventory.error());
    if (auto adopted = adopt(*inventory, options.probe); !adopted) {
      return tl::unexpected(adopted.error());
    }
    request.inventory = std::move(*inventory);
  }
  auto setup = resolve(options.probe);
  if (!setup) return tl::unexpected(setup.error());
  request.setup = std::move(*setup);
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
  runner::CallOptions call;
  call.interrupt_fd = interrupts->fd();
  if (options.inventory.empty()) {
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

  request.backend = options.backend;
  request.backend_revision = options.backend_revision;
  request.command = options.command;
  request.workers = options.jobs;
  request.limits.test = base::Duration{std::llround(options.timeout * 1e6)};
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
  return report->ok() ? base::ExitCode::ok : base::ExitCode::no;
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
      command->add_flag("--quick", options.quick, "Only the suite's quick set");
      command->add_option("--select", options.patterns,
                          "Part of a node id, or /regular expression/; may be repeated");
      command->add_option("--tests-from", options.tests_from,
                          "File with exact node ids, one a line");
      command->add_option("--inventory", options.inventory,
                          "What `crosscheck collect` wrote; default: collect first");
      command
          ->add_option("-j,--jobs", options.jobs,
                       "Processes at once; default: by cores and memory, at most 4")
          ->check(CLI::Range(1, 1024));
      command->add_option("--timeout", options.timeout, "Seconds that one test may take")
          ->capture_default_str();
      command->add_option("--backend", options.backend, "Backend's name; default: the device's");
      command->add_option("--backend-revision", options.backend_revision,
                          "Backend's commit or version; default: unknown");
      command->add_option("--junit", options.junit, "File for JUnit XML");
      command->add_option("--results", options.results,
                          "File for all results (JSON lines; gzipped if it ends in .gz)");
      command->add_flag("--no-store", options.no_store, "Keep nothing in the store");
      add_import_options(*command, options.import);
      command->footer(
          "Exits 0 if nothing failed, 1 if something did or it was interrupted.\n"
          "Examples:\n"
          "  crosscheck run --device refdev --quick --junit junit.xml\n"
          "  crosscheck run --select /test_forward.*float32/ -j 2 --timeout 60\n"
          "  crosscheck run --import junit.xml console.log --backend mine --torch 2.13.0");
      command->callback([&] {
        options.command = command_line();
        action = [&] {
          if (options.import.files.empty()) return run_tests(globals, options);
          return run_import(globals, options.import,
                            {options.probe.device_given ? options.probe.device : "",
                             options.backend, options.backend_revision, options.inventory,
                             options.junit, options.results, options.no_store, options.command});
        };
      });
    }};

}  // namespace
}  // namespace crosscheck::cli
