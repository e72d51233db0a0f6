#include "crosscheck/relay/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <thread>

#include "checks_support.h"
#include "crosscheck/relay/sweeper.h"
#include "crosscheck/store/faulty_store.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace json = base::json;

class ChecksOnEngine : public test::ChecksTest,
                       public ::testing::WithParamInterface<store::Engine> {
 protected:
  ChecksOnEngine() : ChecksTest{GetParam()} {}
};
INSTANTIATE_TEST_SUITE_P(Engines, ChecksOnEngine, test::engines(), test::engine_name);
class ChecksTest : public test::ChecksTest {};

// Labels put on before the dispatch, while the job runs, after it has ended: each time it is shown.
TEST_P(ChecksOnEngine, TheLabelMayComeAtAnyTime) {
  event("before", labelled({"ciflow/crcr/npu"}));
  report("before", "org/three", "in_progress");
  EXPECT_THAT(said(), ElementsAre("org/three test in_progress"));
  report("before", "org/three", "completed", "success");
  EXPECT_THAT(said(), ElementsAre("org/three test in_progress",
                                  "org/three test completed downstream success"));

  event("while", labelled({}, 8));
  report("while", "org/three", "in_progress");
  report("while", "org/three", "completed", "failure", "other");
  EXPECT_THAT(label("l-1", labelled({"ciflow/crcr/npu"}, 8, "labeled")),
              ElementsAre("org/three/test", "org/three/other"));
  report("while", "org/three", "completed", "success");
  EXPECT_THAT(said_since(2), ElementsAre("org/three test in_progress",
                                         "org/three other completed downstream failure",
                                         "org/three test completed downstream success"));
  EXPECT_THAT(label("l-2", labelled({"ciflow/crcr/npu"}, 8, "labeled")), IsEmpty())
      << "the same label again makes no check run again";

  event("after", labelled({}, 9));
  report("after", "org/three", "in_progress");
  report("after", "org/three", "completed", "great");
  EXPECT_THAT(label("l-3", labelled({"ciflow/crcr/npu"}, 9, "labeled")),
              ElementsAre("org/three/test"));
  EXPECT_EQ(bodies().back().at("conclusion").as_string(), "neutral");
  EXPECT_EQ(bodies().back().at("external_id").as_string(), "123:9");
}

TEST_F(ChecksTest, TheEchoIsNotBelieved) {
  event("d-1", labelled({}));
  auto body = callback("d-1", "in_progress");
  body["payload"] = labelled({"ciflow/crcr/npu"});
  report_body("org/three", body);
  EXPECT_THAT(said(), IsEmpty());
  event("d-2", labelled({"ciflow/crcr/npu"}, 8));
  body = callback("d-2", "in_progress");
  auto echo = labelled({}, 999);
  echo["pull_request"].as_object()["head"].as_object()["sha"] = std::string(40, 'e');
  body["payload"] = echo;
  report_body("org/three", body);
  ASSERT_THAT(said(), ElementsAre("org/three test in_progress"));
  EXPECT_EQ(bodies()[0].at("head_sha").as_string(), test::k_sha);
  EXPECT_EQ(bodies()[0].at("external_id").as_string(), "123:8");
}

TEST_F(ChecksTest, OtherLabelsAndLevelsShowNothing) {
  event("d-1", labelled({"ciflow/crcr/xpu", "ciflow/crcr/NPU", "ciflow/crcr/"}));
  report("d-1", "org/three", "in_progress");
  report("d-1", "org/two", "in_progress");
  EXPECT_THAT(label("l-1", labelled({"ciflow/crcr/xpu"}, 7, "labeled"), "ciflow/crcr/xpu"),
              IsEmpty());
  EXPECT_THAT(label("l-2", labelled({"ciflow/crcr/"}, 7, "labeled"), "ciflow/crcr/"), IsEmpty());
  EXPECT_THAT(said(), IsEmpty());
}

// What is shown as running is finished, nothing new begins.
TEST_F(ChecksTest, ARemovedLabelStopsFurtherOnes) {
  event("d-1", labelled({"ciflow/crcr/npu"}));
  report("d-1", "org/three", "in_progress", {}, "shown");
  label("l-1", labelled({}, 7, "unlabeled"));
  report("d-1", "org/three", "in_progress", {}, "new");
  report("d-1", "org/three", "completed", "success", "new");
  EXPECT_THAT(said(), ElementsAre("org/three shown in_progress"));
  report("d-1", "org/three", "completed", "success", "shown");
  EXPECT_THAT(said_since(1), ElementsAre("org/three shown completed downstream success"));
}

TEST_F(ChecksTest, LabelEventsThatArriveOutOfOrderChangeNothing) {
  auto opened = labelled({});
  auto removed = labelled({}, 7, "unlabeled");
  auto put = labelled({"ciflow/crcr/npu"}, 7, "labeled");
  test::pr_of(opened)["updated_at"] = "2026-05-04T10:00:00Z";
  test::pr_of(put)["updated_at"] = "2026-05-04T10:00:05Z";
  test::pr_of(removed)["updated_at"] = "2026-05-04T10:00:09Z";
  event("d-1", opened);
  label("l-2", removed);
  label("l-1", put);
  report("d-1", "org/three", "in_progress");
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(ChecksTest, ADemotionStopsNewOnesAndFinishesTheShown) {
  const auto demotion = [](std::string_view action, std::string_view head_repo) {
    auto body = labelled({}, 50, action);
    auto& head = test::pr_of(body)["head"].as_object();
    head["ref"] = "crcr-demotion/Org/Three";
    head["repo"] = {{"full_name", head_repo}};
    if (action == "closed") test::pr_of(body)["state"] = "closed";
    return body;
  };
  event("d-1", labelled({"ciflow/crcr/npu"}));
  report("d-1", "org/three", "in_progress", {}, "shown");
  event("fork", demotion("opened", "somebody/pytorch"));
  report("d-1", "org/three", "in_progress", {}, "still allowed");
  event("demotion", demotion("opened", "PyTorch/pytorch"));
  report("d-1", "org/three", "in_progress", {}, "new");
  report("d-1", "org/three", "completed", "success", "shown");
  report("d-1", "org/four", "in_progress", {}, "L4 stays");
  EXPECT_THAT(
      said(),
      ElementsAre("org/three shown in_progress", "org/three still allowed in_progress",
                  "org/three shown completed downstream success", "org/four L4 stays in_progress"));
  event("closed", demotion("closed", "pytorch/pytorch"));
  report("d-1", "org/three", "in_progress", {}, "again");
  EXPECT_THAT(said().back(), "org/three again in_progress");
}

TEST_P(ChecksOnEngine, EachStateOfAJobIsSaidOnce) {
  event("d-1", labelled({}));
  for (int i = 0; i < 2; ++i) report("d-1", "org/four", "in_progress");
  for (int i = 0; i < 2; ++i) report("d-1", "org/four", "completed", "success");
  report("d-1", "org/four", "in_progress");
  EXPECT_THAT(said(), ElementsAre("org/four test in_progress",
                                  "org/four test completed downstream success"));
}

TEST_P(ChecksOnEngine, ManyRelaysAtOnceSayItOnce) {
  event("d-1", labelled({}));
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&] { report("d-1", "org/four", "in_progress"); });
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(said(), ElementsAre("org/four test in_progress"));
}

TEST_F(ChecksTest, AnEarlierAttemptSaysNothingOnceALaterOneRuns) {
  event("d-1", labelled({}));
  const auto attempt = [&](int number, std::string_view status, json::value conclusion) {
    auto body = callback("d-1", status, std::move(conclusion));
    body["workflow"].as_object()["run_attempt"] = number;
    report_body("org/four", body, number);
  };
  attempt(1, "in_progress", nullptr);
  attempt(2, "in_progress", nullptr);
  attempt(1, "completed", "cancelled");
  EXPECT_THAT(said(), ElementsAre("org/four test in_progress", "org/four test in_progress"));
}

// GitHub shows the newest check run of a name: under another name the first would stay in progress.
TEST_F(ChecksTest, AJobKeepsTheNameThatItBeganWith) {
  event("d-1", labelled({}));
  report("d-1", "org/four", "in_progress");
  auto body = callback("d-1", "completed", "success");
  body["workflow"].as_object()["name"] = "renamed meanwhile";
  report_body("org/four", body);
  ASSERT_EQ(bodies().size(), 2U);
  EXPECT_EQ(bodies()[0].at("name"), bodies()[1].at("name"));
}

TEST_F(ChecksTest, PushesHaveNoneButThoseOfAPullRequestsTag) {
  event("d-1", test::push("refs/heads/main"), "push");
  report("d-1", "org/four", "in_progress");
  EXPECT_THAT(said(), IsEmpty());
  event("d-2", test::push("refs/tags/ciflow/trunk/123"), "push");
  report("d-2", "org/four", "in_progress");
  EXPECT_THAT(said(), ElementsAre("org/four test in_progress"));
  EXPECT_THAT(said("stable_check"), IsEmpty());
  EXPECT_EQ(bodies()[0].at("head_sha").as_string(), std::string(40, '4'));
  EXPECT_EQ(bodies()[0].at("external_id").as_string(), "123:123");
}

TEST_F(ChecksTest, ShowsUploadedResultsRatherThanTheBackendsWord) {
  const std::string digest = test::store_run(*store_, "org/four", clock_.now());
  event("d-1", labelled({}));
  auto body = callback("d-1", "completed", "failure");
  body["workflow"].as_object()["test_results"] = {{"passed", 1000}, {"failed", 0}};
  body["workflow"].as_object()["crosscheck"] = {{"results_digest", digest}};
  report_body("org/four", body);
  const auto output = bodies().back().at("output").as_object();
  EXPECT_THAT(std::string{output.at("summary").as_string()},
              HasSubstr("Tests: 1 passed, 2 failed, 0 skipped.\n"));
  EXPECT_THAT(std::string{output.at("summary").as_string()}, HasSubstr("https://pages.test/job/"));
  EXPECT_EQ(output.at("text").as_string(),
            "First failed tests:\n\n- `test_ops.py::T::test_one` failed: `not close`\n"
            "- `test_ops.py::T::test_two` crashed\n");
}

TEST_F(ChecksTest, TheDetailsAreTheRunOrWhereABackendSaysItIs) {
  event("d-1", labelled({}));
  const auto url_of = [&](const json::value& run_id, const json::value& url) {
    auto body = callback("d-1", "in_progress");
    body["workflow"].as_object()["run_id"] = run_id;
    body["workflow"].as_object()["url"] = url;
    report_body("org/four", body);
    const auto body_sent = bodies().back();
    const auto* found = body_sent.if_contains("details_url");
    return found == nullptr ? std::string{} : std::string{found->as_string()};
  };
  const std::string here = "https://github.com/org/four/actions/runs/";
  EXPECT_EQ(url_of("1", nullptr), here + "1");
  EXPECT_EQ(url_of("2", "https://github.com/evil/repo"), here + "2");
  EXPECT_EQ(url_of("uuid", "https://buildkite.com/org/pipe/builds/1"),
            "https://buildkite.com/org/pipe/builds/1");
  EXPECT_EQ(url_of("uuid-2", "javascript:alert(1)"), "");
}

TEST_P(ChecksOnEngine, AFailingStoreLeavesNothingHalfDone) {
  event("d-0", labelled({"ciflow/crcr/npu"}));
  for (std::int64_t n = 1;; ++n) {
    store::FaultyStore faulty{*store_};
    faulty.fail_at(n);
    const auto body = test::parsed(callback("d-0", "in_progress", nullptr, std::to_string(n)));
    const Reporter reporter{test::repo("org/three"), Level::L3, "npu"};
    const auto recorded =
        record_report(faulty, reporter, body, {.checks = &options_}, clock_.now());
    EXPECT_EQ(count("jobs"), count("github_calls WHERE job IS NOT NULL"));
    if (faulty.calls() < n) {
      EXPECT_TRUE(recorded);
      break;
    }
    EXPECT_FALSE(recorded) << n;
  }
}

class StableCheckTest : public test::ChecksTest {
 protected:
  void sweep() {
    while (sweeper_.step(clock_.now())) {
    }
  }
  Sweeper sweeper_{*store_, clock_, *allowlist_, &options_, {.job_timeout = 6h}};
};

TEST_F(StableCheckTest, IsQueuedAndConcludedFromItsJobs) {
  event("d-1", labelled({}));
  EXPECT_THAT(said("stable_check"), ElementsAre("org/four queued 1"));
  EXPECT_EQ(bodies("stable_check")[0].at("name").as_string(), "crcr/org/four");
  report("d-1", "org/four", "in_progress", {}, "a");
  report("d-1", "org/four", "completed", "success", "a");
  clock_.advance(1min);
  sweep();
  EXPECT_EQ(said("stable_check").size(), 1U) << "not settled";
  report("d-1", "org/four", "in_progress", {}, "b");
  clock_.advance(1h);
  sweep();
  EXPECT_EQ(said("stable_check").size(), 1U) << "one is running";
  report("d-1", "org/four", "completed", "failure", "b");
  clock_.advance(5min);
  sweep();
  sweep();
  EXPECT_THAT(said("stable_check"), ElementsAre("org/four queued 1", "org/four completed 1"));
  EXPECT_EQ(bodies("stable_check").back().at("conclusion").as_string(), "failure");

  // The failed one runs again.
  auto again = callback("d-1", "in_progress", nullptr, "b");
  again["workflow"].as_object()["run_attempt"] = 2;
  report_body("org/four", again, 2);
  EXPECT_THAT(said("stable_check").back(), "org/four in_progress 2");
  again = callback("d-1", "completed", "success", "b");
  again["workflow"].as_object()["run_attempt"] = 2;
  report_body("org/four", again, 2);
  clock_.advance(5min);
  sweep();
  EXPECT_THAT(said("stable_check").back(), "org/four completed 2");
  EXPECT_EQ(bodies("stable_check").back().at("conclusion").as_string(), "success");
}

TEST_F(StableCheckTest, FailsAfterADeadlineOfSilence) {
  event("d-1", labelled({}));
  set_dispatches("sent");
  clock_.advance(6h - 1s);
  sweep();
  EXPECT_EQ(said("stable_check").size(), 1U);
  clock_.advance(1s);
  sweep();
  EXPECT_EQ(bodies("stable_check").back().at("conclusion").as_string(), "failure");
  EXPECT_THAT(json::serialize(bodies("stable_check").back()), HasSubstr("no job within 6 h"));
}

TEST_F(StableCheckTest, SaysAtOnceThatNothingWasDispatched) {
  event("d-1", labelled({}));
  set_dispatches("withdrawn");
  sweep();
  EXPECT_EQ(bodies("stable_check").back().at("conclusion").as_string(), "skipped");
  event("d-2", labelled({}, 8));
  set_dispatches("dead");
  sweep();
  EXPECT_EQ(bodies("stable_check").back().at("conclusion").as_string(), "failure");
}

TEST_F(StableCheckTest, IsNotOpenedForACommitThatArrivesAfterItsSuccessor) {
  auto newer = labelled({}, 7, "synchronize");
  test::pr_of(newer)["updated_at"] = "2026-11-30T20:00:01Z";
  event("d-2", newer);
  auto older = labelled({}, 7, "opened");
  test::pr_of(older)["updated_at"] = "2026-11-30T20:00:00Z";
  test::pr_of(older)["head"].as_object()["sha"] = std::string(40, '9');
  event("d-1", older);
  EXPECT_THAT(said("stable_check"), ElementsAre("org/four queued 1"));
  EXPECT_EQ(bodies("stable_check")[0].at("head_sha").as_string(), test::k_sha);
}

TEST_F(StableCheckTest, SaysNothingOfWhatAShadowKeptBack) {
  event("d-1", labelled({}));
  const auto before = said("stable_check").size();
  set_dispatches("withdrawn");
  ASSERT_TRUE(store_->write([](store::Tx& tx) -> base::Result<void> {
    auto done = tx.execute("UPDATE dispatches SET last_error = 'shadow: POST …'");
    if (!done) return tl::unexpected(done.error());
    return {};
  }));
  sweep();
  EXPECT_EQ(said("stable_check").size(), before);
  EXPECT_EQ(count("stable_checks WHERE conclusion IS NULL"), 0);
}

TEST_F(StableCheckTest, IsOfACommitHoweverManyEventsItHas) {
  event("d-1", labelled({}));
  auto tag = test::push("refs/tags/ciflow/trunk/7");
  tag["after"] = test::k_sha;
  event("d-2", tag, "push");
  EXPECT_EQ(said("stable_check").size(), 1U) << "a tag opens none anew";
  report("d-1", "org/four", "completed", "success", "a");
  report("d-2", "org/four", "completed", "failure", "b");
  clock_.advance(5min);
  sweep();
  EXPECT_EQ(bodies("stable_check").back().at("conclusion").as_string(), "failure");
  event("d-3", labelled({}, 7, "reopened"));
  EXPECT_THAT(said("stable_check").back(), "org/four queued 2");
  auto closed = labelled({}, 7, "closed");
  test::pr_of(closed)["state"] = "closed";
  event("d-4", closed);
  EXPECT_THAT(said("stable_check").back(), "org/four queued 2") << "closing opens none";
  clock_.advance(5min);
  sweep();
  EXPECT_EQ(bodies("stable_check").back().at("conclusion").as_string(), "cancelled");
  const auto before = said("stable_check");
  report("d-3", "org/four", "in_progress", {}, "late");
  EXPECT_EQ(said("stable_check"), before) << "it would only be cancelled again";
}

TEST_F(StableCheckTest, IsForL4Alone) {
  list("L3: {npu: {org/four: [o]}}\n");
  event("d-1", labelled({"ciflow/crcr/npu"}));
  EXPECT_THAT(said("stable_check"), IsEmpty());
}

}  // namespace
}  // namespace crosscheck::relay
