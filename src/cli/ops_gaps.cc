#include "crosscheck/ops/support.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <cstdio>

#include "command.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/operators.h"
#include "evidence.h"
#include "ops_command.h"

// `ops enable` and `ops next`: what a backend lacks for which tests.
namespace crosscheck::cli {
namespace {

using base::fail;
using base::Fault;
using base::Result;
namespace json = base::json;

constexpr std::size_t k_shown_tests = 20;
constexpr std::size_t k_shown_operators = 10;

struct Options {
  std::string index;
  std::string support;
  EvidenceOptions evidence;
  std::string name;        // of enable
  std::size_t limit = 10;  // of next
};

// By what the newest sighting of each test failed for.
Result<ops::Support> support_of_runs(const Globals& globals, const EvidenceOptions& options) {
  reconcile::History history;
  if (auto read = read_evidence(globals, options, {}, history); !read) {
    auto error = read.error();
    if (error.fault == Fault::not_found) {
      error.remedy = "say what the backend has: --support FILE, or run its tests first";
    }
    return tl::unexpected(std::move(error));
  }
  std::set<std::string> missing;
  for (const auto& test : history.tests()) {
    const auto sightings = history.of(test.id);
    const auto* failure = sightings.empty() ? nullptr : sightings.front().failure;
    if (failure == nullptr || failure->kind != base::FailureKind::unsupported_operator) continue;
    if (auto name = base::named_operator(failure->message); !name.empty()) {
      missing.insert(std::move(name));
    }
  }
  if (missing.empty()) {
    return fail(Fault::not_found, "no test of these runs failed for an operator that is missing",
                "say what the backend has: --support FILE");
  }
  std::fprintf(stderr,
               "%zu operators are missing, as failures name them; what those tests did not "
               "reach may lack more\n",
               missing.size());
  return ops::Support::without(std::move(missing));
}

Result<ops::Support> read_support(const Globals& globals, const Options& options) {
  if (options.support.empty()) return support_of_runs(globals, options.evidence);
  const auto text = base::read_file(options.support);
  if (!text) return tl::unexpected(text.error());
  return ops::Support::parse(*text, options.support);
}

struct Known {
  ops::Index index;
  ops::Making making;
  ops::Support support;
  ops::IndexSummary summary;
  std::vector<ops::OperatorTests> used;
};

Result<Known> read_known(const Globals& globals, const Options& options) {
  auto index = open_index(globals, options.index, ops::Index::Open::read);
  if (!index) return tl::unexpected(index.error());
  auto support = read_support(globals, options);
  if (!support) return tl::unexpected(support.error());
  auto making = index->making();
  if (!making) return tl::unexpected(making.error());
  const auto summary = index->summary();
  if (!summary) return tl::unexpected(summary.error());
  auto used = index->all(ops::Phases::all());
  if (!used) return tl::unexpected(used.error());
  return Known{std::move(*index), std::move(*making), std::move(*support), *summary,
               std::move(*used)};
}

void print_reservations(const Known& known, const ops::Gaps& gaps) {
  if (known.summary.unknown > 0) {
    std::fprintf(stderr, "%zu tests are left out: no operators are known of them\n",
                 known.summary.unknown);
  }
  if (gaps.unsaid() > 0) {
    std::fprintf(stderr,
                 "%zu operators that tests use are not among the answers: taken for there\n",
                 gaps.unsaid());
  }
}

// What is missing, of what `name` means.
std::set<std::string> meant(const Known& known, const std::string& name,
                            const ops::Aliases& aliases) {
  std::vector<std::string> names;
  names.reserve(known.used.size());
  for (const auto& one : known.used) names.push_back(one.name);
  std::set<std::string> operators{ops::qualified(name)};
  for (const auto& overload : ops::matching(name, names, aliases, true)) {
    if (const auto lack = known.support.lacks(overload, known.making)) operators.insert(*lack);
  }
  return operators;
}

json::array nodes(const std::vector<ops::IndexedTest>& tests) {
  json::array array;
  for (const auto& test : tests) array.emplace_back(test.node_id);
  return array;
}

Result<base::ExitCode> run_enable(const Globals& globals, const Options& options) {
  const auto known = read_known(globals, options);
  if (!known) return tl::unexpected(known.error());
  const auto aliases = known->index.aliases();
  if (!aliases) return tl::unexpected(aliases.error());
  const ops::Gaps gaps{known->used, known->support, known->making};
  const auto enabled = gaps.enable(meant(*known, options.name, *aliases));
  const auto alone = known->index.tests(enabled.alone);
  if (!alone) return tl::unexpected(alone.error());
  const auto need = known->index.tests(enabled.need);
  if (!need) return tl::unexpected(need.error());
  if (globals.json) {
    json::array operators;
    for (const auto& name : enabled.operators) operators.emplace_back(name);
    json::array others;
    for (const auto& [name, count] : enabled.others) {
      others.push_back(json::object{{"operator", name}, {"tests", count}});
    }
    std::printf("%s\n",
                base::pretty_json(json::object{{"missing", std::move(operators)},
                                               {"need", nodes(*need)},
                                               {"alone", nodes(*alone)},
                                               {"also_missing", std::move(others)},
                                               {"tests", known->summary.tests},
                                               {"tests_that_lack_something", gaps.lacking()},
                                               {"unknown", known->summary.unknown}})
                    .c_str());
    return base::ExitCode::ok;
  }
  if (enabled.operators.empty()) {
    std::printf("%s is not missing, or no traced test needs it\n",
                ops::qualified(options.name).c_str());
  } else {
    std::printf("missing: %s\n%zu tests need it, of %zu that lack something and %zu in all\n",
                fmt::format("{}", fmt::join(enabled.operators, ", ")).c_str(), need->size(),
                gaps.lacking(), known->summary.tests);
    std::printf("%zu of them lack nothing else%s\n", alone->size(), alone->empty() ? "" : ":");
    for (std::size_t i = 0; i < alone->size() && i < k_shown_tests; ++i) {
      std::printf("  %s\n", (*alone)[i].node_id.c_str());
    }
    if (alone->size() > k_shown_tests) {
      std::printf("  and %zu more: --json has all\n", alone->size() - k_shown_tests);
    }
    if (need->size() > alone->size()) {
      std::printf("%zu also lack\n", need->size() - alone->size());
      for (std::size_t i = 0; i < enabled.others.size() && i < k_shown_operators; ++i) {
        std::printf("  %6zu  %s\n", enabled.others[i].second, enabled.others[i].first.c_str());
      }
      if (enabled.others.size() > k_shown_operators) {
        std::printf("          and %zu other operators\n",
                    enabled.others.size() - k_shown_operators);
      }
    }
  }
  print_reservations(*known, gaps);
  return base::ExitCode::ok;
}

Result<base::ExitCode> run_next(const Globals& globals, const Options& options) {
  const auto known = read_known(globals, options);
  if (!known) return tl::unexpected(known.error());
  const ops::Gaps gaps{known->used, known->support, known->making};
  const auto steps = gaps.steps(options.limit);
  auto gains = gaps.gains();
  if (gains.size() > options.limit) gains.resize(options.limit);
  if (globals.json) {
    json::array order;
    for (const auto& step : steps) {
      json::array operators;
      for (const auto& name : step.operators) operators.emplace_back(name);
      order.push_back(json::object{
          {"operators", std::move(operators)}, {"frees", step.frees}, {"in_all", step.in_all}});
    }
    json::array alone;
    for (const auto& gain : gains) {
      alone.push_back(
          json::object{{"operator", gain.name}, {"frees", gain.frees}, {"need", gain.need}});
    }
    std::printf("%s\n",
                base::pretty_json(json::object{{"steps", std::move(order)},
                                               {"alone", std::move(alone)},
                                               {"tests", known->summary.tests},
                                               {"tests_that_lack_something", gaps.lacking()},
                                               {"unknown", known->summary.unknown}})
                    .c_str());
    return base::ExitCode::ok;
  }
  std::printf("%zu of %zu tests lack something\n", gaps.lacking(), known->summary.tests);
  if (!steps.empty()) {
    std::printf("\nadded in this order:\n   frees  in all\n");
    for (const auto& step : steps) {
      std::printf("  %6zu  %6zu  %s\n", step.frees, step.in_all,
                  fmt::format("{}", fmt::join(step.operators, " + ")).c_str());
    }
    std::printf("\neach alone:\n   frees    need\n");
    for (const auto& gain : gains) {
      std::printf("  %6zu  %6zu  %s\n", gain.frees, gain.need, gain.name.c_str());
    }
  }
  print_reservations(*known, gaps);
  return base::ExitCode::ok;
}

void add_options(CLI::App& command, Options& options) {
  auto* support = command.add_option(
      "--support", options.support,
      "What `crosscheck ops support` wrote, or names of the operators that are there, one a line; "
      "default: all but those that failures of runs name");
  add_evidence_options(command, options.evidence);
  for (const char* name : {"--results", "--runs"}) {
    command.get_option(name)->excludes(support);
  }
  add_index_option(command, options.index);
}

const Registration k_registration{
    "ops gaps", [](CLI::App& app, Globals& globals, Action& action) {
      auto& command = ops_command(app);

      static Options enable_options;
      auto* enable = command.add_subcommand("enable", "What adding an operator would bring");
      enable->add_option("operator", enable_options.name, "aten::add, add, or an overload")
          ->required();
      add_options(*enable, enable_options);
      enable->footer(
          "Tests that need it, those that lack nothing else, and what the others lack.\n"
          "Example:\n  crosscheck ops enable aten::logaddexp --support support.jsonl");
      enable->callback([&] { action = [&] { return run_enable(globals, enable_options); }; });

      static Options next_options;
      auto* next =
          command.add_subcommand("next", "Which missing operators would free the most tests");
      next->add_option("--limit", next_options.limit, "So many steps")
          ->check(CLI::Range(1, 1000))
          ->capture_default_str();
      add_options(*next, next_options);
      next->footer(
          "Steps are chosen greedily: the most tests for an operator added, which may be several "
          "at once.\n"
          "Examples:\n"
          "  crosscheck ops next --support support.jsonl --limit 20\n"
          "  crosscheck ops next --results results.jsonl.gz");
      next->callback([&] { action = [&] { return run_next(globals, next_options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
