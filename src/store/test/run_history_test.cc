#include "crosscheck/store/run_history.h"

#include <chrono>

#include "crosscheck/store/run_store.h"
#include "harness.h"

namespace crosscheck::store::testing {
namespace {

using base::Outcome;
using base::Result;

base::TestResult result(const std::string& method, int attempt, Outcome outcome) {
  base::TestResult made;
  made.id = {"test_x.py", "TestX", method, R"({"dtype":"float32"})"};
  made.node_id = "test_x.py::TestXDEV::" + method + "_dev_float32";
  made.attempt = attempt;
  made.outcome = outcome;
  if (base::is_failure(outcome)) {
    made.kind = base::FailureKind::numerical_mismatch;
    made.fingerprint = "f00d";
    made.message = "Tensor-likes are not close!";
    made.mismatch = base::Mismatch{0.5, std::nullopt, 1e-5, std::nullopt};
  }
  made.duration = std::chrono::milliseconds{3};
  return made;
}

base::RunResults make_run(int number, const std::string& device = "dev: one") {
  base::RunResults run;
  run.header.run_id = "run" + std::to_string(number);
  run.header.combination = {"dev", "abc", "2.13.0", "suite", device, "env"};
  run.header.command = {"crosscheck", "run"};
  run.header.selection = "all";
  run.header.started_at = base::from_micros(number * 1'000'000);
  run.header.finished_at = base::from_micros(number * 1'000'000 + 5);
  run.header.environment = {{"machine", "x86_64"}};
  run.header.config = {{"t.yaml", "digest"}};
  run.header.observe = true;
  run.header.shard = "1/2";
  return run;
}

class RunHistory : public StoreTest {
 protected:
  void import(const base::RunResults& run, const std::string& repo_key = {}) {
    const auto done = store().write_value(
        [&](Tx& tx) { return import_run(tx, run, {repo_key, run.header.run_id}); });
    ASSERT_TRUE(done) << done.error().message;
  }
  std::vector<std::string> listed(const RunFilter& filter) {
    const auto runs = store().read_value([&](Tx& tx) { return list_runs(tx, filter); });
    EXPECT_TRUE(runs) << (runs ? "" : runs.error().message);
    std::vector<std::string> ids;
    for (const StoredRun& run : runs.value_or(std::vector<StoredRun>{}))
      ids.push_back(run.header.run_id);
    return ids;
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, RunHistory, ::testing::ValuesIn(backends()), backend_name);

using Ids = std::vector<std::string>;

TEST_P(RunHistory, RunsNewestFirstAndFiltered) {
  import(make_run(2));
  import(make_run(1));
  import(make_run(3, "dev: two"));
  import(make_run(4, "dev"));
  import(make_run(5), "a/b");
  EXPECT_EQ(listed({}), (Ids{"run4", "run3", "run2", "run1"}));
  EXPECT_EQ(listed({.most = 2}), (Ids{"run4", "run3"}));
  EXPECT_EQ(listed({.repo_key = "a/b"}), (Ids{"run5"}));
  EXPECT_EQ(listed({.devices = {"dev"}}), (Ids{"run4", "run3", "run2", "run1"}));
  EXPECT_EQ(listed({.devices = {"dev", "one"}}), (Ids{"run2", "run1"}));
  EXPECT_EQ(listed({.devices = {"de"}}), (Ids{}));
  EXPECT_EQ(listed({.backend = "other"}), (Ids{}));
  EXPECT_EQ(listed({.run_ids = {"run1", "run3", "none"}}), (Ids{"run3", "run1"}));
  const auto runs = store().read_value([&](Tx& tx) { return list_runs(tx, {.most = 1}); });
  ASSERT_TRUE(runs);
  const base::RunHeader& header = runs->at(0).header;
  EXPECT_EQ(header.combination, make_run(4, "dev").header.combination);
  EXPECT_EQ(header.environment, make_run(4).header.environment);
  EXPECT_EQ(header.command, make_run(4).header.command);
  EXPECT_EQ(header.config, make_run(4).header.config);
  EXPECT_EQ(header.shard, "1/2");
  EXPECT_TRUE(header.observe);
  EXPECT_EQ(header.started_at, make_run(4).header.started_at);
  EXPECT_TRUE(runs->at(0).ended);
}

TEST_P(RunHistory, ResultsAsTheyWereWritten) {
  auto run = make_run(1);
  run.results = {result("test_a", 1, Outcome::failed), result("test_a", 2, Outcome::passed),
                 result("test_b", 1, Outcome::crashed)};
  run.results[1].message = "not kept for what did not fail";
  run.results[2].governed = {base::Mode::xfail, "listed", "t.yaml:3:4", Outcome::crashed};
  run.results[2].outcome = Outcome::xfailed;
  import(run);
  const auto read = store().read_value([&](Tx& tx) -> Result<std::vector<base::TestResult>> {
    const auto runs = list_runs(tx, {});
    if (!runs) return tl::unexpected(runs.error());
    return read_results(tx, runs->at(0).id);
  });
  ASSERT_TRUE(read) << read.error().message;
  run.results[1].message.clear();
  EXPECT_EQ(*read, run.results);
}

TEST_P(RunHistory, TestsByAPartOfTheirName) {
  auto run = make_run(1);
  run.results = {result("test_a", 1, Outcome::passed), result("test_ab", 1, Outcome::failed)};
  import(run);
  auto later = make_run(2);
  later.results = {result("test_ab", 1, Outcome::failed), result("test_ab", 2, Outcome::passed)};
  import(later);
  const auto found = [&](std::string_view part) {
    const auto tests = store().read_value([&](Tx& tx) { return find_tests(tx, part, 10); });
    EXPECT_TRUE(tests) << (tests ? "" : tests.error().message);
    std::vector<std::string> methods;
    for (const StoredTest& test : tests.value_or(std::vector<StoredTest>{}))
      methods.push_back(test.test.method);
    return methods;
  };
  EXPECT_EQ(found("testx::TEST_a"), (Ids{"test_a", "test_ab"}));
  EXPECT_EQ(found("test_x.py::TestXDEV::test_a_dev_float32"), (Ids{"test_a"}));
  EXPECT_EQ(found("dev_float32"), (Ids{"test_a", "test_ab"}));
  EXPECT_EQ(found("test%a"), (Ids{}));
  const auto runs = store().read_value([&](Tx& tx) -> Result<std::vector<RunOfTest>> {
    const auto tests = find_tests(tx, "test_ab", 10);
    if (!tests) return tl::unexpected(tests.error());
    return runs_of_test(tx, tests->at(0).test, {});
  });
  ASSERT_TRUE(runs) << runs.error().message;
  ASSERT_EQ(runs->size(), 2U);
  EXPECT_EQ(runs->at(0).run.header.run_id, "run2");
  ASSERT_EQ(runs->at(0).attempts.size(), 2U);
  EXPECT_EQ(runs->at(0).attempts[1].outcome, Outcome::passed);
  EXPECT_EQ(runs->at(1).attempts.at(0).outcome, Outcome::failed);
}

}  // namespace
}  // namespace crosscheck::store::testing
