#include "crosscheck/store/run_store.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <thread>

#include "crosscheck/base/json.h"
#include "crosscheck/store/run_history.h"
#include "harness.h"

namespace crosscheck::store::testing {
namespace {

using base::Fault;
using base::Outcome;
using base::Result;
using base::RunResults;
using base::TestResult;

class RunStore : public StoreTest {
 protected:
  Result<std::int64_t> import(const RunResults& run, const std::string& digest) {
    return store().write_value([&](Tx& tx) { return import_run(tx, run, {"a/b", digest}); });
  }
  std::string text(const std::string& sql) { return query(sql).at(0).text(0); }
};
INSTANTIATE_TEST_SUITE_P(Stores, RunStore, ::testing::ValuesIn(backends()), backend_name);

TestResult result(int test, int attempt = 1, Outcome outcome = Outcome::passed) {
  TestResult made;
  made.id = {"test_ops.py", "TestOps", "test_add",
             R"({"device":"refdev:0","n":")" + std::to_string(test) + R"("})"};
  made.node_id = "test_ops.py::TestOps::test_add_" + std::to_string(test);
  made.attempt = attempt;
  made.outcome = outcome;
  if (outcome == Outcome::failed) {
    made.kind = base::FailureKind::numerical_mismatch;
    made.fingerprint = "f00";
    made.message = "Tensor-likes are not close! é";
    made.detail = "Traceback";
    made.mismatch = base::Mismatch{
        .absolute = 0.5, .relative = {}, .absolute_tolerance = 1e-5, .relative_tolerance = 1.3e-6};
  }
  made.duration = std::chrono::milliseconds{test};
  return made;
}

RunResults make_run(const std::string& id, int tests) {
  RunResults run;
  run.header.run_id = id;
  run.header.combination = {"refdev", "abc", "2.13.0", "suite1", "refdev", "env"};
  run.header.command = {"crosscheck", "run", "--quick"};
  run.header.selection = "bundled suite, quick set";
  run.header.started_at = base::from_micros(1'000'000);
  run.header.finished_at = base::from_micros(9'000'000);
  run.header.environment = {{"python", "3.11"}, {"os", "Debian \"12\""}};
  for (int i = 0; i < tests; ++i) run.results.push_back(result(i));
  return run;
}

TEST_P(RunStore, FillsARunWhileItGoesOn) {
  const RunResults run = make_run("r1", 0);
  auto id = store().write_value([&](Tx& tx) { return begin_run(tx, run.header); });
  ASSERT_OK(id);
  EXPECT_TRUE(query("SELECT finished_at FROM runs").at(0).is_null(0));
  const auto add = [&](std::vector<TestResult> results) {
    EXPECT_OK(store().write([&](Tx& tx) { return add_results(tx, *id, results); }));
  };
  add({result(1), result(2, 1, Outcome::failed)});
  add({result(2, 1, Outcome::failed), result(2, 2, Outcome::passed),
       result(3, 1, Outcome::crashed)});
  add({});
  auto ended = run.header;
  ended.finished_at = base::from_micros(5'000'000);
  EXPECT_OK(store().write([&](Tx& tx) { return finish_run(tx, *id, ended); }));
  EXPECT_EQ(count("test_results"), 4);
  EXPECT_EQ(count("tests"), 3);
  EXPECT_EQ(text("SELECT counts FROM runs"), R"({"crashed":1,"flaky":1,"passed":1})");
  EXPECT_EQ(text("SELECT ended FROM runs"), "complete");
  EXPECT_EQ(query("SELECT finished_at FROM runs").at(0).time(0), base::from_micros(5'000'000));
  EXPECT_EQ(text("SELECT command FROM runs"), R"(["crosscheck","run","--quick"])");
  EXPECT_EQ(text("SELECT environment FROM runs"), R"({"os":"Debian \"12\"","python":"3.11"})");
  const Row row = query(
                      "SELECT r.outcome, r.kind, r.fingerprint, r.node_id, r.message, r.detail, "
                      "r.mismatch, r.duration_us, t.variant FROM test_results r JOIN tests t "
                      "ON t.id = r.test WHERE r.outcome = 'failed'")
                      .at(0);
  const TestResult failed = result(2, 1, Outcome::failed);
  EXPECT_EQ(row.text(1), "numerical_mismatch");
  EXPECT_EQ(row.text(2), failed.fingerprint);
  EXPECT_EQ(row.text(3), failed.node_id);
  EXPECT_EQ(row.text(4), failed.message);
  EXPECT_EQ(row.text(5), failed.detail);
  EXPECT_THAT(row.text(6), ::testing::HasSubstr(R"("absolute":0.5)"));
  EXPECT_EQ(row.integer(7), 2000);
  EXPECT_EQ(row.text(8), failed.id.variant);
}

TEST_P(RunStore, KeepsWhatAConfigurationSays) {
  RunResults run = make_run("r1", 0);
  run.header.config = {{"tests.yaml", "d16e57"}};
  run.header.observe = true;
  run.header.shard = "2/4:7-9:0f3a";
  run.header.interrupted = true;
  run.results = {result(1), result(2, 1, Outcome::xfailed)};
  run.results[1].governed = base::Governed{.mode = base::Mode::xfail,
                                           .basis = "listed",
                                           .place = "tests.yaml:7:9",
                                           .observed = Outcome::crashed};
  run.results[1].leak = base::Leak{300, 4};
  ASSERT_OK(import(run, "d1"));
  const Row header = query("SELECT config, observe, shard, imported, ended FROM runs").at(0);
  EXPECT_EQ(header.text(0), R"([{"digest":"d16e57","path":"tests.yaml"}])");
  EXPECT_EQ(header.integer(1), 1);
  EXPECT_EQ(header.text(2), "2/4:7-9:0f3a");
  EXPECT_EQ(header.integer(3), 0);
  EXPECT_EQ(header.text(4), "interrupted");
  const auto rows =
      query("SELECT mode, basis, place, observed, leak FROM test_results ORDER BY duration_us");
  EXPECT_TRUE(rows.at(0).is_null(0) && rows.at(0).is_null(3) && rows.at(0).is_null(4));
  EXPECT_EQ(rows.at(1).text(0), "xfail");
  EXPECT_EQ(rows.at(1).text(1), "listed");
  EXPECT_EQ(rows.at(1).text(2), "tests.yaml:7:9");
  EXPECT_EQ(rows.at(1).text(3), "crashed");
  EXPECT_EQ(rows.at(1).text(4), R"({"device":4,"host":300})");
}

TEST_P(RunStore, AnUnfinishedRunIsTakenOverOnce) {
  const RunResults run = make_run("r1", 0);
  const Owner first{"host/ns 7 8", base::from_micros(2'000'000)};
  const Owner second{"host/ns 9 9", base::from_micros(3'000'000)};
  const auto unfinished = [&] {
    auto runs =
        store().read_value([&](Tx& tx) { return unfinished_runs(tx, run.header.combination); });
    EXPECT_TRUE(runs);
    return runs.value_or(std::vector<UnfinishedRun>{});
  };
  auto id = store().write_value([&](Tx& tx) { return begin_run(tx, run.header, first); });
  ASSERT_OK(id);
  EXPECT_OK(store().write([&](Tx& tx) {
    return add_results(tx, *id, std::vector{result(1), result(2, 1, Outcome::not_run)});
  }));
  ASSERT_EQ(unfinished().size(), 1U);
  EXPECT_EQ(unfinished()[0].owner, first);
  EXPECT_EQ(unfinished()[0].run.header.run_id, "r1");
  const auto take = [&](const Owner& from) {
    return store().write_value([&](Tx& tx) { return take_over_run(tx, *id, from, second); });
  };
  EXPECT_EQ(take({}), false);
  EXPECT_EQ(take(first), true);
  EXPECT_EQ(take(first), false);
  EXPECT_EQ(count("test_results"), 1);
  // The first one is not dead after all, and is told so, whatever it tries.
  const auto alive = [&](const Owner& owner) {
    return store().write([&](Tx& tx) { return keep_alive(tx, *id, owner); });
  };
  const auto finish = [&](const Owner& owner) {
    return store().write([&](Tx& tx) { return finish_run(tx, *id, run.header, owner); });
  };
  const auto late = base::from_micros(4'000'000);
  EXPECT_FAULT(alive({first.name, late}), Fault::conflict);
  EXPECT_FAULT(finish(first), Fault::conflict);
  EXPECT_FAULT(finish({}), Fault::conflict);
  EXPECT_OK(alive({second.name, late}));
  EXPECT_EQ(unfinished()[0].owner.alive_at, base::from_micros(4'000'000));
  const auto end = [&](const Owner& dead) {
    return store().write([&](Tx& tx) { return end_dead_run(tx, *id, dead); });
  };
  // Somebody else has taken it over since it was looked at.
  EXPECT_OK(end(first));
  EXPECT_EQ(unfinished()[0].owner.name, second.name);
  const auto owned = [&] {
    auto runs = store().read_value([](Tx& tx) { return owned_runs(tx); });
    EXPECT_TRUE(runs);
    return runs ? runs->size() : 77;
  };
  EXPECT_EQ(owned(), 1U);
  EXPECT_OK(end({second.name, late}));
  EXPECT_EQ(owned(), 0U);
  EXPECT_FAULT(alive({second.name, late}), Fault::conflict);
  EXPECT_EQ(text("SELECT ended FROM runs"), "died");
  EXPECT_EQ(text("SELECT counts FROM runs"), R"({"passed":1})");
  EXPECT_EQ(query("SELECT finished_at FROM runs").at(0).time(0), base::from_micros(4'000'000));
  EXPECT_EQ(unfinished()[0].owner.name, "");
  EXPECT_EQ(take({"", base::from_micros(4'000'000)}), true);
  EXPECT_EQ(text("SELECT owner FROM runs"), second.name);
  const auto named = store().read_value([](Tx& tx) { return unfinished_run(tx, "r1"); });
  ASSERT_TRUE(named && *named);
  EXPECT_EQ((*named)->owner.name, second.name);
  EXPECT_OK(finish(second));
  EXPECT_TRUE(unfinished().empty());
  const auto none = store().read_value([](Tx& tx) { return unfinished_run(tx, "r1"); });
  EXPECT_TRUE(none && !*none);
}

TEST_P(RunStore, ReadsResultsBackWhole) {
  RunResults run = make_run("r1", 1);
  run.results.push_back(result(2, 1, Outcome::failed));
  run.results[1].leak = base::Leak{300, 4};
  run.results[0].message = "skipped for a reason";
  ASSERT_OK(import(run, "d1"));
  const auto read = store().read_value([](Tx& tx) { return read_results(tx, 1, Texts::whole); });
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, run.results);
}

// The store counts as the file does.
TEST_P(RunStore, CountsAsTheResultsThemselvesDo) {
  std::mt19937_64 random{7};
  RunResults run = make_run("r1", 0);
  for (int test = 0; test < 60; ++test) {
    const auto attempts = 1 + static_cast<int>(random() % 3);
    for (int attempt = 1; attempt <= attempts; ++attempt) {
      run.results.push_back(
          result(test, attempt, static_cast<Outcome>(random() % base::k_outcome_count)));
    }
  }
  ASSERT_GT(run.counts().flaky(), 0);
  ASSERT_OK(import(run, "d1"));
  const auto counts = base::parse_json(text("SELECT counts FROM runs"), "counts");
  ASSERT_TRUE(counts);
  EXPECT_EQ(base::read_counts(counts->get_object()), run.counts());
}

TEST_P(RunStore, ARunIdIsUsedOnce) {
  const RunResults run = make_run("r1", 0);
  EXPECT_OK(store().write_value([&](Tx& tx) { return begin_run(tx, run.header); }));
  const auto again = store().write_value([&](Tx& tx) { return begin_run(tx, run.header); });
  EXPECT_FAULT(again, Fault::conflict);
  EXPECT_THAT(again.error().message, ::testing::HasSubstr("r1"));
}

TEST_P(RunStore, FinishingNoRunIsNotFound) {
  EXPECT_FAULT(store().write([](Tx& tx) { return finish_run(tx, 77, {}); }), Fault::not_found);
  EXPECT_FAULT(store().write([](Tx& tx) { return add_results(tx, 77, std::vector{result(1)}); }),
               Fault::conflict);
  EXPECT_EQ(count("tests"), 0);
}

TEST_P(RunStore, ImportsOnce) {
  const RunResults run = make_run("r1", 150);
  const auto first = import(run, "d1");
  ASSERT_OK(first);
  EXPECT_EQ(import(run, "d1"), *first);
  EXPECT_EQ(count("runs"), 1);
  EXPECT_EQ(count("test_results"), 150);
  EXPECT_EQ(text("SELECT counts FROM runs"), R"({"passed":150})");
  EXPECT_FAULT(import(make_run("r1", 3), "d2"), Fault::conflict);
  EXPECT_EQ(count("test_results"), 150);
  // Another run of the same tests and combination.
  EXPECT_OK(import(make_run("r2", 150), "d3"));
  EXPECT_EQ(count("tests"), 150);
  EXPECT_EQ(count("combinations"), 1);
}

TEST_P(RunStore, ARunIdIsItsUploadersOwn) {
  const RunResults run = make_run("r1", 20);
  auto here = store().write_value([&](Tx& tx) { return begin_run(tx, run.header); });
  ASSERT_OK(here);
  const auto first = import(run, "d1");
  ASSERT_OK(first);
  EXPECT_NE(*first, *here);
  const auto other = store().write_value(
      [&](Tx& tx) { return import_run(tx, make_run("r1", 3), {"other/repo", "d2"}); });
  ASSERT_OK(other);
  EXPECT_EQ(count("runs"), 3);
  EXPECT_EQ(text("SELECT repo_key FROM runs WHERE results_digest = 'd2'"), "other/repo");
  EXPECT_TRUE(query("SELECT results_digest FROM runs WHERE repo_key = ''").at(0).is_null(0));
}

TEST_P(RunStore, AnImportThatWasCutOffGoesOn) {
  const RunResults run = make_run("r1", 20);
  const ResultFile file{"a/b", "d1"};
  const auto begin = [&] {
    return store().write_value([&](Tx& tx) { return begin_import(tx, run.header, file); });
  };
  const auto begun = begin();
  ASSERT_OK(begun);
  EXPECT_FALSE(begun->complete);
  EXPECT_OK(store().write(
      [&](Tx& tx) { return add_results(tx, begun->run, std::span{run.results}.first(7)); }));
  EXPECT_FAULT(import(make_run("r1", 20), "d2"), Fault::conflict);
  EXPECT_EQ(import(run, "d1"), begun->run);
  EXPECT_EQ(count("test_results"), 20);
  EXPECT_EQ(text("SELECT counts FROM runs"), R"({"passed":20})");
  const auto again = begin();
  ASSERT_OK(again);
  EXPECT_TRUE(again->complete);
}

TEST_P(RunStore, ImportsOfOneRunAtOnceMakeOne) {
  const RunResults run = make_run("r1", 200);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_OK(import(run, "d1")); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count("runs"), 1);
  EXPECT_EQ(count("test_results"), 200);
}

TEST_P(RunStore, ImportsOfTheSameTestsAtOnceShareThem) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_OK(import(make_run("r" + std::to_string(i), 200), "d" + std::to_string(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count("runs"), 4);
  EXPECT_EQ(count("tests"), 200);
  EXPECT_EQ(count("test_results"), 800);
}

// An engine's index has less room for a row than the longest identity takes.
TEST_P(RunStore, KeepsTheLongestIdentitiesApart) {
  RunResults run = make_run("long", 3);
  std::mt19937_64 random{7};  // what compresses would fit
  const auto noise = [&](std::size_t size) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>(' ' + 4 + random() % 90);
    for (char& c : text) c = c == '\\' || c == '"' ? '_' : c;
    return text;
  };
  const std::string variant = noise(base::TestId::k_variant_limit - 9);
  run.results[0].id = {noise(base::TestId::k_file_limit), noise(base::TestId::k_name_limit),
                       noise(base::TestId::k_name_limit), R"({"x":")" + variant + R"(1"})"};
  run.results[1].id = run.results[0].id;
  run.results[1].id.variant = R"({"x":")" + variant + R"(2"})";
  EXPECT_FALSE(base::too_long(run.results[0].id));
  EXPECT_OK(import(run, "d1"));
  EXPECT_EQ(count("tests"), 3);
  EXPECT_EQ(count("test_results"), 3);
}

TEST_P(RunStore, KeepsAMismatchThatIsNoNumber) {
  RunResults run = make_run("r1", 1);
  run.results[0].mismatch =
      base::Mismatch{std::numeric_limits<double>::infinity(), std::nan(""), 0.5, std::nullopt};
  EXPECT_OK(import(run, "d1"));
  EXPECT_EQ(text("SELECT mismatch FROM test_results"),
            R"({"absolute":"inf","absolute_tolerance":0.5,"relative":"nan"})");
}

TEST_P(RunStore, TenThousandResultsTakeFewCalls) {
  const RunResults run = make_run("big", 10'000);
  FaultyStore counting{store()};
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_OK(counting.write_value([&](Tx& tx) { return import_run(tx, run, {"a/b", "d1"}); }));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("seconds", std::to_string(took.count()));
  EXPECT_EQ(count("test_results"), 10'000);
  EXPECT_LT(counting.calls(), 400);
}

// Whatever call fails, the store is as before or as after.
TEST(RunStoreFaults, AFailingImportLeavesNothing) {
  base::TemporaryFolder dir;
  auto inner = open(dir / "store.db");
  ASSERT_OK(inner);
  const RunResults run = make_run("r1", 10);
  for (std::int64_t n = 1;; ++n) {
    ASSERT_LT(n, 1000);
    FaultyStore store{**inner};
    store.fail_at(n, Fault::full);
    const auto imported =
        store.write_value([&](Tx& tx) { return import_run(tx, run, {"a/b", "d1"}); });
    if (imported) {
      EXPECT_LT(store.calls(), n);
      EXPECT_GT(n, 5);
      break;
    }
    EXPECT_FAULT(imported, Fault::full);
    EXPECT_EQ(store.calls(), n);
    for (const char* table : {"runs", "combinations", "tests", "test_results"}) {
      EXPECT_EQ(read_one(**inner, std::string{"SELECT COUNT(*) FROM "} + table), 0) << n;
    }
  }
  EXPECT_EQ(read_one(**inner, "SELECT COUNT(*) FROM test_results"), 10);
}

}  // namespace
}  // namespace crosscheck::store::testing
