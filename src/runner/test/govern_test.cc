#include "crosscheck/runner/govern.h"

#include <gmock/gmock.h>

#include "support.h"

namespace crosscheck::runner {
namespace {

using base::Mode;
using base::Outcome;
using testing::HasSubstr;

Rule rule(Mode mode, std::string basis = "listed", std::string place = "c.yaml:7:9") {
  Rule made;
  made.governed = {mode, std::move(basis), std::move(place), Outcome::not_run};
  made.reason = "because";
  return made;
}
const Rule k_ungoverned = rule(Mode::skip, "ungoverned", "");
const Rule k_unlisted = rule(Mode::skip, "unlisted", "c.yaml:3:7");

std::vector<std::size_t> all(const Governing& governing) {
  std::vector<std::size_t> indices(governing.rules.size());
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  return indices;
}

TEST(Fates, FollowModeAndOptions) {
  struct Case {
    Rule rule;
    Fate plain, without_xfail, observed;
  };
  for (const auto& [rule, plain, without_xfail, observed] : {
           Case{rule(Mode::mandatory_success), Fate::run, Fate::run, Fate::run},
           Case{rule(Mode::xfail), Fate::run, Fate::not_run, Fate::run},
           Case{rule(Mode::xfail_strict), Fate::run, Fate::not_run, Fate::run},
           Case{rule(Mode::skip), Fate::skipped, Fate::skipped, Fate::run},
           Case{rule(Mode::skip, "unsupported_dtype"), Fate::skipped, Fate::skipped, Fate::run},
           Case{k_unlisted, Fate::skipped, Fate::skipped, Fate::run},
           Case{k_ungoverned, Fate::not_run, Fate::not_run, Fate::run},
       }) {
    const Governing governing{{}, {rule}};
    EXPECT_EQ(fates({0}, governing, {}).at(0), plain);
    EXPECT_EQ(fates({0}, governing, {false, true}).at(0), without_xfail);
    EXPECT_EQ(fates({0}, governing, {true, true}).at(0), observed);
  }
  EXPECT_EQ(fates({0, 1}, {}, {}), (std::vector{Fate::run, Fate::run}));
}

std::string why_nothing(const std::vector<Rule>& rules, GovernOptions options = {}) {
  std::vector<CollectedTest> tests;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    tests.push_back(make_test(i % 2 == 0 ? "test_a.py" : "test_b.py", "t" + std::to_string(i)));
  }
  const Governing governing{{}, rules};
  const auto checked = check_lists_any(tests, all(governing), governing, options);
  if (checked) return "";
  EXPECT_EQ(checked.error().fault, base::Fault::invalid_input);
  return checked.error().message;
}

// Rows 10 and 17 of the table: a configuration that lists nothing says why; one under which nothing
// must pass is a state like any other.
TEST(Governing, SaysWhyItListsNothing) {
  EXPECT_EQ(why_nothing({k_ungoverned, k_unlisted, k_unlisted}),
            "the configuration lists none of the 3 tests selected; hidden by unlisted_test_mode: "
            "c.yaml:3:7 (2); in files that it does not have: test_a.py (1)");
  EXPECT_EQ(why_nothing({k_unlisted, rule(Mode::xfail)}), "");
  EXPECT_EQ(why_nothing({k_unlisted, rule(Mode::xfail)}, {false, true}), "");
  EXPECT_EQ(why_nothing({k_unlisted, rule(Mode::skip)}), "");
  EXPECT_EQ(why_nothing({k_unlisted, k_ungoverned}, {true, false}), "");
  EXPECT_EQ(why_nothing({}), "");
}

TEST(Governing, ALeftOutTestIsAnOutcomeWithItsReason) {
  const auto test = make_test("test_a.py", "x");
  const auto skipped = left_out(test, rule(Mode::skip), Fate::skipped);
  EXPECT_EQ(skipped.outcome, Outcome::skipped);
  EXPECT_EQ(skipped.message, "because");
  EXPECT_EQ(skipped.node_id, test.node_id);
  EXPECT_EQ(skipped.governed->place, "c.yaml:7:9");
  EXPECT_EQ(skipped.governed->observed, Outcome::not_run);
  const auto xfail = left_out(test, rule(Mode::xfail), Fate::not_run);
  EXPECT_EQ(xfail.outcome, Outcome::not_run);
  EXPECT_EQ(xfail.message, "left out by --skip-xfail; because");
  EXPECT_EQ(left_out(test, k_ungoverned, Fate::not_run).message, "because");
}

base::TestResult result(int n, const Rule& rule, Outcome observed, int attempt = 1) {
  base::TestResult made;
  made.id = {"test_a.py", "TestX", "t" + std::to_string(n), "{}"};
  made.attempt = attempt;
  made.governed = rule.governed;
  made.governed->observed = observed;
  made.outcome = base::judge(rule.governed.mode, observed);
  return made;
}

TEST(Score, CountsByWhatTestsDid) {
  base::RunResults run;
  run.results = {
      result(1, rule(Mode::mandatory_success), Outcome::passed),
      result(2, rule(Mode::mandatory_success), Outcome::crashed),
      result(3, rule(Mode::mandatory_success), Outcome::failed),
      result(3, rule(Mode::mandatory_success), Outcome::passed, 2),
      result(4, rule(Mode::xfail), Outcome::passed),
      result(5, rule(Mode::xfail), Outcome::environment_error),
      result(6, rule(Mode::skip), Outcome::passed),
      result(7, k_unlisted, Outcome::not_run),
      result(8, k_ungoverned, Outcome::passed),
  };
  const auto scored = score(run);
  EXPECT_EQ(scored.modes.at(Mode::mandatory_success),
            (ModeScore{.total = 3, .passed = 1, .failed = 1, .flaky = 1}));
  EXPECT_EQ(scored.modes.at(Mode::xfail), (ModeScore{.total = 2, .passed = 1, .faults = 1}));
  EXPECT_EQ(scored.modes.at(Mode::skip),
            (ModeScore{.total = 2, .passed = 1, .not_run = 1, .unlisted = 1}));
  EXPECT_THAT(scored.ungoverned, testing::ElementsAre(testing::Pair("test_a.py", 1)));
  const auto text = to_text(scored, true);
  EXPECT_THAT(text, HasSubstr("3 must pass: 1 passed, 1 failed, 1 flaky\n"));
  EXPECT_THAT(text, HasSubstr("1 of them hidden by unlisted_test_mode"));
  EXPECT_THAT(text, HasSubstr("1 ungoverned, in files that the configuration does not have: "
                              "test_a.py (1)\n"));
  EXPECT_THAT(text, HasSubstr("of 3 that must pass 2 failed; of 2 skipped 1 pass; of 2 that may "
                              "fail 1 pass"));
}

TEST(Score, SaysThatNothingMustPass) {
  base::RunResults run;
  run.results = {result(1, rule(Mode::xfail), Outcome::failed)};
  EXPECT_EQ(to_text(score(run), false), "0 must pass\n1 may fail: 1 failed\n");
  EXPECT_TRUE(run.ok());
}

// Row 13: a fault of the environment is nobody's verdict, and what may fail cannot break a build by
// one; what must pass has not been shown to.
TEST(RunResults, FaultsBreakOnlyWhatIsPromised) {
  for (const auto fault : {Outcome::environment_error, Outcome::harness_error}) {
    for (const auto& [mode, ok] : {std::pair{Mode::mandatory_success, false},
                                   {Mode::xfail_strict, false},
                                   {Mode::xfail, true},
                                   {Mode::skip, true}}) {
      base::RunResults run;
      run.results = {result(1, rule(mode), fault)};
      EXPECT_EQ(run.results[0].outcome, fault);
      EXPECT_EQ(run.ok(), ok) << to_string(mode);
    }
    base::RunResults ungoverned;
    ungoverned.results = {result(1, rule(Mode::xfail), fault)};
    ungoverned.results[0].governed.reset();
    EXPECT_FALSE(ungoverned.ok());
  }
}

}  // namespace
}  // namespace crosscheck::runner
