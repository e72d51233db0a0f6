#include "crosscheck/relay/outbox.h"

#include <gtest/gtest.h>

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using base::Time;
using Kind = Answer::Kind;
using enum DispatchState;

const Time k_now{100'000s};
const RetryPolicy k_policy{};

Next decided(Attempt attempt, Answer answer, double jitter = 1.0) {
  if (attempt.created_at == Time{}) attempt.created_at = k_now - 1s;
  return decide(attempt, answer, k_now, k_policy, jitter);
}

TEST(Decide, Table) {
  struct Case {
    const char* name;
    Attempt attempt;
    Answer answer;
    Next next;
  };
  const Case cases[] = {
      {"sent", {1, false, {}}, {Kind::sent}, {sent, false, k_now, {}}},
      {"sent after an uncertain one", {2, true, {}}, {Kind::sent}, {sent, true, k_now, {}}},
      {"rejected", {1, false, {}}, {Kind::rejected, {}, "404"}, {dead, false, k_now, "404"}},
      {"unwanted",
       {1, false, {}},
       {Kind::unwanted, {}, "paths"},
       {withdrawn, false, k_now, "paths"}},
      {"later",
       {1, false, {}},
       {Kind::retry_later, {}, "503"},
       {pending, false, k_now + 1s, "503"}},
      {"later, the fourth time",
       {4, false, {}},
       {Kind::retry_later, {}, "503"},
       {pending, false, k_now + 8s, "503"}},
      {"later, never above the longest pause",
       {60, false, {}},
       {Kind::retry_later, {}, "503"},
       {pending, false, k_now + 5min, "503"}},
      {"later, when the other side says",
       {1, false, {}},
       {Kind::retry_later, k_now + 90s, "429"},
       {pending, false, k_now + 90s, "429"}},
      {"later, but not sooner than the pause",
       {4, false, {}},
       {Kind::retry_later, k_now + 1s, "429"},
       {pending, false, k_now + 8s, "429"}},
      {"uncertain",
       {1, false, {}},
       {Kind::uncertain, {}, "502"},
       {pending, true, k_now + 1s, "502"}},
      {"uncertain again",
       {2, true, {}},
       {Kind::uncertain, {}, "502"},
       {dead, true, k_now, "may have gone through twice already, not sent again: 502"}},
      {"later after an uncertain one",
       {2, true, {}},
       {Kind::retry_later, {}, "503"},
       {pending, true, k_now + 2s, "503"}},
      {"too old",
       {30, false, k_now - 24h},
       {Kind::retry_later, {}, "503"},
       {dead, false, k_now, "given up after 24 h: 503"}},
      {"old, but sent", {30, false, k_now - 25h}, {Kind::sent}, {sent, false, k_now, {}}},
  };
  for (const Case& c : cases) {
    const Next next = decided(c.attempt, c.answer);
    EXPECT_EQ(to_string(next.state), to_string(c.next.state)) << c.name;
    EXPECT_EQ(next.uncertain, c.next.uncertain) << c.name;
    EXPECT_EQ(base::to_micros(next.not_before), base::to_micros(c.next.not_before)) << c.name;
    if (c.next.error && c.next.error->starts_with("given up"))
      EXPECT_TRUE(next.error && next.error->starts_with("given up after ")) << c.name;
    else
      EXPECT_EQ(next.error, c.next.error) << c.name;
  }
}

TEST(Decide, JitterKeepsToTheSecondHalfOfThePause) {
  for (int attempt = 1; attempt < 20; ++attempt) {
    const auto least = decided({attempt, false, {}}, {Kind::retry_later}, 0.0).not_before - k_now;
    const auto most = decided({attempt, false, {}}, {Kind::retry_later}, 1.0).not_before - k_now;
    EXPECT_EQ(least * 2, most) << attempt;
    EXPECT_LE(most, k_policy.longest_pause);
  }
}

}  // namespace
}  // namespace crosscheck::relay
