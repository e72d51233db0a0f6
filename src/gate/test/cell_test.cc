#include "crosscheck/gate/cell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support.h"

namespace crosscheck::gate {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const CellId k_cell{"mlp", "cpu", Phase::inference};

struct Measured {
  Manifest manifest = manifest_of(k_manifest);
  std::vector<Logged> logged;
  std::vector<GateResult> gates;

  explicit Measured(
      const std::function<void(const LaunchRequest&, LaunchResult&)>& change = [](const auto&,
                                                                                  auto&) {},
      std::uint64_t seed = 1)
      : logged{measure(manifest, k_cell, change, seed)},
        gates{judge_cell(manifest, k_cell, logged, std::nullopt)} {}

  [[nodiscard]] Status status(Gate gate) const { return gate_of(gates, gate).status; }
  [[nodiscard]] std::string reason(Gate gate) const { return gate_of(gates, gate).reason; }
};

bool is_candidate(const LaunchRequest& request, Purpose purpose) {
  return request.side == Side::candidate && request.purpose == purpose;
}

TEST(Cell, PassesWhereNothingDiffers) {
  const Measured measured;
  EXPECT_THAT(measured.gates, SizeIs(k_gates));
  for (const auto& gate : measured.gates) {
    EXPECT_EQ(gate.status, Status::pass) << to_string(gate.gate) << ": " << gate.reason;
    EXPECT_THAT(gate.reason, ::testing::Not(IsEmpty()));
    EXPECT_THAT(gate.launches, ::testing::Not(IsEmpty()));
  }
  // Five that are compared exactly, eight pairs of the baseline, eight of both.
  EXPECT_THAT(measured.logged, SizeIs(5 + 16 + 16));
}

TEST(Cell, KeysAreUniqueAndPairsHoldBothSides) {
  const Measured measured{[](const auto&, LaunchResult& result) { (void)result; }};
  std::set<std::pair<Side, std::string>> seen;
  std::map<std::string, std::set<Side>> pairs;
  int candidate_first = 0;
  for (const auto& launch : measured.logged) {
    const auto& request = launch.request;
    EXPECT_TRUE(seen.insert({request.side, request.key}).second) << request.key;
    if (request.key.starts_with("1/")) {
      pairs[request.key.substr(0, request.key.rfind('/'))].insert(request.side);
      candidate_first += request.key.ends_with("/0") && request.side == Side::candidate ? 1 : 0;
    }
    if (request.key.starts_with("aa/")) {
      EXPECT_EQ(request.side, Side::baseline);
    }
  }
  for (const auto& [pair, sides] : pairs) EXPECT_THAT(sides, SizeIs(2)) << pair;
  EXPECT_GT(candidate_first, 0);
  EXPECT_LT(candidate_first, 8);
}

TEST(Cell, OrderOfAPairIsTheSeeds) {
  const auto order = [](std::uint64_t seed) {
    std::string sides;
    for (const auto& launch : Measured{{[](const auto&, auto&) {}}, seed}.logged) {
      sides += launch.request.side == Side::candidate ? 'c' : 'b';
    }
    return sides;
  };
  EXPECT_EQ(order(5), order(5));
  EXPECT_NE(order(5), order(6));
}

TEST(Cell, ResumesAnywhereWithTheSameLaunches) {
  const Measured whole;
  for (std::size_t cut = 0; cut < whole.logged.size(); ++cut) {
    const std::span<const Logged> done{whole.logged.data(), cut};
    const auto next = next_launch(whole.manifest, k_cell, done, 1, "/checkpoints");
    ASSERT_TRUE(next) << cut;
    EXPECT_EQ(next->key, whole.logged[cut].request.key);
    EXPECT_EQ(next->side, whole.logged[cut].request.side);
    const auto left = remaining(whole.manifest, k_cell, done);
    EXPECT_LE(left.least, whole.logged.size() - cut) << cut;
    EXPECT_GE(left.most, whole.logged.size() - cut) << cut;
  }
  EXPECT_EQ(remaining(whole.manifest, k_cell, whole.logged).least, 0U);
}

TEST(Cell, SlowdownBeyondTheMarginFailsAfterASecondSession) {
  const Measured measured{[](const LaunchRequest& request, LaunchResult& result) {
    if (is_candidate(request, Purpose::timing)) scale_times(result, 1.10);
  }};
  EXPECT_EQ(measured.status(Gate::latency), Status::fail);
  EXPECT_EQ(measured.status(Gate::throughput), Status::fail);
  EXPECT_EQ(measured.status(Gate::peak_memory), Status::pass);
  EXPECT_THAT(measured.reason(Gate::latency), HasSubstr("second session"));
}

TEST(Cell, FailureThatDoesNotRecurIsNone) {
  const Measured measured{[](const LaunchRequest& request, LaunchResult& result) {
    if (is_candidate(request, Purpose::timing) && request.key.starts_with("1/")) {
      scale_times(result, 1.10);
    }
  }};
  EXPECT_EQ(measured.status(Gate::latency), Status::inconclusive);
}

TEST(Cell, SlowdownWithinTheMarginPassesAndGainsDoToo) {
  for (const double factor : {0.5, 0.99, 1.03}) {
    const Measured measured{[&](const LaunchRequest& request, LaunchResult& result) {
      if (is_candidate(request, Purpose::timing)) scale_times(result, factor);
    }};
    EXPECT_EQ(measured.status(Gate::latency), Status::pass) << factor;
    EXPECT_EQ(measured.status(Gate::throughput), Status::pass) << factor;
  }
}

TEST(Cell, MachineThatDisagreesWithItselfIsUnfit) {
  int count = 0;
  const Measured measured{[&](const LaunchRequest& request, LaunchResult& result) {
    if (request.purpose == Purpose::timing) scale_times(result, ++count % 3 == 0 ? 1.5 : 1);
  }};
  EXPECT_EQ(measured.status(Gate::latency), Status::unfit);
  // What is fit is measured all the same.
  EXPECT_EQ(measured.status(Gate::peak_memory), Status::pass);
}

TEST(Cell, QuantityThatALaunchLacksIsNoPass) {
  const Measured measured{
      [](const LaunchRequest&, LaunchResult& result) { result.peak_memory_bytes.reset(); }};
  EXPECT_NE(measured.status(Gate::peak_memory), Status::pass);
  EXPECT_EQ(measured.status(Gate::latency), Status::pass);
}

TEST(Cell, WhatTheCandidateDoesWorseFailsItsGate) {
  struct Row {
    Gate gate;
    std::string_view reason;
    std::function<void(LaunchResult&)> change;
    Purpose purpose = Purpose::exact;
  };
  const std::vector<Row> rows{
      {Gate::correctness, "RMSE", [](LaunchResult& r) { r.output->rmse = 1e-3; }},
      {Gate::correctness, "output: computed in float64 they lie 0.000999 of their size apart",
       [](LaunchResult& r) { r.output->reference_norm = 1.001; }},
      {Gate::correctness, "gradients: computed in float64 they lie 2 of their size apart",
       [](LaunchResult& r) { r.gradients->reference_projection = -1; }},
      {Gate::correctness, "gradients: RMSE", [](LaunchResult& r) { r.gradients->rmse = 1e-3; }},
      {Gate::correctness, "1 NaN", [](LaunchResult& r) { r.output->nan = 1; }},
      {Gate::correctness, "infinite", [](LaunchResult& r) { r.output->inf = 2; }},
      {Gate::correctness, "shape", [](LaunchResult& r) { r.output->shape = "[3, 2]"; }},
      {Gate::correctness, "gives no gradients", [](LaunchResult& r) { r.gradients.reset(); }},
      {Gate::correctness, "killed rank",
       [](LaunchResult& r) { r.recovery = LaunchResult::Step{false, "hangs"}; }},
      {Gate::determinism, "2 mismatches", [](LaunchResult& r) { r.determinism->mismatches = 2; }},
      {Gate::compile_export, "1 graph breaks",
       [](LaunchResult& r) { r.counters->graph_breaks = 1; }},
      {Gate::compile_export, "4 recompiles", [](LaunchResult& r) { r.counters->recompiles = 4; }},
      {Gate::compile_export, "nothing is captured",
       [](LaunchResult& r) { r.counters->captured_calls = 0; }},
      {Gate::compile_export, "compiles nothing", [](LaunchResult& r) { r.counters.reset(); }},
      {Gate::compile_export, "falls back silently",
       [](LaunchResult& r) { r.silent_fallback = true; }},
      {Gate::compile_export, "export fails: no",
       [](LaunchResult& r) { r.exports["export"] = {false, "no"}; }},
      {Gate::compile_export, "aot_inductor fails: not tried",
       [](LaunchResult& r) { r.exports.erase("aot_inductor"); }},
      {Gate::rollback, "candidate cannot read the baseline's",
       [](LaunchResult& r) { r.checkpoint = LaunchResult::Step{false, "version"}; },
       Purpose::reading},
  };
  for (const auto& row : rows) {
    const Measured measured{[&](const LaunchRequest& request, LaunchResult& result) {
      if (is_candidate(request, row.purpose)) row.change(result);
    }};
    for (const auto& gate : measured.gates) {
      EXPECT_EQ(gate.status, gate.gate == row.gate ? Status::fail : Status::pass)
          << row.reason << ": " << to_string(gate.gate) << ": " << gate.reason;
    }
    EXPECT_THAT(measured.reason(row.gate), HasSubstr(row.reason));
  }
}

TEST(Cell, AWorkloadWithoutStateHasNothingToRead) {
  const Measured none{[](const auto&, LaunchResult& result) { result.checkpoint.reset(); }};
  EXPECT_EQ(none.status(Gate::rollback), Status::pass);
  EXPECT_THAT(none.reason(Gate::rollback), HasSubstr("keeps no state"));
  // But what one side keeps the other must read.
  for (const auto silent : {Side::baseline, Side::candidate}) {
    const Measured half{[&](const LaunchRequest& request, LaunchResult& result) {
      if (request.side == silent) result.checkpoint.reset();
    }};
    EXPECT_EQ(half.status(Gate::rollback), Status::fail);
    EXPECT_THAT(half.reason(Gate::rollback), HasSubstr("nothing was read"));
  }
  const Measured unread{[](const LaunchRequest& request, LaunchResult& result) {
    if (request.purpose == Purpose::reading) result.checkpoint.reset();
  }};
  EXPECT_EQ(unread.status(Gate::rollback), Status::fail);
}

TEST(Cell, BaselinesOwnCheckpointIsReadByTheBaselineToo) {
  const Measured measured{[](const LaunchRequest& request, LaunchResult& result) {
    if (request.purpose == Purpose::reading && request.side == Side::baseline) {
      EXPECT_EQ(request.checkpoint, "/checkpoints/mlp/cpu/inference/candidate");
      result.status = LaunchStatus::failed;
      result.reason = "bad magic";
    }
  }};
  EXPECT_EQ(measured.status(Gate::rollback), Status::fail);
  EXPECT_THAT(measured.reason(Gate::rollback), HasSubstr("bad magic"));
}

TEST(Cell, RehearsalDecidesWhereTheManifestHasSteps) {
  auto manifest = manifest_of(std::string{k_manifest} + "rollback: [\"true\"]\n");
  const auto logged = measure(manifest, k_cell);
  const auto status = [&](const std::optional<Rehearsal>& rehearsal) {
    return gate_of(judge_cell(manifest, k_cell, logged, rehearsal), Gate::rollback).status;
  };
  EXPECT_EQ(status(std::nullopt), Status::inconclusive);
  EXPECT_EQ(status(Rehearsal{true, "", std::chrono::minutes{1}}), Status::pass);
  EXPECT_EQ(status(Rehearsal{true, "", std::chrono::hours{1}}), Status::fail);
  EXPECT_EQ(status(Rehearsal{false, "exit 1", std::chrono::seconds{1}}), Status::fail);
}

TEST(Cell, ImprovementIsReportedAndNoFailure) {
  const Measured measured{[](const LaunchRequest& request, LaunchResult& result) {
    if (request.purpose == Purpose::exact && request.side == Side::baseline) {
      result.exports["export"] = {false, "no"};
      result.counters->graph_breaks = 3;
    }
  }};
  EXPECT_EQ(measured.status(Gate::compile_export), Status::pass);
  EXPECT_THAT(measured.reason(Gate::compile_export),
              ::testing::AllOf(HasSubstr("export works now"), HasSubstr("the baseline 3")));
}

TEST(Cell, BaselineThatDisagreesWithItselfJudgesNobody) {
  const Measured measured{[](const LaunchRequest& request, LaunchResult& result) {
    if (request.key == "exact/1") result.output->rmse = 1e-2;
  }};
  EXPECT_EQ(measured.status(Gate::correctness), Status::unfit);
}

TEST(Cell, SideThatDoesNotRunEndsTheCell) {
  struct Row {
    Side side;
    LaunchStatus launch;
    Status status;
  };
  for (const auto& row : std::vector<Row>{{Side::baseline, LaunchStatus::not_run, Status::not_run},
                                          {Side::baseline, LaunchStatus::failed, Status::unfit},
                                          {Side::candidate, LaunchStatus::failed, Status::fail},
                                          {Side::candidate, LaunchStatus::not_run, Status::fail}}) {
    const Measured measured{[&](const LaunchRequest& request, LaunchResult& result) {
      if (request.side != row.side) return;
      result = {};
      result.status = row.launch;
      result.reason = "no such device";
    }};
    EXPECT_LE(measured.logged.size(), 2U);
    for (const auto& gate : measured.gates) {
      EXPECT_EQ(gate.status, row.status) << to_string(gate.gate);
      EXPECT_THAT(gate.reason, HasSubstr("no such device"));
    }
  }
}

TEST(Cell, CrashWhileMeasuringIsTheSidesThatCrashed) {
  for (const Side side : {Side::baseline, Side::candidate}) {
    const Measured measured{[&](const LaunchRequest& request, LaunchResult& result) {
      if (request.side != side || !request.key.starts_with("1/3/")) return;
      result = {};
      result.status = LaunchStatus::failed;
      result.failure_mode = "crash";
      result.reason = "signal 11";
    }};
    const auto expected = side == Side::candidate ? Status::fail : Status::unfit;
    EXPECT_EQ(measured.status(Gate::correctness), expected);
    EXPECT_EQ(measured.status(Gate::latency), expected) << measured.reason(Gate::latency);
    EXPECT_EQ(measured.status(Gate::determinism), Status::pass);
  }
}

TEST(Cell, NothingMeasuredIsNotAPass) {
  const auto manifest = manifest_of(k_manifest);
  for (const auto& gate : judge_cell(manifest, k_cell, {}, std::nullopt)) {
    EXPECT_EQ(gate.status, Status::not_run) << to_string(gate.gate);
  }
}

}  // namespace
}  // namespace crosscheck::gate
