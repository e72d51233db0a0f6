#include "crosscheck/relay/rate_limiter.h"

#include <gtest/gtest.h>

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using base::Time;

TEST(RateLimiter, RefusesAboveTheLimitAndSaysHowLong) {
  RateLimiter limiter{3};
  const Time start{1000s};
  EXPECT_FALSE(limiter.admit("a", start));
  EXPECT_FALSE(limiter.admit("a", start + 10s));
  EXPECT_FALSE(limiter.admit("a", start + 20s));
  EXPECT_EQ(limiter.admit("a", start + 30s), 30s);
  EXPECT_FALSE(limiter.admit("b", start + 30s));
  EXPECT_FALSE(limiter.admit("a", start + 60s));
}

TEST(RateLimiter, KnockingDoesNotProlongTheRefusal) {
  RateLimiter limiter{2};
  const Time start{1000s};
  EXPECT_FALSE(limiter.admit("a", start));
  EXPECT_FALSE(limiter.admit("a", start));
  for (int second = 0; second < 60; ++second)
    EXPECT_TRUE(limiter.admit("a", start + std::chrono::seconds{second}));
  EXPECT_FALSE(limiter.admit("a", start + 60s));
}

TEST(RateLimiter, AClockSetBackLocksNobodyOut) {
  RateLimiter limiter{1};
  EXPECT_FALSE(limiter.admit("a", Time{100'000s}));
  EXPECT_FALSE(limiter.admit("a", Time{1000s}));
}

}  // namespace
}  // namespace crosscheck::relay
