#include "crosscheck/relay/github_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "../../github/test/scripted_client.h"
#include "checks_support.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = Answer::Kind;
namespace json = base::json;

class FakeCalls final : public CallTarget {
 public:
  void send(CallKind kind, const base::RepoName& repo, const std::string& payload,
            std::function<void(Answer)> done) override {
    sent.push_back(std::string{to_string(kind)} + " " + repo.full_name() + " " + payload);
    if (hold) {
      held.push_back(std::move(done));
      return;
    }
    if (answers.empty()) return done({});
    const Answer answer = answers.front();
    answers.erase(answers.begin());
    done(answer);
  }
  [[nodiscard]] std::size_t room() const override { return 100; }

  bool hold = false;
  std::vector<Answer> answers;
  std::vector<std::string> sent;
  std::vector<std::function<void(Answer)>> held;
};

class CallsTest : public test::ChecksTest {
 protected:
  explicit CallsTest(store::Engine engine = store::Engine::sqlite) : ChecksTest{engine} {}
  void settle() {
    for (int i = 0; i < 100; ++i) {
      const auto did = sender_.step();
      ASSERT_TRUE(did) << did.error().message;
      if (!*did) return;
    }
    FAIL() << "never at rest";
  }
  std::vector<std::string> states() {
    return rows("SELECT says, state FROM github_calls WHERE job IS NOT NULL ORDER BY id", 2);
  }
  std::string statuses_sent() {
    std::string text;
    for (const auto& line : target_.sent) {
      const auto payload = base::parse_json(line.substr(line.find('{')), "payload");
      text += base::require_string(*payload, "status").value_or("?") + " ";
    }
    return text;
  }

  FakeCalls target_;
  CallSender sender_{*store_, clock_, target_, *allowlist_, {.jitter = [] { return 1.0; }}};
};
class CallsOnEngine : public CallsTest, public ::testing::WithParamInterface<store::Engine> {
 protected:
  CallsOnEngine() : CallsTest{GetParam()} {}
};
INSTANTIATE_TEST_SUITE_P(Engines, CallsOnEngine, test::engines(), test::engine_name);

TEST_P(CallsOnEngine, CheckRunsOfAJobLeaveInOrder) {
  event("d-1", labelled({"ciflow/crcr/npu"}));
  report("d-1", "org/three", "in_progress");
  settle();
  target_.hold = true;
  report("d-1", "org/three", "completed", "failure");
  settle();
  EXPECT_THAT(states(), ElementsAre("in_progress|sent", "completed downstream failure|sending"));
  target_.held.back()(Answer{Kind::retry_later, {}, "later"});
  settle();
  clock_.advance(10s);
  target_.hold = false;
  settle();
  EXPECT_THAT(states(), ElementsAre("in_progress|sent", "completed downstream failure|sent"));
  target_.sent.clear();
}

TEST_P(CallsOnEngine, TheEndWaitsForABeginningThatIsOnItsWay) {
  event("d-1", labelled({"ciflow/crcr/npu"}));
  set_calls_aside();
  report("d-1", "org/three", "in_progress");
  target_.hold = true;
  settle();
  report("d-1", "org/three", "completed", "success");
  settle();
  EXPECT_THAT(states(), ElementsAre("in_progress|sending", "completed downstream success|pending"));
  target_.hold = false;
  target_.held[0]({});
  settle();
  EXPECT_EQ(statuses_sent(), "in_progress completed ");
}

TEST_P(CallsOnEngine, ABeginningThatHasNotLeftIsDropped) {
  event("d-1", labelled({"ciflow/crcr/npu"}));
  set_calls_aside();
  report("d-1", "org/three", "in_progress");
  report("d-1", "org/three", "completed", "success");
  settle();
  EXPECT_EQ(statuses_sent(), "completed ");
  EXPECT_THAT(states(), ElementsAre("in_progress|withdrawn", "completed downstream success|sent"));
}

TEST_P(CallsOnEngine, ARefusedBeginningIsNotTriedAgainOnceTheEndIsThere) {
  event("d-1", labelled({"ciflow/crcr/npu"}));
  set_calls_aside();
  report("d-1", "org/three", "in_progress");
  target_.hold = true;
  settle();
  report("d-1", "org/three", "completed", "success");
  target_.hold = false;
  target_.held[0](Answer{Kind::uncertain, {}, "502"});
  settle();
  EXPECT_EQ(statuses_sent(), "in_progress completed ");
  EXPECT_THAT(states(), ElementsAre("in_progress|withdrawn", "completed downstream success|sent"));
}

TEST_P(CallsOnEngine, ADeadOneIsSeenAndArmedAgainByARedelivery) {
  event("d-1", labelled({"ciflow/crcr/npu"}));
  set_calls_aside();
  report("d-1", "org/three", "in_progress");
  target_.answers = {Answer{Kind::rejected, {}, "422: no such commit"}};
  settle();
  EXPECT_THAT(rows("SELECT kind, repo, last_error FROM github_calls WHERE state = 'dead'", 3),
              ElementsAre("create_check_run|org/three|422: no such commit"));
  const auto event = read_event("pull_request", labelled({"ciflow/crcr/npu"}));
  const auto again =
      accept(*store_, *allowlist_->current(), "d-1", *event, "{}", clock_.now(), &options_);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->duplicate);
  EXPECT_EQ(again->dispatches, 1);
  settle();
  EXPECT_THAT(states(), ElementsAre("in_progress|sent"));
}

TEST_F(CallsTest, ADeadOneThatALaterOneReplacedStaysDead) {
  event("d-1", labelled({"ciflow/crcr/npu"}));
  set_calls_aside();
  report("d-1", "org/three", "in_progress");
  target_.answers = {Answer{Kind::rejected, {}, "422"}};
  settle();
  report("d-1", "org/three", "completed", "success");
  settle();
  const auto armed = store_->write_value([&](store::Tx& tx) {
    return arm_calls_again(tx, "id >= $1", std::int64_t{0}, clock_.now());
  });
  EXPECT_EQ(armed.value(), 0);
}

TEST_P(CallsOnEngine, AKilledRelaysCallIsMadeByTheNext) {
  event("d-1", labelled({"ciflow/crcr/npu"}));
  set_calls_aside();
  report("d-1", "org/three", "in_progress");
  target_.hold = true;
  settle();
  FakeCalls other;
  CallSender next{*store_, clock_, other, *allowlist_, {}};
  ASSERT_TRUE(next.step());
  EXPECT_THAT(other.sent, IsEmpty()) << "its lease lasts";
  clock_.advance(121s);
  ASSERT_TRUE(next.step());
  EXPECT_EQ(other.sent.size(), 1U);
}

TEST_P(CallsOnEngine, TwoRelaysMakeEachCallOnce) {
  FakeCalls other;
  CallSender second{*store_, clock_, other, *allowlist_, {}};
  event("d-1", labelled({"ciflow/crcr/npu"}));
  for (int i = 0; i < 20; ++i)
    report("d-1", i % 2 == 0 ? "org/three" : "org/four", "in_progress", {}, std::to_string(i));
  std::thread here{[&] {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(sender_.step());
  }};
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(second.step());
  here.join();
  settle();
  auto all = target_.sent;
  all.insert(all.end(), other.sent.begin(), other.sent.end());
  EXPECT_EQ(all.size(), 21U) << "20 jobs and a stable check";
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
}

TEST_F(CallsTest, ASuitesRunsAreStartedAgainOnceEachAndOnlyFromL3On) {
  const auto asked = accept_rerun(*store_, *allowlist_->current(), options_, "s-1", "check_suite",
                                  json::object{{"check_suite", {{"id", 5}}}}, clock_.now());
  ASSERT_TRUE(asked) << asked.error().message;
  json::array list;
  for (const auto& [name, id] :
       {std::pair{"crcr/org/three/CI/a", "77:7"}, std::pair{"crcr/org/three/CI/b", "77:7"},
        std::pair{"crcr/ORG/Four/CI/a", "78"}, std::pair{"crcr/org/four/CI/b", "79:7"},
        std::pair{"crcr/org/two/CI/a", "80:7"}, std::pair{"crcr/org/nobody/CI/a", "81:7"},
        std::pair{"crcr/org/four/CI/c", "0190-uuid:7"}, std::pair{"crcr/org/four", "pr:7"}})
    list.push_back(json::object{{"name", name}, {"external_id", id}});
  Answer listed;
  listed.content = json::serialize(list);
  target_.answers = {Answer{Kind::retry_later, {}, "500"}};
  settle();
  clock_.advance(10s);
  // The first re-run fails for good: the others go on.
  target_.answers = {listed, Answer{Kind::rejected, {}, "404"}};
  settle();
  EXPECT_THAT(target_.sent,
              ElementsAre(R"(list_check_suite pytorch/pytorch {"suite":5})",
                          R"(list_check_suite pytorch/pytorch {"suite":5})",
                          R"(rerun org/three {"run_id":"77"})", R"(rerun org/four {"run_id":"78"})",
                          R"(rerun org/four {"run_id":"79"})"));
  EXPECT_EQ(count("github_calls WHERE state = 'dead'"), 1);
}

TEST_P(CallsOnEngine, ASuiteThatIsAskedForAgainAtOnceStartsItsRunsOnce) {
  const auto ask = [&](const std::string& delivery, std::int64_t suite) {
    const auto asked =
        accept_rerun(*store_, *allowlist_->current(), options_, delivery, "check_suite",
                     json::object{{"check_suite", {{"id", suite}}}}, clock_.now());
    EXPECT_TRUE(asked) << asked.error().message;
  };
  ask("s-1", 5);
  ask("s-2", 5);
  EXPECT_EQ(count("github_calls"), 1) << "what is still to be listed is not asked for twice";
  // Another suite with the same run, and the first once more while its runs wait to be started.
  ask("s-3", 6);
  Answer listed;
  listed.content = json::serialize(
      json::array{json::object{{"name", "crcr/org/three/CI/a"}, {"external_id", "77:7"}}});
  target_.hold = true;
  settle();
  ask("s-4", 5);
  EXPECT_EQ(count("github_calls"), 2) << "one is being listed";
  ASSERT_EQ(target_.held.size(), 2U);
  for (const auto& done : std::exchange(target_.held, {})) done(listed);
  settle();
  EXPECT_EQ(count("github_calls WHERE kind = 'rerun'"), 1);
  ask("s-5", 5);
  settle();
  ASSERT_EQ(target_.held.size(), 2U) << "the re-run, and the list";
  target_.held[1](listed);
  settle();
  EXPECT_EQ(count("github_calls WHERE kind = 'list_check_suite'"), 3);
  EXPECT_EQ(count("github_calls WHERE kind = 'rerun'"), 1) << "it was being started";
}

TEST_F(CallsTest, ASuiteHasANumber) {
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{0}}) {
    const auto asked = accept_rerun(*store_, *allowlist_->current(), options_, "s-1", "check_suite",
                                    json::object{{"check_suite", {{"id", id}}}}, clock_.now());
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().fault, base::Fault::invalid_input);
    EXPECT_THAT(asked.error().message, HasSubstr("check_suite.id"));
  }
  EXPECT_EQ(count("deliveries"), 0);
}

TEST_F(CallsTest, OneCheckRunsRunIsStartedAgain) {
  const auto ask = [&](const std::string& delivery, const std::string& name,
                       const json::value& external_id) {
    const auto asked = accept_rerun(
        *store_, *allowlist_->current(), options_, delivery, "check_run",
        json::object{{"check_run",
                      {{"name", name}, {"external_id", external_id}, {"head_sha", test::k_sha}}}},
        clock_.now());
    EXPECT_TRUE(asked) << asked.error().message;
    return asked.value_or(Asked{});
  };
  EXPECT_THAT(ask("r-1", "crcr/org/three/CI/a/b", "77:42").queued, ElementsAre("org/three"));
  EXPECT_THAT(ask("r-2", "crcr/org/three/CI/other", "77:42").queued, ElementsAre("org/three"));
  EXPECT_TRUE(ask("r-1", "crcr/org/three/CI/a/b", "77:42").duplicate);
  settle();
  EXPECT_THAT(target_.sent, ElementsAre(R"(rerun_failed_jobs org/three {"run_id":"77"})"))
      << "a run that waits to be started is not asked for twice";
  EXPECT_THAT(ask("r-3", "crcr/org/two/CI/a", "77:42").ignored, HasSubstr("not L3+"));
  EXPECT_THAT(ask("r-4", "crcr/org/nobody/CI/a", "77:42").ignored, HasSubstr("not L3+"));
  EXPECT_THAT(ask("r-5", "crcr/org/four/CI/a", "0190f7c2-8f:42").ignored, HasSubstr("Buildkite"));
  for (const json::value& none : {json::value{nullptr}, json::value{""}, json::value{5}})
    EXPECT_EQ(ask("r-6", "crcr/org/four/CI/a", none).ignored, "not a crcr check run");
  EXPECT_EQ(ask("r-7", "lint", "77:42").ignored, "not a crcr check run");
  settle();
  EXPECT_EQ(target_.sent.size(), 1U);
  const auto none = accept_rerun(*store_, *allowlist_->current(), options_, "r-8", "check_suite",
                                 json::object{{"check_suite", json::object{}}}, clock_.now());
  EXPECT_THAT(none->ignored, HasSubstr("no check suite"));
}

TEST_F(CallsTest, TheStableChecksFailedRunsAreStartedAgain) {
  event("d-1", labelled({}));
  report("d-1", "org/four", "completed", "failure", "a");
  report("d-1", "org/four", "completed", "success", "b");
  auto other = callback("d-1", "completed", "success", "c");
  other["workflow"].as_object()["run_id"] = "124";
  report_body("org/four", other);
  set_calls_aside();
  const auto asked = accept_rerun(
      *store_, *allowlist_->current(), options_, "r-1", "check_run",
      json::object{
          {"check_run",
           {{"name", "crcr/org/four"}, {"external_id", "pr:7"}, {"head_sha", test::k_sha}}}},
      clock_.now());
  EXPECT_THAT(asked->queued, ElementsAre("org/four"));
  settle();
  EXPECT_THAT(target_.sent, ElementsAre(R"(rerun_failed_jobs org/four {"run_id":"123"})"));
}

// The App's calls, and what GitHub's answers mean.
class CallTargetTest : public ::testing::Test {
 protected:
  net::ClientResult answer(const net::ClientRequest& request) {
    const std::string& url = request.url;
    if (url.ends_with("/installation")) return net::Response{200, {}, R"({"id":42})"};
    if (url.ends_with("/access_tokens"))
      return net::Response{201, {}, R"({"token":"ghs_t","expires_at":"2033-01-01T00:00:00Z"})"};
    asked.push_back(request.method + " " + url.substr(std::string{"https://api.test"}.size()));
    if (answers.empty()) return net::Response{201, {}, "{}"};
    const auto next = answers.front();
    answers.erase(answers.begin());
    return next;
  }
  Answer send(CallKind kind, const std::string& repo, const std::string& payload) {
    Answer got{Kind::uncertain, {}, "no answer", {}};
    target_.send(kind, test::repo(repo), payload, [&](Answer one) { got = std::move(one); });
    EXPECT_EQ(target_.room(), 4U);
    return got;
  }
  static std::string page(int from, int count) {
    json::array runs;
    for (int i = 0; i < count; ++i)
      runs.push_back(json::object{{"name", "crcr/o/r/CI/job"},
                                  {"external_id", std::to_string((from + i) / 3) + ":7"}});
    return json::serialize(json::object{{"total_count", 250}, {"check_runs", runs}});
  }

  std::vector<net::Response> answers;
  std::vector<std::string> asked;
  base::ManualClock clock_{base::Time{1'700'000'000s}};
  github::ScriptedClient client_{[this](const auto& request) { return answer(request); }};
  github::App app_{{.app_id = "1", .api_url = "https://api.test"},
                   github::SigningKey::generate(),
                   client_,
                   clock_};
  GithubCallTarget target_{app_, test::upstream(), 4};
};

TEST_F(CallTargetTest, CheckRunsGoUpstreamAndReRunsDownstream) {
  EXPECT_EQ(send(CallKind::create_check_run, "o/r", R"({"name":"n"})").kind, Kind::sent);
  EXPECT_EQ(client_.requests().back().body, R"({"name":"n"})");
  EXPECT_EQ(send(CallKind::rerun_failed_jobs, "o/r", R"({"run_id":"77"})").kind, Kind::sent);
  EXPECT_EQ(send(CallKind::rerun, "o/r", R"({"run_id":"78"})").kind, Kind::sent);
  EXPECT_THAT(asked, ElementsAre("POST /repos/pytorch/pytorch/check-runs",
                                 "POST /repos/o/r/actions/runs/77/rerun-failed-jobs",
                                 "POST /repos/o/r/actions/runs/78/rerun"));
  EXPECT_EQ(send(CallKind::rerun, "o/r", R"({"run_id":"../x"})").kind, Kind::rejected);
  EXPECT_EQ(send(CallKind::rerun, "o/r", "no JSON").kind, Kind::rejected);
  EXPECT_EQ(asked.size(), 3U);
}

TEST_F(CallTargetTest, WhatTheAnswersMean) {
  struct Case {
    CallKind kind;
    int status;
    const char* body;
    Kind meaning;
  };
  const char* running = R"({"message":"This workflow is already running"})";
  for (const auto& [kind, status, body, meaning] :
       {Case{CallKind::rerun_failed_jobs, 403, running, Kind::sent},
        Case{CallKind::rerun, 403, running, Kind::sent},
        Case{CallKind::create_check_run, 403, running, Kind::rejected},
        Case{CallKind::rerun, 403, R"({"message":"Resource not accessible"})", Kind::rejected},
        Case{CallKind::rerun, 403, R"({"message":"API rate limit exceeded"})", Kind::retry_later},
        Case{CallKind::create_check_run, 422, "{}", Kind::rejected},
        Case{CallKind::create_check_run, 404, "{}", Kind::rejected},
        Case{CallKind::create_check_run, 502, "{}", Kind::uncertain},
        Case{CallKind::rerun, 500, "{}", Kind::uncertain},
        Case{CallKind::rerun, 429, "{}", Kind::retry_later},
        Case{CallKind::create_check_run, 200, "{}", Kind::uncertain}}) {
    answers = {net::Response{status, {}, body}};
    EXPECT_EQ(send(kind, "o/r", R"({"run_id":"77"})").kind, meaning)
        << to_string(kind) << " " << status << body;
  }
}

TEST_F(CallTargetTest, AllPagesOfASuiteAreRead) {
  answers = {{200, {}, page(0, 100)}, {200, {}, page(100, 100)}, {200, {}, page(200, 50)}};
  const auto answer = send(CallKind::list_check_suite, "pytorch/pytorch", R"({"suite":5})");
  ASSERT_EQ(answer.kind, Kind::sent) << answer.message;
  EXPECT_EQ(base::parse_json(answer.content, "list")->get_array().size(), 250U);
  EXPECT_THAT(asked.back(), HasSubstr("/repos/pytorch/pytorch/check-suites/5/check-runs?"));
  EXPECT_EQ(asked.size(), 3U);

  answers = {{200, {}, page(0, 100)}, {500, {}, "{}"}};
  EXPECT_EQ(send(CallKind::list_check_suite, "pytorch/pytorch", R"({"suite":5})").kind,
            Kind::retry_later);
  answers = {{200, {}, R"({"check_runs":5})"}};
  EXPECT_EQ(send(CallKind::list_check_suite, "pytorch/pytorch", R"({"suite":5})").kind,
            Kind::retry_later);
  answers = {{404, {}, "{}"}};
  EXPECT_EQ(send(CallKind::list_check_suite, "pytorch/pytorch", R"({"suite":5})").kind,
            Kind::rejected);
}

}  // namespace
}  // namespace crosscheck::relay
