#include "crosscheck/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace crosscheck::base::log {
namespace {

using ::testing::MatchesRegex;

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override { set_level(Level::info); }
  template <class F>
  std::string captured(F f) {
    ::testing::internal::CaptureStderr();
    f();
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(LogTest, IsOneLineOfKeysAndValues) {
  const std::string line = captured([] {
    info("dispatched", {{"repo", "a/b"}, {"count", 3}, {"why", "two words"}, {"empty", ""}});
  });
  EXPECT_THAT(
      line,
      MatchesRegex(
          "[0-9-]+T[0-9:.]+Z info dispatched repo=a/b count=3 why=\"two words\" empty=\"\"\n"));
}

TEST_F(LogTest, NoValueBreaksTheLine) {
  const std::string line =
      captured([] { warning("refused", {{"name", "x\nerror faked a=\"b\"\\ \x1b[2J\xff"}}); });
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_NE(line.find("x\\nerror faked a=\\\"b\\\"\\\\"), std::string::npos) << line;
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
}

TEST_F(LogTest, LevelsFilter) {
  EXPECT_EQ(captured([] { debug("hidden"); }), "");
  set_level(Level::debug);
  EXPECT_NE(captured([] { debug("shown"); }), "");
  set_level(Level::off);
  EXPECT_EQ(captured([] { error("hidden"); }), "");
}

TEST_F(LogTest, LevelsHaveNames) {
  Level level = Level::info;
  EXPECT_TRUE(parse_level("warning", level));
  EXPECT_EQ(level, Level::warning);
  EXPECT_FALSE(parse_level("loud", level));
  EXPECT_EQ(level, Level::warning);
}

}  // namespace
}  // namespace crosscheck::base::log
