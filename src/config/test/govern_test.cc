#include "crosscheck/config/govern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "crosscheck/config/check.h"
#include "support.h"

namespace crosscheck::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// test_x.py::TestA::test_m as instantiated for a device, with a variant.
CollectedTest test(const std::string& variant = "{}", const std::string& method = "test_m",
                   const std::string& class_name = "TestA", const std::string& file = "test_x.py") {
  return collected_test({file, class_name, method, variant},
                        file + "::" + class_name + "DEV::" + method + "_dev");
}

// "mode basis" of the test under a configuration.
std::string ruled(const std::string& text, const CollectedTest& one,
                  const Circumstances& where = {}) {
  const Loaded loaded = load_text(text);
  EXPECT_TRUE(loaded.ok()) << text << to_string(loaded.findings.at(0));
  if (!loaded.config) return {};
  const Ruling ruling = Governor{*loaded.config, where}.rule(one);
  return std::string{to_string(ruling.mode)} + " " + std::string{to_string(ruling.basis)};
}
std::string with(const std::string& file_rest, const std::string& global = "{}") {
  return "test_suite_config:\n  files:\n  - path: ${TORCH_ROOT}/test/test_x.py\n" + file_rest +
         "  global: " + global + "\n";
}

TEST(Collected, WhatATestSaysOfItself) {
  const CollectedTest one = collected_test(
      {"d/test_x.py", "A", "m", R"({"op":"nn.functional.pad","dtype":"float32","device":"dev:0"})"},
      "d/test_x.py::ADEV::m_nn_functional_pad_dev_float32");
  EXPECT_EQ(one.collected_class(), "ADEV");
  EXPECT_EQ(one.collected_method(), "m_nn_functional_pad_dev_float32");
  EXPECT_EQ(one.op, "nn.functional.pad");
  EXPECT_EQ(one.dtype, "float32");
  const CollectedTest function = collected_test({"x.py", "", "test_f", ""}, "x.py::test_f[a::b]");
  EXPECT_EQ(function.collected_class(), "");
  EXPECT_EQ(function.collected_method(), "test_f");
}

TEST(Govern, TheMostSpecificNameDecides) {
  // Each entry goes over the ones before it.
  const std::vector<std::string> entries{"    - {names: ['.*'], mode: skip}\n",
                                         "    - {names: [test_m], mode: xfail}\n",
                                         "    - {names: [TestA::test_m], mode: xfail_strict}\n",
                                         "    - {names: [test_m_dev], mode: skip}\n",
                                         "    - {names: ['TestADEV::test_m_dev'], mode: xfail}\n"};
  const std::vector<std::string> modes{"skip", "xfail", "xfail_strict", "skip", "xfail"};
  EXPECT_EQ(ruled(with(""), test()), "skip unlisted");
  EXPECT_EQ(ruled(with("    unlisted_test_mode: xfail\n"), test()), "xfail unlisted");
  std::string tests;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    tests = entries[i] + tests;  // order in the file does not count
    EXPECT_EQ(ruled(with("    tests:\n" + tests), test()), modes[i] + " listed");
  }
}

// Row 1.
TEST(Govern, OneMethodOfTwoClassesHasTwoModes) {
  const std::string text = with(
      "    tests:\n    - {names: [TestA::test_m], mode: skip}\n    - {names: [TestB::test_m], "
      "mode: xfail}\n");
  EXPECT_EQ(ruled(text, test("{}", "test_m", "TestA")), "skip listed");
  EXPECT_EQ(ruled(text, test("{}", "test_m", "TestB")), "xfail listed");
  EXPECT_EQ(ruled(text, test("{}", "test_m", "TestC")), "skip unlisted");
}

TEST(Govern, PatternsMatchTheWholeName) {
  const std::string text = with("    tests: [{names: ['Test.::test_(m|n)'], mode: xfail}]\n");
  EXPECT_EQ(ruled(text, test()), "xfail listed");
  EXPECT_EQ(ruled(text, test("{}", "test_mm")), "skip unlisted");
  EXPECT_EQ(ruled(text, test("{}", "test_m", "MyTestA")), "skip unlisted");
  EXPECT_EQ(ruled(with("    tests: [{names: ['.*_dev'], mode: xfail}]\n"), test()), "xfail listed");
}

// Row 3: a name that looks like a dtype is none.
TEST(Govern, WhatATestRunsIsNotReadFromItsName) {
  const std::string text = with("    unlisted_test_mode: xfail\n",
                                "{supported_dtypes: [{name: bfloat16}], supported_ops: [add]}");
  EXPECT_EQ(ruled(text, test("{}", "test_int8_woq_mm")), "xfail unlisted");
  EXPECT_EQ(ruled(text, test(R"({"dtype":"int8"})")), "skip unsupported_dtype");
}

// Rows 4 and 5.
TEST(Govern, OperatorsMatchWhole) {
  const std::string text = with(
      "    tests: [{names: [test_m], edits: {ops: {exclude: [{name: sum}, {name: "
      "bitwise_and}]}}}]\n");
  EXPECT_EQ(ruled(text, test(R"({"op":"sum"})")), "skip excluded_op");
  EXPECT_EQ(ruled(text, test(R"({"op":"sum_to_size"})")), "mandatory_success listed");
  EXPECT_EQ(ruled(text, test(R"({"op":"sum.variant"})")), "skip excluded_op");
  EXPECT_EQ(ruled(text, test(R"({"op":"bitwise_and"})")), "skip excluded_op");
}

TEST(Govern, WhatIsSupported) {
  const std::string global =
      "{supported_dtypes: [{name: half}, {name: int8, force_xfail: true}],"
      " supported_ops: [mul, {name: add, dtypes: [{name: int8}]}, {name: gcd, force_xfail: true}],"
      " supported_modules: [torch.nn.Linear]}";
  const std::string text = with(
      "    tests:\n    - names: [test_m]\n      edits: {ops: {include: [{name: div}]},"
      " dtypes: {include: [{name: bool}], exclude: [{name: int64}]}}\n"
      "    - {names: [test_s], mode: xfail_strict}\n",
      global);
  const std::vector<std::tuple<std::string, std::string, std::string>> table{
      {R"({"op":"mul","dtype":"float16"})", "test_m", "mandatory_success listed"},
      {R"({"op":"mul","dtype":"float32"})", "test_m", "skip unsupported_dtype"},
      {R"({"op":"mul","dtype":"bool"})", "test_m", "mandatory_success listed"},
      {R"({"op":"mul","dtype":"int8"})", "test_m", "xfail forced_xfail"},
      {R"({"op":"mul","dtype":"int8"})", "test_s", "xfail_strict listed"},
      {R"({"op":"mul","dtype":"int64"})", "test_m", "skip excluded_dtype"},
      {R"({"op":"add","dtype":"float16"})", "test_m", "skip unsupported_dtype"},
      {R"({"op":"div","dtype":"float16"})", "test_m", "mandatory_success listed"},
      {R"({"op":"div"})", "test_s", "skip unsupported_op"},
      {R"({"op":"gcd"})", "test_m", "xfail forced_xfail"},
      {R"({"module":"torch.nn.Linear"})", "test_m", "mandatory_success listed"},
      {R"({"module":"torch.nn.LSTM"})", "test_m", "skip unsupported_module"}};
  for (const auto& [variant, method, expected] : table)
    EXPECT_EQ(ruled(text, test(variant, method)), expected) << variant;
}

// Row 20.
TEST(Govern, ConditionsGoOverNoneAndTheNarrowerOverTheWider) {
  const std::string text = with(
      "    tests:\n    - {names: [test_m]}\n"
      "    - {names: [test_m], mode: xfail, when: {platform: s390x}}\n"
      "    - {names: [test_m], mode: skip, when: {platform: s390x, torch: '<2.14'}}\n");
  EXPECT_EQ(ruled(text, test()), "mandatory_success listed");
  EXPECT_EQ(ruled(text, test(), {"x86_64", *parse_version("2.13"), {}}),
            "mandatory_success listed");
  EXPECT_EQ(ruled(text, test(), {"s390x", *parse_version("2.14.1"), {}}), "xfail listed");
  EXPECT_EQ(ruled(text, test(), {"s390x", *parse_version("2.13"), {}}), "skip listed");
}

TEST(Govern, PathsOfTheSuite) {
  const std::vector<std::tuple<std::string, std::string, bool>> table{
      {"${TORCH_ROOT}/test/a/test_x.py", "a/test_x.py", true},
      {"${TORCH_ROOT}/test/a/test_x.py", "test/a/test_x.py", true},
      {"${TORCH_ROOT}/test/a/test_x.py", "test_x.py", false},
      {"${TORCH_DEVICE_ROOT}/tests/test_x.py", "test_x.py", true},
      {"test_x.py", "test_x.py", true},
      {"${TORCH_ROOT}/test/test_*.py", "test_x.py", true},
      {"${TORCH_ROOT}/test/test_*.py", "a/test_x.py", false},
      {"${TORCH_ROOT}/test/**/*.py", "a/b/test_x.py", true},
      {"${TORCH_ROOT}/test/**/*.py", "test_x.py", true},
      {"${TORCH_ROOT}/test/test_?.py", "test_xy.py", false}};
  for (const auto& [path, file, found] : table) {
    const Loaded loaded = load_text("test_suite_config: {files: [{path: '" + path + "'}]}\n");
    ASSERT_TRUE(loaded.ok());
    EXPECT_EQ(Governor(*loaded.config, {}).find_file(file) != nullptr, found)
        << path << " " << file;
  }
}

TEST(Govern, PatternsThatDisagreeAreTied) {
  const std::string text =
      with("    tests:\n    - {names: ['test_.*']}\n    - {names: ['.*_m'], mode: skip}\n");
  EXPECT_EQ(ruled(text, test()), "skip tied");
}

CollectedSuite suite_of(std::vector<CollectedTest> tests) {
  CollectedSuite all;
  all.name = "inventory";
  all.tests = std::move(tests);
  return all;
}

SuiteReport checked(const std::string& text, const CollectedSuite& suite) {
  static std::vector<std::unique_ptr<Loaded>> kept;
  kept.push_back(std::make_unique<Loaded>(load_text(text)));
  EXPECT_TRUE(kept.back()->ok());
  return check_against(*kept.back()->config, suite, {});
}

// Row 8.
TEST(Check, NamesThatAreNotCollected) {
  const auto report = checked(
      with("    tests:\n    - names: [TestA::test_view_squeeze, TestA::test_gone_for_good, "
           "TestA::test_m,"
           " TestC::test_moved, 'TestA::no.*', test_m_dev]\n"),
      suite_of({test(), test("{}", "test_view_squeezed"), test("{}", "test_moved", "TestD")}));
  EXPECT_THAT(brief(report.findings), ElementsAre("renamed 5:15", "missing 5:41", "renamed 5:83",
                                                  "missing 5:102", "unlisted 3:11"));
  EXPECT_THAT(report.findings[0].remedy, HasSubstr("TestA::test_view_squeezed"));
  EXPECT_THAT(report.findings[2].remedy, HasSubstr("TestD::test_moved"));
  EXPECT_EQ(report.findings[4].severity, Finding::Severity::note);
  EXPECT_THAT(report.unlisted.at("${TORCH_ROOT}/test/test_x.py"),
              ElementsAre("TestA::test_view_squeezed", "TestD::test_moved"));
}

TEST(Check, ADecisionAboutATestThatHasChangedIsNoted) {
  auto changed = test();
  changed.source = "a1a1";
  const auto findings = [&](const char* decided_for) {
    return checked(with(std::string{"    tests:\n    - {names: [test_m], rationale: {reason: "
                                    "person, test_source: "} +
                        decided_for + "}}\n"),
                   suite_of({changed, test()}))
        .findings;
  };
  EXPECT_THAT(findings("a1a1"), ElementsAre());
  const auto over = findings("[a0a0, b0b0]");
  ASSERT_THAT(brief(over), ElementsAre("expired 5:66"));
  EXPECT_EQ(over[0].severity, Finding::Severity::note);
  EXPECT_THAT(over[0].message, HasSubstr("TestA::test_m changed since it was made, to a1a1"));
}

TEST(Check, ANameThatAnotherGoesOverIsCollectedAllTheSame) {
  const auto report = checked(
      with("    tests:\n    - {names: [test_m]}\n    - {names: [TestA::test_m], mode: skip}\n"),
      suite_of({test()}));
  EXPECT_THAT(brief(report.findings), ElementsAre());
}

TEST(Check, ANameWhoseConditionDoesNotHoldIsNotMissing) {
  const auto report = checked(with("    tests:\n    - {names: [test_gone], when: {torch: "
                                   "'<2.12'}}\n    - {names: [test_m]}\n"),
                              suite_of({test()}));
  EXPECT_THAT(brief(report.findings), ElementsAre());
}

// Row 6.
TEST(Check, EveryTestIsGovernedOrReported) {
  CollectedSuite suite = suite_of({test(), test("{}", "test_m", "TestA", "test_other.py"), test()});
  const auto report = checked(with("    tests: [{names: [test_m]}]\n"), suite);
  EXPECT_THAT(brief(report.findings), ElementsAre("ungoverned 1:1"));
  EXPECT_THAT(report.findings[0].message, HasSubstr("test_other.py: 1 collected"));
  EXPECT_EQ(report.by_basis.at(Basis::listed), 2);
  EXPECT_EQ(report.by_basis.at(Basis::ungoverned), 1);
  EXPECT_EQ(report.by_mode.at(Mode::mandatory_success), 2);
}

TEST(Check, FilesThatAreNotCollected) {
  CollectedSuite suite = suite_of({});
  EXPECT_TRUE(has_errors(checked(with(""), suite).findings));
  suite.partial = true;
  EXPECT_FALSE(has_errors(checked(with(""), suite).findings));
  suite = suite_of({});
  suite.broken_files = {"test_x.py"};
  const auto broken = checked(with(""), suite);
  EXPECT_THAT(brief(broken.findings), ElementsAre("not_collected 3:11"));
  EXPECT_FALSE(has_errors(broken.findings));
}

TEST(Check, TiesThatOnlyTestsShow) {
  const auto report =
      checked(with("    tests:\n    - {names: ['test_.*']}\n    - {names: ['.*_m'], mode: skip}\n"),
              suite_of({test(), test()}));
  EXPECT_THAT(brief(report.findings), ElementsAre("tie 5:16 6:16"));
}

// Row 15.
TEST(Check, OperatorsAgainstAList) {
  const Loaded loaded = load_text(with(
      "    tests:\n    - names: [t]\n      mode: xfail\n"
      "      edits: {ops: {include: [{name: torch.own, sample_inputs_func: {args: []}}, {name: "
      "dvi}],"
      " exclude: [{name: sum}]}}\n"
      "      rationale: {reason: unsupported_operator, operators: ['aten::addmm', 'aten::admm']}\n",
      "{supported_ops: [add, exx2, mull]}"));
  ASSERT_TRUE(loaded.ok());
  const auto findings = check_operators(
      *loaded.config, "# operators\naten::add.Tensor\nmull_\nmul\r\n  \naten::addmm\ndiv\nsum\n");
  EXPECT_THAT(brief(findings), ElementsAre("unknown_operator 9:33", "unknown_operator 9:39",
                                           "unknown_operator 7:89", "unknown_operator 8:76"));
  EXPECT_EQ(findings[0].remedy, "");
  EXPECT_EQ(findings[1].remedy, "did you mean 'mul'?");
  EXPECT_EQ(findings[3].remedy, "did you mean 'aten::addmm'?");
}

}  // namespace
}  // namespace crosscheck::config
