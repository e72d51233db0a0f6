#include "crosscheck/runner/merge.h"

#include <cstdio>
#include <filesystem>

#include "command.h"
#include "crosscheck/base/json.h"
#include "crosscheck/runner/output.h"
#include "results_file.h"

namespace crosscheck::cli {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string results;
  std::string junit;
};

base::Result<base::ExitCode> run_merge(const Globals& globals, const Options& options) {
  const runner::Files files{options.junit, options.results, ""};
  if (auto writable = runner::check_writable(files); !writable) {
    return tl::unexpected(writable.error());
  }
  for (const auto& part : options.files) {
    for (const auto& output : {options.results, options.junit}) {
      std::error_code none;  // one that is not there is none of them
      if (!std::filesystem::equivalent(part, output, none)) continue;
      return base::fail(base::Fault::usage, part + " is to be joined, and would be replaced",
                        "give the joined results a file of their own");
    }
  }
  std::vector<runner::MergePart> parts;
  for (const auto& path : options.files) {
    auto file = read_results_file(path);
    if (!file) return tl::unexpected(file.error());
    parts.push_back({path, std::move(file->run)});
  }
  auto merged = runner::merge(std::move(parts));
  if (!merged) return tl::unexpected(merged.error());
  if (auto written = runner::write_files(merged->run, files); !written) {
    return tl::unexpected(written.error());
  }
  if (globals.json) {
    auto summary = runner::summary_json(merged->run, files, false);
    base::json::array notes;
    for (const auto& note : merged->notes) notes.emplace_back(note);
    summary["notes"] = std::move(notes);
    base::json::array missing;
    for (const auto& shard : merged->missing) missing.emplace_back(shard);
    summary["missing_shards"] = std::move(missing);
    std::printf("%s\n", base::pretty_json(summary).c_str());
  } else {
    std::printf("%s", runner::summary_text(merged->run, files, false).c_str());
  }
  for (const auto& note : merged->notes) std::fprintf(stderr, "note: %s\n", note.c_str());
  for (const auto& shard : merged->missing) {
    std::fprintf(stderr, "missing: of shard %s there are no results\n", shard.c_str());
  }
  // As the shards' own runs answer.
  const auto counts = merged->run.counts();
  const bool whole = merged->missing.empty() && !merged->run.header.interrupted;
  return whole && counts.failures() + counts.faults() == 0 ? base::ExitCode::ok
                                                           : base::ExitCode::no;
}

const Registration k_registration{
    "merge", [](CLI::App& app, Globals& globals, Action& action) {
      static Options options;
      auto* command = app.add_subcommand("merge", "Join the results of several runs, of shards");
      command
          ->add_option("FILES", options.files,
                       "What `crosscheck run --results` wrote, in any order")
          ->required();
      command
          ->add_option("--results", options.results,
                       "File for the joined results (JSON lines; gzipped if it ends in .gz)")
          ->required();
      command->add_option("--junit", options.junit, "File for JUnit XML");
      command->footer(
          "Exits as the run of all tests would: 1 if one failed, or a shard is missing or was "
          "interrupted. What there is is written all the same.\n"
          "Example:\n  crosscheck merge shard-*.jsonl.gz --results all.jsonl.gz --junit junit.xml");
      command->callback([&] { action = [&] { return run_merge(globals, options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
