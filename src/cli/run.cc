#include "crosscheck/runner/run.h"

#include <cstdio>
#include <memory>

#include "command.h"
#include "crosscheck/base/file.h"
#include "crosscheck/runner/output.h"
#include "run_import.h"
#include "run_options.h"

namespace crosscheck::cli {
namespace {

using base::fail;
using base::Fault;

struct Options {
  RunOptions run;
  bool observe = false;
  bool skip_xfail = false;
  int retries = 0;
  bool fail_on_flaky = false;
  double file_timeout = 0;  // 0: no limit
  std::int64_t leak_mib = 512;
  std::string backend;
  std::string backend_revision;
  std::string junit;
  std::string results;
  bool no_store = false;
  bool resuming = false;
  std::string resume;
  std::vector<std::string> command;
  ImportOptions import;
};

base::Result<base::ExitCode> run_tests(const Globals& globals, Options& options) {
  const auto file_timeout = seconds(options.file_timeout, "--file-timeout", true);
  if (!file_timeout) return tl::unexpected(file_timeout.error());
  if (auto writable = runner::check_writable({options.junit, options.results, ""}); !writable) {
    return tl::unexpected(writable.error());
  }
  auto run = prepare_run(options.run);
  if (!run) return tl::unexpected(run.error());
  auto& request = run->request;
  constexpr std::int64_t k_mib = std::int64_t{1} << 20;
  request.limits.file = *file_timeout;
  request.limits.leak = {options.leak_mib * k_mib, options.leak_mib * k_mib};

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
  if (auto collected = collect_for(*run, options.run, interrupts->fd()); !collected) {
    return tl::unexpected(collected.error());
  }
  request.govern = {options.observe, options.skip_xfail};
  if (options.resuming) request.resume = options.resume;
  request.retries = options.retries;
  request.backend = options.backend;
  request.backend_revision = options.backend_revision;
  request.command = options.command;
  request.junit_file = options.junit;
  request.results_file = options.results;
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
      auto* config = add_run_options(*command, options.run);
      command
          ->add_flag("--observe", options.observe,
                     "Run everything whatever the configuration says, and score it")
          ->needs(config);
      command
          ->add_flag("--skip-xfail", options.skip_xfail,
                     "Leave out what the configuration says may fail")
          ->needs(config);
      command
          ->add_option("--retries", options.retries,
                       "Further attempts of a test that fails; one that then passes is flaky")
          ->check(CLI::Range(0, 100));
      command->add_flag("--fail-on-flaky", options.fail_on_flaky, "Exit 1 if a test is flaky");
      command->add_option("--file-timeout", options.file_timeout,
                          "Seconds that one file may take, all its tests; default: no limit");
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
          return run_import(
              globals, options.import,
              {options.run.probe.device_given ? options.run.probe.device : "", options.backend,
               options.backend_revision, options.run.selection.inventory, options.junit,
               options.results, options.no_store, options.command});
        };
      });
    }};

}  // namespace
}  // namespace crosscheck::cli
