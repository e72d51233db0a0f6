#include "crosscheck/reconcile/reconcile.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <cmath>
#include <cstdlib>

#include "command.h"
#include "config_files.h"
#include "crosscheck/base/file.h"
#include "crosscheck/reconcile/report.h"
#include "evidence.h"

namespace crosscheck::cli {
namespace {

using base::ExitCode;
using base::Fault;
using base::Result;

struct ReconcileOptions {
  std::vector<std::string> files;
  std::string inventory;
  Where where;
  EvidenceOptions evidence;
  reconcile::Options rules;
  double fall_percent = 5;
  std::vector<std::string> only;
  bool apply = false;
};

// The tests that runs show, where there is no inventory.
config::CollectedSuite suite_of(const reconcile::History& history) {
  config::CollectedSuite suite;
  suite.name = "the runs";
  suite.partial = true;
  for (reconcile::History::Known& known : history.tests())
    suite.tests.push_back(config::collected_test(std::move(known.id), known.node));
  return suite;
}

// Loads what would be written and checks it, and only then writes it, a file at a time.
Result<void> apply(const config::Config& before, const std::vector<std::string>& paths,
                   const Suite& suite, const reconcile::Proposals& proposals) {
  const auto texts = reconcile::write(before, proposals);
  if (!texts) return tl::unexpected(texts.error());
  if (texts->empty()) return {};
  const auto after = load_configs(paths, [&](const std::string& path) -> Result<std::string> {
    for (const auto& [document, text] : *texts)
      if (document->name() == config::document_name(path)) return text;
    return base::read_file(path, config::Document::k_size_limit);
  });
  if (!after)
    return base::fail(Fault::internal,
                      "what is proposed contradicts something else; nothing was written:\n" +
                          after.error().message,
                      "leave this kind of change out with --only, or make it by hand");
  if (auto right = reconcile::verify(*after, suite.collected, suite.circumstances, proposals);
      !right)
    return right;
  for (const auto& [document, text] : *texts)
    if (auto done = replace_file(document->name(), document->source(), text); !done) return done;
  return {};
}

Result<ExitCode> run_reconcile(const Globals& globals, const ReconcileOptions& options) {
  const auto config = load_configs(options.files);
  if (!config) return tl::unexpected(config.error());
  reconcile::History history;
  if (auto read = read_evidence(globals, options.evidence, options.where.devices, history); !read)
    return tl::unexpected(read.error());
  Suite suite;
  const bool complete = !options.inventory.empty();
  if (complete) {
    auto read = read_suite(options.inventory, options.where);
    if (!read) return tl::unexpected(read.error());
    suite = std::move(*read);
  } else {
    auto where = circumstances(options.where);
    if (!where) return tl::unexpected(where.error());
    suite.circumstances = std::move(*where);
    suite.collected = suite_of(history);
  }
  if (const auto runs = history.runs(); !runs.empty())
    complete_from(*runs.front(), suite.circumstances);
  reconcile::Options rules = options.rules;
  rules.fall_share = options.fall_percent / 100;
  reconcile::Proposals proposals = reconcile::propose(*config, suite.collected, complete, history,
                                                      suite.circumstances, rules, today());
  if (!proposals.ties.empty()) return fail_with(proposals.ties);
  if (!options.only.empty())
    std::erase_if(proposals.changes, [&](const reconcile::Change& change) {
      return std::find(options.only.begin(), options.only.end(), to_string(change.kind)) ==
             options.only.end();
    });
  if (options.apply) {
    if (auto applied = apply(*config, options.files, suite, proposals); !applied)
      return tl::unexpected(applied.error());
  }
  const auto written = options.apply ? reconcile::Written::yes : reconcile::Written::no;
  if (globals.json) {
    print_json(reconcile::to_json(proposals, suite.collected, written));
  } else {
    print(reconcile::to_text(proposals, written));
  }
  const bool left = options.apply ? proposals.suspicious() : proposals.pending();
  return left ? ExitCode::no : ExitCode::ok;
}

const Registration k_registration{
    "reconcile", [](CLI::App& app, Globals& globals, Action& action) {
      static ReconcileOptions options;
      auto* command = app.add_subcommand(
          "reconcile", "Compare a test configuration with what runs saw, and propose changes");
      command
          ->add_option("--config", options.files,
                       "Test configurations (YAML); several are one configuration")
          ->required();
      command->add_option(
          "--inventory", options.inventory,
          "All tests, as `crosscheck collect` wrote them: what is new, what is gone; "
          "default: the tests that the runs show");
      add_where(*command, options.where);
      add_evidence_options(*command, options.evidence);
      add_rule_options(*command, options.rules);
      command
          ->add_option("--fall-tests", options.rules.fall_tests,
                       "More must-pass tests than this that fail for the first time, and…")
          ->check(CLI::Range(std::size_t{0}, std::size_t{1'000'000}))
          ->capture_default_str();
      command
          ->add_option("--fall-percent", options.fall_percent,
                       "…more than this share of those seen, are held back until confirmed")
          ->check(CLI::Range(0.0, 100.0))
          ->check([](const std::string& text) {  // which a range lets through
            return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + " is no share" : "";
          })
          ->capture_default_str();
      command->add_flag("--confirm", options.rules.confirmed, "Believe such a fall");
      command
          ->add_option("--only", options.only,
                       "Only these kinds: promote, demote, expire, new, gone, contradiction, "
                       "inseparable")
          ->check(CLI::IsMember(
              {"promote", "demote", "expire", "new", "gone", "contradiction", "inseparable"}));
      command->add_flag("--apply", options.apply,
                        "Write the changes; every other byte of the files stays");
      command->footer(
          "Exits 0 if nothing is to change, 1 if something is, or is held back. The rules: "
          "docs/reconcile.md\n"
          "Examples:\n"
          "  crosscheck reconcile --config tests.yaml --inventory inventory.jsonl\n"
          "  crosscheck reconcile --config tests.yaml --results a.jsonl b.jsonl --passes 2 "
          "--apply");
      command->callback([&] { action = [&] { return run_reconcile(globals, options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
