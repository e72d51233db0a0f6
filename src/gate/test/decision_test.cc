#include "crosscheck/gate/decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support.h"

namespace crosscheck::gate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

base::Time now() { return *base::parse_rfc3339("2026-12-01T00:00:00Z"); }

CellResult cell(Status status, Gate gate = Gate::latency, std::string backend = "cpu") {
  return {{"mlp", std::move(backend), Phase::inference},
          {{.gate = Gate::correctness, .status = Status::pass},
           {.gate = gate, .status = status, .reason = "numbers"}}};
}

Outcome decided(std::string_view manifest, const std::vector<CellResult>& cells) {
  return decide(manifest_of(manifest), cells, now());
}

constexpr std::string_view k_switch =
    "class: nightly\n    isolation_switch: TORCHDYNAMO_DISABLE=1\n    isolation_tested: job 17\n";

TEST(Decide, ByTheWorstOfItsGates) {
  struct Row {
    Status status;
    std::string_view more;  // in place of the class's line
    Decision decision;
  };
  constexpr std::string_view k_plain = "class: nightly\n";
  constexpr std::string_view k_in_use = "class: nightly\n    in_use: true\n";
  const std::vector<Row> rows{
      {Status::pass, k_plain, Decision::adopt},
      {Status::pass, k_in_use, Decision::adopt},
      {Status::fail, k_plain, Decision::defer},
      {Status::fail, k_switch, Decision::isolate},
      {Status::fail, k_in_use, Decision::rollback},
      {Status::inconclusive, k_plain, Decision::defer},
      {Status::inconclusive, k_switch, Decision::defer},
      {Status::inconclusive, k_in_use, Decision::defer},
      {Status::unfit, k_plain, Decision::defer},
      {Status::not_run, k_switch, Decision::defer},
  };
  for (const auto& row : rows) {
    const auto outcome = decided(with(k_manifest, k_plain, row.more), {cell(row.status)});
    EXPECT_EQ(outcome.decision, row.decision) << to_string(row.status) << row.more;
    ASSERT_THAT(outcome.rulings, SizeIs(1));
    EXPECT_EQ(outcome.rulings[0].decision, row.decision);
    EXPECT_FALSE(outcome.rulings[0].rule.empty());
    EXPECT_EQ(outcome.rulings[0].reasons.empty(), row.status == Status::pass);
  }
}

TEST(Decide, UntestedSwitchIsolatesNothing) {
  const auto text = with(k_manifest, "class: nightly\n",
                         "class: nightly\n    isolation_switch: TORCHDYNAMO_DISABLE=1\n");
  EXPECT_EQ(decided(text, {cell(Status::fail)}).decision, Decision::defer);
}

TEST(Decide, NothingMeasuredIsDeferred) {
  EXPECT_EQ(decided(k_manifest, {}).decision, Decision::defer);
}

TEST(Decide, WaiverCountsUntilItExpiresAndNeverForWhatWasNotRun) {
  const auto waived = [](std::string_view until) {
    return std::string{k_manifest} + "waivers: [{cell: mlp/cpu/inference/latency, owner: ann, " +
           "reason: known, expires: " + std::string{until} + "}]\n";
  };
  const auto outcome = decided(waived("2026-12-31"), {cell(Status::fail)});
  EXPECT_EQ(outcome.decision, Decision::adopt);
  EXPECT_THAT(outcome.rulings[0].waived,
              ElementsAre(::testing::AllOf(HasSubstr("ann"), HasSubstr("known"))));
  EXPECT_EQ(decided(waived("2026-11-30"), {cell(Status::fail)}).decision, Decision::defer);
  EXPECT_EQ(decided(waived("2026-12-31"), {cell(Status::not_run)}).decision, Decision::defer);
  EXPECT_EQ(decided(waived("2026-12-31"), {cell(Status::fail, Gate::peak_memory)}).decision,
            Decision::defer);
}

TEST(Decide, OneMemberOfTheFleetForbidsAdoption) {
  const auto text =
      with(k_manifest, "backends: [cpu]\n", "backends: [cpu, cuda]\nfleet: [cpu, cuda]\n");
  const auto outcome = [&](Status cuda) {
    return decided(text, {cell(Status::pass), cell(cuda, Gate::latency, "cuda")});
  };
  EXPECT_EQ(outcome(Status::pass).decision, Decision::adopt);
  const auto missing = outcome(Status::not_run);
  EXPECT_EQ(missing.decision, Decision::defer);
  ASSERT_THAT(missing.fleet, SizeIs(1));
  EXPECT_THAT(missing.fleet[0].reason, HasSubstr("cuda: defer"));
  // The one that passed may be adopted where the fleet does not matter.
  EXPECT_EQ(missing.rulings[0].decision, Decision::adopt);
}

TEST(Decide, ClaimIsHeldAgainstItsOwnGain) {
  const auto text =
      with(k_manifest, "caveats: [one machine]",
           "claims: [{id: faster, source: 'https://example.org', workload: mlp, gate: "
           "latency, gain: 20 %}]");
  const auto claim = [&](double lower, double upper) {
    auto measured = cell(Status::pass);
    measured.gates[1].comparisons.push_back(
        {.quantity = "p50", .interval = Interval{(lower + upper) / 2, lower, upper, 8}});
    const auto outcome = decided(text, {measured});
    EXPECT_THAT(outcome.claims, SizeIs(1));
    return outcome.claims.at(0).verdict;
  };
  EXPECT_EQ(claim(-0.40, -0.30), ClaimVerdict::confirmed);
  EXPECT_EQ(claim(-0.30, -0.10), ClaimVerdict::not_reproduced);
  EXPECT_EQ(claim(-0.10, 0.02), ClaimVerdict::refuted);
  EXPECT_THAT(decided(text, {}).claims, IsEmpty());
}

}  // namespace
}  // namespace crosscheck::gate
