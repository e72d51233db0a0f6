#include "crosscheck/relay/sweeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checks_support.h"
#include "crosscheck/store/faulty_store.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
namespace json = base::json;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class SweeperTest : public test::ChecksTest {
 protected:
  using ChecksTest::ChecksTest;
  int sweep(store::Store& store) {
    Sweeper sweeper{store, clock_, *allowlist_, &options_, {.job_timeout = 6h}};
    int items = 0;
    while (sweeper.step(clock_.now())) ++items;
    return items;
  }
  std::vector<std::string> jobs() {
    return rows("SELECT job_name, state, conclusion, concluded_by FROM jobs ORDER BY id", 4);
  }
};
class SweeperOnEngine : public SweeperTest, public ::testing::WithParamInterface<store::Engine> {
 protected:
  SweeperOnEngine() : SweeperTest{GetParam()} {}
};
INSTANTIATE_TEST_SUITE_P(Engines, SweeperOnEngine, test::engines(), test::engine_name);

TEST_P(SweeperOnEngine, EndsEachSilentJobOnceWhateverItIsCalled) {
  const std::vector<std::string> names{"test: cuda",  "a:b:12",  "1_0",   "007", "12",
                                       "测试 / 構築", "'\"%_$1", "[1,2]", "x"};
  list("L3: {npu: {org/three: [o]}}\n");
  event("d-1", labelled({"ciflow/crcr/npu"}));
  for (const auto& name : names) report("d-1", "org/three", "in_progress", {}, name);
  clock_.advance(6h - 1s);
  EXPECT_EQ(sweep(*store_), 0);
  clock_.advance(1s);
  report("d-1", "org/three", "in_progress", {}, "young");
  report("d-1", "org/three", "in_progress", {}, "done");
  report("d-1", "org/three", "completed", "success", "done");
  EXPECT_EQ(sweep(*store_), std::ssize(names));
  EXPECT_EQ(sweep(*store_), 0);
  for (const auto& name : names) {
    EXPECT_THAT(jobs(), Contains(name + "|completed|timed_out|relay"));
    EXPECT_THAT(said(), Contains("org/three " + name + " completed relay timed_out"));
  }
  EXPECT_THAT(jobs(), Contains("young|in_progress|-|-"));
  EXPECT_EQ(count("github_calls WHERE says LIKE 'completed relay%'"), std::ssize(names));
  EXPECT_THAT(rows("SELECT execution_us FROM jobs WHERE conclusion = 'timed_out'", 1),
              Each("21600000000"));
}

TEST_F(SweeperTest, ALateReportReplacesTheTimeOutAndSaysSo) {
  event("d-1", labelled({}));
  report("d-1", "org/four", "in_progress");
  clock_.advance(6h);
  sweep(*store_);
  report("d-1", "org/four", "completed", "success");
  EXPECT_THAT(said(),
              ElementsAre("org/four test in_progress", "org/four test completed relay timed_out",
                          "org/four test completed downstream success"));
  EXPECT_THAT(json::serialize(bodies().back()),
              ::testing::HasSubstr("after the relay had ended the job as `timed_out`"));
  EXPECT_THAT(jobs(), ElementsAre("test|completed|success|downstream"));
}

TEST_F(SweeperTest, JobsWithoutAPullRequestEndToo) {
  event("d-1", test::push("refs/heads/main"), "push");
  report("d-1", "org/two", "in_progress");
  clock_.advance(7h);
  Sweeper sweeper{*store_, clock_, *allowlist_, nullptr, {.job_timeout = 6h}};
  EXPECT_TRUE(sweeper.step(clock_.now()));
  EXPECT_FALSE(sweeper.step(clock_.now()));
  EXPECT_THAT(jobs(), ElementsAre("test|completed|timed_out|relay"));
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(SweeperTest, AClockThatIsSetBackEndsNothing) {
  event("d-1", labelled({}));
  report("d-1", "org/two", "in_progress");
  clock_.advance(-24h);
  EXPECT_EQ(sweep(*store_), 0);
  EXPECT_THAT(jobs(), ElementsAre("test|in_progress|-|-"));
}

TEST_F(SweeperTest, OneThatFailsStandsAloneAndIsTriedAgain) {
  event("d-1", labelled({}));
  for (const char* name : {"a", "b", "c"}) report("d-1", "org/four", "in_progress", {}, name);
  clock_.advance(6h);
  int failures = 0;
  for (std::int64_t n = 1;; ++n) {
    store::FaultyStore faulty{*store_};
    faulty.fail_at(n);
    sweep(faulty);
    const bool reached = faulty.calls() >= n;
    failures += count("jobs WHERE state = 'in_progress'") > 0 ? 1 : 0;
    EXPECT_EQ(sweep(*store_) > 0 || !reached || count("jobs WHERE state = 'in_progress'") == 0,
              true);
    EXPECT_EQ(count("jobs WHERE state = 'in_progress'"), 0) << n;
    EXPECT_EQ(count("github_calls WHERE says = 'completed relay timed_out'"), 3);
    if (!reached) break;
    // As before the sweep, for the next fault.
    ASSERT_TRUE(store_->write([&](store::Tx& tx) -> base::Result<void> {
      for (const char* sql :
           {"UPDATE jobs SET state = 'in_progress', conclusion = NULL, concluded_by = NULL",
            "DELETE FROM github_calls WHERE says = 'completed relay timed_out'"})
        if (auto done = tx.execute(sql); !done) return tl::unexpected(done.error());
      return {};
    }));
  }
  EXPECT_GT(failures, 0);
}

TEST_F(SweeperTest, OfSeveralRelaysOneSweeps) {
  store::Lease other{*store_, clock_, "sweeper", 60s};
  ASSERT_TRUE(other.hold().value());
  event("d-1", labelled({}));
  report("d-1", "org/four", "in_progress");
  clock_.advance(6h);
  ASSERT_TRUE(other.hold().value());
  {
    Sweeper sweeper{*store_, clock_, *allowlist_, &options_, {.job_timeout = 6h, .interval = 1ms}};
    sweeper.start();
    for (int i = 0; i < 20; ++i) static_cast<void>(store_->wait_for("nothing", 1ms));
    sweeper.stop();
  }
  EXPECT_EQ(count("jobs WHERE state = 'in_progress'"), 1);
  ASSERT_TRUE(other.release());
  Sweeper sweeper{*store_, clock_, *allowlist_, &options_, {.job_timeout = 6h, .interval = 1ms}};
  sweeper.start();
  for (int i = 0; i < 10'000 && count("jobs WHERE state = 'in_progress'") > 0; ++i)
    static_cast<void>(store_->wait_for("nothing", 1ms));
  sweeper.stop();
  EXPECT_EQ(count("jobs WHERE state = 'in_progress'"), 0);
  EXPECT_EQ(count("leases"), 0);
}

}  // namespace
}  // namespace crosscheck::relay
