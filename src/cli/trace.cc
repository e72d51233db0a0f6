#include "crosscheck/ops/trace.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "command.h"
#include "crosscheck/base/json.h"
#include "run_options.h"

namespace crosscheck::cli {
namespace {

using base::Result;

struct Options {
  RunOptions run;
  std::string observer = "auto";
  std::string output;
  bool resume = false;
};

// What the trace says, counted as it is written.
struct Summary {
  std::size_t tests = 0;
  std::size_t unknown = 0;  // their operators
  std::size_t before = 0;   // traced before an interruption
  std::size_t pairs = 0;
  std::size_t compiled = 0;
  std::set<std::string> operators;

  void add(const ops::TracedTest& test) {
    ++tests;
    if (!test.operators) {
      ++unknown;
      return;
    }
    if (!test.operators->graphs.empty()) ++compiled;
    for (const auto& phase : test.operators->phases) {
      pairs += phase.size();
      for (const auto& [name, count] : phase) operators.insert(name);
    }
  }
};

ops::TraceHeader header_of(const runner::RunRequest& request, runner::Observer observer) {
  const auto combination = runner::combination_of(request);
  const auto& environment = request.environment;
  ops::TraceHeader header;
  header.build = {environment.torch, environment.torch_git, combination.device, environment.suite};
  header.python = environment.python;
  header.observer = std::move(observer.observer);
  header.note = std::move(observer.note);
  header.selection = request.inventory.suite.name + " suite, " + request.selection.describe();
  if (request.shard) {
    header.shard = request.shard->planned
                       ? to_string(*request.shard->planned)
                       : fmt::format("{}/{}", request.shard->index, request.shard->count);
  }
  header.composites = std::move(observer.composites);
  header.aliases = std::move(observer.aliases);
  header.delegates = std::move(observer.delegates);
  return header;
}

void print(const Globals& globals, const Options& options, const ops::TraceHeader& header,
           const Summary& summary, bool interrupted) {
  const auto file =
      interrupted ? ops::TraceWriter::partial_path(options.output).string() : options.output;
  if (globals.json) {
    std::printf("%s\n",
                base::pretty_json(base::json::object{{"tests", summary.tests},
                                                     {"tests_without_operators", summary.unknown},
                                                     {"tests_traced_before", summary.before},
                                                     {"tests_that_compile", summary.compiled},
                                                     {"operators", summary.operators.size()},
                                                     {"pairs", summary.pairs},
                                                     {"observer", header.observer},
                                                     {"note", header.note},
                                                     {"interrupted", interrupted},
                                                     {"output", file}})
                    .c_str());
    return;
  }
  std::printf("%zu tests, %zu operators, %zu pairs of them, by %s, in %s\n", summary.tests,
              summary.operators.size(), summary.pairs, header.observer.c_str(), file.c_str());
  if (summary.compiled > 0) {
    std::printf("%zu tests compile: their graphs' operators are there too\n", summary.compiled);
  }
  if (summary.unknown > 0) {
    std::printf("%zu tests died before they could say what they use\n", summary.unknown);
  }
  if (interrupted) std::printf("interrupted: go on with --resume\n");
}

Result<base::ExitCode> run_trace(const Globals& globals, Options& options) {
  auto run = prepare_run(options.run);
  if (!run) return tl::unexpected(run.error());
  auto& request = run->request;
  if (auto writable = ops::TraceWriter::check(options.output, options.resume); !writable) {
    return tl::unexpected(writable.error());
  }
  auto interrupts = Interrupts::watch();
  if (!interrupts) return tl::unexpected(interrupts.error());
  runner::CallOptions call;
  call.interrupt_fd = interrupts->fd();
  auto observer = runner::prepare_observer(request.setup, options.observer, call);
  if (!observer) return tl::unexpected(observer.error());
  if (!observer->note.empty()) std::fprintf(stderr, "note: %s\n", observer->note.c_str());
  if (auto collected = collect_for(*run, options.run, interrupts->fd()); !collected) {
    return tl::unexpected(collected.error());
  }

  runner::Tracing tracing;
  tracing.setup = {observer->observer, observer->library};
  const auto header = header_of(request, std::move(*observer));
  Summary summary;
  std::set<base::TestId> before;
  auto writer = options.resume ? ops::TraceWriter::go_on(options.output, header,
                                                         [&](const ops::TracedTest& test) {
                                                           before.insert(test.id);
                                                           summary.add(test);
                                                         })
                               : ops::TraceWriter::begin(options.output, header);
  if (!writer) return tl::unexpected(writer.error());
  summary.before = before.size();
  tracing.is_done = [&](const base::TestId& id) { return before.contains(id); };
  tracing.on_traced = [&](const base::TestResult& result,
                          const std::optional<base::Operators>& operators) -> Result<void> {
    if (result.outcome == base::Outcome::not_run) return {};
    const ops::TracedTest test{result.id, result.node_id, result.outcome, operators};
    summary.add(test);
    return writer->add(test);
  };
  request.tracing = std::move(tracing);
  const auto report = runner::run(request);
  if (!report) {
    if (writer->tests() == 0) writer->discard();
    return tl::unexpected(report.error());
  }
  if (!report->interrupted) {
    if (auto finished = writer->finish(); !finished) return tl::unexpected(finished.error());
  }
  print(globals, options, header, summary, report->interrupted);
  return report->interrupted ? base::ExitCode::no : base::ExitCode::ok;
}

const Registration k_registration{
    "trace", [](CLI::App& app, Globals& globals, Action& action) {
      static Options options;
      auto* command =
          app.add_subcommand("trace", "Run tests and record which operators each of them uses");
      add_run_options(*command, options.run);
      command
          ->add_option("--observer", options.observer,
                       "record-function: ours in C++, sees most; dispatch-mode: TorchDispatchMode; "
                       "auto: the first where it can be built")
          ->check(CLI::IsMember({"auto", "record-function", "dispatch-mode"}))
          ->capture_default_str();
      command
          ->add_option("-o,--output", options.output,
                       "File for the trace (JSON lines; gzipped if it ends in .gz)")
          ->required();
      command->add_flag("--resume", options.resume,
                        "Go on with the unfinished trace beside the output, if there is one");
      command->footer(
          "How tests end does not matter to the exit code: 0 when all were traced, 1 if it was "
          "interrupted.\n"
          "Examples:\n"
          "  crosscheck trace --files test_gradients.py -o trace.jsonl.gz\n"
          "  crosscheck trace --device refdev --quick --shard 1/2 -o trace-1.jsonl.gz\n"
          "  crosscheck ops ingest trace.jsonl.gz");
      command->callback([&] { action = [&] { return run_trace(globals, options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
