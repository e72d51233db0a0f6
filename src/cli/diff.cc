#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "collected_tests.h"
#include "command.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/process.h"
#include "crosscheck/memory/diff.h"

namespace crosscheck::cli {
namespace {

using base::fail;
using base::Fault;
namespace fs = std::filesystem;
namespace json = base::json;

constexpr std::size_t k_archive_limit = std::size_t{1} << 30;

struct Options {
  std::string old_version;
  std::string new_version;
  std::string old_inventory;
  std::string new_inventory;
  std::string repository = ".";
  unsigned jobs = 0;
};

struct ReadVersion {
  memory::Version version;
  std::vector<memory::Problem> problems;
};

base::Result<ReadVersion> read_folder(const std::string& path, unsigned jobs) {
  auto walked = memory::walk(path);
  if (!walked) return tl::unexpected(walked.error());
  ReadVersion read;
  read.problems = std::move(walked->problems);
  memory::ReadOptions reading;
  reading.jobs = jobs;
  const auto done =
      memory::read_tree(path, walked->files, reading, read.problems,
                        [&](std::size_t, memory::Source source) -> base::Result<void> {
                          read.version.sources.push_back(std::move(source));
                          return {};
                        });
  if (!done) return tl::unexpected(done.error());
  return read;
}

base::Result<ReadVersion> read_memory(const std::string& path) {
  auto memory = memory::Memory::open_existing(path);
  if (!memory) return tl::unexpected(memory.error());
  auto sources = memory->sources();
  if (!sources) return tl::unexpected(sources.error());
  auto collected = memory->collected();
  if (!collected) return tl::unexpected(collected.error());
  return ReadVersion{{std::move(*sources), std::move(*collected)}, {}};
}

base::Result<ReadVersion> read_revision(const std::string& repository,
                                        const std::string& revision) {
  const auto wrong = [&](const std::string& why) {
    return fail(Fault::not_found,
                "'" + revision + "' is no folder, no repository memory and no revision of " +
                    repository + (why.empty() ? "" : " (" + why + ")"),
                "name a folder, a memory file, or REVISION or REVISION:FOLDER with --repository");
  };
  if (revision.starts_with('-')) return wrong("");
  base::ProcessSpec spec;
  spec.arguments = {"git", "-C", repository, "archive", "--format=tar", revision};
  const auto captured = base::run_captured(spec, std::chrono::minutes{5}, k_archive_limit);
  if (!captured) return tl::unexpected(captured.error());
  if (!captured->status.ok())
    return wrong(base::to_utf8(captured->err.substr(0, captured->err.find('\n')), 300));
  auto members = memory::read_tar(captured->out);
  if (!members)
    return fail(Fault::invalid_input, "git archive " + revision + ": " + members.error().message);
  auto extractor = memory::Extractor::make();
  if (!extractor) return tl::unexpected(extractor.error());
  std::ranges::sort(*members, {}, &memory::Member::name);
  ReadVersion read;
  for (memory::Member& member : *members)
    read.version.sources.push_back(
        memory::read_source(*extractor, std::move(member.name), member.bytes));
  return read;
}

base::Result<ReadVersion> read_version(const Options& options, const std::string& what,
                                       const std::string& inventory) {
  std::error_code error;
  const unsigned jobs =
      options.jobs == 0 ? std::max(1U, std::thread::hardware_concurrency()) : options.jobs;
  auto read = fs::is_directory(what, error)      ? read_folder(what, jobs)
              : fs::is_regular_file(what, error) ? read_memory(what)
                                                 : read_revision(options.repository, what);
  if (!read) return read;
  for (const memory::Source& source : read->version.sources)
    if (!source.facts.problem.empty())
      read->problems.push_back({source.path, source.facts.problem});
  if (!inventory.empty()) {
    std::string subject;
    auto tests = collected_tests(inventory, what, subject);
    if (!tests) return tl::unexpected(tests.error());
    read->version.collected = std::move(*tests);
  }
  return read;
}

json::object to_json(const memory::TestPlace& place) {
  return {{"file", place.path}, {"line", place.line}, {"name", place.name}};
}

json::array to_json(const std::vector<memory::Changed>& changed) {
  json::array array;
  for (const auto& one : changed) {
    json::object object = to_json(one.test);
    object["parts"] = json::array(one.parts.begin(), one.parts.end());
    object["through"] = json::array(one.through.begin(), one.through.end());
    object["variants_added"] = one.variants_added;
    object["variants_removed"] = one.variants_removed;
    array.push_back(std::move(object));
  }
  return array;
}

json::array to_json(const std::vector<memory::TestPlace>& places) {
  json::array array;
  for (const auto& place : places) array.push_back(to_json(place));
  return array;
}

json::object to_json(const memory::TreeDiff& diff) {
  json::array renamed;
  for (const auto& one : diff.renamed)
    renamed.push_back(json::object{{"from", to_json(one.from)},
                                   {"to", to_json(one.to)},
                                   {"likeness", one.likeness},
                                   {"same_body", one.same_body}});
  return {{"added", to_json(diff.added)},
          {"removed", to_json(diff.removed)},
          {"renamed", std::move(renamed)},
          {"changed", to_json(diff.changed)},
          {"changed_by_helper", to_json(diff.changed_by_helper)},
          {"changed_variants", to_json(diff.changed_variants)},
          {"unchanged", diff.unchanged}};
}

std::string text(const memory::TestPlace& place) {
  return place.path + ":" + std::to_string(place.line) + "  " + place.name;
}

void print(const std::vector<memory::Changed>& changed, const char* mark) {
  for (const auto& one : changed) {
    std::printf("%s %s", mark, text(one.test).c_str());
    const char* separator = "  (";
    for (const std::string& part : one.parts) {
      std::printf("%s%s", separator, part.c_str());
      separator = ", ";
    }
    for (const std::string& reason : one.through) {
      std::printf("%s%s", separator, reason.c_str());
      separator = ", ";
    }
    if (one.variants_added > 0 || one.variants_removed > 0) {
      std::printf("%s+%zu -%zu collected", separator, one.variants_added, one.variants_removed);
      separator = ", ";
    }
    std::printf("%s\n", separator[0] == ',' ? ")" : "");
  }
}

void print(const memory::TreeDiff& diff) {
  for (const auto& place : diff.removed) std::printf("- %s\n", text(place).c_str());
  for (const auto& place : diff.added) std::printf("+ %s\n", text(place).c_str());
  for (const auto& one : diff.renamed)
    std::printf("> %s  from %s  (%s)\n", text(one.to).c_str(), text(one.from).c_str(),
                one.same_body
                    ? "the same body"
                    : (std::to_string(static_cast<int>(one.likeness * 100)) + " % alike").c_str());
  print(diff.changed, "~");
  print(diff.changed_by_helper, "h");
  print(diff.changed_variants, "v");
  std::printf(
      "%zu added, %zu removed, %zu renamed, %zu changed, %zu changed through helpers, %zu in what "
      "is collected, %zu as they were\n",
      diff.added.size(), diff.removed.size(), diff.renamed.size(), diff.changed.size(),
      diff.changed_by_helper.size(), diff.changed_variants.size(), diff.unchanged);
}

base::Result<base::ExitCode> run_diff(const Globals& globals, const Options& options) {
  const auto before = read_version(options, options.old_version, options.old_inventory);
  if (!before) return tl::unexpected(before.error());
  const auto after = read_version(options, options.new_version, options.new_inventory);
  if (!after) return tl::unexpected(after.error());
  const auto diff = memory::diff(before->version, after->version);
  if (globals.json) {
    std::printf("%s\n", base::pretty_json(to_json(diff)).c_str());
  } else {
    print(diff);
  }
  for (const auto& [read, what] :
       {std::pair{&*before, &options.old_version}, std::pair{&*after, &options.new_version}}) {
    for (const auto& problem : read->problems)
      std::fprintf(stderr, "%s: %s: %s\n", what->c_str(), base::to_utf8(problem.path).c_str(),
                   base::to_utf8(problem.what).c_str());
  }
  const bool same = diff.added.empty() && diff.removed.empty() && diff.renamed.empty() &&
                    diff.changed.empty() && diff.changed_by_helper.empty() &&
                    diff.changed_variants.empty();
  return same ? base::ExitCode::ok : base::ExitCode::no;
}

const Registration k_registration{
    "diff", [](CLI::App& app, Globals& globals, Action& action) {
      static Options options;
      auto* command =
          app.add_subcommand("diff", "What became of the tests from one tree to another");
      command
          ->add_option("OLD", options.old_version, "A folder, a repository memory, or a revision")
          ->required();
      command->add_option("NEW", options.new_version, "The same, of the newer version")->required();
      command->add_option("--old-inventory", options.old_inventory,
                          "What was collected of OLD, to compare it too");
      command->add_option("--new-inventory", options.new_inventory, "What was collected of NEW");
      command->add_option("--repository", options.repository, "Of revisions")
          ->capture_default_str();
      command->add_option("-j,--jobs", options.jobs, "Threads that parse (default: all cores)");
      command->footer(
          "Exits 1 if they differ.\n"
          "Examples:\n  crosscheck diff ~/pytorch-2.5/test ~/pytorch-2.6/test\n"
          "  crosscheck diff --repository ~/pytorch v2.5.0:test v2.6.0:test --json");
      command->callback([&] { action = [&] { return run_diff(globals, options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
