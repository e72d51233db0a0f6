#include "crosscheck/store/lease.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <thread>

#include "harness.h"

namespace crosscheck::store::testing {
namespace {

using namespace std::chrono_literals;

class LeaseTest : public StoreTest {
 protected:
  Lease lease(const std::string& name = "duty") { return Lease{store(), clock_, name, 60s}; }
  bool hold(Lease& lease) {
    const auto held = lease.hold();
    EXPECT_OK(held);
    return held.value_or(false);
  }
  void set_owner(const std::string& owner) {
    execute("INSERT INTO leases (name, owner, held_until) VALUES ('duty', $1, $2)",
            {owner, clock_.now() + 60s});
  }
  base::ManualClock clock_{base::Time{1'700'000'000s}};
};
INSTANTIATE_TEST_SUITE_P(Stores, LeaseTest, ::testing::ValuesIn(backends()), backend_name);

TEST_P(LeaseTest, OneHasItUntilItEnds) {
  auto one = lease();
  auto two = lease();
  auto other = lease("another duty");
  EXPECT_TRUE(hold(one));
  EXPECT_FALSE(hold(two));
  EXPECT_TRUE(hold(other));
  clock_.advance(50s);
  EXPECT_TRUE(hold(one));
  clock_.advance(50s);
  EXPECT_FALSE(hold(two)) << "it was prolonged";
  clock_.advance(10s);
  EXPECT_TRUE(hold(two));
  EXPECT_FALSE(hold(one));
}

TEST_P(LeaseTest, LetGoItIsTheNextOnes) {
  auto one = lease();
  auto two = lease();
  EXPECT_TRUE(hold(one));
  EXPECT_OK(two.release());
  EXPECT_FALSE(hold(two)) << "who does not have it cannot let it go";
  EXPECT_OK(one.release());
  EXPECT_TRUE(hold(two));
}

TEST_P(LeaseTest, AClockSetBackDoesNotKeepItForEver) {
  auto one = lease();
  auto two = lease();
  EXPECT_TRUE(hold(one));
  clock_.advance(-24h);
  EXPECT_TRUE(hold(two));
}

TEST_P(LeaseTest, OfADeadProcessItIsFree) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_GT(child, 0);
  ::waitpid(child, nullptr, 0);
  auto owner = make_owner();
  const auto first = owner.find(':');
  owner.replace(first + 1, owner.rfind(':') - first - 1, std::to_string(child));
  EXPECT_TRUE(is_dead_here(owner));
  EXPECT_FALSE(is_dead_here("elsewhere" + owner.substr(first)));
  EXPECT_FALSE(is_dead_here(make_owner()));
  for (const char* malformed : {"", ":", "::", "a:b:c"}) EXPECT_FALSE(is_dead_here(malformed));
  set_owner(owner);
  auto one = lease();
  EXPECT_TRUE(hold(one));
}

TEST_P(LeaseTest, OfManyAtOnceOneGetsIt) {
  constexpr int k_count = 8;
  std::barrier start{k_count};
  std::atomic<int> holders{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < k_count; ++i)
    threads.emplace_back([&] {
      auto mine = lease();
      start.arrive_and_wait();
      if (hold(mine)) ++holders;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(holders, 1);
}

}  // namespace
}  // namespace crosscheck::store::testing
