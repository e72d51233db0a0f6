#include "crosscheck/runner/pytest_log.h"

#include <gmock/gmock.h>

namespace crosscheck::runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Ended = LogTest::Ended;

PytestLog read(std::string_view text, std::size_t piece = std::string::npos) {
  PytestLogReader reader;
  while (!text.empty()) {
    reader.feed(text.substr(0, piece));
    text.remove_prefix(std::min(piece, text.size()));
  }
  return reader.finish();
}

// "node ended" of each, by words.
std::vector<std::string> endings(const PytestLog& log) {
  static const std::vector<std::string> names{"passed",    "failed",  "error", "skipped",
                                              "xfailed",   "xpassed", "rerun", "crashed",
                                              "timed_out", "unknown"};
  std::vector<std::string> all;
  for (const auto& test : log.tests) {
    all.push_back(test.node_id + " " + names[static_cast<std::size_t>(test.ended)]);
  }
  return all;
}

constexpr std::string_view k_start =
    "============================= test session starts ==============================\n"
    "platform linux -- Python 3.11.7, pytest-9.2.0, pluggy-1.7.0 -- /usr/bin/python\n"
    "collecting ... collected 7 items\n\n";

const std::string k_verbose =
    std::string{k_start} + R"(test_a.py::test_pass PASSED                       [  3%]
test_a.py::test_fail FAILED                       [  6%]
test_a.py::test_skip SKIPPED (not here)           [ 18%]
test_a.py::test_xfail XFAIL (known (really))      [ 21%]
test_a.py::test_xpass XPASS                       [ 25%]
test_a.py::test_setup ERROR                       [ 31%]
test_a.py::test_td PASSED                         [ 34%]
test_a.py::test_td ERROR                          [ 34%]
test_a.py::TestA::test_p[a b-1] PASSED            [ 50%]
test_a.py::TestA::test_p[x] PASSED] PASSED        [ 50%]
test_a.py::test_prints some of its own words
and more
PASSED                                            [ 60%]
test_a.py::U::test_sub SUBFAILED(i=1)             [ 78%]
test_a.py::U::test_sub PASSED                     [ 78%]
=================================== FAILURES ===================================
__________________________________ test_fail ___________________________________

    def test_fail():
>       assert a == 2, "numbers"
E       AssertionError: numbers
E       assert 1 == 2

test_a.py:5: AssertionError
----------------------------- Captured stdout call -----------------------------
test_a.py::test_fail PASSED [ 1%]
E   noise
==================================== ERRORS ====================================
_____________________ ERROR at setup of test_setup _____________________________
E   ValueError: fixture broke

test_a.py:9: ValueError
____________________ ERROR collecting test_coll.py _____________________________
E   ModuleNotFoundError: No module named 'x'
=========================== short test summary info ============================
FAILED test_a.py::test_fail - AssertionError: numbers
ERROR test_a.py::test_td - ValueError: teardown broke
SUBFAILED(i=1) test_a.py::U::test_sub - AssertionError: 1 != 0
SKIPPED [1] test_a.py:8: not here
ERROR test_coll.py
= 2 failed, 4 passed, 2 errors in 3.82s =
)";

TEST(PytestLog, ReadsVerboseLinesSectionsAndSummary) {
  const auto log = read(k_verbose);
  EXPECT_THAT(endings(log),
              ElementsAre("test_a.py::test_pass passed", "test_a.py::test_fail failed",
                          "test_a.py::test_skip skipped", "test_a.py::test_xfail xfailed",
                          "test_a.py::test_xpass xpassed", "test_a.py::test_setup error",
                          "test_a.py::test_td error", "test_a.py::TestA::test_p[a b-1] passed",
                          "test_a.py::TestA::test_p[x] PASSED] passed",
                          "test_a.py::test_prints passed", "test_a.py::U::test_sub failed"));
  EXPECT_EQ(log.tests[1].type, "AssertionError");
  EXPECT_EQ(log.tests[1].message, "numbers\nassert 1 == 2");
  EXPECT_THAT(log.tests[1].text, HasSubstr("def test_fail"));
  EXPECT_EQ(log.tests[2].message, "not here");
  EXPECT_EQ(log.tests[3].message, "known (really)");
  EXPECT_EQ(log.tests[5].phase, "setup");
  EXPECT_EQ(log.tests[5].message, "fixture broke");
  EXPECT_EQ(log.tests[6].phase, "teardown");
  EXPECT_EQ(log.tests[6].message, "ValueError: teardown broke");
  EXPECT_EQ(log.tests[10].message, "AssertionError: 1 != 0");
  EXPECT_THAT(log.broken,
              ElementsAre(LogBroken{"test_coll.py", "ModuleNotFoundError", "No module named 'x'",
                                    "E   ModuleNotFoundError: No module named 'x'"}));
  EXPECT_EQ(log.facts.at("pytest"), "9.2.0");
  EXPECT_EQ(log.facts.at("python"), "3.11.7");
  EXPECT_EQ(log.collected, 7U);
  EXPECT_EQ(log.sessions, 1U);
  EXPECT_EQ(log.cut_off, 0U);
}

TEST(PytestLog, PiecesMakeNoDifference) {
  const auto whole = read(k_verbose);
  for (const std::size_t piece : {1U, 2U, 7U, 100U}) EXPECT_EQ(read(k_verbose, piece), whole);
}

// As a CI keeps it: colours, its own time stamps, carriage returns.
TEST(PytestLog, ReadsWhatATerminalAndACiAddToLines) {
  std::string dressed;
  std::string_view rest = k_verbose;
  while (!rest.empty()) {
    auto line = std::string{rest.substr(0, rest.find('\n'))};
    rest.remove_prefix(line.size() + 1);
    for (const std::string_view word : {"PASSED", "FAILED", "test_a.py"}) {
      if (const auto at = line.find(word); at != std::string::npos && !line.starts_with("E")) {
        line.insert(at + word.size(), "\x1b[0m");
        line.insert(at, "\x1b[1;32m");
      }
    }
    dressed += "2026-11-30T20:00:00.1234567Z \x1b]0;title\a" + line + "\r\n";
  }
  EXPECT_EQ(endings(read(dressed)), endings(read(k_verbose)));
  EXPECT_EQ(read(dressed).tests[1].message, read(k_verbose).tests[1].message);
  EXPECT_THAT(endings(read("collecting 0\rcollecting 5\rtest_a.py::test_x PASSED\n")),
              ElementsAre("test_a.py::test_x passed"));
}

// The words of test lines are pytest's own and the same everywhere; what a shell says is not.
TEST(PytestLog, ACrashIsNoticedWhateverTheLanguage) {
  const std::string begun = std::string{k_start} +
                            "test_a.py::test_one PASSED                     [ 33%]\n"
                            "test_a.py::test_two ";
  struct Row {
    const char* end;
    int signal;
  };
  for (const auto& row : std::vector<Row>{
           {"Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call "
            "first):\n"
            "  File \"/s/test_a.py\", line 3 in test_two\n",
            11},
           {"Fatal Python error: Aborted\n\nThread 0x1:\n  File \"/x/y.py\", line 1 in f\n", 6},
           {"terminate called after throwing an instance of 'c10::Error'\n  what():  no\n", 6},
           {"\n./ci.sh: line 3:  4711 Segmentation fault      (core dumped) python -m pytest -v\n",
            11},
           {"Speicherzugriffsfehler (Speicherabzug geschrieben)\n", 11},
           {"\nSpeicherzugriffsfehler (Speicherabzug geschrieben)\n", 11},
           {"\nErreur de segmentation (core dumped)\n", 11},
           {"\n./ci.sh: línea 3: 4711 Violación de segmento  (`core' generado) pytest\n", 11},
           {"\n段错误 (核心已转储)\n", 11},
           {"\nAbgebrochen (Speicherabzug geschrieben)\n", 6},
           {"\n./ci.sh: Zeile 3: 4711 Getötet  python -m pytest\n", 9},
           {"\nKilled\n", 9},
           {"\n##[error]Process completed with exit code 139.\n", 11},
           {"\nThe process exited with code 134\n", 6},
       }) {
    const auto log = read(begun + row.end);
    ASSERT_THAT(endings(log),
                ElementsAre("test_a.py::test_one passed", "test_a.py::test_two crashed"))
        << row.end;
    EXPECT_EQ(log.tests[1].signal, row.signal) << row.end;
    EXPECT_EQ(log.cut_off, 1U);
  }
}

TEST(PytestLog, ALogThatMerelyStopsDoesNotTellOfACrash) {
  const std::string begun =
      std::string{k_start} + "test_a.py::test_one PASSED\ntest_a.py::test_two ";
  for (const auto* end : {"", "\n", "\nKilled time until the device was ready\n",
                          "\nProcess completed with exit code 1.\n", "some words\n"}) {
    EXPECT_THAT(endings(read(begun + end)),
                ElementsAre("test_a.py::test_one passed", "test_a.py::test_two unknown"))
        << end;
  }
}

TEST(PytestLog, TimeoutsThatEndTheProcess) {
  const auto log = read(std::string{k_start} +
                        R"(test_a.py::test_hang +++++++++++++++++++ Timeout +++++++++++++++++++
~~~~~~~~~~~~~~~~~~~~ Stack of MainThread (1) ~~~~~~~~~~~~~~~~~~~~~
  File "/s/test_a.py", line 3, in test_hang
+++++++++++++++++++ Timeout +++++++++++++++++++
)");
  EXPECT_THAT(endings(log), ElementsAre("test_a.py::test_hang timed_out"));
  EXPECT_THAT(log.tests[0].text, HasSubstr("line 3, in test_hang"));
}

TEST(PytestLog, ReadsXdist) {
  const auto log = read(std::string{k_start} + R"(2 workers [4 items]

scheduling tests via LoadScheduling

test_a.py::test_one 
test_b.py::test_two 
[gw0] [ 25%] PASSED test_a.py::test_one Fatal Python error: Segmentation fault

Current thread 0x00007f64cd05eb80 (most recent call first):
  File "/s/test_b.py", line 3 in test_two
  File "<string>", line 1 in <module>

[gw1] node down: Not properly terminated
[gw1] [ 50%] FAILED test_b.py::test_two 

replacing crashed worker gw1
test_a.py::test_three 
[gw0] [ 75%] PASSED test_a.py::test_three [gw2] Python 3.11.7 (main)
[gw2] [100%] SKIPPED test_a.py::test_four[a b] 
=================================== FAILURES ===================================
__________________________________ test_b.py ___________________________________
[gw1] linux -- Python 3.11.7 /usr/bin/python
worker 'gw1' crashed while running 'test_b.py::test_two'
=========================== short test summary info ============================
FAILED test_b.py::test_two - worker 'gw1' crashed while running 'test_b...
========================= 1 failed, 2 passed, 1 skipped in 3.31s ==========================
)");
  EXPECT_THAT(endings(log),
              ElementsAre("test_a.py::test_one passed", "test_b.py::test_two crashed",
                          "test_a.py::test_three passed", "test_a.py::test_four[a b] skipped"));
  EXPECT_EQ(log.tests[1].signal, 11);
  EXPECT_THAT(log.tests[1].text, HasSubstr("line 3 in test_two"));
}

TEST(PytestLog, ReadsASummaryWithoutVerboseLines) {
  const auto log = read(std::string{k_start} + R"(test_a.py .F.sx                     [100%]
=========================== short test summary info ============================
PASSED test_a.py::test_one
FAILED test_a.py::test_two[a - b] - assert 0
XFAIL at setup of test_a.py::test_three - [NOTRUN] why
XPASS test_a.py::test_four why not
RERUN test_a.py::test_five
=========== 1 failed, 1 passed in 2.27 seconds ===========
)");
  EXPECT_THAT(endings(log),
              ElementsAre("test_a.py::test_one passed", "test_a.py::test_two[a - b] failed",
                          "test_a.py::test_three xfailed", "test_a.py::test_four xpassed",
                          "test_a.py::test_five rerun"));
  EXPECT_EQ(log.tests[1].message, "assert 0");
  EXPECT_EQ(log.tests[3].message, "why not");
}

TEST(PytestLog, RunsOfPytestInOneLogStandApart) {
  const auto log =
      read(std::string{k_start} + "test_a.py::test_one FAILED\n= 1 failed in 1s =\n" +
           std::string{k_start} + "test_a.py::test_one PASSED\ntest_a.py::test_two " +
           std::string{k_start} + "test_a.py::test_one RERUN\ntest_a.py::test_one PASSED\n" +
           "= 1 passed, 1 rerun in 1s =\n");
  EXPECT_THAT(endings(log), ElementsAre("test_a.py::test_one failed", "test_a.py::test_one passed",
                                        "test_a.py::test_two unknown", "test_a.py::test_one rerun",
                                        "test_a.py::test_one passed"));
  EXPECT_EQ(log.sessions, 3U);
  EXPECT_EQ(log.cut_off, 1U);
  EXPECT_FALSE(log.unfinished) << "the last came to its end";
}

TEST(PytestLog, OneNameInTwoFilesGoesByTheTraceback) {
  const auto log = read(std::string{k_start} + R"(test_a.py::test_x FAILED
test_b.py::test_x FAILED
=== FAILURES ===
____ test_x ____
E   ValueError: of b

test_b.py:3: ValueError
____ test_x ____
E   ValueError: of a

test_a.py:3: ValueError
=== 2 failed in 1s ===
)");
  ASSERT_THAT(log.tests, SizeIs(2));
  EXPECT_EQ(log.tests[0].message, "of a");
  EXPECT_EQ(log.tests[1].message, "of b");
}

TEST(PytestLog, WhatIsNoLogSaysNothing) {
  for (const auto& text :
       {std::string{}, std::string(100'000, 'x'), std::string(1000, '\0'),
        std::string{"\xff\xfe\x1b["}, std::string{"see test_a.py::test_x for that\n"},
        std::string{"  test_a.py::test_x PASSED\n"}}) {
    EXPECT_THAT(read(text).tests, IsEmpty()) << text.substr(0, 40);
  }
}

}  // namespace
}  // namespace crosscheck::runner
