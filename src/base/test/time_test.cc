#include "crosscheck/base/time.h"

#include <gtest/gtest.h>

#include <random>

namespace crosscheck::base {
namespace {

using namespace std::chrono_literals;

TEST(Rfc3339, Reads) {
  struct Case {
    std::string_view text;
    std::string_view same;
  };
  for (const auto& [text, same] : {
           Case{"2026-05-04T20:48:28Z", "2026-05-04T20:48:28Z"},
           Case{"2026-05-04t20:48:28z", "2026-05-04T20:48:28Z"},
           Case{"2026-05-04T20:48:28.5Z", "2026-05-04T20:48:28.500000Z"},
           Case{"2026-05-04T20:48:28.123456789Z", "2026-05-04T20:48:28.123456Z"},
           Case{"2026-05-04T20:48:28+02:00", "2026-05-04T18:48:28Z"},
           Case{"2026-05-04T20:48:28-05:30", "2026-05-05T02:18:28Z"},
           Case{"2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z"},
           Case{"2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z"},
           Case{"2024-03-01T00:30:00+01:00", "2024-02-29T23:30:00Z"},
           Case{"2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"},
           Case{"1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"},
           Case{"0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"},
           Case{"9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"},
       }) {
    const auto time = parse_rfc3339(text);
    ASSERT_TRUE(time) << text << ": " << time.error().message;
    EXPECT_EQ(to_rfc3339(*time), same) << text;
  }
}

TEST(Rfc3339, Refuses) {
  for (const std::string_view text : {
           "",
           "2026",
           "2026-05-04",
           "2026-05-04 20:48:28Z",
           "2026-05-04T20:48:28",
           "2026-05-04T20:48:28Zx",
           "2026-05-04T20:48Z",
           "2026-02-29T00:00:00Z",
           "1900-02-29T00:00:00Z",
           "2026-13-01T00:00:00Z",
           "2026-00-01T00:00:00Z",
           "2026-05-32T00:00:00Z",
           "2026-05-04T24:00:00Z",
           "2026-05-04T20:60:00Z",
           "2026-05-04T20:48:61Z",
           "2026-05-04T20:48:28.Z",
           "2026-05-04T20:48:28.1234567890Z",
           "2026-05-04T20:48:28+24:00",
           "2026-05-04T20:48:28+02:60",
           "2026-05-04T20:48:28+0200",
           "-026-05-04T20:48:28Z",
           "0000-01-01T00:00:00+00:01",
           "9999-12-31T23:59:59-00:01",
       }) {
    const auto time = parse_rfc3339(text);
    ASSERT_FALSE(time) << text;
    EXPECT_EQ(time.error().fault, Fault::invalid_input);
  }
}

TEST(Rfc3339, WhatIsWrittenReadsBackToTheMicrosecond) {
  std::mt19937_64 random{20260504};
  const std::int64_t least = to_micros(*parse_rfc3339("0000-01-01T00:00:00Z"));
  const std::int64_t most = to_micros(*parse_rfc3339("9999-12-31T23:59:59.999999Z"));
  std::uniform_int_distribution<std::int64_t> any{least, most};
  for (int i = 0; i < 20'000; ++i) {
    const Time time = from_micros(any(random));
    const auto again = parse_rfc3339(to_rfc3339(time));
    ASSERT_TRUE(again) << to_rfc3339(time);
    ASSERT_EQ(*again, time);
  }
}

TEST(Rfc3339, ShowsEveryRepresentableTime) {
  EXPECT_EQ(to_rfc3339(Time::min()), "0000-01-01T00:00:00Z");
  EXPECT_EQ(to_rfc3339(Time::max()), "9999-12-31T23:59:59.999999Z");
}

TEST(ManualClock, StandsStillUntilMoved) {
  ManualClock clock{from_micros(5)};
  EXPECT_EQ(clock.now(), from_micros(5));
  clock.advance(3us);
  EXPECT_EQ(clock.now(), from_micros(8));
  clock.set(from_micros(-1));
  EXPECT_EQ(clock.now(), from_micros(-1));
}

TEST(SystemClock, IsNowAndUtc) {
  const Time now = SystemClock{}.now();
  EXPECT_GT(to_rfc3339(now), "2024");
  EXPECT_LT(to_rfc3339(now), "9000");
}

TEST(ToHuman, UsesTheTwoLargestUnits) {
  EXPECT_EQ(to_human(0us), "0 s");
  EXPECT_EQ(to_human(7us), "7 µs");
  EXPECT_EQ(to_human(999'999us), "999 ms");
  EXPECT_EQ(to_human(1'250ms), "1.2 s");
  EXPECT_EQ(to_human(59'999ms), "59.9 s");
  EXPECT_EQ(to_human(200s), "3 min 20 s");
  EXPECT_EQ(to_human(125min), "2 h 5 min");
  EXPECT_EQ(to_human(50h), "2 d 2 h");
  EXPECT_EQ(to_human(-1'250ms), "-1.2 s");
  EXPECT_EQ(to_human(Duration::min()).front(), '-');
}

}  // namespace
}  // namespace crosscheck::base
