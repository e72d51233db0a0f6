#include "crosscheck/runner/times.h"

#include <gmock/gmock.h>

#include "crosscheck/base/temporary_folder.h"
#include "crosscheck/store/run_store.h"

namespace crosscheck::runner {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::Pair;

class TimesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = store::open((folder_.path() / "runs.db").string());
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }

  // A run that began at `began`, of tests with their seconds.
  void keep(std::int64_t began, const std::string& shard,
            const std::vector<std::pair<std::string, int>>& tests,
            base::Outcome outcome = base::Outcome::passed, const std::string& device = "npu",
            bool interrupted = false) {
    base::RunHeader header;
    header.run_id = "run" + std::to_string(++runs_);
    header.combination = {"mine", "r" + std::to_string(runs_), "2.13.0", "s", device, "e"};
    header.started_at = base::Time{seconds{began}};
    header.shard = shard;
    std::vector<base::TestResult> results;
    for (const auto& [method, took] : tests) {
      base::TestResult result;
      result.id = {"a.py", "TestX", method, "{}"};
      result.outcome = outcome;
      result.duration = seconds{took};
      results.push_back(result);
    }
    const auto written = store_->write([&](store::Tx& tx) -> base::Result<void> {
      const auto run = store::begin_run(tx, header);
      if (!run) return tl::unexpected(run.error());
      if (auto added = store::add_results(tx, *run, results); !added || !interrupted) return added;
      header.interrupted = true;
      return store::finish_run(tx, *run, header);
    });
    ASSERT_TRUE(written) << written.error().message;
  }

  std::map<std::string, std::int64_t> known() {
    const auto times = known_times(*store_, {"mine", "", "", "", "npu", ""});
    EXPECT_TRUE(times) << times.error().message;
    std::map<std::string, std::int64_t> by_method;
    for (const auto& [id, time] : *times) {
      by_method[id.method] = std::chrono::duration_cast<seconds>(time).count();
    }
    return by_method;
  }

 private:
  base::TemporaryFolder folder_;
  std::unique_ptr<store::Store> store_;
  int runs_ = 0;
};

TEST_F(TimesTest, TheLatestThreeRunsCount) {
  keep(1, "", {{"x", 99}, {"old", 5}});
  keep(4, "", {{"x", 1}});
  keep(2, "", {{"x", 3}, {"y", 4}});
  keep(3, "", {{"x", 2}});
  keep(5, "", {{"x", 50}}, base::Outcome::passed, "another device");
  keep(3, "", {{"z", 7}}, base::Outcome::environment_error);
  EXPECT_THAT(known(), ElementsAre(Pair("x", 2)));  // the fault's run was one of the three
}

TEST_F(TimesTest, WhatWasCutShortIsNoRoundButTellsWhatItTimed) {
  for (const auto began : {1, 2, 3}) keep(began, "", {{"x", began}, {"y", 9}});
  for (const auto began : {4, 5, 6}) {
    keep(began, "", {{"x", 7}}, base::Outcome::passed, "npu", true);
  }
  EXPECT_THAT(known(), ElementsAre(Pair("x", 7), Pair("y", 9)));
}

TEST_F(TimesTest, ShardsAreTogetherOneRun) {
  keep(1, "", {{"x", 99}});
  for (std::int64_t round = 0; round < 3; ++round) {
    for (int shard = 1; shard <= 4; ++shard) {
      keep(10 + round, std::to_string(shard) + "/4:0-1:0123456789abcdef",
           {{"t" + std::to_string(shard), shard}});
    }
  }
  EXPECT_THAT(known(), ElementsAre(Pair("t1", 1), Pair("t2", 2), Pair("t3", 3), Pair("t4", 4)));
}

}  // namespace
}  // namespace crosscheck::runner
