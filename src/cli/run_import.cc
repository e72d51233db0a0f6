#include "run_import.h"

#include <cstdio>
#include <memory>

#include "crosscheck/base/json.h"
#include "crosscheck/runner/import.h"
#include "crosscheck/runner/output.h"
#include "crosscheck/runner/report.h"
#include "crosscheck/store/run_store.h"
#include "crosscheck/store/store.h"
#include "results_file.h"

namespace crosscheck::cli {
namespace {

using base::Fault;

// Whole or not at all; false if the store has this very import already.
base::Result<bool> keep(store::Store& store, const base::RunResults& run) {
  const auto written = store.write([&](store::Tx& tx) -> base::Result<void> {
    const auto id = store::begin_run(tx, run.header);
    if (!id) return tl::unexpected(id.error());
    if (auto added = store::add_results(tx, *id, run.results); !added) return added;
    return store::finish_run(tx, *id, run.header);
  });
  if (written) return true;
  if (written.error().fault == Fault::conflict) return false;
  return tl::unexpected(written.error());
}

}  // namespace

void add_import_options(CLI::App& command, ImportOptions& options) {
  auto* import = command.add_option(
      "--import", options.files,
      "Run nothing: read these JUnit files and console logs of one ordinary pytest run");
  command
      .add_option("--torch", options.torch,
                  "With --import: the torch that was run; default: as the reports' properties say")
      ->needs(import);
  command
      .add_option("--suite-revision", options.suite_revision,
                  "With --import: the tests' commit; default: as the reports' properties say")
      ->needs(import);
  command
      .add_flag("--salvage", options.salvage,
                "With --import: keep what is complete of a file that is cut off or broken")
      ->needs(import);
  for (const auto* name :
       {"--quick", "--select", "--tests-from", "--suite", "--files", "--jobs", "--config",
        "--shard", "--retries", "--fail-on-flaky", "--timeout", "--file-timeout", "--memory",
        "--leak", "--resume", "--no-fork-server"}) {
    import->excludes(command.get_option(name));
  }
}

base::Result<base::ExitCode> run_import(const Globals& globals, const ImportOptions& options,
                                        const ImportTarget& target) {
  runner::Files files{target.junit, target.results, ""};
  if (auto writable = runner::check_writable(files); !writable) {
    return tl::unexpected(writable.error());
  }
  runner::ImportOptions import;
  import.salvage = options.salvage;
  import.combination.backend = target.backend;
  import.combination.backend_revision = target.backend_revision;
  import.combination.core_revision = options.torch;
  import.combination.suite_revision = options.suite_revision;
  import.combination.device = target.device;
  runner::Inventory inventory;
  if (!target.inventory.empty()) {
    auto read = load_inventory(target.inventory);
    if (!read) return tl::unexpected(read.error());
    inventory = std::move(*read);
    import.inventory = &inventory;
  }
  const base::SystemClock clock;
  auto imported = runner::import_runs(options.files, import, clock.now());
  if (!imported) return tl::unexpected(imported.error());
  auto& run = imported->run;
  run.header.command = target.command;

  if (!target.no_store) {
    const auto url = store_url(globals);
    if (!url) return tl::unexpected(url.error());
    auto store = store::open(*url);
    if (!store) return tl::unexpected(store.error());
    const auto kept = keep(**store, run);
    if (!kept) return tl::unexpected(kept.error());
    if (!*kept) imported->notes.emplace_back("the store has this import already");
    files.store = store::redact(*url);
  }
  if (auto written = runner::write_files(run, files); !written) {
    return tl::unexpected(written.error());
  }
  for (const auto& note : imported->notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  if (globals.json) {
    auto summary = runner::summary_json(run, files, false);
    base::json::array notes;
    for (const auto& note : imported->notes) notes.emplace_back(note);
    summary["notes"] = std::move(notes);
    std::printf("%s\n", base::pretty_json(summary).c_str());
  } else {
    std::printf("%s", runner::summary_text(run, files, false).c_str());
  }
  const auto counts = run.counts();
  return counts.failures() + counts.faults() == 0 && !run.header.interrupted ? base::ExitCode::ok
                                                                             : base::ExitCode::no;
}

}  // namespace crosscheck::cli
