#include <thread>

#include "harness.h"

// libpqxx 6.4 leaks libpq's last result, 2 KB, with every connection that is lost.
// NOLINTNEXTLINE(*-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() { return "leak:PQmakeEmptyPGresult\n"; }

// PostgreSQL under the faults that a server and other clients bring.
namespace crosscheck::store::testing {
namespace {

using base::Fault;
using base::Result;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class PostgresFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open(url_);
    ASSERT_OK(opened);
    store_ = std::move(*opened);
    ASSERT_OK(write_one(*store_, "CREATE TABLE v (n BIGINT PRIMARY KEY)"));
  }
  std::int64_t count() { return read_one(*store_, "SELECT COUNT(*) FROM v").value_or(-1); }
  // From a connection of another program's kind.
  void execute_elsewhere(const std::string& sql) {
    auto other = open(url_, {.check_schema = false});
    ASSERT_OK(other);
    EXPECT_OK(read_or_write(**other, sql));
  }
  static Result<void> read_or_write(Store& store, const std::string& sql) {
    return store.write([&](Tx& tx) -> Result<void> {
      auto rows = tx.query(sql);
      if (!rows) return tl::unexpected(rows.error());
      return {};
    });
  }
  static constexpr const char* k_kill_others =
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
      "WHERE datname = current_database() AND pid <> pg_backend_pid()";

  const std::string url_ = Postgres::shared().make_database();
  std::unique_ptr<Store> store_;
};

TEST_F(PostgresFaults, ARestartBetweenTransactionsIsNotNoticed) {
  ASSERT_OK(write_one(*store_, "INSERT INTO v VALUES (1)"));
  EXPECT_EQ(count(), 1);
  Postgres::shared().restart();
  EXPECT_OK(write_one(*store_, "INSERT INTO v VALUES (2)"));
  Postgres::shared().restart();
  EXPECT_EQ(count(), 2);
}

TEST_F(PostgresFaults, AStoppedServerIsUnavailableUntilItIsBack) {
  Postgres::shared().stop();
  EXPECT_FAULT(write_one(*store_, "INSERT INTO v VALUES (1)"), Fault::unavailable);
  EXPECT_FAULT(read_one(*store_, "SELECT COUNT(*) FROM v"), Fault::unavailable);
  EXPECT_FAULT(open(url_), Fault::unavailable);
  Postgres::shared().start_again();
  EXPECT_OK(write_one(*store_, "INSERT INTO v VALUES (1)"));
  EXPECT_EQ(count(), 1);
}

TEST_F(PostgresFaults, AConnectionLostInABodyRunsItAgain) {
  int runs = 0;
  EXPECT_OK(store_->write([&](Tx& tx) -> Result<void> {
    auto done = tx.execute("INSERT INTO v VALUES (1)");
    if (!done) return tl::unexpected(done.error());
    if (++runs == 1) std::thread{[&] { execute_elsewhere(k_kill_others); }}.join();
    done = tx.execute("INSERT INTO v VALUES (2)");
    if (!done) return tl::unexpected(done.error());
    return {};
  }));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(count(), 2);
}

TEST_F(PostgresFaults, AConnectionLostInACommitIsNeverRetried) {
  ASSERT_OK(write_one(*store_,
                      "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
                      "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"));
  ASSERT_OK(write_one(*store_,
                      "CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON v DEFERRABLE INITIALLY "
                      "DEFERRED FOR EACH ROW WHEN (NEW.n = 13) EXECUTE FUNCTION die()"));
  int runs = 0;
  const auto result = store_->write([&](Tx& tx) -> Result<void> {
    ++runs;
    auto done = tx.execute("INSERT INTO v VALUES (13)");
    if (!done) return tl::unexpected(done.error());
    return {};
  });
  EXPECT_FAULT(result, Fault::unavailable);
  EXPECT_THAT(result.error().message, HasSubstr("unknown"));
  EXPECT_EQ(runs, 1);
  EXPECT_OK(write_one(*store_, "INSERT INTO v VALUES (14)"));
}

TEST_F(PostgresFaults, ALockHeldTooLongIsBusy) {
  auto impatient = open(url_, {.busy_timeout = milliseconds{50}});
  ASSERT_OK(impatient);
  EXPECT_OK(store_->write([&](Tx& tx) -> Result<void> {
    EXPECT_OK(tx.query("LOCK TABLE v IN ACCESS EXCLUSIVE MODE"));
    std::thread{[&] {
      EXPECT_FAULT(write_one(**impatient, "INSERT INTO v VALUES (1)"), Fault::busy);
      EXPECT_FAULT(read_one(**impatient, "SELECT COUNT(*) FROM v"), Fault::busy);
    }}.join();
    return {};
  }));
  EXPECT_OK(write_one(**impatient, "INSERT INTO v VALUES (1)"));
}

TEST_F(PostgresFaults, AReadOnlyDatabaseSaysSo) {
  const std::string name = url_.substr(url_.find("@/") + 2, url_.find('?') - url_.find("@/") - 2);
  ASSERT_OK(
      write_one(*store_, "ALTER DATABASE " + name + " SET default_transaction_read_only = on"));
  auto reading = open(url_);
  ASSERT_OK(reading);
  EXPECT_FAULT(write_one(**reading, "INSERT INTO v VALUES (1)"), Fault::read_only);
  EXPECT_EQ(count(), 0);
}

TEST_F(PostgresFaults, AMissingDatabaseIsNamed) {
  const std::string missing = "postgresql://postgres@/missing" + url_.substr(url_.find('?'));
  const auto refused = open(missing);
  EXPECT_FAULT(refused, Fault::unavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("\"missing\" does not exist"));
}

TEST_F(PostgresFaults, NotificationsComeAgainAfterARestart) {
  auto other = open(url_);
  ASSERT_OK(other);
  const auto notify = [&](Store& store) {
    EXPECT_OK(store.write([](Tx& tx) -> Result<void> {
      tx.notify("outbox");
      return {};
    }));
  };
  notify(**other);
  EXPECT_TRUE(store_->wait_for("outbox", seconds{30}));
  Postgres::shared().restart();
  // What was sent while nobody listened is made up for by one wake-up.
  notify(**other);
  EXPECT_TRUE(store_->wait_for("outbox", seconds{30}));
}

TEST_F(PostgresFaults, AStalePlanIsMadeAgain) {
  const auto read = [&] {
    return store_->read_value([](Tx& tx) { return tx.query("SELECT * FROM v"); });
  };
  ASSERT_OK(read());
  execute_elsewhere("ALTER TABLE v ADD COLUMN t TEXT");
  EXPECT_OK(read());
}

TEST_F(PostgresFaults, ManyDifferentStatementsWearNoConnectionOut) {
  for (int i = 0; i < 600; ++i) {
    ASSERT_EQ(read_one(*store_, "SELECT CAST(" + std::to_string(i) + " AS BIGINT)"), i);
  }
}

}  // namespace
}  // namespace crosscheck::store::testing
