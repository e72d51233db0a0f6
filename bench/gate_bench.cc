// How fast a matrix is judged. scripts/bench builds and runs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <random>

#include "crosscheck/gate/cell.h"
#include "crosscheck/gate/decision.h"
#include "crosscheck/gate/manifest.h"
#include "figures.h"

namespace crosscheck::bench {
namespace {

constexpr std::size_t k_cells = 1000;

gate::Manifest manifest_of_cells() {
  std::string text =
      "format: 1\nname: bench\nbaseline: {python: a}\ncandidate: {python: b}\nbackends: [cpu]\n"
      "classes: {nightly: {latency: 5 %}}\nworkloads:\n";
  for (std::size_t i = 0; i < k_cells; ++i) {
    text += fmt::format(
        "  - {{name: w{}, workload: fallback.mlp, class: nightly, gates: [correctness, latency, "
        "throughput, peak_memory, determinism, rollback]}}\n",
        i);
  }
  return need(gate::parse_manifest(text, "bench"));
}

// What a cell that needs every look has: each quantity scatters so that the interval straddles its
// margin to the end.
std::vector<gate::Logged> launches(const gate::Manifest& manifest, const gate::CellId& id,
                                   std::mt19937_64& random) {
  std::normal_distribution<double> noise{0, 0.01};
  std::vector<gate::Logged> logged;
  while (const auto request = gate::next_launch(manifest, id, logged, 1, "/c")) {
    gate::LaunchResult result;
    if (request->purpose == gate::Purpose::timing) {
      const double worse = request->side == gate::Side::candidate ? 1.05 : 1;
      const double time = 0.01 * worse * std::exp(noise(random));
      result.p50_wall_s = time;
      result.p95_wall_s = time * 1.1;
      result.throughput = 1 / time;
      result.peak_memory_bytes = 1e8 * worse;
    } else {
      result.output = gate::LaunchResult::Output{"aa", "[2]", 0, 0, 1e-7, 1, 1};
      result.determinism = gate::LaunchResult::Determinism{5, 0};
      result.checkpoint = gate::LaunchResult::Step{true, ""};
    }
    logged.push_back({*request, std::move(result)});
  }
  return logged;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int run(int argc, char** argv) {
  CLI::App app{"How fast a matrix is judged"};
  std::string out;
  bool check = false;
  app.add_option("--out", out, "JSON file that the figures go into");
  app.add_flag("--check", check, "Exit 1 if a figure is missed");
  CLI11_PARSE(app, argc, argv);

  const auto manifest = manifest_of_cells();
  const auto cells = gate::cells(manifest);
  std::mt19937_64 random{1};
  // A few different ones, used again and again: making them takes longer than judging them.
  std::vector<std::vector<gate::Logged>> kinds;
  for (std::size_t i = 0; i < 8; ++i) kinds.push_back(launches(manifest, cells[i], random));
  std::size_t launched = 0;
  for (const auto& kind : kinds) launched += kind.size();

  const double before = cpu_seconds();
  std::vector<gate::CellResult> results;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    results.push_back(
        {cells[i], gate::judge_cell(manifest, cells[i], kinds[i % kinds.size()], std::nullopt)});
  }
  const auto outcome = gate::decide(manifest, results, base::SystemClock{}.now());
  const double took = cpu_seconds() - before;
  if (outcome.rulings.size() != k_cells) give_up("cells are missing");

  Figures figures;
  figures.add({.name = fmt::format("gate: {} cells judged, {} launches each", k_cells,
                                   launched / kinds.size()),
               .unit = "s CPU",
               .ours = took,
               .wanted = 1});
  figures.print();
  if (!out.empty()) figures.save(out, {});
  return check && !figures.hold() ? 1 : 0;
}

}  // namespace
}  // namespace crosscheck::bench

int main(int argc, char** argv) {
  try {
    return crosscheck::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gate_bench: %s\n", error.what());
    return 5;
  }
}
