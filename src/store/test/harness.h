#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "crosscheck/base/temporary_folder.h"
#include "crosscheck/store/faulty_store.h"
#include "crosscheck/store/store.h"
#include "postgres_fixture.h"

#define ASSERT_OK(expression) ASSERT_TRUE(is_ok(expression))
#define EXPECT_OK(expression) EXPECT_TRUE(is_ok(expression))
#define EXPECT_FAULT(expression, fault) EXPECT_TRUE(fails_with(expression, fault))

namespace crosscheck::store::testing {

template <class T>
::testing::AssertionResult is_ok(const base::Result<T>& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << to_string(result.error().fault) << ": " << to_string(result.error());
}
template <class T>
::testing::AssertionResult fails_with(const base::Result<T>& result, base::Fault fault) {
  if (result) return ::testing::AssertionFailure() << "it succeeded";
  if (result.error().fault == fault) return ::testing::AssertionSuccess();
  return is_ok(result);
}

// Where a test's stores come from: an engine and an empty database.
struct Backend {
  std::string name;
  Engine engine;
  bool faulty = false;  // behind a FaultyStore that never fails
};

inline std::string PrintToString(const Backend& backend) { return backend.name; }

inline std::string backend_name(const ::testing::TestParamInfo<Backend>& given) {
  return given.param.name;
}

inline const std::vector<Backend>& backends() {
  static const std::vector<Backend> all{{"sqlite", Engine::sqlite},
                                        {"postgresql", Engine::postgresql},
                                        {"faulty", Engine::sqlite, true}};
  return all;
}

class StoreTest : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    url_ = GetParam().engine == Engine::sqlite ? (dir_ / "store.db").string()
                                               : Postgres::shared().make_database();
    auto opened = open(url_);
    ASSERT_OK(opened);
    inner_ = std::move(*opened);
    if (GetParam().faulty) faulty_ = std::make_unique<FaultyStore>(*inner_);
  }

  [[nodiscard]] Store& store() { return faulty_ ? static_cast<Store&>(*faulty_) : *inner_; }
  [[nodiscard]] const std::string& url() const { return url_; }

  void execute(const std::string& sql, const Parameters& parameters = {}) {
    EXPECT_OK(store().write([&](Tx& tx) -> base::Result<void> {
      auto done = tx.execute(sql, parameters);
      if (!done) return tl::unexpected(done.error());
      return {};
    }));
  }
  std::vector<Row> query(const std::string& sql, const Parameters& parameters = {}) {
    auto rows = store().read_value([&](Tx& tx) { return tx.query(sql, parameters); });
    EXPECT_OK(rows);
    return rows.value_or(std::vector<Row>{});
  }
  std::int64_t count(const std::string& table) {
    const auto rows = query("SELECT COUNT(*) FROM " + table);
    return rows.empty() ? -1 : rows.front().integer(0);
  }

 private:
  base::TemporaryFolder dir_;
  std::string url_;
  std::unique_ptr<Store> inner_;
  std::unique_ptr<FaultyStore> faulty_;
};

// One statement as the whole of a transaction.
inline base::Result<void> write_one(Store& store, const std::string& sql,
                                    const Parameters& parameters = {}) {
  return store.write([&](Tx& tx) -> base::Result<void> {
    auto done = tx.execute(sql, parameters);
    if (!done) return tl::unexpected(done.error());
    return {};
  });
}
inline base::Result<std::int64_t> read_one(Store& store, const std::string& sql) {
  return store.read_value([&](Tx& tx) -> base::Result<std::int64_t> {
    auto rows = tx.query(sql);
    if (!rows) return tl::unexpected(rows.error());
    return rows->front().integer(0);
  });
}

}  // namespace crosscheck::store::testing
