#include <atomic>
#include <thread>
#include <vector>

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
  // As another program would: a write here would wait for the one that this is called from.
  void kill_others() {
    auto other = open(url_, {.check_schema = false, .read_only = true});
    ASSERT_OK(other);
    ASSERT_OK((*other)->read_value([](Tx& tx) { return tx.query(k_kill_others); }));
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
    if (++runs == 1) std::thread{[&] { kill_others(); }}.join();
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

// As the test above, with neighbours in the same transaction.
TEST_F(PostgresFaults, AGroupLostInItsCommitIsNeverRetried) {
  ASSERT_OK(write_one(*store_,
                      "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
                      "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"));
  ASSERT_OK(write_one(*store_,
                      "CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON v DEFERRABLE INITIALLY "
                      "DEFERRED FOR EACH ROW WHEN (NEW.n = 13) EXECUTE FUNCTION die()"));
  std::atomic<int> runs{0};
  std::vector<std::thread> threads;
  const auto in_thread = [&](int n, Fault fault) {
    threads.emplace_back([&, n, fault] {
      EXPECT_FAULT(store_->write([&](Tx& tx) -> Result<void> {
        if (fault == Fault::forbidden) return base::fail(fault, "no");
        runs += n == 13 ? 1 : 0;
        auto done = tx.execute("INSERT INTO v VALUES ($1)", {n});
        if (!done) return tl::unexpected(done.error());
        return {};
      }),
                   fault);
    });
  };
  ASSERT_OK(store_->write([&](Tx&) -> Result<void> {
    // They wait for this transaction, and then share the next.
    in_thread(12, Fault::unavailable);
    in_thread(13, Fault::unavailable);
    in_thread(14, Fault::forbidden);
    while (store_->waiting_writes() < 3) std::this_thread::yield();
    return {};
  }));
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(runs, 2);  // once more where the one that refuses had spoilt the first run
  EXPECT_EQ(count(), 0);
}

TEST_F(PostgresFaults, SeveralProcessesWriteInTurnAndUndoNothing) {
  auto other = open(url_);
  ASSERT_OK(other);
  ASSERT_OK(write_one(*store_, "INSERT INTO v VALUES (0)"));
  constexpr int k_threads = 4;
  constexpr int k_rounds = 50;
  std::atomic<int> runs{0};
  std::vector<std::thread> threads;
  for (Store* store : {store_.get(), other->get()}) {
    for (int i = 0; i < k_threads; ++i) {
      threads.emplace_back([&, store] {
        for (int round = 0; round < k_rounds; ++round) {
          EXPECT_OK(store->write([&](Tx& tx) -> Result<void> {
            ++runs;
            auto rows = tx.query("SELECT n FROM v");
            if (!rows) return tl::unexpected(rows.error());
            auto done = tx.execute("UPDATE v SET n = $1", {rows->front().integer(0) + 1});
            if (!done) return tl::unexpected(done.error());
            return {};
          }));
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read_one(*store_, "SELECT n FROM v"), 2 * k_threads * k_rounds);
  EXPECT_EQ(runs, 2 * k_threads * k_rounds);
}

TEST_F(PostgresFaults, AProcessThatStopsInsideATransactionIsCutOff) {
  auto stopping = open(url_, {.busy_timeout = milliseconds{100}});
  ASSERT_OK(stopping);
  const auto stopped = (*stopping)->write([&](Tx& tx) -> Result<void> {
    auto done = tx.execute("INSERT INTO v VALUES (1)");
    if (!done) return tl::unexpected(done.error());
    // Comes to pass only when this transaction is ended from outside.
    std::thread{[&] { EXPECT_OK(write_one(*store_, "INSERT INTO v VALUES (2)")); }}.join();
    return {};
  });
  EXPECT_FAULT(stopped, Fault::unavailable);
  EXPECT_OK(write_one(**stopping, "INSERT INTO v VALUES (3)"));
  EXPECT_EQ(count(), 2);
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
  auto other = open(url_);
  ASSERT_OK(other);
  ASSERT_OK(write_one(**other, "ALTER TABLE v ADD COLUMN t TEXT"));
  EXPECT_OK(read());
}

TEST_F(PostgresFaults, ManyDifferentStatementsWearNoConnectionOut) {
  for (int i = 0; i < 600; ++i) {
    ASSERT_EQ(read_one(*store_, "SELECT CAST(" + std::to_string(i) + " AS BIGINT)"), i);
  }
}

}  // namespace
}  // namespace crosscheck::store::testing
