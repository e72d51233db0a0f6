#include "crosscheck/relay/advisory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

namespace crosscheck::relay {
namespace {

namespace json = base::json;

json::object verdict() {
  return {{"schema_version", 1},
          {"category", "upstream"},
          {"confidence", "high"},
          {"summary", "aten::foo has lost its out= overload"},
          {"suspected_upstream",
           {{"pr", 194610}, {"commit", "0e797b5a6acf"}, {"reason", "a changed signature"}}},
          {"evidence",
           {{{"job", "build"},
             {"test", "test_foo"},
             {"log_url", "https://ci.test/job/1#L5"},
             {"excerpt", "error: no matching function"}}}},
          {"reproduced_on_retry", false},
          {"analyzer", {{"name", "triage"}, {"version", "1"}}},
          {"analyzed_at", "2026-08-24T14:22:10Z"},
          {"later", {{"field", 1}}}};
}

TEST(TriageVerdict, AGoodOneIsKeptAsItIs) {
  EXPECT_EQ(read_triage_verdict(verdict()), verdict());
  for (const char* category : {"upstream", "backend", "infra", "flake", "unknown"})
    EXPECT_TRUE(read_triage_verdict(json::object{{"category", category}})) << category;
  auto counted = verdict();
  counted["confidence"] = 0.75;
  counted["schema_version"] = "1";
  EXPECT_EQ(read_triage_verdict(counted), counted);
}

TEST(TriageVerdict, OneThatIsNotOfItsFormIsDroppedWhole) {
  struct Case {
    const char* member;
    json::value value;
  };
  const json::value none = json::object{};
  for (const auto& [member, value] :
       {Case{"category", "nonsense"},
        Case{"category", nullptr},
        Case{"category", 3},
        Case{"schema_version", 2},
        Case{"schema_version", true},
        Case{"confidence", none},
        Case{"confidence", true},
        Case{"confidence", ""},
        Case{"summary", 7},
        Case{"summary", json::array{}},
        Case{"summary", ""},
        Case{"suspected_upstream", "#7"},
        Case{"suspected_upstream", none},
        Case{"suspected_upstream", json::object{{"pr", "7"}}},
        Case{"suspected_upstream", json::object{{"pr", 0}}},
        Case{"suspected_upstream", json::object{{"commit", "main"}}},
        Case{"suspected_upstream", json::object{{"commit", "0e797b5<script>"}}},
        Case{"suspected_upstream", json::object{{"pr", 7}, {"reason", 1}}},
        Case{"evidence", "seen"},
        Case{"evidence", json::array{"seen"}},
        Case{"evidence", json::array{json::object{{"excerpt", 1}}}},
        Case{"reproduced_on_retry", "no"},
        Case{"analyzed_at", 5}}) {
    auto bad = verdict();
    bad[member] = value;
    EXPECT_FALSE(read_triage_verdict(bad)) << member << ": " << json::serialize(value);
  }
  for (const json::value& bad :
       {json::value{}, json::value("upstream"), json::value(json::array{verdict()})})
    EXPECT_FALSE(read_triage_verdict(bad));
  auto missing = verdict();
  missing.erase("category");
  EXPECT_FALSE(read_triage_verdict(missing));
  auto huge = verdict();
  huge["later"] = std::string(17 * 1024, 'x');
  EXPECT_FALSE(read_triage_verdict(huge));
}

TEST(TriageVerdict, WhatIsTooLongIsCutAndWhatIsNoAddressIsLeftOut) {
  auto given = verdict();
  given["summary"] = std::string(3000, 's');
  json::array evidence;
  for (int i = 0; i < 12; ++i)
    evidence.push_back(json::object{{"job", std::to_string(i)}, {"log_url", "https://a.test/"}});
  for (const char* url : {"javascript:alert(1)", "https://user@evil.test/", "data:x", "/job/1"}) {
    evidence[0].as_object()["log_url"] = url;
    given["evidence"] = evidence;
    const auto kept = read_triage_verdict(given);
    ASSERT_TRUE(kept) << url;
    EXPECT_EQ(kept->at("summary").as_string().size(), 1024U);
    const auto& list = kept->at("evidence").as_array();
    EXPECT_EQ(list.size(), 10U);
    EXPECT_FALSE(list[0].as_object().contains("log_url")) << url;
    EXPECT_TRUE(list[1].as_object().contains("log_url"));
  }
}

TEST(FailedTests, WhatIsOfItsFormIsKept) {
  const json::array good{{{"name", "test_a"},
                          {"classname", "TestX"},
                          {"message", "AssertionError"},
                          {"stacktrace", "line 1\nline 2"},
                          {"duration", 1.5}},
                         {{"name", "test_b"}}};
  EXPECT_EQ(read_failed_tests(good), good);
  json::array mixed = good;
  for (const json::value& bad :
       {json::value("test_c"), json::value(nullptr), json::value(json::object{{"classname", "X"}}),
        json::value(json::object{{"name", 3}}), json::value(json::object{{"name", ""}}),
        json::value(json::object{{"name", nullptr}}),
        json::value(json::object{{"name", "x"}, {"message", json::array{}}})})
    mixed.insert(mixed.begin(), bad);
  EXPECT_EQ(read_failed_tests(mixed), good);
}

TEST(FailedTests, Limits) {
  json::array many;
  for (int i = 0; i < 1500; ++i)
    many.push_back(json::object{{"name", "t" + std::to_string(i)},
                                {"message", std::string(2000, 'm')},
                                {"stacktrace", std::string(9000, 's')},
                                {"duration", "fast"}});
  const auto kept = read_failed_tests(many);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->size(), 1000U);
  const auto& test = (*kept)[999].as_object();
  EXPECT_EQ(test.at("name"), "t999");
  EXPECT_EQ(test.at("message").as_string().size(), 1024U);
  EXPECT_EQ(test.at("stacktrace").as_string().size(), 4096U);
  EXPECT_FALSE(test.contains("duration"));
  for (const json::value& none : {json::value{}, json::value("x"), json::value(json::array{}),
                                  json::value(json::array{1}), json::value(json::object{})})
    EXPECT_FALSE(read_failed_tests(none));
}

}  // namespace
}  // namespace crosscheck::relay
