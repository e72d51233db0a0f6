#include "../src/turnstile.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace crosscheck::hud {
namespace {

using namespace std::chrono_literals;

TEST(Turnstile, LetsInAsManyAsThereIsRoomFor) {
  Turnstile turnstile{{.inside = 2, .waiting = 0, .patience = 1min}};
  auto first = turnstile.enter();
  const auto second = turnstile.enter();
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(turnstile.enter());
  first.reset();
  EXPECT_TRUE(turnstile.enter());
}

TEST(Turnstile, PatienceEnds) {
  Turnstile turnstile{{.inside = 1, .waiting = 1, .patience = 1ms}};
  const auto only = turnstile.enter();
  EXPECT_FALSE(turnstile.enter());
}

TEST(Turnstile, ManyNeverAreMoreThanItLetsInAndAllWhoMayWaitGetIn) {
  constexpr std::size_t k_inside = 3;
  constexpr std::size_t k_guests = 16;
  Turnstile turnstile{{.inside = k_inside, .waiting = k_guests, .patience = 10min}};
  std::atomic<std::size_t> inside = 0;
  std::atomic<std::size_t> most = 0;
  std::atomic<std::size_t> served = 0;
  {
    std::vector<std::jthread> guests;
    for (std::size_t i = 0; i < k_guests; ++i) {
      guests.emplace_back([&] {
        for (int visit = 0; visit < 50; ++visit) {
          const auto pass = turnstile.enter();
          if (!pass) return;
          const std::size_t now = ++inside;
          for (std::size_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
          }
          ++served;
          --inside;
        }
      });
    }
  }
  EXPECT_EQ(served, k_guests * 50);
  EXPECT_LE(most, k_inside);
}

}  // namespace
}  // namespace crosscheck::hud
