#include "crosscheck/config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support.h"

namespace crosscheck::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Case {
  const char* what;
  std::string text;
  std::vector<std::string> findings;
};

std::string entry(const std::string& rest) { return suite("    - names: [A::test_x]\n" + rest); }
std::string with_global(const std::string& rest) {
  return "test_suite_config:\n  files: []\n  global:\n" + rest;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      Case{"the least", "test_suite_config: {files: []}\n", {}},
      Case{
          "every key of the format",
          suite(
              "    - names: [A::test_x, 'test_(a|b).*']\n"
              "      mode: xfail\n      tags: [t]\n      labels: [smoke]\n      no_grad: true\n"
              "      edits:\n"
              "        ops:\n"
              "          include:\n"
              "          - name: add\n            description: d\n            tags: [u]\n"
              "            kwargs: {a: 1}\n"
              "            sample_inputs_func:\n"
              "              args:\n"
              "              - tensor: {shape: [1], stride: [1], storage_offset: 0, dtype: "
              "torch.int64,\n"
              "                  device: x, init: randint, init_args: {high: 3},\n"
              "                  device_layout: {device_size: [1], stride_map: [1], device_dtype: "
              "y}}\n"
              "              - tensor_list: [{shape: [], dtype: half}]\n"
              "              - value: null\n              - py: (None,)\n"
              "              kwargs: {b: {tensor: {}}}\n"
              "          exclude: [{name: sum, description: e}]\n"
              "        modules:\n"
              "          include:\n"
              "          - {name: m, module_path: a.b, constructor_inputs: {args: []},\n"
              "             forward_inputs: [{args: []}]}\n"
              "          exclude: [{name: n}]\n"
              "        dtypes:\n"
              "          include: [{name: int8, description: f, precision: {atol: 1e-3, rtol: 1},\n"
              "            force_xfail: false}]\n"
              "          exclude: [{name: int64}]\n"
              "        functions: {cpu_move: [{name: assertEqual}]}\n"
              "      when: {platform: s390x, torch: '>=2.12,<2.14', device: [a, b]}\n"
              "      rationale:\n"
              "        reason: unsupported_operator\n        operators: ['aten::add']\n"
              "        text: because\n"
              "        evidence: [{kind: run, ref: 'run 1'}]\n"
              "        decided_by: agent\n        decided_at: 2026-11-30\n        expires: null\n"
              "        test_source: [5f0c61aa29d3b8e4, 0001]\n"
              "  global:\n"
              "    supported_dtypes: [{name: int8, precision: {atol: 0.5}, force_xfail: true},\n"
              "      {name: bool}]\n"
              "    supported_ops: [mul, {name: add, force_xfail: false, dtypes: [{name: bool}]}]\n"
              "    supported_modules: [{name: torch.nn.Linear}]\n"
              "    input_config: {seed: 123}\n",
              "  labels: [trunk]\n"),
          {}},
      // Row 7.
      Case{"unknown keys, all of them",
           "test_suite_config:\n  lables: []\n  files:\n  - path: a.py\n"
           "    unlisted_test_mod: skip\n    tests:\n    - names: [t]\n      mod: xfail\n"
           "      edits: {op: {}}\n",
           {"unknown_key 2:3", "unknown_key 5:5", "unknown_key 8:7", "unknown_key 9:15"}},
      Case{"a tensor's keys",
           entry("      edits: {ops: {include: [{name: a, sample_inputs_func: {args:\n"
                 "        [{tensor: {shape: [1], dtype: int8, shap: 1}}, {valu: 1}]}}]}}\n"),
           {"unknown_key 7:45", "unknown_key 7:57"}},
      Case{"missing keys",
           "test_suite_config:\n  files:\n  - tests:\n    - mode: skip\n",
           {"missing_key 3:5", "missing_key 4:7"}},
      Case{"no files", "test_suite_config: {labels: [a]}\n", {"missing_key 1:20"}},
      Case{"another kind of file", "jobs: {}\n", {"unknown_key 1:1", "missing_key 1:1"}},
      Case{"a list", "- a\n", {"bad_value 1:1"}}, Case{"empty", "", {"missing_key 1:1"}},
      Case{"comments only", "# nothing\n", {"missing_key 1:1"}},
      Case{"no YAML", "test_suite_config:\n  files: [\n", {"not_yaml 3:1"}},
      Case{"a tab", "test_suite_config:\n\tfiles: []\n", {"not_yaml 2:1"}},
      Case{"not UTF-8", "test_suite_config:\n  files: [\xff]\n", {"not_yaml 2:11"}},
      Case{"a NUL", std::string{"test_suite_config:\n  a\0b: 1\n", 29}, {"not_yaml 2:4"}},
      Case{"two documents", "test_suite_config: {files: []}\n---\na: 1\n", {"not_yaml 2:1"}},
      Case{"a key twice", "test_suite_config:\n  files: []\n  files: []\n", {"duplicate 3:3 2:3"}},
      Case{"a key twice in what only tests read",
           entry("      edits: {ops: {include: [{name: a, kwargs: {b: 1, b: 2}}]}}\n"),
           {"duplicate 6:56 6:50"}},
      Case{"columns are characters",
           "test_suite_config: {files: [], 'ä': 1, b: 2}\n",
           {"unknown_key 1:32", "unknown_key 1:40"}},
      Case{"a byte order mark",
           "\xEF\xBB\xBFtest_suite_config: {files: [], b: 2}\n",
           {"unknown_key 1:32"}},
      Case{"anchors in what decides",
           suite("    - &a {names: [t], mode: skip}\n    - *a\n"),
           {"bad_value 5:7", "bad_value 6:7"}},
      Case{"anchors in inputs",
           entry("      edits: {ops: {include: [{name: a, sample_inputs_func: {args: &x []}},\n"
                 "        {name: b, sample_inputs_func: {args: *x}}]}}\n"),
           {}},
      Case{"types",
           suite("    - names: {a: b}\n      no_grad: 'true'\n      tags: t\n      mode: [skip]\n"
                 "      edits: []\n"),
           {"bad_value 5:14", "bad_value 6:16", "bad_value 7:13", "bad_value 8:13",
            "bad_value 9:14"}},
      Case{"words", entry("      mode: mandatory\n"), {"bad_value 6:13"}},
      Case{"words of the file's mode",
           "test_suite_config:\n  files:\n  - {path: a.py, unlisted_test_mode: Skip}\n",
           {"bad_value 3:38"}},
      Case{"an octal number", with_global("    input_config: {seed: 012}\n"), {"bad_value 4:26"}},
      Case{"no number",
           with_global("    supported_dtypes: [{name: bool, precision: {atol: .inf}}]\n"),
           {"bad_value 4:55"}},
      Case{
          "no dtype", with_global("    supported_dtypes: [{name: flaot16}]\n"), {"bad_value 4:31"}},
      Case{"an unknown root",
           "test_suite_config:\n  files:\n  - path: ${PYTORCH_ROOT}/test/a.py\n",
           {"bad_value 3:11"}},
      // Names.
      Case{"a single name", suite("    - names: A::test_x\n"), {}},
      Case{"no names", suite("    - names: []\n"), {"bad_value 5:14"}},
      Case{"names that cannot be",
           suite(
               "    - names:\n      - A::B::test\n      - '::test'\n      - 'A::'\n      - test x\n"
               "      - A::1test\n      - A-B::test\n"),
           {"bad_name 6:9", "bad_name 7:9", "bad_name 8:9", "bad_name 9:9", "bad_name 10:9",
            "bad_name 11:9"}},
      Case{"patterns that cannot be",
           suite("    - names: ['A::test_(', '(?=x)test', '(a)\\1', 'x{,3}', '(A::b|C::d)']\n"),
           {"bad_name 5:15", "bad_name 5:28", "bad_name 5:41", "bad_name 5:50", "bad_name 5:59"}},
      Case{"a pattern in linear time", suite("    - names: ['(a+)+b', '(x*)*(y*)*z']\n"), {}},
      // Said twice.
      Case{"twice in a list", suite("    - names: [A::t, A::t]\n"), {"duplicate 5:21 5:15"}},
      Case{"twice in a file",
           suite("    - names: [A::t]\n    - names: [A::t]\n"),
           {"duplicate 6:15 5:15"}},
      Case{"row 1: two classes with one method",
           suite("    - names: [A::t]\n    - {names: [B::t], mode: skip}\n"),
           {}},
      Case{"differently",
           suite("    - names: [A::t]\n    - {names: [A::t], mode: skip}\n"),
           {"contradiction 6:16 5:15"}},
      Case{"with variants of its own",
           suite("    - {names: [A::t], edits: {ops: {include: [{name: add}]}}}\n"
                 "    - {names: [A::t], edits: {ops: {include: [{name: mul}]}}}\n"),
           {}},
      Case{"with a reason for each variant",
           suite("    - {names: [A::t], mode: skip, edits: {ops: {include: [{name: add}]}},"
                 " rationale: {reason: crash}}\n"
                 "    - {names: [A::t], mode: skip, rationale: {reason: timeout}}\n"),
           {}},
      Case{"for another reason",
           suite("    - {names: [A::t], mode: skip, rationale: {reason: crash}}\n"
                 "    - {names: [A::t], mode: skip, rationale: {reason: timeout}}\n"),
           {"contradiction 6:16 5:16"}},
      Case{"a name and a pattern for it",
           suite("    - names: ['A::.*']\n    - {names: [A::t], mode: skip}\n"),
           {}},
      Case{"a file twice",
           "test_suite_config:\n  files:\n  - path: a.py\n  - path: a.py\n",
           {"duplicate 4:11 3:11"}},
      Case{"an operator twice",
           with_global(
               "    supported_ops: [add, {name: mul}, mul, {name: add, force_xfail: true}]\n"),
           {"contradiction 4:39 4:26", "contradiction 4:44 4:21"}},
      Case{"a dtype twice",
           with_global("    supported_dtypes: [{name: bool}, {name: bool}]\n"),
           {"duplicate 4:38 4:24"}},
      Case{"a dtype that is not supported",
           with_global("    supported_dtypes: [{name: bool}]\n"
                       "    supported_ops: [{name: add, dtypes: [{name: int8}]}]\n"),
           {"contradiction 5:21"}},
      Case{"included and excluded",
           entry("      edits: {dtypes: {include: [{name: bool}], exclude: [{name: bool}]}}\n"),
           {"contradiction 6:59 6:34"}},
      // Row 20.
      Case{"a condition goes over none",
           suite(
               "    - names: [A::t]\n    - {names: [A::t], mode: skip, when: {platform: s390x}}\n"),
           {}},
      Case{"conditions that exclude each other",
           suite("    - {names: [A::t], when: {torch: '<2.13'}}\n"
                 "    - {names: [A::t], mode: skip, when: {torch: '>=2.13'}}\n"),
           {}},
      Case{"conditions that may both hold",
           suite("    - {names: [A::t], when: {platform: s390x}}\n"
                 "    - {names: [A::t], mode: skip, when: {device: a}}\n"),
           {"tie 6:16 5:16"}},
      Case{"and that agree",
           suite("    - {names: [A::t], mode: skip, when: {platform: s390x}}\n"
                 "    - {names: [A::t], mode: skip, when: {device: a}}\n"),
           {}},
      Case{"and an entry for both",
           suite("    - {names: [A::t], when: {platform: s390x}}\n"
                 "    - {names: [A::t], mode: skip, when: {device: a}}\n"
                 "    - {names: [A::t], mode: xfail, when: {device: a, platform: s390x}}\n"),
           {}},
      Case{"ranges that overlap",
           suite("    - {names: [A::t], when: {torch: '<2.14'}}\n"
                 "    - {names: [A::t], mode: skip, when: {torch: '>=2.13'}}\n"),
           {"tie 6:16 5:16"}},
      Case{"conditions that say nothing",
           suite("    - {names: [A::t], when: {}}\n    - {names: [B::t], when: {torch: 2.13}}\n"
                 "    - {names: [C::t], when: {torch: '>2.13,<2.12'}}\n"
                 "    - {names: [D::t], when: {platfrom: x, device: []}}\n"),
           {"bad_value 5:29", "bad_value 6:37", "bad_value 7:37", "unknown_key 8:30",
            "bad_value 8:51"}},
      // Row 14.
      Case{"a reason against its mode",
           entry("      mode: mandatory_success\n      rationale: {reason: crash}\n"),
           {"bad_rationale 7:27 6:13"}},
      Case{"a reason against the default mode",
           entry("      rationale: {reason: undecided}\n"),
           {"bad_rationale 6:27"}},
      Case{"a reason that names nothing",
           entry("      mode: xfail\n      rationale: {reason: unsupported_operator}\n"),
           {"bad_rationale 7:27"}},
      Case{"a reason that names what is another's",
           entry("      mode: xfail\n      rationale: {reason: crash, dtypes: [int8]}\n"),
           {"bad_rationale 7:34"}},
      Case{"an unknown reason", entry("      rationale: {reason: because}\n"), {"bad_value 6:27"}},
      Case{"dates",
           entry("      rationale: {reason: person, decided_at: 2026-02-30, expires: soon}\n"),
           {"bad_value 6:47", "bad_value 6:68"}},
      Case{
          "expired before it was decided",
          entry("      rationale: {reason: person, decided_at: 2026-02-20, expires: 2026-02-01}\n"),
          {"bad_rationale 6:68 6:47"}},
      Case{"evidence that cannot be opened",
           entry("      rationale: {reason: person, evidence: [{kind: run}]}\n"),
           {"missing_key 6:46"}}};
  return all;
}

TEST(Load, FindsAllAndNothingElse) {
  for (const Case& one : cases()) {
    const Loaded loaded = load_text(one.text);
    std::string said;
    for (const Finding& finding : loaded.findings) said += to_string(finding) + "\n";
    EXPECT_EQ(brief(loaded.findings), one.findings) << one.what << "\n" << said;
  }
}

TEST(Load, AReasonGoesWithTheseModes) {
  const std::vector<std::pair<Reason, std::string>> table{
      {Reason::undecided, "xfail"},
      {Reason::all_operators_supported, "mandatory_success"},
      {Reason::passed_on_device, "mandatory_success"},
      {Reason::unsupported_operator, "xfail, xfail_strict or skip"},
      {Reason::unsupported_dtype, "xfail, xfail_strict or skip"},
      {Reason::unsupported_feature, "xfail, xfail_strict or skip"},
      {Reason::numerical_mismatch, "xfail, xfail_strict or skip"},
      {Reason::device_error, "xfail, xfail_strict or skip"},
      {Reason::crash, "xfail, xfail_strict or skip"},
      {Reason::timeout, "xfail, xfail_strict or skip"},
      {Reason::out_of_memory, "xfail, xfail_strict or skip"},
      {Reason::flaky, "xfail or skip"},
      {Reason::not_for_this_device, "skip"},
      {Reason::out_of_scope, "skip"},
      {Reason::superseded, "skip"},
      {Reason::person, "mandatory_success, xfail, xfail_strict or skip"}};
  EXPECT_EQ(table.size(), std::size(k_reasons));
  for (const auto& [reason, modes] : table) EXPECT_EQ(modes_of(reason), modes) << to_string(reason);
}

TEST(Load, TheMessageNamesThePlaceAndTheNearestKey) {
  const Loaded loaded =
      load_text("test_suite_config:\n  files:\n  - path: a.py\n    unlisted_test_mod: skip\n");
  ASSERT_EQ(loaded.findings.size(), 1U);
  EXPECT_EQ(to_string(loaded.findings[0]),
            "t.yaml:4:5: a file entry has no key 'unlisted_test_mod'\n"
            "  remedy: did you mean 'unlisted_test_mode'?");
}

TEST(Load, WhatIsReadOfAnEntry) {
  const Loaded loaded = load_text(
      suite("    - names: [A::test_x]\n      mode: xfail_strict\n      when: {torch: '>=2.12'}\n"
            "      rationale: {reason: numerical_mismatch, mismatch: {absolute: 1.5, "
            "absolute_tolerance: 1e-3},\n"
            "        text: \"it \\\"differs\\\"\", decided_by: person, decided_at: 2026-11-30}\n"));
  ASSERT_TRUE(loaded.ok());
  const FileEntry& file = loaded.config->files.at(0);
  EXPECT_EQ(file.path, "${TORCH_ROOT}/test/test_x.py");
  EXPECT_EQ(file.unlisted, Mode::skip);
  const Entry& entry = file.entries.at(0);
  EXPECT_EQ(entry.mode, Mode::xfail_strict);
  EXPECT_EQ(to_string(entry.when), "torch >=2.12");
  EXPECT_EQ(entry.names.at(0).class_name, "A");
  EXPECT_EQ(entry.names.at(0).method, "test_x");
  ASSERT_TRUE(entry.rationale);
  EXPECT_EQ(entry.rationale->reason, Reason::numerical_mismatch);
  EXPECT_EQ(entry.rationale->text, "it \"differs\"");
  EXPECT_EQ(entry.rationale->mismatch.at(0),
            (std::pair<std::string, std::string>{"absolute", "1.5"}));
  EXPECT_EQ(entry.rationale->decided_by, Decider::person);
}

TEST(Load, AnExpiredReasonIsANote) {
  const std::string text =
      suite("    - {names: [A::t], rationale: {reason: person, expires: 2026-05-01}}\n");
  EXPECT_THAT(load_files({{"t.yaml", text}}, "t.yaml", "2026-05-01").findings, IsEmpty());
  const Loaded later = load_files({{"t.yaml", text}}, "t.yaml", "2026-05-02");
  EXPECT_THAT(brief(later.findings), ElementsAre("expired 5:60"));
  EXPECT_TRUE(later.ok());
}

// Row 15.
TEST(Include, BringsSharedBlocks) {
  const Loaded loaded = load_files(
      {{"d/t.yaml",
        "test_suite_config:\n  include: [../shared/ops.yaml, more.yaml]\n  files: []\n"},
       {"shared/ops.yaml", "test_suite_config:\n  global:\n    supported_ops: [add, mul]\n"},
       {"d/more.yaml",
        "test_suite_config:\n  include: [../shared/ops.yaml]\n  global:\n    supported_ops: [add]\n"
        "  files:\n  - {path: a.py, tests: [{names: [t]}]}\n"}},
      "d/t.yaml");
  EXPECT_THAT(brief(loaded.findings), IsEmpty());
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.config->global.ops.size(), 2U);
  EXPECT_EQ(loaded.config->files.size(), 1U);
  EXPECT_EQ(loaded.config->documents.front()->name(), "d/t.yaml");
}

TEST(Include, PartsMustAgree) {
  const Loaded loaded = load_files(
      {{"t.yaml",
        "test_suite_config:\n  include: [o.yaml]\n  files:\n"
        "  - {path: a.py, unlisted_test_mode: xfail, tests: [{names: [t]}]}\n"
        "  global: {supported_ops: [add], input_config: {seed: 1}}\n"},
       {"o.yaml",
        "test_suite_config:\n  files:\n"
        "  - {path: a.py, unlisted_test_mode: skip, tests: [{names: [t], mode: skip}]}\n"
        "  global: {supported_ops: [{name: add, force_xfail: true}], input_config: {seed: 2}}\n"}});
  std::vector<std::string> places;
  for (const Finding& finding : loaded.findings)
    places.push_back(to_string(finding.place) + " " + to_string(finding.others.at(0)));
  EXPECT_THAT(places, ElementsAre("o.yaml:3:38 t.yaml:4:38", "o.yaml:3:61 t.yaml:4:62",
                                  "o.yaml:4:28 t.yaml:5:28", "o.yaml:4:82 t.yaml:5:55"));
}

TEST(Include, ThatIsMissingOrGoesInACircleIsNamed) {
  const Loaded missing = load_text("test_suite_config:\n  include: [no.yaml]\n  files: []\n");
  EXPECT_THAT(brief(missing.findings), ElementsAre("unreadable 2:13"));
  EXPECT_FALSE(missing.ok());
  const Loaded circle = load_files({{"t.yaml", "test_suite_config: {include: [a.yaml], files: []}"},
                                    {"a.yaml", "test_suite_config: {include: [t.yaml]}"}});
  EXPECT_THAT(brief(circle.findings), ElementsAre("bad_value 1:31"));
  EXPECT_EQ(circle.findings[0].place.file, "a.yaml");
  const Loaded itself = load_text("test_suite_config: {include: [./t.yaml], files: []}");
  EXPECT_THAT(brief(itself.findings), ElementsAre("bad_value 1:31"));
}

TEST(Load, AFileOfAnotherKindGivesSoManyFindings) {
  std::string text = "test_suite_config:\n  files: []\n";
  for (int i = 0; i < 5000; ++i) text += "  key" + std::to_string(i) + ": 1\n";
  const Loaded loaded = load_text(text);
  EXPECT_EQ(loaded.findings.size(), k_finding_limit + 1);
  EXPECT_THAT(loaded.findings.back().message, HasSubstr("more"));
}

TEST(Load, NestingIsLimited) {
  const Loaded loaded = load_text("a: " + std::string(100, '[') + std::string(100, ']'));
  EXPECT_THAT(brief(loaded.findings), ElementsAre("not_yaml 1:67"));
}

TEST(Load, CarriageReturnsCountAsLines) {
  const Loaded loaded = load_text("test_suite_config:\r\n  files: []\r\n  b: 1\r\n");
  EXPECT_THAT(brief(loaded.findings), ElementsAre("unknown_key 3:3"));
}

TEST(When, VersionsAreOrderedAsPipDoes) {
  const std::vector<std::string> ascending{
      "2.9",    "2.13.0.dev20261101", "2.13.0a0+git1", "2.13.0b1",  "2.13.0rc1", "2.13.0rc2",
      "2.13.0", "2.13.0.post1",       "2.13.1",        "2.14.1+cpu"};
  for (std::size_t i = 0; i + 1 < ascending.size(); ++i) {
    const auto less = parse_version(ascending[i]);
    const auto more = parse_version(ascending[i + 1]);
    ASSERT_TRUE(less && more) << ascending[i];
    EXPECT_LT(*less, *more) << ascending[i] << " " << ascending[i + 1];
  }
  EXPECT_EQ(*parse_version("2.13"), *parse_version("2.13.0+cu12"));
  for (const char* wrong :
       {"", "x", "2.", "2.x", "2.13.0x1", "1.2.3.4.5", "99999999999", "2.13.0rc1x"})
    EXPECT_FALSE(parse_version(wrong)) << wrong;
}

// Over all pairs of some conditions: meet holds exactly where both do; implies is meet's order.
TEST(When, MeetAndImpliesAgreeWithHolds) {
  std::vector<When> conditions{{}};
  for (const char* range : {"<2.13", ">=2.13", "<=2.13", "==2.13", ">2.12,<2.14"})
    conditions.push_back({{}, {}, *parse_range(range)});
  for (std::size_t i = 0, n = conditions.size(); i < n; ++i) {
    When with = conditions[i];
    with.platforms = {"a"};
    conditions.push_back(with);
    with.platforms = {"a", "b"};
    conditions.push_back(with);
    with.devices = {"d"};
    conditions.push_back(with);
  }
  std::vector<Circumstances> all;
  for (const char* platform : {"a", "b", "c"})
    for (const char* torch : {"2.12", "2.13.0a0", "2.13", "2.13.1", "2.14"})
      for (const char* device : {"d", "e"})
        all.push_back({platform, *parse_version(torch), {device, "model"}});
  for (const When& a : conditions) {
    for (const When& b : conditions) {
      const auto both = a.meet(b);
      if (both) {
        EXPECT_TRUE(both->implies(a) && both->implies(b)) << to_string(a) << " " << to_string(b);
      }
      for (const Circumstances& at : all) {
        EXPECT_EQ(both && both->holds(at), a.holds(at) && b.holds(at))
            << to_string(a) << "; " << to_string(b);
        if (a.implies(b) && a.holds(at)) {
          EXPECT_TRUE(b.holds(at)) << to_string(a) << "; " << to_string(b);
        }
      }
    }
  }
}

}  // namespace
}  // namespace crosscheck::config
