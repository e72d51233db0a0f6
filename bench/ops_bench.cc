#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "crosscheck/base/temporary_folder.h"
#include "crosscheck/ops/index.h"
#include "crosscheck/ops/support.h"
#include "figures.h"

// The operator index: a trace as large as that of PyTorch's own tests, taken in and asked.
namespace crosscheck::bench {
namespace {

namespace fs = std::filesystem;

// As measured on upstream's tests: 27 operators a test, of some 640; few are in most tests, and
// three quarters are in one of a hundred or less.
constexpr std::size_t k_tests = 37'037;
constexpr std::size_t k_operators = 640;
constexpr std::size_t k_each = 27;

// Of this process.
double processor_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

std::string operator_name(std::size_t number) {
  return "aten::some_operator_" + std::to_string(number) + ".Tensor";
}

ops::TracedTest make_test(std::size_t number, std::mt19937& random) {
  const auto text = std::to_string(number);
  ops::TracedTest test;
  test.id = {"test_ops_" + std::to_string(number % 40) + ".py", "TestCommon",
             "test_something_" + std::to_string(number % 500),
             R"({"device":"cpu","dtype":"float32","op":"op)" + text + "\"}"};
  test.node_id =
      test.id.file + "::TestCommonCPU::" + test.id.method + "_op" + text + "_cpu_float32";
  test.outcome = base::Outcome::passed;
  std::uniform_real_distribution<double> uniform{0, 1};
  std::set<std::size_t> chosen;
  while (chosen.size() < k_each) {
    chosen.insert(static_cast<std::size_t>(std::pow(uniform(random), 6) * k_operators));
  }
  test.operators.emplace();
  for (const auto op : chosen) {
    auto& phase = test.operators->phases[op % 4];
    phase.emplace_back(operator_name(op), 1 + static_cast<std::int64_t>(op % 7));
  }
  for (auto& phase : test.operators->phases) std::sort(phase.begin(), phase.end());
  return test;
}

// Returns how many pairs there are.
std::size_t write_trace(const fs::path& path) {
  std::mt19937 random{1};
  std::ofstream file{path};
  ops::TraceHeader header;
  header.build = {"2.13.0", "abc", "cpu", "sha256:1"};
  file << ops::header_line(header) << '\n';
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < k_tests; ++i) {
    const auto test = make_test(i, random);
    for (const auto& phase : test.operators->phases) pairs += phase.size();
    file << ops::test_line(test) << '\n';
  }
  file << ops::end_line(k_tests) << '\n';
  if (!file.flush()) give_up("the trace cannot be written to " + path.string());
  return pairs;
}

int measure(const fs::path& folder, const std::string& out, bool check) {
  const auto trace = folder / "trace.jsonl";
  const auto pairs = write_trace(trace);
  Figures figures;
  figures.add({.name = "pairs of test and operator in the trace",
               .unit = "",
               .ours = static_cast<double>(pairs)});
  auto began = processor_seconds();
  auto index = need(ops::Index::open(folder / "index.db", ops::Index::Open::write));
  static_cast<void>(need(index.ingest(trace)));
  figures.add({.name = "ingest of a trace of a million pairs, processor time",
               .unit = "s",
               .ours = (processor_seconds() - began),
               .wanted = 1});
  figures.add({.name = "index of a million pairs, on disk",
               .unit = "MB",
               .ours = static_cast<double>(fs::file_size(folder / "index.db")) / 1e6});

  // Every operator is asked for once, from a connection of its own, as a command does it.
  constexpr std::size_t k_hundredth = k_tests / 100;
  double slowest = 0;
  std::size_t nearest = k_tests;
  double named = 0;
  for (std::size_t op = 0; op < k_operators; ++op) {
    auto reader = need(ops::Index::open(folder / "index.db", ops::Index::Open::read));
    began = processor_seconds();
    const auto tests = need(reader.tests_of({operator_name(op)}, ops::Phases::all()));
    slowest = std::max(slowest, (processor_seconds() - began) * 1e3);
    static_cast<void>(need(reader.tests(tests)));
    const auto off = std::max(tests.size(), k_hundredth) - std::min(tests.size(), k_hundredth);
    if (off >= nearest) continue;
    nearest = off;
    named = (processor_seconds() - began) * 1e3;
  }
  figures.add({.name = "query of one operator: which tests, the slowest of 640",
               .unit = "ms",
               .ours = slowest,
               .wanted = 1});
  figures.add({.name = "the same with tests' names, of an operator in 1 % of them",
               .unit = "ms",
               .ours = named,
               .wanted = 1});

  std::set<std::string> missing;
  for (std::size_t op = 100; op < k_operators; op += 5) missing.insert(operator_name(op));
  began = processor_seconds();
  const ops::Gaps gaps{need(index.all(ops::Phases::all())), ops::Support::without(missing), {}};
  static_cast<void>(gaps.steps(20));
  figures.add({.name = "which 20 of 108 missing operators to add first, processor time",
               .unit = "s",
               .ours = (processor_seconds() - began)});
  figures.print();
  if (!out.empty()) figures.save(out, {});
  return check && !figures.hold() ? 1 : 0;
}

int run(const std::string& out, bool check) {
  const base::TemporaryFolder folder;
  return measure(folder.path(), out, check);
}

}  // namespace
}  // namespace crosscheck::bench

int main(int argc, char** argv) {
  std::string out;
  bool check = false;
  CLI::App app{"Measures the operator index; scripts/bench runs it"};
  app.add_option("--out", out, "Where the figures go, as JSON");
  app.add_flag("--check", check, "Exit with 1 when a figure is missed");
  CLI11_PARSE(app, argc, argv);
  try {
    return crosscheck::bench::run(out, check);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 4;
  }
}
