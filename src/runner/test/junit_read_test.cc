#include "crosscheck/runner/junit_read.h"

#include <gmock/gmock.h>

#include <random>

namespace crosscheck::runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Element = JunitProblem::Element;
using Forbidden = JunitParser::Forbidden;

struct Read {
  std::vector<JunitCase> cases;
  std::vector<JunitSuite> suites;
  base::Result<void> result;
};

// In pieces of at most `piece` bytes.
Read read(std::string_view text, std::size_t piece = std::string::npos,
          Forbidden forbidden = Forbidden::refuse) {
  Read read;
  JunitParser parser{"junit.xml",
                     {[&](JunitCase& test) { read.cases.push_back(test); },
                      [&](JunitSuite& suite) { read.suites.push_back(suite); }},
                     forbidden};
  while (read.result && !text.empty()) {
    read.result = parser.feed(text.substr(0, piece));
    text.remove_prefix(std::min(piece, text.size()));
  }
  if (read.result) read.result = parser.finish();
  return read;
}

std::string document(const std::string& cases, const std::string& encoding = "utf-8") {
  return "<?xml version=\"1.0\" encoding=\"" + encoding +
         "\"?>\n<testsuites><testsuite name=\"pytest\" time=\"1.5\" "
         "timestamp=\"2026-11-30T20:00:00+00:00\">\n" +
         cases + "</testsuite></testsuites>\n";
}

std::string utf16(std::string_view text) {
  std::string wide = "\xFF\xFE";
  for (const char c : text) {
    wide += c;
    wide += '\0';
  }
  return wide;
}

const std::string k_whole =
    document(R"(<properties><property name="torch" value="2.13.0"/></properties>
<testcase classname="test_x.TestY" file="test_x.py" line="4" name="test_z[a&lt;b]" time="0.25">
<properties><property name="seed" value="7"/></properties>
<failure message="AssertionError: 1 &amp; 2&#10;second" type="T">text <![CDATA[<&]]> end</failure>
<failure message="again">more</failure>
<system-out><failure message="not one">printed</failure></system-out>
</testcase><testcase name="plain"/><testcase classname="c" name="s"><skipped type="pytest.skip" message="why"/></testcase>
)");

TEST(JunitRead, TakesWhatStandsThere) {
  const auto all = read(k_whole);
  ASSERT_TRUE(all.result) << all.result.error().message;
  ASSERT_EQ(all.cases.size(), 3U);
  const auto& first = all.cases[0];
  EXPECT_EQ(first.line, 4U);
  EXPECT_EQ(first.file, "test_x.py");
  EXPECT_EQ(first.class_name, "test_x.TestY");
  EXPECT_EQ(first.name, "test_z[a<b]");
  EXPECT_EQ(first.time, base::Duration{250'000});
  EXPECT_THAT(first.properties, ElementsAre(std::pair{"seed", "7"}));
  EXPECT_THAT(first.problems,
              ElementsAre(JunitProblem{Element::failure, "T", "AssertionError: 1 & 2\nsecond",
                                       "text <& end"},
                          JunitProblem{Element::failure, "", "again", "more"}));
  EXPECT_EQ(all.cases[1].name, "plain");
  EXPECT_THAT(all.cases[2].problems,
              ElementsAre(JunitProblem{Element::skipped, "pytest.skip", "why", ""}));
  ASSERT_EQ(all.suites.size(), 1U);
  EXPECT_EQ(all.suites[0].time, base::Duration{1'500'000});
  EXPECT_THAT(all.suites[0].properties, ElementsAre(std::pair{"torch", "2.13.0"}));
}

TEST(JunitRead, PiecesMakeNoDifference) {
  const auto all = read(k_whole);
  for (const std::size_t piece : {1U, 2U, 3U, 7U, 64U}) {
    const auto pieces = read(k_whole, piece);
    ASSERT_TRUE(pieces.result) << piece;
    EXPECT_EQ(pieces.cases, all.cases) << piece;
    EXPECT_EQ(pieces.suites, all.suites) << piece;
  }
}

// Cut off anywhere: refused with a place and a remedy, and what was complete has been handed on.
TEST(JunitRead, AFileCutOffIsNoticedWhereverItIs) {
  const auto all = read(k_whole);
  const auto end = k_whole.rfind('>') + 1;
  for (std::size_t size = 0; size < end; ++size) {
    const auto cut = read(k_whole.substr(0, size));
    ASSERT_FALSE(cut.result) << size;
    EXPECT_EQ(exit_code(cut.result.error().fault), base::ExitCode::bad_input);
    EXPECT_THAT(cut.result.error().message, StartsWith("junit.xml:")) << size;
    EXPECT_FALSE(cut.result.error().remedy.empty()) << size;
    ASSERT_LE(cut.cases.size(), all.cases.size());
    for (std::size_t i = 0; i < cut.cases.size(); ++i) EXPECT_EQ(cut.cases[i], all.cases[i]);
  }
}

TEST(JunitRead, SaysWhereAndWhatIsWrong) {
  const auto why = [](const std::string& text, const char* expected) {
    const auto found = read(text);
    ASSERT_FALSE(found.result) << text;
    EXPECT_THAT(found.result.error().message, HasSubstr(expected)) << text.substr(0, 80);
    EXPECT_EQ(exit_code(found.result.error().fault), base::ExitCode::bad_input);
  };
  why("", "junit.xml: the file is empty");
  why("   \n", "junit.xml:2:1: this is no JUnit XML");
  why("not xml", "junit.xml:1:1: this is no JUnit XML");
  why("{\"json\": 1}", "junit.xml:1:1: this is no JUnit XML");
  why("<html><body/></html>", "junit.xml:1:1: this is no JUnit file: its first element is <html>");
  why(document("<testcase name='x'><failure>\x1b[31m</failure></testcase>"),
      "junit.xml:3:29: a character that XML does not allow");
  why(document("<testcase name='x'><failure>&#27;</failure></testcase>"),
      "a character that XML does not allow");
  why(document("<testcase name='x\xff'/>"), "a character that XML does not allow");
  why(document("<testcase name='x'></testsuite>"), "mismatched tag");
  why(document("<testcase/>"), "junit.xml:3:1: a <testcase> without a name");
  why(document("<testcase name='a'><testcase name='b'/></testcase>"), "inside a <testcase>");
  why("<testsuites><testcase name='a'/></testsuites>", "outside a <testsuite>");
  why(document("<testcase name='x'><failure>&nbsp;</failure></testcase>"), "undefined entity");
  why(document("", "windows-1252"), "its encoding is not one");
  why(document("") + "<more/>", "junk after document element");
  std::string deep = "<testsuites>";
  for (int i = 0; i < 100; ++i) deep += "<testsuite>";
  why(deep, "nested more than 64 deep");
}

TEST(JunitRead, NoEntityIsExpandedAndNothingIsFetched) {
  for (const char* subset : {"<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">",
                             "<!ENTITY a SYSTEM \"file:///etc/passwd\">"}) {
    const auto found =
        read("<?xml version=\"1.0\"?>\n<!DOCTYPE testsuites [" + std::string{subset} +
             "]>\n<testsuites><testsuite><testcase name=\"&a;\"/></testsuite>"
             "</testsuites>");
    ASSERT_FALSE(found.result);
    EXPECT_THAT(found.result.error().message, HasSubstr("junit.xml:2:"));
    EXPECT_THAT(found.result.error().message, HasSubstr("document type"));
    EXPECT_TRUE(found.cases.empty());
  }
}

TEST(JunitRead, OtherEncodings) {
  const std::string text = document("<testcase name='t\xe4st'/>", "ISO-8859-1");
  auto latin = read(text);
  ASSERT_TRUE(latin.result) << latin.result.error().message;
  EXPECT_EQ(latin.cases[0].name, "t\xc3\xa4st");
  const auto wide = utf16(document("<testcase name='x'/>", "UTF-16"));
  for (const auto forbidden : {Forbidden::refuse, Forbidden::question_mark}) {
    for (const std::size_t piece : {1UL, 5UL, std::string::npos}) {
      const auto found = read(wide, piece, forbidden);
      ASSERT_TRUE(found.result) << found.result.error().message;
      EXPECT_EQ(found.cases[0].name, "x");
    }
  }
}

TEST(JunitRead, ControlCharactersBecomeQuestionMarksOnRequest) {
  const auto text = document("<testcase name='x'><failure message='a\x1b[1mb'>c" +
                             std::string(1, '\0') + "d\x07</failure></testcase>");
  EXPECT_FALSE(read(text).result);
  for (const std::size_t piece : {1UL, 13UL, std::string::npos}) {
    const auto found = read(text, piece, Forbidden::question_mark);
    ASSERT_TRUE(found.result) << found.result.error().message;
    EXPECT_EQ(found.cases[0].problems[0].message, "a?[1mb");
    EXPECT_EQ(found.cases[0].problems[0].text, "c?d?");
  }
}

TEST(JunitRead, WhatItHoldsIsBounded) {
  // A text keeps its beginning and its end.
  const std::string large = "BEGIN" + std::string(std::size_t{1} << 20, 'x') + "\nfile.py:7: Last";
  const auto found =
      read(document("<testcase name='x'><failure>" + large + "</failure></testcase>"));
  ASSERT_TRUE(found.result);
  const auto& text = found.cases[0].problems[0].text;
  EXPECT_LE(text.size(), (std::size_t{64} << 10) + 16);
  EXPECT_THAT(text, StartsWith("BEGINxxx"));
  EXPECT_THAT(text, testing::EndsWith("xxx\nfile.py:7: Last"));
  EXPECT_THAT(text, HasSubstr("\n[…]\n"));
  // A tag has to be held whole.
  const auto tag = read(document("<testcase name='" + std::string(std::size_t{9} << 20, 'x')));
  ASSERT_FALSE(tag.result);
  EXPECT_EQ(tag.result.error().fault, base::Fault::too_large);
  EXPECT_THAT(tag.result.error().message, HasSubstr("a tag of more than 8 MiB"));
}

TEST(JunitRead, TimesAreReadAsWritersHaveThem) {
  for (const auto& [written, micros] :
       std::vector<std::pair<std::string, std::int64_t>>{{"0.5", 500'000},
                                                         {"0,5", 500'000},
                                                         {"1,234.5", 1'234'500'000},
                                                         {"1e-3", 1'000},
                                                         {"", 0},
                                                         {"soon", 0},
                                                         {"-1", 0},
                                                         {"nan", 0},
                                                         {"inf", 0},
                                                         {"1e30", 0}}) {
    const auto found = read(document("<testcase name='x' time='" + written + "'/>"));
    ASSERT_TRUE(found.result);
    EXPECT_EQ(found.cases[0].time.count(), micros) << written;
  }
}

}  // namespace
}  // namespace crosscheck::runner
