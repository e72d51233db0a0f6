#include "harness.h"

namespace crosscheck::store::testing {
namespace {

using base::Fault;
using base::Result;

Result<void> two_inserts(Tx& tx) {
  for (const char* sql : {"INSERT INTO v VALUES (1)", "INSERT INTO v VALUES (2)"}) {
    auto done = tx.execute(sql);
    if (!done) return tl::unexpected(done.error());
  }
  return {};
}

TEST(FaultyStore, FailsEachCallInTurnAndLeavesTheInnerStoreRolledBack) {
  base::TemporaryFolder dir;
  auto inner = open(dir / "store.db");
  ASSERT_OK(inner);
  ASSERT_OK(write_one(**inner, "CREATE TABLE v (a BIGINT)"));
  // Two inserts, and the third call is the commit.
  for (std::int64_t n = 1; n <= 3; ++n) {
    FaultyStore store{**inner};
    store.fail_at(n, Fault::full);
    EXPECT_FAULT(store.write(two_inserts), Fault::full);
    EXPECT_EQ(store.calls(), n);
    EXPECT_EQ(read_one(**inner, "SELECT COUNT(*) FROM v"), 0);
  }
  FaultyStore store{**inner};
  store.fail_at(4);
  EXPECT_OK(store.write(two_inserts));
  EXPECT_EQ(store.calls(), 3);
  EXPECT_EQ(read_one(**inner, "SELECT COUNT(*) FROM v"), 2);
  // Reads count too, and fail as `unavailable` unless told otherwise.
  EXPECT_FAULT(read_one(store, "SELECT COUNT(*) FROM v"), Fault::unavailable);
}

TEST(FaultyStore, AFailedCallThatTheBodyHidesStillRollsBack) {
  base::TemporaryFolder dir;
  auto inner = open(dir / "store.db");
  ASSERT_OK(inner);
  ASSERT_OK(write_one(**inner, "CREATE TABLE v (a BIGINT)"));
  FaultyStore store{**inner};
  store.fail_at(1);
  EXPECT_FAULT(store.write([](Tx& tx) -> Result<void> {
    static_cast<void>(two_inserts(tx));
    return {};
  }),
               Fault::unavailable);
  EXPECT_EQ(read_one(**inner, "SELECT COUNT(*) FROM v"), 0);
}

}  // namespace
}  // namespace crosscheck::store::testing
