#include "crosscheck/store/upgrades.h"

#include "harness.h"

namespace crosscheck::store::testing {
namespace {

using base::Fault;
using std::chrono::hours;

constexpr base::Time k_now{std::chrono::seconds{1'800'000'000}};

class Upgrades : public StoreTest {
 protected:
  PublishedUpgrade publish(const std::string& matrix, const std::string& decision, base::Time at) {
    const auto done = store().write_value([&](Tx& tx) {
      return publish_upgrade(tx,
                             {.matrix = matrix,
                              .name = "upgrade",
                              .decision = decision,
                              .decided_at = at,
                              .bundle = "b" + decision,
                              .report = "{}"},
                             k_now);
    });
    EXPECT_OK(done);
    return done.value_or(PublishedUpgrade{});
  }
  std::vector<StoredUpgrade> list(std::size_t most = 10, std::size_t skipped = 0) {
    return store().read_value([&](Tx& tx) { return list_upgrades(tx, most, skipped); }).value();
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, Upgrades, ::testing::ValuesIn(backends()), backend_name);

TEST_P(Upgrades, AreOneRowAMatrixWithItsNewestDecision) {
  const auto first = publish("m1", "defer", k_now);
  EXPECT_TRUE(first.changed);
  EXPECT_FALSE(publish("m1", "defer", k_now).changed);
  const auto later = publish("m1", "adopt", k_now + hours{1});
  EXPECT_TRUE(later.changed);
  EXPECT_EQ(later.id, first.id);
  // What was decided before comes too late.
  EXPECT_FALSE(publish("m1", "rollback", k_now).changed);
  EXPECT_NE(publish("m2", "isolate", k_now - hours{1}).id, first.id);
  const auto all = list();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].upgrade.decision, "adopt");
  EXPECT_EQ(all[0].upgrade.bundle, "badopt");
  EXPECT_EQ(all[1].upgrade.matrix, "m2");
  EXPECT_EQ(list(1, 1).front().id, all[1].id);
  const auto found = store().read_value([&](Tx& tx) { return find_upgrade(tx, first.id); }).value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->upgrade.decided_at, k_now + hours{1});
  EXPECT_FALSE(store().read_value([&](Tx& tx) { return find_upgrade(tx, 999); }).value());
}

TEST_P(Upgrades, ATooLargeReportIsRefused) {
  const auto done = store().write_value([&](Tx& tx) {
    return publish_upgrade(
        tx, {.matrix = "m", .report = std::string(k_largest_upgrade_report + 1, ' ')}, k_now);
  });
  EXPECT_FAULT(done, Fault::invalid_input);
  EXPECT_TRUE(list().empty());
}

}  // namespace
}  // namespace crosscheck::store::testing
