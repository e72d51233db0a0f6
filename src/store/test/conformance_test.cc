#include <array>
#include <barrier>
#include <cmath>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "harness.h"

// What every store must do, over every engine.
namespace crosscheck::store::testing {
namespace {

using base::fail;
using base::Fault;
using base::Result;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class Conformance : public StoreTest {};
INSTANTIATE_TEST_SUITE_P(Stores, Conformance, ::testing::ValuesIn(backends()), backend_name);

void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Conformance, GivesBackEveryValue) {
  const std::string bytes_type = store().engine() == Engine::sqlite ? "BLOB" : "BYTEA";
  execute("CREATE TABLE v (id BIGINT PRIMARY KEY, i BIGINT, d DOUBLE PRECISION, t TEXT, b " +
          bytes_type + ")");
  std::string all_bytes;
  for (int i = 0; i < 256; ++i) all_bytes += static_cast<char>(i);
  using Limits = std::numeric_limits<std::int64_t>;
  using Real = std::numeric_limits<double>;
  struct Case {
    std::int64_t integer;
    double real;
    std::string text;
    std::string bytes;
  };
  const std::vector<Case> cases{
      {0, 0.0, "", ""},
      {1, 0.1, "plain", std::string{"\0", 1}},
      {-1, -1.0 / 3, "Grüße, 世界, 🧪", all_bytes},
      {Limits::max(), Real::max(), "'quoted' \"twice\" \\ $1 ?1", "\xff\xfe"},
      {Limits::min(), Real::denorm_min(), "line\nline\ttab", std::string(1 << 20, '\x80')},
      {42, Real::infinity(), std::string(1 << 20, 'x'), "text"},
      {42, -Real::infinity(), "\u0001\u001f\u007f", "text"},
      {42, 5.0, "5", "5"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    const Case& c = cases[i];
    execute("INSERT INTO v VALUES ($1, $2, $3, $4, $5)",
            {static_cast<std::int64_t>(i), c.integer, c.real, c.text, to_bytes(c.bytes)});
    const auto rows = query(
        "SELECT i, d, t, b FROM v WHERE id = $1 AND i = $2 AND d = $3 AND t = $4 "
        "AND b = $5",
        {static_cast<std::int64_t>(i), c.integer, c.real, c.text, to_bytes(c.bytes)});
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].integer(0), c.integer);
    EXPECT_EQ(rows[0].real(1), c.real);
    EXPECT_EQ(rows[0].text(2), c.text);
    EXPECT_EQ(as_text(rows[0].bytes(3)), c.bytes);
  }
}

TEST_P(Conformance, GivesBackNullsAndTimes) {
  execute("CREATE TABLE v (i BIGINT, d DOUBLE PRECISION, t TEXT, at BIGINT, flag BIGINT)");
  const base::Time now = base::from_micros(1'777'927'708'123'456);
  execute("INSERT INTO v VALUES ($1, $2, $3, $4, $5)",
          {std::nullopt, std::optional<double>{}, std::optional<std::string>{}, now, true});
  const Row row = query("SELECT i, d, t, at, flag FROM v WHERE i IS NULL").at(0);
  EXPECT_TRUE(row.is_null(0));
  EXPECT_EQ(row.optional_integer(0), std::nullopt);
  EXPECT_EQ(row.optional_real(1), std::nullopt);
  EXPECT_EQ(row.optional_text(2), std::nullopt);
  EXPECT_EQ(row.optional_time(2), std::nullopt);
  EXPECT_EQ(row.time(3), now);
  EXPECT_EQ(row.integer(4), 1);
}

TEST_P(Conformance, AggregatesComeAsTheSameTypes) {
  execute("CREATE TABLE v (i BIGINT NOT NULL, d DOUBLE PRECISION)");
  execute("INSERT INTO v VALUES (1, 0.5), (2, 1.5), (4, NULL)");
  const Row row = query(
                      "SELECT COUNT(*), SUM(i), MAX(i), SUM(d), AVG(i), MIN(d), i = 1 FROM v "
                      "GROUP BY i = 1 ORDER BY 1 DESC")
                      .at(0);
  EXPECT_EQ(row.integer(0), 2);
  EXPECT_EQ(row.integer(1), 6);
  EXPECT_EQ(row.integer(2), 4);
  EXPECT_EQ(row.real(3), 1.5);
  EXPECT_EQ(row.real(4), 3.0);
  EXPECT_EQ(row.real(5), 1.5);
  EXPECT_EQ(row.integer(6), 0);
  EXPECT_TRUE(query("SELECT SUM(i) FROM v WHERE i > 9").at(0).is_null(0));
  EXPECT_EQ(query("SELECT COALESCE(SUM(d), 0) FROM v WHERE i > 9").at(0).real(0), 0.0);
}

TEST_P(Conformance, RefusesValuesItCouldNotGiveBack) {
  execute("CREATE TABLE v (t TEXT, d DOUBLE PRECISION)");
  const std::vector<Parameters> bad{
      {std::string{"a\0b", 3}, 1.0},
      {"\xff", 1.0},
      {"\xc0\x80", 1.0},
      {"\xed\xa0\x80", 1.0},
      {"ok", std::numeric_limits<double>::quiet_NaN()},
  };
  for (const Parameters& parameters : bad) {
    EXPECT_FAULT(write_one(store(), "INSERT INTO v VALUES ($1, $2)", parameters),
                 Fault::invalid_input);
  }
  EXPECT_EQ(count("v"), 0);
  execute("INSERT INTO v VALUES ($1, $2)", {"ok", 1.0});
}

TEST_P(Conformance, NumbersPlaceholdersByTheirNumber) {
  execute("CREATE TABLE v (a TEXT, b TEXT, c TEXT)");
  execute("INSERT INTO v (c, a, b) VALUES ($3, $1, $2)", {"a", "b", "c"});
  execute("INSERT INTO v VALUES ($2, $1, $2)", {"x", "y"});
  execute("INSERT INTO v /* $9 ' */ VALUES ('$1', $1, -- $8 \"\n 'it''s $2')", {"z"});
  const auto rows = query("SELECT a, b, c FROM v ORDER BY b");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].text(0) + rows[0].text(1) + rows[0].text(2), "abc");
  EXPECT_EQ(rows[1].text(0) + rows[1].text(1) + rows[1].text(2), "yxy");
  EXPECT_EQ(rows[2].text(0) + rows[2].text(1) + rows[2].text(2), "$1zit's $2");
  std::string many = "SELECT ";
  Parameters parameters;
  for (int i = 1; i <= 12; ++i) {
    many += (i == 1 ? "CAST($" : ", CAST($") + std::to_string(i) + " AS BIGINT)";
    parameters.emplace_back(i);
  }
  const Row row = query(many, parameters).at(0);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(row.integer(i), static_cast<std::int64_t>(i) + 1);
}

TEST_P(Conformance, CountsWhatChanged) {
  execute("CREATE TABLE v (a BIGINT PRIMARY KEY, b BIGINT)");
  EXPECT_OK(store().write([](Tx& tx) -> Result<void> {
    EXPECT_EQ(tx.execute("INSERT INTO v VALUES (1, 0), (2, 0), (3, 0)"), 3);
    EXPECT_EQ(tx.execute("UPDATE v SET b = 1 WHERE a > 1"), 2);
    EXPECT_EQ(tx.execute("UPDATE v SET b = 1 WHERE a > 9"), 0);
    EXPECT_EQ(tx.execute("INSERT INTO v VALUES (1, 5) ON CONFLICT DO NOTHING"), 0);
    EXPECT_EQ(
        tx.execute("INSERT INTO v VALUES (1, 5) ON CONFLICT (a) DO UPDATE SET b = excluded.b"), 1);
    EXPECT_EQ(tx.execute("CREATE INDEX v_b ON v (b)"), 0);
    EXPECT_EQ(tx.execute("DELETE FROM v WHERE a = $1", {2}), 1);
    auto returned = tx.query("UPDATE v SET b = b + 1 RETURNING a, b");
    EXPECT_OK(returned);
    EXPECT_EQ(returned->size(), 2U);
    return {};
  }));
  EXPECT_EQ(query("SELECT SUM(b) FROM v").at(0).integer(0), 8);
}

TEST_P(Conformance, RollsBackOnErrorAndException) {
  execute("CREATE TABLE v (a BIGINT)");
  const auto insert = [](Tx& tx) { EXPECT_OK(tx.execute("INSERT INTO v VALUES (1)")); };
  EXPECT_FAULT(store().write([&](Tx& tx) -> Result<void> {
    insert(tx);
    return fail(Fault::forbidden, "the body says no");
  }),
               Fault::forbidden);
  const auto thrown = store().write([&](Tx& tx) -> Result<void> {
    insert(tx);
    throw std::runtime_error("a bug");
  });
  EXPECT_FAULT(thrown, Fault::internal);
  EXPECT_THAT(thrown.error().message, HasSubstr("a bug"));
  EXPECT_FAULT(store().write([&](Tx& tx) -> Result<void> {
    insert(tx);
    throw 1;
  }),
               Fault::internal);
  EXPECT_FAULT(store().write([&](Tx& tx) -> Result<void> {
    insert(tx);
    auto rows = tx.query("SELECT a FROM v");
    static_cast<void>(rows->front().text(0));  // of another type
    return {};
  }),
               Fault::internal);
  EXPECT_EQ(count("v"), 0);
  EXPECT_OK(store().write([&](Tx& tx) -> Result<void> {
    insert(tx);
    return {};
  }));
  EXPECT_EQ(count("v"), 1);
}

TEST_P(Conformance, AFailedCallDoomsItsTransaction) {
  execute("CREATE TABLE v (a BIGINT PRIMARY KEY)");
  execute("INSERT INTO v VALUES (1)");
  const auto result = store().write([](Tx& tx) -> Result<void> {
    EXPECT_OK(tx.execute("INSERT INTO v VALUES (2)"));
    EXPECT_FAULT(tx.execute("INSERT INTO v VALUES (1)"), Fault::conflict);
    EXPECT_FAULT(tx.query("SELECT 1"), Fault::conflict);
    return {};
  });
  EXPECT_FAULT(result, Fault::conflict);
  EXPECT_EQ(count("v"), 1);
}

TEST_P(Conformance, RefusesWrongSql) {
  execute("CREATE TABLE v (a BIGINT)");
  for (const auto& [sql, parameters] : std::vector<std::pair<std::string, Parameters>>{
           {"INSERT INTO v VALUES ($1)", {}},
           {"INSERT INTO v VALUES ($1)", {1, 2}},
           {"INSERT INTO v VALUES (1); DELETE FROM v", {}},
           {"INSERT INTO missing VALUES (1)", {}},
           {"nonsense", {}}}) {
    SCOPED_TRACE(sql);
    const auto result = write_one(store(), sql, parameters);
    EXPECT_FAULT(result, Fault::internal);
  }
  execute("INSERT INTO v VALUES (1); -- one statement all the same ; \n");
  EXPECT_EQ(count("v"), 1);
}

TEST_P(Conformance, NamesTheConstraint) {
  execute("CREATE TABLE parent (id BIGINT PRIMARY KEY)");
  execute(
      "CREATE TABLE child (name TEXT NOT NULL UNIQUE, parent BIGINT REFERENCES parent (id), "
      "size BIGINT CONSTRAINT size_is_positive CHECK (size > 0))");
  execute("INSERT INTO child VALUES ('secret-value', NULL, 1)");
  const auto message = [&](const std::string& sql) {
    auto result = write_one(store(), sql);
    EXPECT_FALSE(result);
    if (result) return std::string{};
    EXPECT_EQ(result.error().fault, Fault::conflict);
    EXPECT_THAT(result.error().message, ::testing::Not(HasSubstr("secret-value ")));
    return result.error().message;
  };
  EXPECT_THAT(message("INSERT INTO child SELECT name, NULL, 1 FROM child"),
              ::testing::ContainsRegex("child.name"));
  EXPECT_THAT(message("INSERT INTO child VALUES (NULL, NULL, 1)"), HasSubstr("name"));
  EXPECT_THAT(message("INSERT INTO child VALUES ('b', 7, 1)"), HasSubstr("child"));
  EXPECT_THAT(message("INSERT INTO child VALUES ('b', NULL, 0)"), HasSubstr("size_is_positive"));
  EXPECT_EQ(count("child"), 1);
}

TEST_P(Conformance, CompareAndSetLosesNothing) {
  execute("CREATE TABLE counter (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)");
  execute("INSERT INTO counter VALUES (1, 0)");
  constexpr int k_threads = 8;
  constexpr int k_rounds = 200;
  in_threads(k_threads, [&](int) {
    for (int i = 0; i < k_rounds; ++i) {
      EXPECT_OK(store().write([](Tx& tx) -> Result<void> {
        auto rows = tx.query("SELECT n FROM counter WHERE id = 1");
        if (!rows) return tl::unexpected(rows.error());
        auto done =
            tx.execute("UPDATE counter SET n = $1 WHERE id = 1", {rows->front().integer(0) + 1});
        if (!done) return tl::unexpected(done.error());
        return {};
      }));
    }
  });
  EXPECT_EQ(query("SELECT n FROM counter").at(0).integer(0), k_threads * k_rounds);
}

TEST_P(Conformance, OneOfManyWinsAUniqueKey) {
  execute("CREATE TABLE claim (key BIGINT PRIMARY KEY, owner BIGINT)");
  constexpr int k_threads = 8;
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> won{0};
    std::atomic<int> lost{0};
    std::barrier together{k_threads};
    in_threads(k_threads, [&](int i) {
      together.arrive_and_wait();
      auto result = write_one(store(), "INSERT INTO claim VALUES ($1, $2)", {round, i});
      if (result) ++won;
      if (!result && result.error().fault == Fault::conflict) ++lost;
    });
    EXPECT_EQ(won, 1);
    EXPECT_EQ(lost, k_threads - 1);
  }
  EXPECT_EQ(count("claim"), 10);
}

// Each may leave while the other stays: a decision by what was read, not by what is written.
TEST_P(Conformance, DecisionsByWhatWasReadHold) {
  execute("CREATE TABLE duty (who BIGINT PRIMARY KEY, here BIGINT NOT NULL)");
  execute("INSERT INTO duty VALUES (0, 1), (1, 1)");
  for (int round = 0; round < 20; ++round) {
    execute("UPDATE duty SET here = 1");
    std::barrier together{2};
    in_threads(2, [&](int who) {
      together.arrive_and_wait();
      EXPECT_OK(store().write([&](Tx& tx) -> Result<void> {
        auto here = tx.query("SELECT COUNT(*) FROM duty WHERE here = 1");
        if (!here) return tl::unexpected(here.error());
        if (here->front().integer(0) < 2) return {};
        auto done = tx.execute("UPDATE duty SET here = 0 WHERE who = $1", {who});
        if (!done) return tl::unexpected(done.error());
        return {};
      }));
    });
    ASSERT_EQ(query("SELECT SUM(here) FROM duty").at(0).integer(0), 1);
  }
}

TEST_P(Conformance, CrossingUpdatesBothSucceed) {
  execute("CREATE TABLE v (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)");
  execute("INSERT INTO v VALUES (0, 0), (1, 0)");
  in_threads(2, [&](int first) {
    for (int i = 0; i < 50; ++i) {
      EXPECT_OK(store().write([&](Tx& tx) -> Result<void> {
        for (const int id : {first, 1 - first}) {
          auto done = tx.execute("UPDATE v SET n = n + 1 WHERE id = $1", {id});
          if (!done) return tl::unexpected(done.error());
        }
        return {};
      }));
    }
  });
  EXPECT_EQ(query("SELECT SUM(n) FROM v").at(0).integer(0), 200);
}

TEST_P(Conformance, AReadSeesOneSnapshot) {
  execute("CREATE TABLE v (a BIGINT)");
  execute("INSERT INTO v VALUES (1)");
  EXPECT_OK(store().read([&](Tx& tx) -> Result<void> {
    const auto size = [&] { return tx.query("SELECT COUNT(*) FROM v")->front().integer(0); };
    EXPECT_EQ(size(), 1);
    // Not held up by this read, nor seen by it.
    std::thread{[&] { execute("INSERT INTO v VALUES (2)"); }}.join();
    EXPECT_EQ(size(), 1);
    return {};
  }));
  EXPECT_EQ(count("v"), 2);
}

TEST_P(Conformance, AReadChangesNothing) {
  execute("CREATE TABLE v (a BIGINT)");
  const auto result = store().read([](Tx& tx) -> Result<void> {
    auto done = tx.execute("INSERT INTO v VALUES (1)");
    if (!done) return tl::unexpected(done.error());
    return {};
  });
  EXPECT_FAULT(result, Fault::read_only);
  EXPECT_EQ(count("v"), 0);
}

TEST_P(Conformance, AWriteInsideAWriteIsRefused) {
  const auto result =
      store().write([&](Tx&) { return store().write([](Tx&) -> Result<void> { return {}; }); });
  EXPECT_FAULT(result, Fault::internal);
  EXPECT_OK(store().write([](Tx&) -> Result<void> { return {}; }));
}

TEST_P(Conformance, MoreReadersThanConnectionsTakeTurns) {
  execute("CREATE TABLE v (a BIGINT)");
  in_threads(16, [&](int i) {
    for (int n = 0; n < 20; ++n) {
      if (i % 4 == 0) {
        execute("INSERT INTO v VALUES (1)");
      } else {
        EXPECT_GE(count("v"), 0);
      }
    }
  });
  EXPECT_EQ(count("v"), 80);
}

TEST_P(Conformance, FailingNeighboursDisturbNobody) {
  execute("CREATE TABLE v (thread BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (thread, n))");
  constexpr int k_threads = 16;
  constexpr int k_rounds = 40;
  in_threads(k_threads, [&](int thread) {
    for (int n = 0; n < k_rounds; ++n) {
      const auto result = store().write([&](Tx& tx) -> Result<void> {
        auto done = tx.execute("INSERT INTO v VALUES ($1, $2)", {thread, n});
        if (!done) return tl::unexpected(done.error());
        if (n % 4 == 1) return fail(Fault::forbidden, "no");
        if (n % 4 == 2) throw std::runtime_error("no");
        if (n % 4 == 3) {
          auto bad = tx.execute("INSERT INTO v VALUES ($1, NULL)", {thread});
          EXPECT_FALSE(bad);
        }
        return {};
      });
      EXPECT_EQ(result.has_value(), n % 4 == 0);
    }
  });
  EXPECT_EQ(count("v"), k_threads * k_rounds / 4);
  EXPECT_EQ(query("SELECT COUNT(*) FROM v WHERE n % 4 <> 0").at(0).integer(0), 0);
}

TEST_P(Conformance, ACommittedNotifyWakes) {
  EXPECT_FALSE(store().wait_for("outbox", milliseconds{1}));
  std::thread waiter{[&] { EXPECT_TRUE(store().wait_for("outbox", seconds{30})); }};
  EXPECT_OK(store().write([](Tx& tx) -> Result<void> {
    tx.notify("outbox");
    tx.notify("other");
    return {};
  }));
  waiter.join();
  // Once a commit, and not lost for one who comes late.
  EXPECT_FALSE(store().wait_for("outbox", milliseconds{1}));
  EXPECT_TRUE(store().wait_for("other", seconds{30}));
}

TEST_P(Conformance, ARolledBackNotifyWakesNobody) {
  EXPECT_FAULT(store().write([](Tx& tx) -> Result<void> {
    tx.notify("outbox");
    return fail(Fault::forbidden, "no");
  }),
               Fault::forbidden);
  EXPECT_OK(store().write([](Tx& tx) -> Result<void> {
    tx.notify("mark");
    return {};
  }));
  EXPECT_TRUE(store().wait_for("mark", seconds{30}));
  EXPECT_FALSE(store().wait_for("outbox", milliseconds{1}));
}

TEST_P(Conformance, InterruptWakesNowAndLater) {
  std::thread waiter{[&] { EXPECT_FALSE(store().wait_for("outbox", seconds{60})); }};
  store().interrupt();
  waiter.join();
  EXPECT_FALSE(store().wait_for("outbox", seconds{60}));
}

TEST_P(Conformance, ReopenedItHoldsWhatWasWritten) {
  execute("CREATE TABLE v (a BIGINT)");
  execute("INSERT INTO v VALUES (7)");
  auto again = open(url());
  ASSERT_OK(again);
  EXPECT_EQ(read_one(**again, "SELECT a FROM v"), 7);
}

TEST_P(Conformance, OpenedForReadingItOnlyReads) {
  execute("CREATE TABLE v (a BIGINT)");
  OpenOptions options;
  options.read_only = true;
  auto reading = open(url(), options);
  ASSERT_OK(reading);
  EXPECT_FAULT(write_one(**reading, "INSERT INTO v VALUES (7)"), Fault::read_only);
  EXPECT_EQ(read_one(**reading, "SELECT COUNT(*) FROM v"), 0);
}

}  // namespace
}  // namespace crosscheck::store::testing
