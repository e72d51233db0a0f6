// What the gate's rule would say of machines whose truth is known: how often it raises a false
// alarm, adopts what is at the margin, and finds what is beyond it, next to rules in common use.
// Prints a table, and JSON with --out. Simulated noise, so that the truth is known; the parameters
// are here.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>

#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/gate/statistics.h"
#include "figures.h"

namespace crosscheck::bench {
namespace {

using gate::Better;
using gate::Verdict;

constexpr double k_margin = 0.05;

// A launch's time is exp(drift + jitter + burst): the drift is AR(1) from launch to launch, as a
// shared machine's load is.
struct Noise {
  const char* name;
  double drift;        // standard deviation of the AR(1) part
  double persistence;  // its coefficient
  double jitter;       // standard deviation of what is a launch's own
  double burst_share;  // of launches
  double burst;        // how much slower those are
};
constexpr Noise k_shared{"shared", 0.02, 0.6, 0.01, 0.06, 0.20};
constexpr Noise k_hostile{"hostile", 0.05, 0.6, 0.02, 0.15, 0.50};

class Machine {
 public:
  Machine(const Noise& noise, std::mt19937_64& random)
      : noise_{noise}, random_{random}, drift_{noise.drift * normal_(random)} {}
  double launch(double truth) {
    drift_ =
        noise_.persistence * drift_ +
        noise_.drift * std::sqrt(1 - noise_.persistence * noise_.persistence) * normal_(random_);
    const bool burst = uniform_(random_) < noise_.burst_share;
    return truth * std::exp(drift_ + noise_.jitter * normal_(random_)) *
           (burst ? 1 + noise_.burst * uniform_(random_) * 2 : 1);
  }
  // In an order by coin.
  std::pair<double, double> pair(double ratio) {
    if (uniform_(random_) < 0.5) {
      const double baseline = launch(1);
      return {baseline, launch(ratio)};
    }
    const double candidate = launch(ratio);
    return {launch(1), candidate};
  }

 private:
  const Noise& noise_;
  std::mt19937_64& random_;
  std::normal_distribution<double> normal_{0, 1};
  std::uniform_real_distribution<double> uniform_{0, 1};
  double drift_;
};

struct Pairs {
  std::vector<double> baseline;
  std::vector<double> candidate;
  std::vector<double> differences;
};
Pairs measure(Machine& machine, double ratio, std::size_t count) {
  Pairs pairs;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [baseline, candidate] = machine.pair(ratio);
    pairs.baseline.push_back(baseline);
    pairs.candidate.push_back(candidate);
    pairs.differences.push_back(std::log(candidate / baseline));
  }
  return pairs;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}
double variance(const std::vector<double>& values) {
  const double centre = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - centre) * (value - centre);
  return sum / static_cast<double>(values.size() - 1);
}

// Two launches of each side, their medians compared: what many dashboards do.
bool alarm_of_7_percent(const Pairs& pairs) {
  return *gate::percentile(pairs.candidate, 0.5) > 1.07 * *gate::percentile(pairs.baseline, 0.5);
}
// Two-sided at 5 %, as usually run; iterations taken for independent is what makes these alarm, and
// is modelled by `k_iterations` that share their launch's state.
constexpr std::size_t k_iterations = 10;
std::vector<double> iterations(const std::vector<double>& launches, std::mt19937_64& random) {
  std::normal_distribution<double> within{0, 0.02};
  std::vector<double> all;
  for (const double launch : launches) {
    for (std::size_t i = 0; i < k_iterations; ++i) all.push_back(launch * std::exp(within(random)));
  }
  return all;
}
bool alarm_of_welch(const std::vector<double>& a, const std::vector<double>& b) {
  const double error = std::sqrt(variance(a) / static_cast<double>(a.size()) +
                                 variance(b) / static_cast<double>(b.size()));
  return std::abs(mean(a) - mean(b)) > 1.98 * error;
}
bool alarm_of_mann_whitney(const std::vector<double>& a, const std::vector<double>& b) {
  double above = 0;
  for (const double x : a) {
    for (const double y : b) above += x > y ? 1 : x == y ? 0.5 : 0;
  }
  const auto n = static_cast<double>(a.size());
  const auto m = static_cast<double>(b.size());
  return std::abs(above - n * m / 2) > 1.96 * std::sqrt(n * m * (n + m + 1) / 12);
}

struct Table {
  boost::json::array rows;
  void add(std::string_view what, std::string_view noise, double share, int rounds) {
    const double error = 1.96 * std::sqrt(share * (1 - share) / rounds);
    std::printf("%-64s %-8s %6.1f %% ± %.1f\n", std::string{what}.c_str(),
                std::string{noise}.c_str(), share * 100, error * 100);
    rows.emplace_back(boost::json::object{
        {"what", what}, {"noise", noise}, {"share", share}, {"half_width_95", error}});
  }
};

// The gate's own sequence of looks.
Verdict sequence(const Pairs& pairs) {
  for (const auto look : gate::k_looks) {
    const auto found = gate::interval(std::span{pairs.differences}.first(look), gate::k_look_alpha);
    const auto verdict = gate::judge(*found, k_margin, Better::lower);
    if (verdict != Verdict::inconclusive) return verdict;
  }
  return Verdict::inconclusive;
}

int run(int argc, char** argv) {
  CLI::App app{"What the gate's rule says of machines whose truth is known"};
  int rounds = 20000;
  std::uint64_t seed = 20261130;
  std::string out;
  app.add_option("--rounds", rounds, "Simulated matrices a line")->check(CLI::Range(100, 1000000));
  app.add_option("--seed", seed, "Of the noise");
  app.add_option("--out", out, "JSON file");
  CLI11_PARSE(app, argc, argv);
  std::mt19937_64 random{seed};
  Table table;
  const auto share = [&](const Noise& noise, double ratio, std::size_t pairs, auto&& says) {
    int yes = 0;
    for (int round = 0; round < rounds; ++round) {
      Machine machine{noise, random};
      yes += says(measure(machine, ratio, pairs)) ? 1 : 0;
    }
    return static_cast<double>(yes) / rounds;
  };
  for (const Noise& noise : {k_shared, k_hostile}) {
    table.add("false alarm, this method, 8 pairs (lower bound above 0)", noise.name,
              share(noise, 1, 8,
                    [](const Pairs& p) {
                      return gate::interval(p.differences, gate::k_alpha)->lower > 0;
                    }),
              rounds);
    table.add("false alarm, one launch each, more than 7 % slower", noise.name,
              share(noise, 1, 1, alarm_of_7_percent), rounds);
    table.add("false alarm, Welch over iterations", noise.name,
              share(noise, 1, 8,
                    [&](const Pairs& p) {
                      return alarm_of_welch(iterations(p.baseline, random),
                                            iterations(p.candidate, random));
                    }),
              rounds);
    table.add("false alarm, Mann-Whitney over iterations", noise.name,
              share(noise, 1, 8,
                    [&](const Pairs& p) {
                      return alarm_of_mann_whitney(iterations(p.baseline, random),
                                                   iterations(p.candidate, random));
                    }),
              rounds);
    table.add("interval of 90 % holds the truth (×1.03), 12 pairs", noise.name,
              share(noise, 1.03, 12,
                    [](const Pairs& p) {
                      const auto found = *gate::interval(p.differences, gate::k_alpha);
                      return found.lower <= std::log(1.03) && std::log(1.03) <= found.upper;
                    }),
              rounds);
  }
  for (const double ratio : {1.0, 1.02, 1.05, 1.10}) {
    for (const std::size_t pairs : {8U, 12U, 20U, 32U}) {
      for (const Verdict verdict : {Verdict::pass, Verdict::fail}) {
        if (verdict == Verdict::fail && ratio < 1.05) continue;
        table.add(
            fmt::format("true ×{:.2f}, margin 5 %, {} pairs: {}", ratio, pairs, to_string(verdict)),
            k_shared.name,
            share(k_shared, ratio, pairs,
                  [&](const Pairs& p) {
                    return gate::judge(*gate::interval(p.differences, gate::k_alpha), k_margin,
                                       Better::lower) == verdict;
                  }),
            rounds);
      }
    }
  }
  const std::size_t most = gate::k_looks.back();
  for (const Noise& noise : {k_shared, k_hostile}) {
    table.add("all looks, at the margin (×1.05): false adopt", noise.name,
              share(noise, 1.05, most, [](const Pairs& p) { return sequence(p) == Verdict::pass; }),
              rounds);
    table.add("all looks, at the margin (×1.05): false FAIL", noise.name,
              share(noise, 1.05, most, [](const Pairs& p) { return sequence(p) == Verdict::fail; }),
              rounds);
    for (const double ratio : {1.0, 1.03, 1.10, 1.30}) {
      for (const Verdict verdict : {Verdict::pass, Verdict::fail}) {
        table.add(fmt::format("all looks, true ×{:.2f}: {}", ratio, to_string(verdict)), noise.name,
                  share(noise, ratio, most, [&](const Pairs& p) { return sequence(p) == verdict; }),
                  rounds);
      }
    }
  }
  table.add("all looks at 5 % each, uncorrected, ×1.05: false adopt", k_shared.name,
            share(k_shared, 1.05, most,
                  [](const Pairs& p) {
                    for (const auto look : gate::k_looks) {
                      const auto found =
                          gate::interval(std::span{p.differences}.first(look), gate::k_alpha);
                      const auto verdict = gate::judge(*found, k_margin, Better::lower);
                      if (verdict != Verdict::inconclusive) return verdict == Verdict::pass;
                    }
                    return false;
                  }),
            rounds);
  if (!out.empty()) {
    const auto noise_json = [](const Noise& noise) {
      return boost::json::object{{"drift", noise.drift},
                                 {"persistence", noise.persistence},
                                 {"jitter", noise.jitter},
                                 {"burst_share", noise.burst_share},
                                 {"burst", noise.burst}};
    };
    need(base::write_file_atomically(
        out, base::pretty_json(boost::json::object{{"seed", seed},
                                                   {"rounds", rounds},
                                                   {"shared", noise_json(k_shared)},
                                                   {"hostile", noise_json(k_hostile)},
                                                   {"rows", table.rows}}) +
                 "\n"));
  }
  return 0;
}

}  // namespace
}  // namespace crosscheck::bench

int main(int argc, char** argv) {
  try {
    return crosscheck::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gate_simulation: %s\n", error.what());
    return 5;
  }
}
