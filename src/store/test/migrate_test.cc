#include "../src/migrate.h"

#include <thread>

#include "harness.h"

namespace crosscheck::store::testing {
namespace {

using base::Fault;
using base::Result;
using ::testing::HasSubstr;

std::vector<Migration> numbered(const std::vector<std::string>& texts) {
  std::vector<Migration> made;
  for (const std::string& text : texts) {
    const int version = static_cast<int>(made.size()) + 1;
    made.push_back({version, "000" + std::to_string(version) + "_step", text});
  }
  return made;
}

const std::string k_first =
    "CREATE TABLE a (id {{identity}}, b {{bytes}}); CREATE TABLE x (n BIGINT)";
const std::string k_second = "INSERT INTO x VALUES (2); ALTER TABLE a ADD COLUMN t TEXT";

TEST(Migrations, AreNumberedAndDigested) {
  ASSERT_FALSE(all_migrations().empty());
  EXPECT_EQ(all_migrations().front().name, "0001_base");
  EXPECT_EQ(all_migrations().front().digest().size(), 64U);
}

TEST(Migrations, ExpandInEachEnginesWords) {
  EXPECT_EQ(expand("a {{identity}}, b {{bytes}})", Engine::sqlite),
            "a INTEGER PRIMARY KEY AUTOINCREMENT, b BLOB)");
  EXPECT_EQ(expand("a {{identity}}, b {{bytes}})", Engine::postgresql),
            "a BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, b BYTEA)");
  EXPECT_THROW(expand("{{other}}", Engine::sqlite), std::logic_error);
  EXPECT_THROW(expand("{{bytes", Engine::sqlite), std::logic_error);
}

TEST(Migrations, PendingDecides) {
  const auto known = numbered({"one", "two", "three"});
  const auto applied = [&](int count) {
    std::vector<Applied> made;
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(std::min(i, 2));
      made.push_back({i + 1, known[at].digest()});
    }
    return made;
  };
  for (int n = 0; n <= 3; ++n) {
    const auto rest = pending(known, applied(n));
    ASSERT_OK(rest);
    EXPECT_EQ(rest->size(), static_cast<std::size_t>(3 - n));
  }
  const auto newer = pending(known, applied(5));
  EXPECT_FAULT(newer, Fault::environment);
  EXPECT_THAT(newer.error().message, HasSubstr("schema 5"));
  EXPECT_THAT(newer.error().message, HasSubstr("up to 3"));
  auto changed = applied(2);
  changed[1].digest = std::string(64, 'f');
  EXPECT_FAULT(pending(known, changed), Fault::conflict);
  auto holed = applied(3);
  holed.erase(holed.begin() + 1);
  EXPECT_FAULT(pending(known, holed), Fault::conflict);
}

class Migrate : public ::testing::TestWithParam<Backend> {
 protected:
  // Of an empty database.
  std::string make_url() {
    if (GetParam().engine == Engine::postgresql) return Postgres::shared().make_database();
    return dir_ / ("store" + std::to_string(++stores_) + ".db");
  }
  static Result<std::unique_ptr<Store>> open_at(const std::string& url,
                                                const std::vector<Migration>& known) {
    return open_with(url, {}, known);
  }

 private:
  base::TemporaryFolder dir_;
  int stores_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Engines, Migrate,
                         ::testing::Values(Backend{"sqlite", Engine::sqlite},
                                           Backend{"postgresql", Engine::postgresql}),
                         backend_name);

// Tables and columns, in one text.
std::string schema_of(Store& store) {
  std::string out;
  auto rows = store.read_value([&](Tx& tx) {
    return store.engine() == Engine::sqlite
               ? tx.query(
                     "SELECT m.name || '.' || c.name || ' ' || c.type || ' ' || c.\"notnull\" "
                     "FROM sqlite_schema m JOIN pragma_table_info(m.name) c "
                     "WHERE m.type = 'table' UNION ALL "
                     "SELECT 'index ' || name FROM sqlite_schema WHERE type = 'index' ORDER BY 1")
               : tx.query(
                     "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || "
                     "is_nullable FROM information_schema.columns WHERE table_schema = 'public' "
                     "UNION ALL SELECT 'index ' || indexname FROM pg_indexes "
                     "WHERE schemaname = 'public' ORDER BY 1");
  });
  EXPECT_OK(rows);
  for (const Row& row : *rows) out += row.text(0) + "\n";
  return out;
}

TEST_P(Migrate, FreshAndTwice) {
  const std::string url = make_url();
  auto first = open(url);
  ASSERT_OK(first);
  const std::string schema = schema_of(**first);
  EXPECT_THAT(schema, HasSubstr("test_results.duration_us"));
  const auto state = schema_state(**first);
  ASSERT_OK(state);
  EXPECT_EQ(state->current, state->latest);
  EXPECT_EQ(state->latest, static_cast<int>(all_migrations().size()));
  auto second = open(url);
  ASSERT_OK(second);
  EXPECT_EQ(schema_of(**second), schema);
  EXPECT_EQ(read_one(**second, "SELECT COUNT(*) FROM schema_migrations"), state->latest);
}

// From each schema there ever was, a row in it, to the newest: the row is there, and the schema is
// what a fresh one is.
TEST_P(Migrate, EverySchemaComesForward) {
  const std::string fresh_url = make_url();
  auto fresh = open(fresh_url);
  ASSERT_OK(fresh);
  const std::vector<Migration>& all = all_migrations();
  for (std::size_t n = 1; n <= all.size(); ++n) {
    SCOPED_TRACE(n);
    const std::string url = make_url();
    {
      auto old = open_at(url, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)});
      ASSERT_OK(old);
      ASSERT_OK(write_one(**old,
                          "INSERT INTO deliveries (delivery_id, event_type, received_at) "
                          "VALUES ('d1', 'push', 5)"));
      ASSERT_OK(write_one(**old,
                          "INSERT INTO dispatches (delivery, repo_key, repo, level, state, "
                          "not_before, created_at) SELECT id, 'a/b', 'A/B', 'L1', 'pending', 5, 5 "
                          "FROM deliveries"));
    }
    auto now = open(url);
    ASSERT_OK(now);
    EXPECT_EQ(schema_of(**now), schema_of(**fresh));
    EXPECT_EQ(read_one(**now,
                       "SELECT COUNT(*) FROM dispatches JOIN deliveries "
                       "ON deliveries.id = dispatches.delivery WHERE delivery_id = 'd1'"),
              1);
  }
}

TEST_P(Migrate, AppliesOnlyWhatIsPending) {
  const std::string url = make_url();
  ASSERT_OK(open_at(url, numbered({k_first})));
  auto store = open_at(url, numbered({k_first, k_second}));
  ASSERT_OK(store);
  EXPECT_EQ(read_one(**store, "SELECT n FROM x"), 2);
  ASSERT_OK(write_one(**store, "INSERT INTO a (b, t) VALUES ($1, $2)", {to_bytes("b"), "t"}));
  store = open_at(url, numbered({k_first, k_second}));
  ASSERT_OK(store);
  EXPECT_EQ(read_one(**store, "SELECT COUNT(*) FROM x"), 1);
}

TEST_P(Migrate, AFailingMigrationLeavesTheSchemaBeforeIt) {
  const std::string url = make_url();
  const auto bad = numbered({k_first, "INSERT INTO x VALUES (1); INSERT INTO missing VALUES (1)"});
  const auto failed = open_at(url, bad);
  EXPECT_FAULT(failed, Fault::internal);
  EXPECT_THAT(failed.error().message, HasSubstr("0002_step"));
  auto store = open_at(url, numbered({k_first}));
  ASSERT_OK(store);
  EXPECT_EQ(read_one(**store, "SELECT COUNT(*) FROM x"), 0);
  ASSERT_OK(open_at(url, numbered({k_first, k_second})));
}

TEST_P(Migrate, ANewerDatabaseIsRefused) {
  const std::string url = make_url();
  ASSERT_OK(open_at(url, numbered({k_first, k_second})));
  const auto refused = open_at(url, numbered({k_first}));
  EXPECT_FAULT(refused, Fault::environment);
  EXPECT_THAT(refused.error().message, HasSubstr("schema 2"));
}

TEST_P(Migrate, AChangedMigrationIsRefused) {
  const std::string url = make_url();
  ASSERT_OK(open_at(url, numbered({k_first})));
  const auto refused = open_at(url, numbered({k_first + " "}));
  EXPECT_FAULT(refused, Fault::conflict);
  EXPECT_THAT(refused.error().message, HasSubstr("0001_step"));
}

TEST_P(Migrate, WithoutMigratingAnOlderSchemaIsRefusedUnlessUnchecked) {
  const std::string url = make_url();
  ASSERT_OK(open_at(url, numbered({k_first})));
  OpenOptions options;
  options.migrate = false;
  const auto refused = open_with(url, options, numbered({k_first, k_second}));
  EXPECT_FAULT(refused, Fault::environment);
  EXPECT_THAT(refused.error().remedy, HasSubstr("crosscheck db migrate"));
  options.check_schema = false;
  EXPECT_OK(open_with(url, options, numbered({k_first, k_second})));
}

TEST_P(Migrate, OpenersAtOnceMigrateOnce) {
  const std::string url = make_url();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_OK(open_at(url, numbered({k_first, k_second}))); });
  }
  for (std::thread& thread : threads) thread.join();
  auto store = open_at(url, numbered({k_first, k_second}));
  ASSERT_OK(store);
  EXPECT_EQ(read_one(**store, "SELECT COUNT(*) FROM x"), 1);
}

TEST_P(Migrate, ATableMayBeRebuilt) {
  const std::string url = make_url();
  const std::string first =
      "CREATE TABLE parent (id BIGINT PRIMARY KEY);"
      "CREATE TABLE child (parent BIGINT NOT NULL REFERENCES parent (id));"
      "INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1)";
  ASSERT_OK(open_at(url, numbered({first})));
  if (GetParam().engine == Engine::sqlite) {
    const std::string rebuild =
        "CREATE TABLE parent2 (id BIGINT PRIMARY KEY, t TEXT);"
        "INSERT INTO parent2 SELECT id, NULL FROM parent;"
        "DROP TABLE parent; ALTER TABLE parent2 RENAME TO parent";
    const auto broken = open_at(url, numbered({first, rebuild + "; DELETE FROM parent"}));
    EXPECT_FAULT(broken, Fault::internal);
    EXPECT_THAT(broken.error().message, HasSubstr("child"));
    ASSERT_OK(open_at(url, numbered({first, rebuild})));
  }
  auto store = open_with(url, {.check_schema = false}, {});
  ASSERT_OK(store);
  EXPECT_FAULT(write_one(**store, "INSERT INTO child VALUES (7)"), Fault::conflict);
  EXPECT_EQ(read_one(**store, "SELECT COUNT(*) FROM child JOIN parent ON id = parent"), 1);
}

}  // namespace
}  // namespace crosscheck::store::testing
