#include "crosscheck/runner/import.h"

#include <gmock/gmock.h>

#include "crosscheck/runner/classify.h"
#include "crosscheck/runner/report.h"
#include "support.h"

namespace crosscheck::runner {
namespace {

using base::Outcome;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

const base::Time k_now = *base::parse_rfc3339("2026-11-30T12:00:00Z");

std::string junit(const std::string& cases) {
  return "<?xml version=\"1.0\" encoding=\"utf-8\"?><testsuites><testsuite name=\"pytest\">" +
         cases + "</testsuite></testsuites>";
}
std::string test_case(const std::string& name, const std::string& inside = {},
                      const std::string& path = "test_x") {
  return "<testcase classname=\"" + path + "\" name=\"" + name + "\" time=\"0.001\">" + inside +
         "</testcase>";
}

class ImportTest : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const auto path = folder_.path() / name;
    std::ofstream{path, std::ios::binary} << text;
    return path.string();
  }
  Imported import(const std::vector<std::string>& files, const ImportOptions& options = {}) {
    auto imported = import_runs(files, options, k_now);
    EXPECT_TRUE(imported) << imported.error().message;
    return imported ? *std::move(imported) : Imported{};
  }
  base::TestResult only(const std::string& text) {
    const auto imported = import({file("one", text)});
    EXPECT_THAT(imported.run.results, SizeIs(1)) << text;
    return imported.run.results.empty() ? base::TestResult{} : imported.run.results[0];
  }

 private:
  base::TemporaryFolder folder_;
};

// What pytest 2.9 to 9 write of the same thing.
TEST_F(ImportTest, OutcomesAsPytestWritesThem) {
  struct Row {
    const char* what;
    const char* inside;
    Outcome outcome;
    const char* message;
  };
  const std::vector<Row> rows{
      {"passed", "", Outcome::passed, ""},
      {"failed", R"(<failure message="assert 1 == 2">E   assert 1 == 2</failure>)", Outcome::failed,
       "AssertionError: assert 1 == 2"},
      {"skip", R"(<skipped type="pytest.skip" message="why">x.py:3: why</skipped>)",
       Outcome::skipped, "why"},
      {"xfail", R"(<skipped type="pytest.xfail" message="known"/>)", Outcome::xfailed, "known"},
      {"xfail 2.9, 3", R"(<skipped message="expected test failure">reason: known</skipped>)",
       Outcome::xfailed, "known"},
      {"xpass 2.9", R"(<skipped message="xfail-marked test passes unexpectedly">known</skipped>)",
       Outcome::xpassed, "known"},
      {"strict xpass",
       R"(<failure message="[XPASS(strict)] known">[XPASS(strict)] known</failure>)",
       Outcome::failed, "passed, but is marked as a test that must fail: known"},
      {"unexpected success",
       R"(<failure message="Unexpected success">Unexpected success</failure>)", Outcome::failed,
       "passed, but is marked as a test that must fail"},
      {"unexpected success 9",
       R"(<failure message="Failed: Unexpected success">Unexpected success</failure>)",
       Outcome::failed, "passed, but is marked as a test that must fail"},
      {"setUp", R"(<failure message="ValueError: in setUp">E   ValueError: in setUp

x.py:5: ValueError</failure>)",
       Outcome::failed, "ValueError: in setUp"},
      {"setUpClass",
       R"(<error message="failed on setup with &quot;ValueError: x&quot;">E   ValueError: x</error>)",
       Outcome::failed, "in setup: ValueError: x"},
      {"setup before 4.6", R"(<error message="test setup failure">E   ValueError: x</error>)",
       Outcome::failed, "in setup: ValueError: x"},
      {"teardown", R"(<error message="failed on teardown with &quot;ValueError: x&quot;"/>)",
       Outcome::failed, "in teardown: ValueError: x"},
      {"missing module",
       R"(<failure message="ModuleNotFoundError: No module named 'triton'">E   ModuleNotFoundError: No module named 'triton'</failure>)",
       Outcome::environment_error, "ModuleNotFoundError: No module named 'triton'"},
      {"xdist",
       R"(<error message="failed on setup with &quot;worker 'gw0' crashed while running 'test_x.py::test_y'&quot;">worker 'gw0' crashed while running 'test_x.py::test_y'</error>)",
       Outcome::crashed, "the process died in this test"},
      {"xdist 1",
       R"(<error message="test setup failure">Slave 'gw1' crashed while running 'test_x.py::test_y'</error>)",
       Outcome::crashed, "the process died in this test"},
      {"xdist without quotes",
       R"(<failure message="worker 'gw3' crashed while running 'test_x.py::test_y'"/>)",
       Outcome::crashed, "the process died in this test"},
      {"timeout 1",
       R"(<failure message="Failed: Timeout &gt;2.0s">E   Failed: Timeout &gt;2.0s</failure>)",
       Outcome::timed_out, "did not end within 2.0 s"},
      {"timeout 2.4",
       R"(<failure message="Failed: Timeout (&gt;2.5s) from pytest-timeout.">E   Failed: Timeout (&gt;2.5s) from pytest-timeout.</failure>)",
       Outcome::timed_out, "did not end within 2.5 s"},
      {"subtests",
       R"(<failure message="AssertionError: 1 != 0">E   AssertionError: 1 != 0</failure><failure message="AssertionError: 3 != 0">E   AssertionError: 3 != 0</failure>)",
       Outcome::failed, "AssertionError: 1 != 0\n(and 1 more failures)"},
  };
  for (const auto& row : rows) {
    const auto result = only(junit(test_case("test_y", row.inside)));
    EXPECT_EQ(result.outcome, row.outcome) << row.what;
    EXPECT_THAT(result.message, StartsWith(row.message)) << row.what;
    EXPECT_EQ(result.id.method, "test_y") << row.what;
    EXPECT_EQ(result.duration, base::Duration{1000}) << row.what;
  }
}

// The same failure, run here and imported, has one fingerprint: they are compared by it.
TEST_F(ImportTest, AFailureIsClassifiedAsIfItWereRunHere) {
  const std::string message =
      "Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\nGreatest absolute "
      "difference: 0.5 at index (1,) (up to 1e-05 allowed)";
  std::string attribute = "AssertionError: " + message;
  std::string text = "    def test_y(self):\n>       self.assertEqual(a, b)\nE       " + attribute;
  for (auto at = text.find('\n', 60); at != std::string::npos; at = text.find('\n', at + 1)) {
    text.insert(at + 1, "E       ");
  }
  text +=
      "\n\ntest_x.py:7: AssertionError\n----- Captured stdout call -----\nE   noise: none\n"
      "other.py:1: KeyError";
  for (auto at = attribute.find('\n'); at != std::string::npos; at = attribute.find('\n')) {
    attribute.replace(at, 1, "&#10;");
  }
  Finish finish;
  finish.outcome = Reported::failed;
  finish.phase = "call";
  finish.type = "AssertionError";
  finish.message = message;
  const auto here = classify(finish);
  std::string spaced = attribute;  // what a parser makes of a line break that is not escaped
  for (auto at = spaced.find("&#10;"); at != std::string::npos; at = spaced.find("&#10;")) {
    spaced.replace(at, 5, "\n");
  }
  for (const auto& written : {attribute, spaced}) {
    const auto there = only(
        junit(test_case("test_y", "<failure message=\"" + written + "\">" + text + "</failure>")));
    EXPECT_EQ(there.message, here.message);
    EXPECT_EQ(there.kind, base::FailureKind::numerical_mismatch);
    EXPECT_EQ(there.fingerprint, here.fingerprint);
    ASSERT_TRUE(there.mismatch);
    EXPECT_EQ(there.mismatch->absolute, 0.5);
  }
}

TEST_F(ImportTest, OneAttemptThatFailsTwiceIsOne) {
  const auto result = only(junit(
      test_case("test_y", R"(<failure message="assert 0">E   assert 0</failure>)") +
      test_case(
          "test_y",
          R"(<error message="failed on teardown with &quot;ValueError: x&quot;">late</error>)")));
  EXPECT_EQ(result.message, "AssertionError: assert 0");
  EXPECT_THAT(result.detail, HasSubstr("in teardown: late"));
}

TEST_F(ImportTest, WhatDoesNotCollectIsAFault) {
  const auto broken = only(junit(
      R"(<testcase classname="" name="sub.test_x" time="0"><error message="collection failure">E   SyntaxError: bad</error></testcase>)"));
  EXPECT_EQ(broken.outcome, Outcome::harness_error);
  EXPECT_EQ(to_string(broken.id), "sub/test_x.py::(collection)");
  EXPECT_THAT(broken.message, HasSubstr("SyntaxError: bad"));
  const auto skipped = only(junit(
      R"(<testcase classname="" file="test_m.py" name="test_m"><skipped message="collection skipped">('/x/test_m.py', 2, "Skipped: not here")</skipped></testcase>)"));
  EXPECT_EQ(skipped.outcome, Outcome::skipped);
  EXPECT_EQ(skipped.id.file, "test_m.py");
  EXPECT_EQ(skipped.message, "not here");
  // Not as pytest writes it.
  const auto empty = only(junit(
      R"(<testcase classname="" file="test_m.py" name="test_m"><skipped message="collection skipped">Skipped: )</skipped></testcase>)"));
  EXPECT_EQ(empty.outcome, Outcome::skipped);
  EXPECT_EQ(empty.message, "");
}

TEST_F(ImportTest, RepeatedTestsAreAttemptsAndWhatAFileDoesNotSayIsLeftOut) {
  // pytest-rerunfailures: two attempts that failed look like passed ones.
  const auto flaky =
      file("flaky.xml", junit(test_case("test_y") + test_case("test_y") + test_case("test_y")));
  const auto silent = import({flaky});
  ASSERT_THAT(silent.run.results, SizeIs(1));
  EXPECT_EQ(silent.run.results[0].attempt, 3);
  EXPECT_EQ(silent.run.results[0].outcome, Outcome::passed);
  EXPECT_THAT(silent.notes, Contains(HasSubstr("2 results are followed by another")));
  // The console log tells.
  const auto log = file("flaky.log",
                        "= test session starts =\n"
                        "test_x.py::test_y RERUN    [100%]\ntest_x.py::test_y RERUN    [100%]\n"
                        "test_x.py::test_y PASSED   [100%]\n= 1 passed, 2 rerun in 0.1s =\n");
  for (const auto& junit_file :
       {flaky, file("last.xml", junit(test_case("test_y")))}) {  // before 6 only the last is there
    const auto told = import({junit_file, log});
    ASSERT_THAT(told.run.results, SizeIs(3));
    EXPECT_EQ(told.run.results[0].outcome, Outcome::failed);
    EXPECT_EQ(told.run.results[1].outcome, Outcome::failed);
    EXPECT_EQ(told.run.results[2].outcome, Outcome::passed);
    EXPECT_EQ(told.run.results[2].attempt, 3);
  }
  // Two files: two runs.
  const auto twice = import({file("a.xml", junit(test_case("test_y", "<failure message='x'/>"))),
                             file("b.xml", junit(test_case("test_y")))});
  ASSERT_THAT(twice.run.results, SizeIs(2));
  EXPECT_EQ(twice.run.results[0].outcome, Outcome::failed);
  EXPECT_EQ(twice.run.results[1].outcome, Outcome::passed);
  EXPECT_EQ(twice.run.results[1].attempt, 2);
  EXPECT_THAT(twice.notes, Contains(HasSubstr("kept as attempts")));
}

TEST_F(ImportTest, ALogAddsWhatJUnitDoesNotSay) {
  const auto crash = file(
      "xdist.xml",
      junit(
          test_case("test_ok") +
          test_case(
              "test_y",
              R"(<error message="failed on setup with &quot;worker 'gw0' crashed while running 'test_x.py::test_y'&quot;"/>)") +
          test_case("test_z")));
  const auto log = file("xdist.log",
                        "= test session starts =\n"
                        "Fatal Python error: Segmentation fault\n\n"
                        "Current thread 0x1 (most recent call first):\n"
                        "  File \"/s/test_x.py\", line 3 in test_y\n"
                        "[gw0] node down: Not properly terminated\n"
                        "[gw0] [ 33%] FAILED test_x.py::test_y \n"
                        "[gw1] [ 66%] PASSED test_x.py::test_ok \n"
                        "[gw1] [ 66%] XPASS test_x.py::test_z \n"
                        "= 1 failed, 2 passed in 3.31s =\n");
  const auto imported = import({crash, log});
  ASSERT_THAT(imported.run.results, SizeIs(3));
  EXPECT_EQ(imported.run.results[1].outcome, Outcome::crashed);
  EXPECT_THAT(imported.run.results[1].message, HasSubstr("SIGSEGV"));
  EXPECT_THAT(imported.run.results[1].detail, HasSubstr("line 3 in test_y"));
  EXPECT_EQ(imported.run.results[2].outcome, Outcome::xpassed);
}

// As one that ran out of memory is: nothing says so, and nothing failed.
TEST_F(ImportTest, ALogThatEndsInATestIsNotTheWholeRun) {
  const std::string cut =
      "===== test session starts =====\nplatform linux -- Python 3.11.2, pytest-9.1.1\n"
      "collected 3 items\n\ntest_x.py::test_a PASSED\ntest_x.py::test_b ";
  const auto imported = import({file("log", cut)});
  EXPECT_TRUE(imported.run.header.interrupted);
  EXPECT_THAT(summary_text(imported.run, {}, false), HasSubstr("pytest did not come to its end"));
  const auto ended = import({file("log", cut + "PASSED\n===== 2 passed in 0.10s =====\n")});
  EXPECT_FALSE(ended.run.header.interrupted);
  const auto reported = import({file("xml", junit(test_case("test_a"))), file("log", cut)});
  EXPECT_FALSE(reported.run.header.interrupted) << "a JUnit file is written at the end";
}

TEST_F(ImportTest, NamesAreMatchedAgainstAnInventory) {
  Inventory inventory;
  CollectedTest generated;
  generated.id = {"test_ops.py", "TestCommon", "test_dtypes", R"({"dtype":"float32","op":"add"})"};
  generated.node_id = "test_ops.py::TestCommonCPU::test_dtypes_add_cpu_float32";
  CollectedTest dynamo;
  dynamo.id = {"dynamo/test_misc.py", "MiscTests", "test_a", "{}"};
  dynamo.node_id = "dynamo/test_misc.py::MiscTests::test_a";
  CollectedTest other;
  other.id = {"export/test_misc.py", "MiscTests", "test_a", "{}"};
  other.node_id = "export/test_misc.py::MiscTests::test_a";
  inventory.tests = {generated, dynamo, other};
  ImportOptions options;
  options.inventory = &inventory;
  const auto matched = [&](const std::string& path, const std::string& name) {
    auto imported = import({file("i.xml", junit(test_case(name, "", path)))}, options);
    return std::pair{imported.run.results.at(0), imported.notes};
  };
  // From the root's folder, from above and from below.
  for (const auto* path : {"test_ops.TestCommonCPU", "pytorch.test.test_ops.TestCommonCPU"}) {
    const auto [result, notes] = matched(path, "test_dtypes_add_cpu_float32");
    EXPECT_EQ(result.id, generated.id) << path;
    EXPECT_EQ(result.node_id, generated.node_id);
    EXPECT_THAT(notes, IsEmpty());
  }
  EXPECT_EQ(matched("test.dynamo.test_misc.MiscTests", "test_a").first.id, dynamo.id);
  EXPECT_EQ(matched("dynamo.test_misc.MiscTests", "test_a").first.id, dynamo.id);
  // What could be either is said, not guessed.
  const auto [either, notes] = matched("test_misc.MiscTests", "test_a");
  EXPECT_EQ(either.id.file, "test_misc.py");
  EXPECT_THAT(notes,
              Contains(AllOf(HasSubstr("1 tests could be one of several"),
                             HasSubstr("dynamo/test_misc.py::MiscTests::test_a or export"))));
  // PyTorch's own CI names the class and the file.
  const auto of_file =
      import({file("ci.xml", junit(R"(<testcase classname="MiscTests" file="export/test_misc.py" )"
                                   R"(name="test_a"/>)"))},
             options);
  EXPECT_EQ(of_file.run.results.at(0).id, other.id);
  // Of another torch the names may be other tests'.
  inventory.environment.torch = "2.12.1+cpu";
  const auto one = file("v.xml", junit(test_case("test_a")));
  for (const auto* torch : {"2.12.1", "2.12.1+cu130", "2.12.1 (abc)", "unknown", "main"}) {
    options.combination.core_revision = torch;
    EXPECT_TRUE(import_runs({one}, options, k_now)) << torch;
  }
  options.combination.core_revision = "2.13.0";
  const auto refused = import_runs({one}, options, k_now);
  ASSERT_FALSE(refused);
  EXPECT_EQ(exit_code(refused.error().fault), base::ExitCode::environment);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("2.13.0"), HasSubstr("2.12.1+cpu")));
  options.combination.core_revision.clear();
  // A longer name that ends alike is another test's.
  const auto [unlisted, more] = matched("my_test_ops.TestCommonCPU", "test_dtypes_add_cpu_float32");
  EXPECT_EQ(unlisted.id.class_name, "TestCommonCPU");
  EXPECT_THAT(more, Contains(HasSubstr("1 tests are not in the inventory")));
}

TEST_F(ImportTest, WithoutAnInventoryNamesSayWhatTheySay) {
  const auto id = [&](const std::string& attributes) {
    return to_string(only(junit("<testcase " + attributes + "/>")).id);
  };
  EXPECT_EQ(id(R"(classname="test.test_ops.TestX" name="test_a")"),
            "test/test_ops.py::TestX::test_a");
  EXPECT_EQ(id(R"(classname="test.test_ops" name="test_a")"), "test/test_ops.py::test_a");
  EXPECT_EQ(id(R"(classname="tests.ops_test.X" name="test_a")"), "tests/ops_test.py::X::test_a");
  EXPECT_EQ(id(R"(classname="tests.ops.TestX" name="test_a")"), "tests/ops.py::TestX::test_a");
  EXPECT_EQ(id(R"(classname="test_x" name="test_a[1-float32]")"),
            R"(test_x.py::test_a{"case":"test_a[1-float32]"})");
  EXPECT_EQ(id(R"(classname="test_x.TestA.TestB" name="test_a")"),
            R"(test_x.py::TestB::test_a{"case":"TestA.TestB.test_a"})");
  EXPECT_EQ(id("classname=\"test_x.TestA.()\" name=\"test_a\""), "test_x.py::TestA::test_a");
  // xunit1 names the file, of an inherited test its base's.
  EXPECT_EQ(id(R"(classname="pkg.ops.Cases" file="pkg/ops.py" name="test_a")"),
            "pkg/ops.py::Cases::test_a");
  EXPECT_EQ(id(R"(classname="test_x.TestX" file="common.py" name="test_a")"),
            "test_x.py::TestX::test_a");
  EXPECT_EQ(id(R"(classname="test_x.TestX" file="/src/checkout/test_x.py" name="test_a")"),
            "test_x.py::TestX::test_a");
  // PyTorch's own CI: class and file, without the module in the path.
  EXPECT_EQ(id(R"(classname="TestX" file="dynamo/test_misc.py" name="test_a")"),
            "dynamo/test_misc.py::TestX::test_a");
  EXPECT_EQ(id(R"(classname="" name="test_a")"), "(unknown)::test_a");
  EXPECT_EQ(id(R"(file="test_x.py" name="test_a")"), "test_x.py::test_a");
  EXPECT_EQ(id(R"(classname="test_x" name="")"), "test_x.py::(unnamed)");
}

TEST_F(ImportTest, TheRunSaysWhereItIsFrom) {
  const auto path = file(
      "j.xml",
      R"(<testsuite timestamp="2026-11-30T10:00:00.5" time="2"><properties><property name="torch_version" value="2.12.0"/><property name="device" value="npu"/></properties><testcase classname="test_x" name="test_a"/></testsuite>)");
  ImportOptions options;
  options.combination.backend = "mine";
  options.combination.device = "from the command line";
  const auto imported = import({path}, options);
  const auto& header = imported.run.header;
  EXPECT_EQ(header.combination.backend, "mine");
  EXPECT_EQ(header.combination.core_revision, "2.12.0");
  EXPECT_EQ(header.combination.device, "from the command line");
  EXPECT_EQ(header.combination.suite_revision, "unknown");
  EXPECT_EQ(header.combination.environment_digest, "unknown");
  EXPECT_EQ(base::to_rfc3339(header.started_at), "2026-11-30T10:00:00.500000Z");
  EXPECT_EQ(header.finished_at - header.started_at, std::chrono::seconds{2});
  EXPECT_TRUE(header.imported);
  EXPECT_THAT(header.selection, HasSubstr("imported from"));
  // The same again is the same run; anything else is not.
  EXPECT_EQ(import({path}, options).run.header.run_id, header.run_id);
  options.combination.backend = "yours";
  EXPECT_NE(import({path}, options).run.header.run_id, header.run_id);
  // It is written and read like any other.
  const auto again = base::parse_run_results(base::to_json_lines(imported.run));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->results, imported.run.results);
}

TEST_F(ImportTest, OurOwnJUnitComesBack) {
  base::RunResults run;
  run.header.combination = {"refdev", "r1", "2.13.0", "s", "refdev", "e"};
  for (const auto* method : {"test_a", "test_b"}) {
    base::TestResult result;
    result.id = {"sub/test_x.py", "TestX", method, "{}"};
    result.node_id = "sub/test_x.py::TestX::" + std::string{method};
    result.outcome = Outcome::passed;
    run.results.push_back(result);
  }
  const auto imported = import({file("own.xml", to_junit(run))});
  EXPECT_EQ(imported.run.header.combination, run.header.combination);
  ASSERT_THAT(imported.run.results, SizeIs(2));
  EXPECT_EQ(imported.run.results[1].id, run.results[1].id);
  EXPECT_EQ(imported.run.results[1].node_id, run.results[1].node_id);
}

TEST_F(ImportTest, ABrokenFileIsRefusedUnlessAskedFor) {
  const auto whole = junit(test_case("test_a") + test_case("test_b"));
  const auto cut = file("cut.xml", whole.substr(0, whole.rfind("<testcase") + 20));
  const auto refused = import_runs({cut}, {}, k_now);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("cut.xml:1:"), HasSubstr("cut off")));
  EXPECT_THAT(refused.error().remedy, HasSubstr("--salvage"));
  ImportOptions salvage;
  salvage.salvage = true;
  const auto kept = import({cut}, salvage);
  ASSERT_THAT(kept.run.results, SizeIs(1));
  EXPECT_THAT(kept.notes, Contains(HasSubstr("1 test that was complete is kept")));
  const auto escapes = file("esc.xml", junit(test_case("test_a", "<failure>\x1b[1m</failure>")));
  EXPECT_FALSE(import_runs({escapes}, {}, k_now));
  EXPECT_EQ(import({escapes}, salvage).run.results[0].message, "?[1m");
  // Salvage makes no run of what is none.
  for (const auto& file : {file("empty.xml", ""), file("html.xml", "<html/>"),
                           file("none.xml", junit("")), file("prose.log", "all went well\n")}) {
    EXPECT_FALSE(import_runs({file}, salvage, k_now)) << file;
  }
  EXPECT_FALSE(import_runs({"/nowhere/junit.xml"}, {}, k_now));
}

}  // namespace
}  // namespace crosscheck::runner
