#include "crosscheck/config/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "crosscheck/config/diff.h"
#include "crosscheck/config/import.h"
#include "support.h"

namespace crosscheck::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Written merged(const std::vector<std::string>& texts) {
  std::vector<Config> parts;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    Loaded loaded = load_files({{name, texts[i]}}, name);
    EXPECT_TRUE(loaded.ok()) << texts[i] << to_string(loaded.findings.at(0));
    parts.push_back(std::move(*loaded.config));
  }
  return merge(std::move(parts));
}

// "place place" of each error.
std::vector<std::string> disagreements(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const Finding& finding : merged(texts).findings) {
    if (finding.severity == Finding::Severity::note) continue;
    std::string text = to_string(finding.place);
    for (const Place& other : finding.others) text += " " + to_string(other);
    all.push_back(std::move(text));
  }
  return all;
}

Config loaded(const std::string& text) {
  Loaded one = load_text(text);
  EXPECT_TRUE(one.ok()) << text << (one.findings.empty() ? "" : to_string(one.findings[0]));
  return std::move(*one.config);
}

// Row 2.
TEST(Merge, DisagreementsAreErrorsThatShowBothPlaces) {
  const std::string a = suite("    - {names: [A::t, 'B::.*'], mode: skip}\n");
  EXPECT_THAT(disagreements({a, suite("    - {names: [A::t]}\n")}), ElementsAre("b:5:16 a:5:16"));
  // By a pattern of the other.
  EXPECT_THAT(disagreements({a, suite("    - {names: [B::t]}\n")}), ElementsAre("b:5:16 a:5:22"));
  EXPECT_THAT(disagreements({suite("    - {names: [B::t]}\n"), a}), ElementsAre("a:5:16 b:5:22"));
  // Of tests not listed.
  EXPECT_THAT(
      disagreements({a,
                     "test_suite_config:\n  files:\n  - path: ${TORCH_ROOT}/test/test_x.py\n"
                     "    unlisted_test_mode: xfail\n"}),
      ElementsAre("b:4:25 a:3:11"));
  // Of the reason.
  const auto because = [](const std::string& reason) {
    return suite("    - {names: [t], mode: skip, rationale: {reason: " + reason + "}}\n");
  };
  EXPECT_THAT(disagreements({because("crash"), because("timeout")}), ElementsAre("b:5:16 a:5:16"));
  // Of what is supported.
  const auto supports = [](const std::string& global) {
    return "test_suite_config:\n  files: []\n  global: {" + global + "}\n";
  };
  EXPECT_THAT(disagreements({supports("supported_ops: [add]"),
                             supports("supported_ops: [{name: add, force_xfail: true}]")}),
              ElementsAre("b:3:28 a:3:28"));
  EXPECT_THAT(
      disagreements({supports("supported_ops: [add]"), supports("input_config: {seed: 1}")}),
      ElementsAre("b:1:1 a:1:1"));
}

TEST(Merge, WhatAgreesIsWrittenOnce) {
  const Written all = merged(
      {suite("    - {names: [A::t, A::u], mode: skip, tags: [x]}\n",
             "  labels: [trunk]\n  global: {supported_ops: [add]}\n"),
       suite("    - {names: [A::u, A::v], mode: skip, rationale: {reason: out_of_scope}}\n"
             "    - {names: [A::w], edits: {ops: {include: [{name: a, sample_inputs_func: {args:\n"
             "        [{tensor: {shape: [1, 2], dtype: int8}}]}}]}}}\n",
             "  labels: [smoke]\n  global: {supported_ops: [{name: add}, mul]}\n")});
  EXPECT_EQ(all.text,
            "test_suite_config:\n"
            "  files:\n"
            "    - path: ${TORCH_ROOT}/test/test_x.py\n"
            "      unlisted_test_mode: skip\n"
            "      labels: [trunk, smoke]\n"
            "      tests:\n"
            "        - names:\n"
            "            - A::t\n"
            "          mode: skip\n"
            "          tags: [x]\n"
            "        - names:\n"
            "            - A::u\n"
            "            - A::v\n"
            "          mode: skip\n"
            "          rationale: {reason: out_of_scope}\n"
            "        - names:\n"
            "            - A::w\n"
            "          edits: {ops: {include: [{name: a, sample_inputs_func: {args: [{tensor: "
            "{shape: [1, "
            "2], dtype: int8}}]}}]}}\n"
            "  global:\n"
            "    supported_ops:\n"
            "      - add\n"
            "      - mul\n");
  ASSERT_EQ(all.findings.size(), 1U);
  EXPECT_THAT(to_string(all.findings[0]), HasSubstr("note: supported_ops: not in every file"));
  EXPECT_THAT(all.findings[0].message, HasSubstr(": mul"));
}

TEST(Merge, VariantsOfOneTestStayApart) {
  const auto with = [](const std::string& op) {
    return suite("    - {names: [t], edits: {ops: {include: [{name: " + op + "}]}}}\n");
  };
  const Written both = merged({with("add"), with("mul")});
  EXPECT_THAT(both.findings, IsEmpty());
  EXPECT_EQ(loaded(both.text).files.at(0).entries.size(), 2U);
}

// Every real file merged with itself says what it says; so does its export.
TEST(Merge, RealFilesSurviveMergeAndExport) {
  std::filesystem::path root;
  const auto files = real_configurations(root);
  if (files.empty()) GTEST_SKIP() << "no configurations at " << root;
  for (const auto& path : files) {
    const std::string text = *base::read_file(path);
    Loaded one = load_text(text);
    if (!one.ok() || text.size() > 120'000) continue;
    std::vector<Config> parts{*one.config, *load_text(text).config};
    const Written twice = merge(std::move(parts));
    EXPECT_FALSE(has_errors(twice.findings)) << path << to_string(twice.findings.at(0));
    EXPECT_THAT(diff(*one.config, loaded(twice.text)), IsEmpty()) << path;
    const Written exported = export_spyre(*one.config, {});
    EXPECT_THAT(diff(*one.config, loaded(exported.text)), IsEmpty()) << path;
  }
}

const std::string k_conditional = suite(
    "    - {names: [A::t, A::u]}\n"
    "    - {names: [A::t], mode: xfail, when: {platform: s390x}}\n"
    "    - {names: [A::t], mode: skip, when: {platform: s390x, torch: '<2.14'}}\n"
    "    - {names: [B::t], mode: skip, rationale: {reason: superseded}}\n");

std::vector<std::string> plain(const Circumstances& where) {
  std::vector<Finding> findings;
  const Config config = loaded(k_conditional);
  std::vector<std::string> lines;
  for (const PlainName& name : export_plain(config, where, findings))
    lines.push_back(std::string{to_string(name.mode)} + " " + std::string{name.name});
  for (const Finding& finding : findings) lines.push_back(to_string(finding));
  return lines;
}

TEST(Export, ConditionsAreResolved) {
  EXPECT_THAT(plain({"s390x", *parse_version("2.13"), {}}),
              ElementsAre("mandatory_success A::u", "skip A::t", "skip B::t"));
  EXPECT_THAT(plain({"s390x", *parse_version("2.14"), {}}),
              ElementsAre("mandatory_success A::u", "xfail A::t", "skip B::t"));
  EXPECT_THAT(plain({"x86_64", *parse_version("2.13"), {}}),
              ElementsAre("mandatory_success A::t", "mandatory_success A::u", "skip B::t"));
}

TEST(Export, WhatIsNotKnownIsAskedFor) {
  const auto lines = plain({"s390x", {}, {}});
  EXPECT_THAT(lines.back(),
              HasSubstr("t.yaml:7:41: the entry holds for platform s390x, torch <2.14\n"
                        "  remedy: say which one is meant with --torch"));
}

TEST(Export, TorchSpyresLoaderReadsTheResult) {
  const Written written =
      export_spyre(loaded(k_conditional), {"s390x", *parse_version("2.13"), {}});
  const Config result = loaded(written.text);
  ASSERT_EQ(result.files.at(0).entries.size(), 3U);
  for (const Entry& entry : result.files[0].entries) EXPECT_TRUE(entry.when.is_always());
  EXPECT_TRUE(result.files[0].entries[2].rationale);
  // Row 1, seen from there: both are `t`, and say the same.
  EXPECT_THAT(written.findings, IsEmpty());
  const Written other = export_spyre(loaded(k_conditional), {"x86_64", *parse_version("2.13"), {}});
  EXPECT_THAT(brief(other.findings), ElementsAre("collides 8:16 5:16"));
  EXPECT_FALSE(has_errors(other.findings));
}

std::vector<std::string> differences(const std::string& before, const std::string& after) {
  std::vector<std::string> all;
  for (const Change& change : diff(loaded(before), loaded(after)))
    all.push_back(std::string{to_string(change.what)} + " " + change.name + ": " + change.before +
                  " -> " + change.after);
  return all;
}

TEST(Diff, ByMeaning) {
  const std::string before = suite(
      "    - {names: [a, b], mode: skip}\n    - {names: [c], mode: xfail, rationale: {reason: "
      "crash}}\n"
      "    - {names: [d], when: {platform: p}}\n");
  // Layout, order and what would be skipped anyway do not count.
  EXPECT_THAT(differences(before, suite("    - names: [d]\n      when:\n        platform: [p]\n"
                                        "    - names: ['c']  # c\n      mode: xfail\n"
                                        "      rationale: {reason: crash, text: other}\n"
                                        "    - names:\n      - a\n      mode: skip\n")),
              IsEmpty());
  EXPECT_THAT(
      differences(before, suite("    - {names: [a], mode: xfail}\n"
                                "    - {names: [c], mode: xfail, rationale: {reason: timeout}}\n"
                                "    - {names: [e]}\n")),
      ElementsAre("test a: skip -> xfail", "test c: xfail (crash) -> xfail (timeout)",
                  "test d: mandatory_success -> skip (unlisted)",
                  "test e: skip (unlisted) -> mandatory_success"));
  EXPECT_THAT(differences(before, "test_suite_config: {files: []}"),
              ElementsAre("unlisted : skip (unlisted) -> ungoverned", "test a: skip -> ungoverned",
                          "test b: skip -> ungoverned", "test c: xfail (crash) -> ungoverned",
                          "test d: mandatory_success -> ungoverned"));
  EXPECT_THAT(
      differences(suite("    - {names: [a]}\n"),
                  suite("    - {names: [a], edits: {dtypes: {exclude: [{name: bool}]}}}\n")),
      ElementsAre("edits a: none -> {dtypes: {exclude: [{name: bool}]}}"));
}

TEST(Diff, WhatIsSupported) {
  const auto supports = [](const std::string& global) {
    return "test_suite_config:\n  files: []\n  global: " + global + "\n";
  };
  EXPECT_THAT(differences(supports("{supported_ops: [add, {name: mul}, sub]}"),
                          supports("{supported_ops: [mul, {name: sub, force_xfail: true}, div]}")),
              ElementsAre("operator add: named -> not named", "operator div: not named -> named",
                          "operator sub: named -> {name: sub, force_xfail: true}"));
  EXPECT_THAT(differences(supports("{}"), supports("{supported_dtypes: [{name: bool}]}")),
              ElementsAre("dtype all: supported -> not all", "dtype bool: not named -> named"));
}

TEST(Diff, TestByTest) {
  std::vector<CollectedTest> tests;
  for (const char* op : {"add", "mul"})
    tests.push_back(
        collected_test({"test_x.py", "A", "t", std::string{R"({"op":")"} + op + "\"}"}, ""));
  const Config before = loaded(suite("    - {names: [A::t]}\n"));
  const Config after =
      loaded(suite("    - {names: ['A::.*'], edits: {ops: {exclude: [{name: mul}]}}}\n"));
  const auto changes = diff(before, after, tests, {});
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].name, R"(A::t{"op":"mul"})");
  EXPECT_EQ(changes[0].before, "mandatory_success");
  EXPECT_EQ(changes[0].after, "skip (excluded_op)");
}

TEST(Import, TorchNpusListIsAConfiguration) {
  CollectedSuite suite;
  suite.tests.push_back(collected_test({"test_a.py", "TestA", "test_x", "{}"},
                                       "test_a.py::TestAPRIVATEUSE1::test_x_npu_float32"));
  suite.tests.push_back(
      collected_test({"test_b.py", "TestB", "test_y", "{}"}, "test_b.py::TestB::test_y"));
  suite.tests.push_back(
      collected_test({"test_c.py", "TestB", "test_y", "{}"}, "test_c.py::TestB::test_y"));
  const std::string list = R"-({"test_x_npu_float32 (__main__.TestAPRIVATEUSE1)":
      ["slow: \"it\"", ["910A", "910B"]],
    "test_y (__main__.TestB)": ["", [""]],
    "test_gone (__main__.TestA)": ["", []],
    "test_z (TestZ)": ["why"]})-";
  const auto imported = import_torch_npu(list, "l.json", &suite, {});
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->names, 2U);
  EXPECT_THAT(imported->unplaced, ElementsAre("TestA::test_gone", "TestZ::test_z"));
  const Config config = loaded(imported->text);
  ASSERT_EQ(config.files.size(), 3U);
  const Entry& entry = config.files[0].entries.at(0);
  EXPECT_EQ(entry.mode, Mode::skip);
  EXPECT_THAT(entry.when.devices, ElementsAre("910A", "910B"));
  EXPECT_EQ(entry.rationale->text, "slow: \"it\"");
  EXPECT_EQ(entry.rationale->reason, Reason::person);
  // It governs the very test, on those chips only.
  const auto ruled = [&](const std::vector<std::string>& devices) {
    return Governor{config, {{}, {}, devices}}.rule(suite.tests[0]).mode;
  };
  EXPECT_EQ(ruled({"npu", "910A"}), Mode::skip);
  EXPECT_EQ(ruled({"npu", "310P"}), Mode::mandatory_success);

  const auto all = import_torch_npu(list, "l.json", nullptr, "${TORCH_ROOT}/test/test_z.py");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->names, 4U);
  EXPECT_EQ(loaded(all->text).files.size(), 1U);
}

TEST(Import, WhatIsNoSuchListIsRefusedByItsEntry) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"[1]", "an object is expected"},
      {"{", "l.json:1:2"},
      {R"-({"test_x": ["", []]})-", "\"test_x\": no test can be called so"},
      {R"-({"test_x (a b)": ["", []]})-", "no test can be called so"},
      {R"-({"test_x (A)": "skip"})-", "a list of a reason"},
      {R"-({"test_x (A)": []})-", "a list of a reason"},
      {R"-({"test_x (A)": ["", "910A"]})-", "no list of chips"},
      {R"-({"test_x (A)": ["", [1]]})-", "a chip is no text"}};
  for (const auto& [text, message] : table) {
    const auto imported = import_torch_npu(text, "l.json", nullptr, "x.py");
    ASSERT_FALSE(imported) << text;
    EXPECT_THAT(imported.error().message, HasSubstr(message)) << text;
    EXPECT_EQ(imported.error().fault, base::Fault::invalid_input);
  }
}

}  // namespace
}  // namespace crosscheck::config
