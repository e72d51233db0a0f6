#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>
#include <ctime>
#include <set>

#include "command.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/time.h"
#include "crosscheck/config/check.h"
#include "crosscheck/config/load.h"
#include "crosscheck/runner/inventory.h"

namespace crosscheck::cli {
namespace {

using base::ExitCode;
using base::Fault;
using base::Result;
using config::Finding;

// The circumstances that entries with `when:` are read for.
struct Where {
  std::string platform;
  std::string torch;
  std::vector<std::string> devices;
};

void add_where(CLI::App& command, Where& where) {
  command.add_option("--platform", where.platform, "Machine for `when:`, as uname -m calls it");
  command.add_option("--torch", where.torch, "Version of torch for `when:`");
  command.add_option("--device", where.devices, "Name of the device for `when:`; again: its model");
}

Result<config::Circumstances> circumstances(const Where& where) {
  config::Circumstances known;
  if (!where.platform.empty()) known.platform = where.platform;
  known.devices = where.devices;
  if (!where.torch.empty()) {
    auto version = config::parse_version(where.torch);
    if (!version)
      return base::fail(Fault::usage, "--torch: " + version.error().message,
                        version.error().remedy);
    known.torch = *version;
  }
  return known;
}

std::string today() { return base::to_rfc3339(base::SystemClock{}.now()).substr(0, 10); }

config::Loaded load(const std::string& path) {
  return config::load(
      path,
      [](const std::string& name) { return base::read_file(name, config::Document::k_size_limit); },
      today());
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }
void print_json(const base::json::value& value) { print(base::pretty_json(value) + "\n"); }

struct CheckOptions {
  std::vector<std::string> files;
  std::string inventory;
  std::string operators;
  Where where;
};

struct Suite {
  config::CollectedSuite collected;
  config::Circumstances circumstances;
};

// What the inventory says of where its tests run stands where the command line says nothing.
Result<Suite> read_suite(const std::string& path, const Where& where) {
  auto known = circumstances(where);
  if (!known) return tl::unexpected(known.error());
  const auto text = base::read_file(path);
  if (!text) return tl::unexpected(text.error());
  auto inventory = runner::parse_inventory(*text, path);
  if (!inventory) return tl::unexpected(inventory.error());
  Suite suite;
  suite.circumstances = std::move(*known);
  if (!suite.circumstances.torch)
    if (const auto version = config::parse_version(inventory->environment.torch))
      suite.circumstances.torch = *version;
  if (suite.circumstances.devices.empty())
    suite.circumstances.devices = {inventory->environment.device.type,
                                   inventory->environment.device.name};
  if (!suite.circumstances.platform)
    if (const auto machine = inventory->environment.facts.find("machine");
        machine != inventory->environment.facts.end())
      suite.circumstances.platform = machine->second;
  suite.collected.name = path;
  suite.collected.partial = !inventory->suite.files.empty();
  suite.collected.tests.reserve(inventory->tests.size());
  for (auto& test : inventory->tests)
    suite.collected.tests.push_back(config::collected_test(std::move(test.id), test.node_id));
  for (const auto& error : inventory->errors) suite.collected.broken_files.insert(error.file);
  for (const auto& skip : inventory->skips) suite.collected.broken_files.insert(skip.file);
  return suite;
}

template <class Key>
base::json::object counts_by_name(const std::map<Key, std::int64_t>& counts) {
  base::json::object object;
  for (const auto& [key, count] : counts) object[to_string(key)] = count;
  return object;
}
template <class Key>
std::string counts_text(const std::map<Key, std::int64_t>& counts) {
  std::string text;
  for (const auto& [key, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, to_string(key));
  return text;
}

std::map<config::Mode, std::int64_t> listed_names(const config::Config& config) {
  std::map<config::Mode, std::int64_t> counts;
  for (const config::FileEntry& file : config.files)
    for (const config::Entry& entry : file.entries)
      counts[entry.mode] += static_cast<std::int64_t>(entry.names.size());
  return counts;
}

base::json::array to_json(const std::vector<Finding>& findings) {
  base::json::array all;
  for (const Finding& finding : findings) all.push_back(config::to_json(finding));
  return all;
}

Result<ExitCode> run_check(const Globals& globals, const CheckOptions& options) {
  std::optional<Suite> suite;
  if (!options.inventory.empty()) {
    auto read = read_suite(options.inventory, options.where);
    if (!read) return tl::unexpected(read.error());
    suite = std::move(*read);
  }
  std::optional<std::string> operators;
  if (!options.operators.empty()) {
    auto read = base::read_file(options.operators);
    if (!read) return tl::unexpected(read.error());
    operators = std::move(*read);
  }
  bool ok = true;
  base::json::array files;
  for (const std::string& path : options.files) {
    config::Loaded loaded = load(path);
    std::vector<Finding>& findings = loaded.findings;
    std::optional<config::SuiteReport> report;
    if (loaded.ok() && suite) {
      report = config::check_against(*loaded.config, suite->collected, suite->circumstances);
      findings.insert(findings.end(), report->findings.begin(), report->findings.end());
    }
    if (loaded.config && operators) {
      auto unknown = config::check_operators(*loaded.config, *operators);
      findings.insert(findings.end(), unknown.begin(), unknown.end());
    }
    const bool file_ok = !config::has_errors(findings);
    ok = ok && file_ok;
    if (globals.json) {
      base::json::object object{{"file", path}, {"ok", file_ok}, {"findings", to_json(findings)}};
      if (loaded.config) object["listed"] = counts_by_name(listed_names(*loaded.config));
      if (report) {
        object["governed"] = counts_by_name(report->by_mode);
        object["basis"] = counts_by_name(report->by_basis);
        base::json::object unlisted;
        for (const auto& [name, tests] : report->unlisted)
          unlisted[name] = base::json::array(tests.begin(), tests.end());
        object["unlisted"] = std::move(unlisted);
      }
      files.push_back(std::move(object));
      continue;
    }
    std::size_t errors = 0;
    for (const Finding& finding : findings) {
      print(to_string(finding) + "\n");
      if (finding.severity == Finding::Severity::error) ++errors;
    }
    if (!file_ok) {
      print(fmt::format("{}: {} {}\n", path, errors, errors == 1 ? "error" : "errors"));
      continue;
    }
    const std::string listed = counts_text(listed_names(*loaded.config));
    print(fmt::format("{}: ok; listed: {}\n", path, listed.empty() ? "nothing" : listed));
    if (report)
      print(fmt::format("{}: of {} collected tests: {}\n", path, suite->collected.tests.size(),
                        counts_text(report->by_basis)));
  }
  if (globals.json) print_json(base::json::object{{"ok", ok}, {"files", std::move(files)}});
  return ok ? ExitCode::ok : ExitCode::bad_input;
}

const Registration k_registration{
    "config", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command =
          app.add_subcommand("config", "Check, compare and convert test configurations");
      command->footer(
          "The format: docs/test-config.md\nExample:\n  crosscheck config check tests.yaml");
      command->require_subcommand(1);

      static CheckOptions check_options;
      auto* check = command->add_subcommand(
          "check", "Check configurations against themselves, collected tests and operators");
      check->add_option("file", check_options.files, "Test configurations (YAML)")->required();
      check->add_option(
          "--inventory", check_options.inventory,
          "Tests as `crosscheck collect` wrote them: what is missing, renamed, not listed");
      check->add_option("--operators", check_options.operators,
                        "Names of operators, one a line: which ones are unknown");
      add_where(*check, check_options.where);
      check->footer(
          "Exits 3 if there are errors; notes do not count.\n"
          "Example:\n  crosscheck config check tests.yaml --inventory inventory.jsonl");
      check->callback([&] { action = [&] { return run_check(globals, check_options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
