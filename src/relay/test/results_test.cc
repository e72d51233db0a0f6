#include "crosscheck/relay/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/gzip.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/store/faulty_store.h"
#include "support.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string results(const std::string& run_id) {
  base::RunResults run;
  run.header.run_id = run_id;
  run.header.combination = {"refdev", "1", "2.13.0", "s", "refdev", "e"};
  run.header.command = {"crosscheck", "run"};
  run.header.started_at = base::Time{1'700'000'000s};
  run.header.finished_at = base::Time{1'700'000'010s};
  base::TestResult result;
  result.id = {"test_x.py", "TestX", "test_y", "{}"};
  result.node_id = "test_x.py::TestX::test_y";
  result.outcome = base::Outcome::passed;
  run.results.push_back(result);
  return base::to_json_lines(run);
}

class ResultsTest : public test::RelayTest {
 protected:
  using RelayTest::RelayTest;
  net::Response put(const std::string& body, const std::string& digest, store::Store& store,
                    std::string_view repo = "org/two") {
    net::Request request;
    request.method = "PUT";
    request.headers.set("Authorization", "Bearer " + base::json::serialize(
                                                         base::json::object{{"repository", repo}}));
    request.body = body;
    return ResultsHandler{store, *allowlist_, clock_, test::plain_tokens(), limiter_}.handle(
        request, digest);
  }
  net::Response put(const std::string& body) { return put(body, base::sha256_hex(body), *store_); }
  RateLimiter limiter_{100'000};
};

class ResultsOnEngine : public ResultsTest, public ::testing::WithParamInterface<store::Engine> {
 protected:
  ResultsOnEngine() : ResultsTest{GetParam()} {}
};
INSTANTIATE_TEST_SUITE_P(Engines, ResultsOnEngine, test::engines(), test::engine_name);

TEST_P(ResultsOnEngine, AFileIsKeptAndReadOnce) {
  const std::string file = base::gzip(results("run-1"));
  EXPECT_EQ(put(file).status, 201);
  const auto again = put(file);
  EXPECT_EQ(again.status, 200);
  EXPECT_THAT(again.body, HasSubstr(R"("duplicate":true)"));
  EXPECT_EQ(count("result_files"), 1);
  EXPECT_EQ(count("runs"), 1);
  EXPECT_EQ(count("test_results"), 1);
  EXPECT_THAT(rows("SELECT run_key, results_digest FROM runs", 2),
              ::testing::ElementsAre("run-1|" + base::sha256_hex(file)));
}

TEST_F(ResultsTest, BadFilesAreRefusedWithAReason) {
  const std::string good = results("run-1");
  EXPECT_EQ(put(base::gzip(good), std::string(64, '0'), *store_).status, 400);
  EXPECT_EQ(put(base::gzip(good), "ABC", *store_).status, 400);
  EXPECT_EQ(put("not gzip").status, 400);
  EXPECT_EQ(put("").status, 400);
  const std::string zipped = base::gzip(good);
  EXPECT_EQ(put(zipped.substr(0, zipped.size() / 2)).status, 400);
  EXPECT_EQ(put(zipped + "x").status, 400);
  const auto cut = put(base::gzip(good.substr(0, good.rfind("{\"end\""))));
  EXPECT_EQ(cut.status, 400) << cut.body;
  EXPECT_EQ(put(base::gzip("[1]\n")).status, 400);
  EXPECT_THAT(put(base::gzip("{}\n")).body, HasSubstr(":1: field schema"));
  const std::string bomb = base::gzip(std::string(2000, ' '));
  const auto unpacked = store_results(*store_, test::repo("org/two"), base::sha256_hex(bomb), bomb,
                                      clock_.now(), 1000);
  ASSERT_FALSE(unpacked);
  EXPECT_EQ(unpacked.error().fault, base::Fault::too_large);
  EXPECT_EQ(put(std::string(base::k_results_file_limit + 1, 'x')).status, 413);
  EXPECT_EQ(count("result_files"), 0);
  EXPECT_EQ(count("runs"), 0);
}

TEST_F(ResultsTest, OnlyFromWhoMayReport) {
  const std::string file = base::gzip(results("run-1"));
  EXPECT_THAT(put(file, base::sha256_hex(file), *store_, "org/one").body, HasSubstr("ignored"));
  EXPECT_THAT(put(file, base::sha256_hex(file), *store_, "who/else").body, HasSubstr("ignored"));
  net::Request anonymous;
  anonymous.body = file;
  EXPECT_EQ((ResultsHandler{*store_, *allowlist_, clock_, test::plain_tokens(), limiter_}
                 .handle(anonymous, base::sha256_hex(file))
                 .status),
            401);
  EXPECT_EQ(count("result_files"), 0);
}

TEST_P(ResultsOnEngine, AFailingStoreNeverLeavesHalf) {
  for (std::int64_t n = 1;; ++n) {
    const std::string file = base::gzip(results("run-" + std::to_string(n)));
    store::FaultyStore faulty{*store_};
    faulty.fail_at(n);
    const auto response = put(file, base::sha256_hex(file), faulty);
    if (faulty.calls() < n) break;
    EXPECT_EQ(response.status, 503) << n;
    // What is there of it is shown nowhere, and the next attempt goes on from it.
    EXPECT_EQ(count("result_files"), n - 1);
    EXPECT_EQ(count("runs WHERE finished_at IS NOT NULL"), n - 1);
    EXPECT_EQ(put(file).status, 201) << n;
    EXPECT_EQ(count("runs"), n);
    EXPECT_EQ(count("test_results"), n);
  }
}

TEST_P(ResultsOnEngine, TheSameFileOfAnotherRepositoryIsItsOwn) {
  const std::string file = base::gzip(results("run-1"));
  const std::string digest = base::sha256_hex(file);
  EXPECT_EQ(put(file, digest, *store_, "org/two").status, 201);
  EXPECT_EQ(put(file, digest, *store_, "ORG/four").status, 201);
  EXPECT_THAT(rows("SELECT repo_key, run_key FROM runs ORDER BY id", 2),
              ::testing::ElementsAre("org/two|run-1", "org/four|run-1"));
  EXPECT_EQ(count("result_files"), 2);
}

TEST_P(ResultsOnEngine, AnyTextIsStoredOrRefused) {
  for (const char* field : {"run-1", "test_x.py", "TestX", "test_y", "test_x.py::TestX::test_y"}) {
    const std::string marker = '"' + std::string{field} + '"';
    for (const std::string& text : test::awkward_json_texts()) {
      std::string awkward = results("run-1");
      ASSERT_NE(awkward.find(marker), std::string::npos) << field;
      awkward.replace(awkward.find(marker), marker.size(), text);
      const auto response = put(base::gzip(awkward));
      EXPECT_LT(response.status, 500) << awkward << ": " << response.body;
      // What is refused is refused whole.
      EXPECT_EQ(count("runs WHERE finished_at IS NULL"), 0) << awkward << ": " << response.body;
    }
  }
}

TEST_F(ResultsTest, TooManyLinesAreRefusedBeforeTheyAreRead) {
  const auto response = put(base::gzip(std::string(base::k_results_count_limit + 3, '\n')));
  EXPECT_EQ(response.status, 413);
  EXPECT_THAT(response.body, HasSubstr("500000 results"));
}

TEST(ImportGate, OneReadsAndTwoWait) {
  ImportGate gate{1h};
  std::atomic<int> came = 0;
  std::vector<std::thread> waiting;
  {
    const auto first = gate.enter();
    EXPECT_TRUE(first);
    for (int i = 0; i < 2; ++i)
      waiting.emplace_back([&] { came += static_cast<bool>(gate.enter()) ? 1 : 0; });
    // Once both wait, a further one is sent away; until then it would wait for the first.
    while (gate.waiting() < 2) std::this_thread::yield();
    EXPECT_FALSE(gate.enter());
  }
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(came, 2);
  EXPECT_TRUE(gate.enter());
}

TEST(ImportGate, NobodyWaitsForEver) {
  ImportGate gate{1ms};
  const auto first = gate.enter();
  EXPECT_FALSE(gate.enter());
}

}  // namespace
}  // namespace crosscheck::relay
