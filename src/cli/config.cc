#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>
#include <set>

#include "command.h"
#include "config_files.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/config/check.h"
#include "crosscheck/config/diff.h"
#include "crosscheck/config/format.h"
#include "crosscheck/config/import.h"
#include "crosscheck/config/load.h"
#include "crosscheck/config/merge.h"

namespace crosscheck::cli {
namespace {

using base::ExitCode;
using base::Fault;
using base::Result;
using config::Finding;

struct CheckOptions {
  std::vector<std::string> files;
  std::string inventory;
  std::string operators;
  Where where;
};

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
    config::Loaded loaded = read_config(path);
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

void print_notes(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings)
    if (finding.severity == Finding::Severity::note)
      std::fprintf(stderr, "%s\n", to_string(finding).c_str());
}

// To a file, or to standard output where none is named.
Result<ExitCode> write_out(const std::string& output, const std::string& text) {
  if (output.empty()) {
    print(text);
    return ExitCode::ok;
  }
  if (auto written = base::write_file_atomically(output, text); !written)
    return tl::unexpected(written.error());
  return ExitCode::ok;
}

struct MergeOptions {
  std::vector<std::string> files;
  std::string output;
};

Result<ExitCode> run_merge(const MergeOptions& options) {
  std::vector<config::Config> parts;
  std::vector<Finding> findings;
  for (const std::string& path : options.files) {
    config::Loaded loaded = read_config(path);
    findings.insert(findings.end(), loaded.findings.begin(), loaded.findings.end());
    if (loaded.config) parts.push_back(std::move(*loaded.config));
  }
  if (config::has_errors(findings)) return fail_with(findings);
  const config::Written merged = config::merge(std::move(parts));
  if (config::has_errors(merged.findings)) return fail_with(merged.findings);
  print_notes(merged.findings);
  return write_out(options.output, merged.text);
}

struct DiffOptions {
  std::string before;
  std::string after;
  std::string inventory;
  Where where;
};

// For people; --json has all of it.
std::string shortened(const std::string& text) {
  constexpr std::size_t k_shown = 120;
  const std::string cut = base::to_utf8(text, k_shown);
  return cut.size() < text.size() ? cut + "…" : cut;
}

Result<ExitCode> run_diff(const Globals& globals, const DiffOptions& options) {
  const auto before = load_config(options.before);
  if (!before) return tl::unexpected(before.error());
  const auto after = load_config(options.after);
  if (!after) return tl::unexpected(after.error());
  std::vector<config::Change> changes;
  if (options.inventory.empty()) {
    changes = config::diff(*before, *after);
  } else {
    const auto suite = read_suite(options.inventory, options.where);
    if (!suite) return tl::unexpected(suite.error());
    changes = config::diff(*before, *after, suite->collected.tests, suite->circumstances);
  }
  if (globals.json) {
    base::json::array all;
    for (const config::Change& change : changes) {
      base::json::object object{{"what", to_string(change.what)},
                                {"file", base::to_utf8(change.file)},
                                {"name", base::to_utf8(change.name)},
                                {"before", base::to_utf8(change.before)},
                                {"after", base::to_utf8(change.after)}};
      if (!change.when.empty()) object["when"] = change.when;
      all.push_back(std::move(object));
    }
    print_json(base::json::object{{"same", changes.empty()}, {"changes", std::move(all)}});
  } else {
    for (const config::Change& change : changes) {
      std::string subject = change.file;
      if (change.what == config::Change::What::unlisted) subject += " (tests not listed)";
      if (!change.name.empty()) subject += (subject.empty() ? "" : " ") + change.name;
      if (change.what != config::Change::What::test &&
          change.what != config::Change::What::unlisted)
        subject = std::string{to_string(change.what)} + " " + subject;
      if (!change.when.empty()) subject += " [" + change.when + "]";
      print(fmt::format("{}: {} -> {}\n", base::to_utf8(subject), shortened(change.before),
                        shortened(change.after)));
    }
  }
  return changes.empty() ? ExitCode::ok : ExitCode::no;
}

struct FmtOptions {
  std::vector<std::string> files;
  bool check = false;
};

Result<ExitCode> run_fmt(const FmtOptions& options) {
  bool same = true;
  for (const std::string& path : options.files) {
    auto text = base::read_file(path, config::Document::k_size_limit);
    if (!text) return tl::unexpected(text.error());
    std::vector<Finding> findings;
    const auto document = config::Document::parse(path, *text, findings);
    if (!document || config::has_errors(findings)) return fail_with(findings);
    const auto formatted = config::format(*document);
    if (!formatted) return tl::unexpected(formatted.error());
    if (*formatted == *text) continue;
    same = false;
    print(path + "\n");
    if (options.check) continue;
    if (auto written = replace_file(path, *text, *formatted); !written)
      return tl::unexpected(written.error());
  }
  return same || !options.check ? ExitCode::ok : ExitCode::no;
}

struct ExportOptions {
  std::string file;
  std::string format;
  std::string mode;
  std::string output;
  Where where;
};

Result<ExitCode> run_export(const Globals& globals, const ExportOptions& options) {
  const auto known = circumstances(options.where);
  if (!known) return tl::unexpected(known.error());
  const auto loaded = load_config(options.file);
  if (!loaded) return tl::unexpected(loaded.error());
  if (options.format == "spyre") {
    const config::Written written = config::export_spyre(*loaded, *known);
    if (config::has_errors(written.findings)) return fail_with(written.findings);
    print_notes(written.findings);
    return write_out(options.output, written.text);
  }
  std::vector<Finding> findings;
  const auto names = config::export_plain(*loaded, *known, findings);
  if (config::has_errors(findings)) return fail_with(findings);
  std::string text;
  base::json::array all;
  for (const config::PlainName& name : names) {
    if (!options.mode.empty() && to_string(name.mode) != options.mode) continue;
    const std::string full = fmt::format("{}::{}", config::without_token(name.path), name.name);
    if (globals.json) {
      all.push_back(base::json::object{
          {"file", name.path}, {"name", name.name}, {"mode", to_string(name.mode)}});
    } else {
      text +=
          options.mode.empty() ? fmt::format("{} {}\n", to_string(name.mode), full) : full + "\n";
    }
  }
  if (globals.json) text = base::pretty_json(all) + "\n";
  return write_out(options.output, text);
}

struct ImportOptions {
  std::string file;
  std::string format;
  std::string inventory;
  std::string path;
  std::string output;
};

Result<ExitCode> run_import(const ImportOptions& options) {
  if (options.inventory.empty() && options.path.empty())
    return base::fail(Fault::usage, "the format does not say in which file a test is",
                      "give --inventory, which is searched for it, or --path, or both");
  const auto text = base::read_file(options.file);
  if (!text) return tl::unexpected(text.error());
  std::optional<Suite> suite;
  if (!options.inventory.empty()) {
    auto read = read_suite(options.inventory, {});
    if (!read) return tl::unexpected(read.error());
    suite = std::move(*read);
  }
  const auto imported = config::import_torch_npu(*text, options.file,
                                                 suite ? &suite->collected : nullptr, options.path);
  if (!imported) return tl::unexpected(imported.error());
  for (const std::string& name : imported->unplaced)
    std::fprintf(stderr, "%s: not in the inventory, left out\n", base::to_utf8(name).c_str());
  std::fprintf(stderr, "%zu tests imported, %zu left out\n", imported->names,
               imported->unplaced.size());
  return write_out(options.output, imported->text);
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

      static MergeOptions merge_options;
      auto* merge = command->add_subcommand("merge", "Write several configurations as one");
      merge->add_option("file", merge_options.files, "Test configurations (YAML)")->required();
      merge->add_option("-o,--output", merge_options.output,
                        "File to write; default: standard output");
      merge->footer(
          "What they say of one test, operator or dtype must agree. Comments are left out.\n"
          "Example:\n  crosscheck config merge view_ops.yaml shape_ops.yaml -o tests.yaml");
      merge->callback([&] { action = [&] { return run_merge(merge_options); }; });

      static DiffOptions diff_options;
      auto* diff = command->add_subcommand("diff", "Show what two configurations say differently");
      diff->add_option("before", diff_options.before, "A test configuration (YAML)")->required();
      diff->add_option("after", diff_options.after, "Another")->required();
      diff->add_option("--inventory", diff_options.inventory,
                       "Compare what they say of these tests, instead of the names that they list");
      add_where(*diff, diff_options.where);
      diff->footer("Exits 1 if they differ.\nExample:\n  crosscheck config diff old.yaml new.yaml");
      diff->callback([&] { action = [&] { return run_diff(globals, diff_options); }; });

      static FmtOptions fmt_options;
      auto* fmt = command->add_subcommand("fmt", "Put configurations into the canonical layout");
      fmt->add_option("file", fmt_options.files, "Test configurations (YAML)")->required();
      fmt->add_flag("--check", fmt_options.check, "Change nothing; exit 1 if a file would change");
      fmt->footer(
          "Prints the files that change. Comments and order stay.\n"
          "Example:\n  crosscheck config fmt --check tests.yaml");
      fmt->callback([&] { action = [&] { return run_fmt(fmt_options); }; });

      static ExportOptions export_options;
      auto* exported = command->add_subcommand(
          "export", "Write a configuration for other programs, `include` and `when` resolved");
      exported->add_option("file", export_options.file, "A test configuration (YAML)")->required();
      exported
          ->add_option("--format", export_options.format,
                       "spyre: Torch-Spyre's own; plain: a line a name, mode first")
          ->required()
          ->check(CLI::IsMember({"spyre", "plain"}));
      exported
          ->add_option("--mode", export_options.mode,
                       "Of plain: only names of this mode, without it")
          ->check(CLI::IsMember({"mandatory_success", "xfail", "xfail_strict", "skip"}));
      exported->add_option("-o,--output", export_options.output,
                           "File to write; default: standard output");
      add_where(*exported, export_options.where);
      exported->footer(
          "Example:\n  crosscheck config export tests.yaml --format spyre --platform s390x --torch "
          "2.13.0");
      exported->callback([&] { action = [&] { return run_export(globals, export_options); }; });

      static ImportOptions import_options;
      auto* import =
          command->add_subcommand("import", "Make a configuration of another project's list");
      import->add_option("file", import_options.file, "The list")->required();
      import
          ->add_option("--format", import_options.format,
                       "torch_npu: {\"test_x (__main__.TestY)\": [\"reason\", [\"chip\"]]}")
          ->required()
          ->check(CLI::IsMember({"torch_npu"}));
      import->add_option("--inventory", import_options.inventory,
                         "Tests as `crosscheck collect` wrote them, to find each one's file");
      import->add_option("--path", import_options.path, "File of the tests that are not found");
      import->add_option("-o,--output", import_options.output,
                         "File to write; default: standard output");
      import->footer(
          "Example:\n"
          "  crosscheck config import --format torch_npu disabled.json --inventory "
          "inventory.jsonl");
      import->callback([&] { action = [&] { return run_import(import_options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
