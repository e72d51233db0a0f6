#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cstdio>
#include <map>

#include "command.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/nearest.h"
#include "crosscheck/ops/index.h"
#include "ops_command.h"

namespace crosscheck::cli {
namespace {

using base::fail;
using base::Fault;
using base::Result;
namespace json = base::json;

struct Ingest {
  std::string index;
  std::vector<std::string> traces;
};

struct TestsOf {
  std::string index;
  std::string name;
  std::vector<std::string> phases;
  std::string dtype;
  bool exact = false;
};

struct Of {
  std::string index;
  std::string test;
};

Result<base::ExitCode> run_ingest(const Globals& globals, const Ingest& options) {
  auto index = open_index(globals, options.index, ops::Index::Open::write);
  if (!index) return tl::unexpected(index.error());
  json::array traces;
  for (const auto& trace : options.traces) {
    const auto ingested = index->ingest(trace);
    if (!ingested) return tl::unexpected(ingested.error());
    if (ingested->cut_off) std::fprintf(stderr, "warning: %s\n", ingested->cut_off->c_str());
    if (!globals.json) {
      std::printf("%s: %zu tests, %zu of them new, %zu pairs of test and operator\n", trace.c_str(),
                  ingested->tests, ingested->added, ingested->pairs);
    }
    traces.push_back(json::object{{"trace", trace},
                                  {"tests", ingested->tests},
                                  {"new", ingested->added},
                                  {"pairs", ingested->pairs},
                                  {"cut_off", ingested->cut_off.has_value()}});
  }
  const auto summary = index->summary();
  if (!summary) return tl::unexpected(summary.error());
  if (globals.json) {
    std::printf("%s\n",
                base::pretty_json(json::object{{"traces", std::move(traces)},
                                               {"tests", summary->tests},
                                               {"tests_without_operators", summary->unknown},
                                               {"operators", summary->operators}})
                    .c_str());
  } else {
    std::printf("the index has %zu tests and %zu operators; of %zu tests no operators are known\n",
                summary->tests, summary->operators, summary->unknown);
  }
  return base::ExitCode::ok;
}

Result<ops::Phases> phases_of(const std::vector<std::string>& names) {
  if (names.empty()) return ops::Phases::all();
  auto phases = ops::Phases::none();
  for (const auto& name : names) phases.add(*base::parse_phase(name));
  return phases;
}

Result<base::ExitCode> run_tests_of(const Globals& globals, const TestsOf& options) {
  auto index = open_index(globals, options.index, ops::Index::Open::read);
  if (!index) return tl::unexpected(index.error());
  const auto known = index->operators();
  if (!known) return tl::unexpected(known.error());
  const auto aliases = index->aliases();
  if (!aliases) return tl::unexpected(aliases.error());
  const auto summary = index->summary();
  if (!summary) return tl::unexpected(summary.error());
  const auto phases = phases_of(options.phases);
  auto overloads = ops::matching(options.name, *known, *aliases, !options.exact);
  if (!options.exact) {
    // A kernel is used by whatever it is the kernel of, whether or not the observer saw itself.
    const auto making = index->making();
    if (!making) return tl::unexpected(making.error());
    overloads = ops::with_delegating(std::move(overloads), ops::qualified(options.name), *known,
                                     making->delegates);
  }
  if (overloads.empty()) {
    std::vector<std::string_view> names;
    for (const auto& name : *known) names.push_back(ops::operator_of(name));
    const auto remedy = base::suggest(ops::qualified(options.name), names);
    return fail(Fault::not_found,
                fmt::format("no traced test uses {}, of {} tests and {} operators",
                            ops::qualified(options.name), summary->tests, summary->operators),
                remedy.empty() ? "trace more tests: crosscheck trace" : remedy);
  }
  const auto numbers = index->tests_of(overloads, *phases);
  if (!numbers) return tl::unexpected(numbers.error());
  auto tests = index->tests(*numbers);
  if (!tests) return tl::unexpected(tests.error());
  if (!options.dtype.empty()) {
    std::erase_if(*tests, [&](const auto& test) { return test.dtype != options.dtype; });
  }
  std::sort(tests->begin(), tests->end(),
            [](const auto& a, const auto& b) { return a.node_id < b.node_id; });
  if (globals.json) {
    json::array names;
    for (const auto& name : overloads) names.emplace_back(name);
    json::array listed;
    for (const auto& test : *tests) {
      listed.push_back(
          json::object{{"node", test.node_id}, {"outcome", base::to_string(test.outcome)}});
    }
    std::printf("%s\n", base::pretty_json(json::object{{"operators", std::move(names)},
                                                       {"tests", std::move(listed)},
                                                       {"of", summary->tests},
                                                       {"unknown", summary->unknown}})
                            .c_str());
    return base::ExitCode::ok;
  }
  // Only names on standard output: they are what `run --tests-from` takes.
  for (const auto& test : *tests) std::printf("%s\n", test.node_id.c_str());
  std::fprintf(stderr, "%zu of %zu tests use %s\n", tests->size(), summary->tests,
               fmt::format("{}", fmt::join(overloads, ", ")).c_str());
  if (summary->unknown > 0) {
    std::fprintf(stderr, "%zu more may: no operators are known of them\n", summary->unknown);
  }
  return base::ExitCode::ok;
}

void print_counts(std::string_view title, const base::OperatorCounts& counts) {
  std::printf("  %s:\n", std::string{title}.c_str());
  for (const auto& [name, count] : counts) {
    std::printf("    %s%s\n", name.c_str(), count > 1 ? fmt::format(" ×{}", count).c_str() : "");
  }
}

Result<base::ExitCode> run_of(const Globals& globals, const Of& options) {
  auto index = open_index(globals, options.index, ops::Index::Open::read);
  if (!index) return tl::unexpected(index.error());
  const auto found = index->operators_of(options.test);
  if (!found) return tl::unexpected(found.error());
  if (found->empty()) {
    return fail(Fault::not_found, "the index has no test whose name holds '" + options.test + "'",
                "trace it: crosscheck trace --select");
  }
  if (globals.json) {
    json::array tests;
    for (const auto& [test, operators] : *found) {
      json::object one{{"node", test.node_id}, {"outcome", base::to_string(test.outcome)}};
      if (test.known) {
        for (auto& [key, value] : base::to_json(operators)) one[key] = std::move(value);
      }
      tests.push_back(std::move(one));
    }
    std::printf("%s\n", base::pretty_json(json::object{{"tests", std::move(tests)}}).c_str());
    return base::ExitCode::ok;
  }
  for (const auto& [test, operators] : *found) {
    std::printf("%s (%s)\n", test.node_id.c_str(),
                std::string{base::to_string(test.outcome)}.c_str());
    if (!test.known) std::printf("  no operators are known: its process died\n");
    for (std::size_t i = 0; i < base::k_phase_count; ++i) {
      const auto phase = static_cast<base::Phase>(i);
      if (phase == base::Phase::compiled || operators.in(phase).empty()) continue;
      print_counts(base::to_string(phase), operators.in(phase));
    }
    for (const auto& graph : operators.graphs) {
      print_counts("compiled graph " + graph.name, graph.operators);
    }
  }
  return base::ExitCode::ok;
}

const Registration k_registration{
    "ops", [](CLI::App& app, Globals& globals, Action& action) {
      auto& command = ops_command(app);

      static Ingest ingest;
      auto* ingested =
          command.add_subcommand("ingest", "Join traces of one build into the operator index");
      ingested->add_option("traces", ingest.traces, "What `crosscheck trace` wrote")->required();
      add_index_option(*ingested, ingest.index);
      ingested->footer("Example:\n  crosscheck ops ingest trace-1.jsonl.gz trace-2.jsonl.gz");
      ingested->callback([&] { action = [&] { return run_ingest(globals, ingest); }; });

      static TestsOf tests_of;
      auto* tests = command.add_subcommand("tests", "The tests that use an operator");
      tests->add_option("operator", tests_of.name, "aten::add, add, or an overload: aten::add.out")
          ->required();
      tests
          ->add_option("--phase", tests_of.phases,
                       "Only what is used there: setup, forward, backward, comparison, compiled")
          ->delimiter(',')
          ->check(CLI::IsMember({"setup", "forward", "backward", "comparison", "compiled"}));
      tests->add_option("--dtype", tests_of.dtype, "Only tests of that dtype: float32");
      tests->add_flag("--exact", tests_of.exact,
                      "Neither the in-place form nor aliases of the operator");
      add_index_option(*tests, tests_of.index);
      tests->footer("Example:\n  crosscheck ops tests aten::logaddexp --phase forward,backward");
      tests->callback([&] { action = [&] { return run_tests_of(globals, tests_of); }; });

      static Of of;
      auto* of_test = command.add_subcommand("of", "The operators that a test uses, by phase");
      of_test->add_option("test", of.test, "Its node id, or a part of it")->required();
      add_index_option(*of_test, of.index);
      of_test->footer("Example:\n  crosscheck ops of test_backward_sin_cpu_float32");
      of_test->callback([&] { action = [&] { return run_of(globals, of); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
