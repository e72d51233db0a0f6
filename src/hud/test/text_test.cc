#include "../src/text.h"

#include <gtest/gtest.h>

#include <limits>

#include "../src/state.h"
#include "crosscheck/base/process.h"

namespace crosscheck::hud {
namespace {

using namespace std::chrono_literals;

TEST(Text, AShellReadsTheArgumentsBack) {
  const std::vector<std::string> arguments{
      "printf", "%s\\n", "plain", "two words",       "it's", "$HOME `id` \"x\"", "",
      "a\nb",   "*?[]",  "-k",    "add and not slow"};
  const auto line = shell_line(arguments);
  base::ProcessSpec spec;
  spec.arguments = {"/bin/sh", "-c", line};
  const auto done = base::run_captured(spec, 20s);
  ASSERT_TRUE(done);
  std::string expected;
  for (std::size_t i = 2; i < arguments.size(); ++i) expected += arguments[i] + "\n";
  EXPECT_EQ(done->out, expected);
}

TEST(Text, ARepeatedCommandLeavesAloneWhatTheRunWrote) {
  const std::vector<std::string> run{
      "crosscheck", "run",      "--device", "refdev", "--junit",  "j.xml", "--results=r.jsonl.gz",
      "--quick",    "--resume", "--shard",  "1/4",    "--select", "add"};
  EXPECT_EQ(shell_line(repeated(run)), "crosscheck run --device refdev --quick --select add");
  EXPECT_EQ(shell_line(repeated(run, "test_x.py::T::t[a b]")),
            "crosscheck run --device refdev --select 'test_x.py::T::t[a b]'");
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"pytest", "test_x.py", "--junit", "j.xml"},
        {"crosscheck", "run", "--import", "j.xml"}}) {
    EXPECT_EQ(repeated(other), other);
    EXPECT_TRUE(repeated(other, "test_x.py::t").empty());
  }
}

TEST(Text, NumbersAndShas) {
  EXPECT_EQ(parse_positive("171266"), 171266);
  EXPECT_EQ(parse_positive("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* bad : {"", "0", "-1", "+1", "1.5", "1e3", " 1", "1 ", "abc", "0x10",
                          "9223372036854775808", "99999999999999999999999999"}) {
    EXPECT_FALSE(parse_positive(bad)) << bad;
  }
  EXPECT_FALSE(parse_positive("11", 10));
  EXPECT_EQ(parse_sha("97FF761"), "97ff761");
  for (const char* bad : {"", "97ff76", "97ff76g", "97ff76%", "97ff761 "})
    EXPECT_FALSE(parse_sha(bad)) << bad;
  EXPECT_FALSE(parse_sha(std::string(65, 'a')));
}

TEST(Text, APercentageIsCutSoThat100MeansAll) {
  EXPECT_EQ(percent(1, 1), "100.0");
  EXPECT_EQ(percent(9999, 10000), "99.9");
  EXPECT_EQ(percent(0, 3), "0.0");
  EXPECT_EQ(percent(1, 3), "33.3");
  EXPECT_EQ(percent(2, 3), "66.6");
}

TEST(Text, AgesAndClock) {
  const base::Time now{std::chrono::sys_days{std::chrono::year{2026} / 9 / 14} + 15h};
  EXPECT_EQ(age(now, now), "just now");
  EXPECT_EQ(age(now + 5min, now), "just now");
  EXPECT_EQ(age(now - 59s, now), "just now");
  EXPECT_EQ(age(now - 60s, now), "1 min ago");
  EXPECT_EQ(age(now - 60min, now), "1 h ago");
  EXPECT_EQ(age(now - 47h, now), "47 h ago");
  EXPECT_EQ(age(now - 48h, now), "2 d ago");
  EXPECT_EQ(clock_text(now - 1us), "2026-09-14 14:59:59 UTC");
}

TEST(Text, TheFirstLineIsTheFirstThatSaysSomething) {
  EXPECT_EQ(first_line("\n  \n  Tensor-likes are not close!\nmore"), "Tensor-likes are not close!");
  EXPECT_EQ(first_line(""), "");
  EXPECT_EQ(first_line(" \n\t"), "");
  EXPECT_EQ(first_line("abcdef", 3), "abc");
  EXPECT_EQ(first_line("é", 1), "");
}

TEST(Text, OfALongLineTheFirstSentencesAreShown) {
  const std::string missing =
      "NotImplementedError: Could not run 'aten::exp.out' with arguments from the 'refdev' "
      "backend.";
  EXPECT_EQ(first_line(missing + " This could be because " + std::string(300, 'x')), missing);
  const std::string one_sentence(300, 'x');
  EXPECT_EQ(first_line(one_sentence), one_sentence);
  EXPECT_EQ(first_line("E. " + one_sentence), "E. " + one_sentence);
  EXPECT_EQ(first_line(missing + " Short."), missing + " Short.");
}

TEST(Text, AQueryHasOnlyWhatIsSet) {
  EXPECT_EQ(query_string({{"a", ""}, {"b", ""}}), "");
  EXPECT_EQ(query_string({{"a", ""}, {"q", "x&y=1 é"}, {"p", "2"}}), "?q=x%26y%3D1%20%C3%A9&p=2");
}

TEST(State, EveryConclusionHasOne) {
  struct Case {
    const char* state;
    const char* conclusion;
    State expected;
  };
  for (const auto& c : {Case{"in_progress", "", State::running},
                        {"completed", "success", State::passed},
                        {"completed", "failure", State::failed},
                        {"completed", "startup_failure", State::failed},
                        {"completed", "timed_out", State::timed_out},
                        {"completed", "cancelled", State::cancelled},
                        {"completed", "skipped", State::skipped},
                        {"completed", "neutral", State::neutral},
                        {"completed", "action_required", State::neutral},
                        {"completed", "", State::neutral},
                        {"completed", "a word of its own", State::neutral}}) {
    EXPECT_EQ(job_state(c.state, c.conclusion), c.expected) << c.conclusion;
  }
}

TEST(State, TheTableIsWhole) {
  for (const auto& entry : states()) {
    EXPECT_EQ(info(entry.state).name, entry.name);
    EXPECT_EQ(parse_state(entry.name), entry.state);
    EXPECT_FALSE(entry.glyph.empty());
    for (const auto& other : states()) {
      if (entry.state != other.state) {
        EXPECT_NE(entry.rank, other.rank);
        EXPECT_NE(entry.glyph, other.glyph);
      }
      EXPECT_EQ(worse(entry.state, other.state), worse(other.state, entry.state));
    }
  }
  EXPECT_FALSE(parse_state("green"));
  for (std::size_t i = 0; i < base::k_outcome_count; ++i) {
    const auto outcome = static_cast<base::Outcome>(i);
    EXPECT_EQ(info(outcome).outcome, outcome);
    EXPECT_EQ(is_bad(info(outcome).as), base::is_failure(outcome) || base::is_fault(outcome));
  }
}

}  // namespace
}  // namespace crosscheck::hud
