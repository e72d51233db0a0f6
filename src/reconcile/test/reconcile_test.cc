#include "crosscheck/reconcile/reconcile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crosscheck/reconcile/report.h"
#include "support.h"

namespace crosscheck::reconcile {
namespace {

using base::Outcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Files = std::map<std::string, std::string>;

// A configuration, the tests there are, and runs; the nth outcome of a test is the nth run's.
struct Case {
  Files files;
  config::CollectedSuite suite;
  History history;
  config::Loaded loaded;
  Proposals proposals;

  Case(Files given,
       const std::vector<std::pair<config::CollectedTest, std::vector<Outcome>>>& tests,
       const Options& options = {}, const std::vector<base::RunHeader>& headers = {})
      : files{std::move(given)}, loaded{load_text(files)} {
    if (!loaded.ok()) throw std::runtime_error{to_string(loaded.findings.at(0))};
    std::size_t runs = 0;
    for (const auto& [test, outcomes] : tests) {
      suite.tests.push_back(test);
      runs = std::max(runs, outcomes.size());
    }
    for (std::size_t number = 0; number < runs; ++number) {
      std::vector<base::TestResult> results;
      for (const auto& [test, outcomes] : tests)
        if (number < outcomes.size()) results.push_back(result(test, outcomes[number]));
      history.add(number < headers.size() ? headers[number] : header(static_cast<int>(number)),
                  results);
    }
    config::Circumstances where;
    where.torch = *config::parse_version("2.13.0");
    proposals = propose(*loaded.config, suite, true, history, where, options, "2026-11-30");
  }
  // The files that are written, by name.
  Files written() const {
    const auto texts = write(*loaded.config, proposals);
    if (!texts) throw std::runtime_error{texts.error().message};
    Files all;
    for (const auto& [document, text] : *texts) all[document->name()] = text;
    return all;
  }
};

constexpr auto P = Outcome::passed;
constexpr auto F = Outcome::failed;
constexpr auto C = Outcome::crashed;
constexpr auto E = Outcome::environment_error;

Files one(const std::string& tests, const std::string& unlisted = "skip") {
  return {{"t.yaml", suite_text(tests, unlisted)}};
}
config::CollectedTest a(const std::string& dtype = {}) {
  return collected("TestA", "test_a", dtype);
}

TEST(Standing, OfSightings) {
  // Oldest first; then: passes, fails, flaky.
  const std::vector<std::tuple<std::vector<Outcome>, std::size_t, std::size_t, bool>> table{
      {{}, 0, 0, false},        {{P}, 1, 0, false},
      {{F, P, P}, 2, 0, false}, {{P, P, F}, 0, 1, false},
      {{P, F, C}, 0, 2, false}, {{P, E, P}, 2, 0, false},
      {{P, F, P}, 1, 0, true},  {{F, P, F}, 0, 1, true},
      {{E, E}, 0, 0, false},    {{P, F, P, P, P}, 3, 0, true}};
  for (const auto& [outcomes, passes, fails, flaky] : table) {
    History history;
    for (std::size_t i = 0; i < outcomes.size(); ++i)
      history.add(header(static_cast<int>(i)), std::vector{result(a(), outcomes[i])});
    const auto sightings = history.of(a().id);
    const Standing now = standing(sightings, 10);
    EXPECT_EQ(now.passes, passes) << ::testing::PrintToString(outcomes);
    EXPECT_EQ(now.fails, fails) << ::testing::PrintToString(outcomes);
    EXPECT_EQ(now.flaky, flaky) << ::testing::PrintToString(outcomes);
  }
}

TEST(Standing, ChangesBetweenCombinationsAreNoFlakiness) {
  History history;
  for (int i = 0; i < 4; ++i)
    history.add(header(i, "2.13.0", std::to_string(i)), std::vector{result(a(), i % 2 ? P : F)});
  const auto sightings = history.of(a().id);
  EXPECT_FALSE(standing(sightings, 10).flaky);
}

TEST(Standing, OneRunGivenTwiceIsOneRun) {
  History history;
  for (int i = 0; i < 3; ++i) history.add(header(1), std::vector{result(a(), P)});
  EXPECT_EQ(history.of(a().id).size(), 1U);
}

// Row 18 of the requirements: what may fail, must fail, or is skipped, and passes.
TEST(Propose, PromotionsByMode) {
  for (const char* mode : {"xfail", "xfail_strict", "skip"}) {
    const auto text = fmt::format("    - {{names: [TestA::test_a], mode: {}}}\n", mode);
    EXPECT_THAT(brief(Case{one(text), {{a(), {P, P}}}}.proposals), IsEmpty());
    EXPECT_THAT(
        brief(Case{one(text), {{a(), {P, P, P}}}}.proposals),
        ElementsAre(fmt::format(
            "promote whole TestA::test_a: {} -> mandatory_success (passed_on_device)", mode)));
    EXPECT_THAT(brief(Case{one(text), {{a(), {P, P, P, F}}}}.proposals), IsEmpty());
  }
  EXPECT_THAT(brief(Case{one("    - {names: [test_a], mode: skip, rationale: {reason: "
                             "out_of_scope}}\n"),
                         {{a(), {P, P, P}}}}
                        .proposals),
              IsEmpty());
}

TEST(Propose, AFaultIsNeverEvidence) {
  EXPECT_THAT(brief(Case{one("    - {names: [test_a]}\n"),
                         {{a(), {E, Outcome::harness_error, Outcome::not_run, Outcome::skipped}}}}
                        .proposals),
              IsEmpty());
}

TEST(Propose, ADemotionSaysWhyAndSinceWhen) {
  const Case it{one("    - {names: [test_a]}\n"),
                {{a(), {P, F, F}}},
                {},
                {header(0, "2.12.0"), header(1, "2.13.0 (abc)"), header(2, "2.13.0 (abc)")}};
  ASSERT_THAT(brief(it.proposals),
              ElementsAre("demote whole test_a: mandatory_success -> xfail (device_error)"));
  const config::Rationale& rationale = *it.proposals.changes[0].decision->rationale;
  EXPECT_THAT(rationale.text, HasSubstr("failed since torch 2.12.0 -> 2.13.0 (abc) (run run1"));
  EXPECT_THAT(rationale.evidence[0].ref, HasSubstr("run run2"));
  EXPECT_EQ(rationale.decided_by, config::Decider::rule);
  EXPECT_EQ(rationale.decided_at, "2026-11-30");
}

// Row 14: the reason goes with what was seen, and has what it must name.
TEST(Propose, ReasonsOfFailures) {
  using base::FailureKind;
  const std::vector<std::tuple<FailureKind, Outcome, std::string, std::string>> table{
      {FailureKind::unsupported_operator, F, "Could not run 'aten::mm.out' with arguments",
       "reason: unsupported_operator\n        operators: [aten::mm.out]"},
      {FailureKind::unsupported_operator, F, "no name", "reason: undecided"},
      {FailureKind::unsupported_dtype, F, "\"geqrf\" not implemented for 'Half'",
       "reason: unsupported_dtype\n        dtypes: [float16]"},
      {FailureKind::numerical_mismatch, F, "not close",
       "reason: numerical_mismatch\n        mismatch: {absolute: 0.5, absolute_tolerance: "
       "1e-05}"},
      {FailureKind::device_error, F, "m", "reason: device_error"},
      {FailureKind::out_of_memory, F, "m", "reason: out_of_memory"},
      {FailureKind::signal, C, "m", "reason: crash"},
      {FailureKind::timeout, Outcome::timed_out, "m", "reason: timeout"},
      {FailureKind::assertion, F, "False is not true", "reason: undecided"}};
  for (const auto& [kind, outcome, message, expected] : table) {
    Case it{one("    - names: [test_a]\n"), {{a(), {}}}};
    base::TestResult failed = result(a(), outcome);
    failed.kind = kind;
    failed.message = message;
    if (kind == FailureKind::numerical_mismatch)
      failed.mismatch = base::Mismatch{.absolute = 0.5, .absolute_tolerance = 1e-5};
    it.history.add(header(1), std::vector{failed});
    it.proposals = propose(*it.loaded.config, it.suite, true, it.history, {}, {}, "2026-11-30");
    const std::string text = it.written().at("t.yaml");
    EXPECT_THAT(text, HasSubstr(expected)) << to_string(kind);
    EXPECT_TRUE(load_text({{"t.yaml", text}}).ok()) << text;
  }
}

// Rows 1, 3, 5: by the test's own identity, and only where a name stands for it alone.
TEST(Propose, ANameChangesAsAWholeOnlyIfAllAgree) {
  const std::string text =
      "    - {names: [test_a], mode: xfail, edits: {dtypes: {include: [{name: int8}]}}}\n";
  const auto b = [](const std::string& dtype) { return collected("TestB", "test_a", dtype); };
  EXPECT_THAT(brief(Case{one(text), {{a("float32"), {P, P, P}}, {a("int8"), {P, P, P}}}}.proposals),
              ElementsAre("promote whole test_a: xfail -> mandatory_success (passed_on_device)"));
  const Case it{one(text),
                {{a("float32"), {P, P, P}},
                 {a("int8"), {P, P, P}},
                 {b("float32"), {P, P, P}},
                 {b("int8"), {P, P, F}}}};
  EXPECT_THAT(
      brief(it.proposals),
      ElementsAre("promote split TestA::test_a: xfail -> mandatory_success (passed_on_device)",
                  "promote split TestBDEV::test_a_dev_float32: xfail -> mandatory_success "
                  "(passed_on_device)"));
  EXPECT_THAT(it.written().at("t.yaml"),
              HasSubstr("{names: [TestA::test_a, TestBDEV::test_a_dev_float32], mode: "
                        "mandatory_success, edits: {dtypes: "
                        "{include: [{name: int8}]}}, rationale:"));
}

TEST(Propose, TestsThatNoNameTellsApartAreShown) {
  auto other = collected("TestA", "test_a");
  other.id.variant = R"({"n":"2"})";
  const Case it{one("    - {names: [TestA::test_a], mode: xfail}\n"),
                {{a(), {P, P, P}}, {other, {F, F, F}}}};
  EXPECT_THAT(brief(it.proposals), ElementsAre("inseparable whole TestA::test_a: xfail"));
  EXPECT_FALSE(it.proposals.pending());
  EXPECT_THAT(it.written(), IsEmpty());
}

TEST(Propose, APersonsDecisionStandsUntilItExpires) {
  const auto text = [](const char* expires) {
    return one(
        fmt::format("    - {{names: ['test_.*'], mode: skip, rationale: {{reason: person, "
                    "decided_by: person{}}}}}\n",
                    expires));
  };
  EXPECT_THAT(brief(Case{text(""), {{a(), {P, P, P}}}}.proposals),
              ElementsAre("contradiction whole test_.*: skip"));
  EXPECT_THAT(brief(Case{text(", expires: 2026-11-30"), {{a(), {P, P, P}}}}.proposals),
              ElementsAre("contradiction whole test_.*: skip"));
  EXPECT_THAT(brief(Case{text(", expires: 2026-11-29"), {{a(), {P, P, P}}}}.proposals),
              ElementsAre("expire whole test_.*: skip -> mandatory_success (passed_on_device)"));
  EXPECT_THAT(brief(Case{text(", expires: 2026-11-29"), {{a(), {}}}}.proposals),
              ElementsAre("expire whole test_.*: skip -> xfail (undecided)"));
}

TEST(Propose, APersonsDecisionEndsWhenItsTestChanges) {
  const auto with = [](const char* key, const char* source) {
    auto test = a();
    test.source = source;
    auto other = collected("TestA", "test_b");
    other.source = "b0b0";
    return Case{one(fmt::format("    - {{names: ['test_.*'], mode: skip, rationale: {{reason: "
                                "person, decided_by: person{}}}}}\n",
                                key)),
                {{test, {P, P, P}}, {other, {P, P, P}}}};
  };
  const auto stands = ElementsAre("contradiction whole test_.*: skip");
  EXPECT_THAT(brief(with(", test_source: [a0a0, b0b0]", "a0a0").proposals), stands);
  // Nobody says what it was decided for, or what the test is.
  EXPECT_THAT(brief(with("", "a0a0").proposals), stands);
  EXPECT_THAT(brief(with(", test_source: b0b0", "").proposals), stands);
  const auto changed = with(", test_source: [a0a0, b0b0]", "a1a1");
  EXPECT_THAT(brief(changed.proposals),
              ElementsAre("expire whole test_.*: skip -> mandatory_success (passed_on_device)"));
  EXPECT_THAT(changed.proposals.changes[0].why,
              HasSubstr("TestA::test_a is another test than that was decided for; "));
  EXPECT_THAT(changed.written().at("t.yaml"), ::testing::Not(HasSubstr("test_source")));
}

TEST(Propose, WhatIsNotListed) {
  EXPECT_THAT(brief(Case{one(""), {{a("float32"), {P, P, P}}, {a("int8"), {F}}}}.proposals),
              ElementsAre("new listed TestA::test_a: skip -> xfail (device_error)",
                          "new listed TestADEV::test_a_dev_float32: xfail -> mandatory_success "
                          "(passed_on_device)"));
  EXPECT_THAT(brief(Case{one("", "xfail"), {{a(), {F}}}}.proposals), IsEmpty());
  EXPECT_THAT(
      brief(Case{one("", "mandatory_success"), {{a(), {F}}}}.proposals),
      ElementsAre("demote listed TestA::test_a: mandatory_success -> xfail (device_error)"));
}

// Row 8.
TEST(Propose, WhatIsGoneOrRenamed) {
  const Case it{one("    - {names: [TestA::test_aa, TestA::far_away], mode: xfail}\n"),
                {{a(), {F}}}};
  EXPECT_THAT(brief(it.proposals), ElementsAre("gone removed TestA::far_away: xfail",
                                               "gone renamed TestA::test_a: xfail"));
  EXPECT_THAT(it.written().at("t.yaml"), HasSubstr("{names: [TestA::test_a], mode: xfail}"));
}

// Row 20: runs elsewhere, where another entry holds, say nothing of this one.
TEST(Propose, RunsCountWhereTheSameEntriesHold) {
  const Case it{
      one("    - {names: [test_a], when: {torch: '>=2.13'}}\n    - {names: [test_a], mode: "
          "skip}\n"),
      {{a(), {F, P}}},
      {},
      {header(5, "2.12.0"), header(2, "2.13.0")}};
  EXPECT_THAT(brief(it.proposals), IsEmpty());
  EXPECT_EQ(it.proposals.runs_elsewhere, 1U);
}

TEST(Propose, EachFileOfAConfigurationIsWritten) {
  const Case it{
      {{"t.yaml",
        "test_suite_config:\n  include: [o.yaml]\n  files:\n  - path: test_x.py\n    tests: "
        "[{names: [test_b]}]\n"},
       {"o.yaml",
        "test_suite_config:\n  files:\n  - path: test_x.py\n    tests:\n    - names: "
        "[test_a]  # shared\n"}},
      {{a(), {F}}, {collected("TestA", "test_b"), {F}}}};
  const Files written = it.written();
  EXPECT_THAT(written.at("o.yaml"), HasSubstr("[test_a]  # shared\n      mode: xfail\n"));
  EXPECT_THAT(written.at("t.yaml"), HasSubstr("[{names: [test_b], mode: xfail, rationale: {"));
}

TEST(Propose, AFallOfManyIsHeldBackUntilASecondRunShowsIt) {
  std::vector<std::pair<config::CollectedTest, std::vector<Outcome>>> tests;
  for (int i = 0; i < 30; ++i)
    tests.emplace_back(collected("TestA", fmt::format("test_{}", i)), std::vector{P, F});
  const Files files = one("    - {names: ['test_.*']}\n");
  const Case held{files, tests};
  EXPECT_TRUE(held.proposals.suspicious());
  EXPECT_TRUE(held.proposals.pending());
  EXPECT_THAT(held.written(), IsEmpty());
  EXPECT_FALSE((Case{files, tests, {.confirmed = true}}.proposals.suspicious()));
  EXPECT_FALSE((Case{files, tests, {.fall_tests = 30}}.proposals.suspicious()));
  EXPECT_FALSE((Case{files, tests, {.fall_share = 1}}.proposals.suspicious()));
  for (auto& [test, outcomes] : tests) outcomes.push_back(C);
  EXPECT_FALSE((Case{files, tests}.proposals.suspicious()));
}

}  // namespace
}  // namespace crosscheck::reconcile
