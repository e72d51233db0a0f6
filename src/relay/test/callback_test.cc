#include "crosscheck/relay/callback.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "crosscheck/store/faulty_store.h"
#include "support.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using test::pull_request;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
namespace json = base::json;

json::object workflow(std::string_view status, json::value conclusion = nullptr) {
  return {{"schema_version", "1"},
          {"status", status},
          {"conclusion", std::move(conclusion)},
          {"name", "CI"},
          {"url", "https://github.com/org/two/actions/runs/123"},
          {"run_id", "123"},
          {"run_attempt", "1"},
          {"job_name", "linux / test: cuda"},
          {"check_run_id", "456"},
          {"started_at", "2026-05-04T20:48:28Z"}};
}
json::object report(std::string_view status, json::value conclusion = nullptr) {
  return {{"event_type", "pull_request"},
          {"delivery_id", "d-1"},
          {"payload", pull_request("opened")},
          {"workflow", workflow(status, std::move(conclusion))}};
}
json::object& workflow_of(json::object& body) { return body["workflow"].as_object(); }

json::object token(std::string_view repo = "org/two") { return {{"repository", repo}}; }

class CallbackTest : public test::RelayTest {
 protected:
  explicit CallbackTest(store::Engine engine = store::Engine::sqlite) : RelayTest{engine} {
    accept_event("d-1", pull_request("opened"));
    EXPECT_TRUE(store_->write([this](store::Tx& tx) -> base::Result<void> {
      auto done =
          tx.execute("UPDATE dispatches SET state = 'sent', first_attempt_at = $1", {clock_.now()});
      if (!done) return tl::unexpected(done.error());
      return {};
    }));
  }
  net::Response send(const std::string& body, const json::object& claims, store::Store& store) {
    net::Request request;
    request.method = "POST";
    request.path = "/github/callback";
    if (!claims.empty()) request.headers.set("Authorization", "Bearer " + json::serialize(claims));
    request.body = body;
    return CallbackHandler{store, *allowlist_, clock_, limiter_, options_}.handle(request).response;
  }
  net::Response send(const json::object& body, const json::object& claims = token()) {
    return send(json::serialize(body), claims, *store_);
  }
  std::vector<std::string> jobs() {
    return rows(
        "SELECT repo, run_id, run_attempt, job_name, state, conclusion FROM jobs ORDER BY id", 6);
  }

  RateLimiter limiter_{100'000};
  CallbackOptions options_{.verify = test::plain_tokens()};
};

class CallbackOnEngine : public CallbackTest, public ::testing::WithParamInterface<store::Engine> {
 protected:
  CallbackOnEngine() : CallbackTest{GetParam()} {}
};
INSTANTIATE_TEST_SUITE_P(Engines, CallbackOnEngine, test::engines(), test::engine_name);

TEST_F(CallbackTest, AJobFromStartToEnd) {
  clock_.advance(30s);
  EXPECT_EQ(send(report("in_progress")).body,
            R"({"ok":true,"status":"in_progress","effect":"advanced"})");
  clock_.advance(60s);
  auto end = report("completed", "failure");
  workflow_of(end)["test_results"] = {{"passed", "42"}, {"failed", 3}, {"skipped", nullptr}};
  workflow_of(end)["crosscheck"] = {{"results_digest", std::string(64, 'a')},
                                    {"combination", {{"device", "npu"}, {"backend", "b"}}}};
  EXPECT_EQ(send(end).body, R"({"ok":true,"status":"completed","effect":"advanced"})");
  EXPECT_THAT(jobs(), ElementsAre("org/two|123|1|linux / test: cuda|completed|failure"));
  EXPECT_THAT(
      rows(
          "SELECT level, head_sha, pr_number, queue_us, execution_us, word_passed, word_failed, "
          "word_skipped, word_combination, results_digest, concluded_by, completed_first FROM jobs",
          12),
      ElementsAre("L2|" + std::string{test::k_sha} +
                  "|7|30000000|60000000|42|3|-|"
                  R"({"backend":"b","device":"npu"}|)" +
                  std::string(64, 'a') + "|downstream|0"));
}

TEST_F(CallbackTest, WhatTheRelayKnowsIsNotTakenFromTheEcho) {
  auto body = report("in_progress");
  auto echo = pull_request("opened", 999);
  echo["pull_request"].as_object()["head"].as_object()["sha"] = std::string(40, 'e');
  body["payload"] = echo;
  EXPECT_EQ(send(body).status, 200);
  EXPECT_THAT(rows("SELECT head_sha, pr_number FROM jobs", 2),
              ElementsAre(std::string{test::k_sha} + "|7"));
  EXPECT_THAT(rows("SELECT word_body FROM jobs", 1)[0], ::testing::Not(HasSubstr("eeee")));
}

TEST_P(CallbackOnEngine, RepeatsAndContradictions) {
  struct Step {
    std::string_view status;
    json::value conclusion;
    int answer;
    std::string_view effect;
  };
  const std::vector<std::vector<Step>> stories{
      {{"in_progress", nullptr, 200, "advanced"},
       {"in_progress", nullptr, 200, "duplicate"},
       {"completed", "success", 200, "advanced"},
       {"completed", "success", 200, "duplicate"},
       {"in_progress", nullptr, 200, "late"},
       {"completed", "failure", 409, ""},
       {"completed", "success", 200, "duplicate"}},
      {{"completed", "success", 200, "advanced"},
       {"in_progress", nullptr, 200, "late"},
       {"completed", nullptr, 409, ""}},
  };
  int run = 0;
  for (const auto& story : stories) {
    ++run;
    for (const Step& step : story) {
      auto body = report(step.status, step.conclusion);
      workflow_of(body)["run_id"] = run;
      const auto response = send(body);
      const auto answer = test::answer_of(response);
      EXPECT_EQ(response.status, step.answer) << response.body;
      if (step.answer != 200) continue;
      EXPECT_EQ(answer.at("effect").as_string(), step.effect);
      EXPECT_EQ(answer.contains("duplicate"), step.effect == "duplicate");
    }
  }
  EXPECT_THAT(rows("SELECT completed_first FROM jobs ORDER BY id", 1), ElementsAre("0", "1"));
}

TEST_P(CallbackOnEngine, AReportReplacesTheRelaysOwnTimeOut) {
  EXPECT_EQ(send(report("in_progress")).status, 200);
  ASSERT_TRUE(store_->write([](store::Tx& tx) -> base::Result<void> {
    auto done = tx.execute(
        "UPDATE jobs SET state = 'completed', conclusion = 'timed_out', concluded_by = 'relay'");
    if (!done) return tl::unexpected(done.error());
    return {};
  }));
  EXPECT_EQ(send(report("completed", "success")).body,
            R"({"ok":true,"status":"completed","effect":"replaced","replaced":"timed_out"})");
  EXPECT_THAT(jobs(),
              ElementsAre(StartsWith("org/two|123|1|linux / test: cuda|completed|success")));
}

TEST_F(CallbackTest, ReRunsAndOtherJobsAreJobsOfTheirOwn) {
  EXPECT_EQ(send(report("completed", "failure")).status, 200);
  auto again = report("in_progress");
  workflow_of(again)["run_attempt"] = 2;
  clock_.advance(10s);
  EXPECT_EQ(send(again).status, 200);
  for (const char* name : {"a:b:12", "007", "Tëst ✓", "x/y"}) {
    auto other = report("in_progress");
    workflow_of(other)["job_name"] = name;
    EXPECT_EQ(send(other).status, 200);
  }
  EXPECT_EQ(count("jobs"), 6);
  EXPECT_THAT(rows("SELECT queue_us FROM jobs WHERE run_attempt = 2", 1), ElementsAre("-"));
}

TEST_F(CallbackTest, OrderOfChecks) {
  EXPECT_EQ(send("", {}, *store_).status, 401);
  EXPECT_EQ(send("{", {}, *store_).status, 400);
  EXPECT_EQ(send("{}", {}, *store_).status, 401);
  EXPECT_EQ(send("", token(), *store_).status, 400);
  EXPECT_EQ(send("[]", token("nobody/knows"), *store_).body,
            R"({"ok":true,"status":"ignored","reason":"the repository is not on the allowlist"})");
  EXPECT_EQ(test::answer_of(send(report("completed"), token("org/one")))["status"].as_string(),
            "ignored");
  EXPECT_EQ(send(report("in_progress"), token("ORG/Two")).status, 200);
  EXPECT_EQ(send(report("in_progress"), {{"sub", "x"}}).status, 401);
  EXPECT_EQ(send(report("in_progress"), token("not a repository")).status, 401);
}

TEST_F(CallbackTest, TheTokenMustBeOfTheRunThatIsReported) {
  auto claims = token();
  claims["run_id"] = "123";
  claims["run_attempt"] = "1";
  EXPECT_EQ(send(report("in_progress"), claims).status, 200);
  claims["run_id"] = "124";
  EXPECT_EQ(send(report("in_progress"), claims).status, 403);
  claims["run_id"] = "123";
  claims["run_attempt"] = "2";
  EXPECT_EQ(send(report("in_progress"), claims).status, 403);
  auto unsaid = report("in_progress");
  workflow_of(unsaid).erase("run_attempt");
  EXPECT_EQ(send(unsaid, claims).status, 200);
  EXPECT_THAT(rows("SELECT run_attempt FROM jobs ORDER BY id", 1), ElementsAre("1", "2"));
}

TEST_F(CallbackTest, NoDispatchOnRecord) {
  auto unknown = report("in_progress");
  unknown["delivery_id"] = "d-2";
  EXPECT_THAT(send(unknown).body, HasSubstr("no dispatch of 'd-2' to org/two is on record"));
  EXPECT_EQ(send(unknown).status, 400);
  accept_event("d-2", pull_request("opened", 8));  // accepted, and nothing sent yet
  EXPECT_EQ(send(unknown).status, 400);
}

TEST_F(CallbackTest, FieldErrorsNameTheField) {
  struct Case {
    const char* name;
    std::function<void(json::object&)> spoil;
    const char* says;
  };
  const auto set = [](const char* key, json::value value) {
    return [key, value](json::object& body) { workflow_of(body)[key] = value; };
  };
  const auto erase = [](const char* key) {
    return [key](json::object& body) { workflow_of(body).erase(key); };
  };
  const Case cases[] = {
      {"no delivery", [](json::object& b) { b.erase("delivery_id"); }, "delivery_id"},
      {"delivery of a wrong type", [](json::object& b) { b["delivery_id"] = {1}; }, "delivery_id"},
      {"empty delivery", [](json::object& b) { b["delivery_id"] = ""; }, "delivery_id"},
      {"event type of a wrong type", [](json::object& b) { b["event_type"] = 7; }, "event_type"},
      {"no workflow", [](json::object& b) { b.erase("workflow"); }, "workflow"},
      {"workflow is text", [](json::object& b) { b["workflow"] = "x"; },
       "workflow: expected an object"},
      {"workflow is null", [](json::object& b) { b["workflow"] = nullptr; }, "workflow"},
      {"no status", erase("status"), "workflow.status"},
      {"status unknown", set("status", "queued"), "workflow.status"},
      {"status is null", set("status", nullptr), "workflow.status"},
      {"no run id", erase("run_id"), "workflow.run_id"},
      {"run id null", set("run_id", nullptr), "workflow.run_id"},
      {"run id list", set("run_id", json::array{1}), "workflow.run_id"},
      {"run id object", set("run_id", json::object{}), "workflow.run_id"},
      {"run id true", set("run_id", true), "workflow.run_id"},
      {"run id fraction", set("run_id", 1.5), "workflow.run_id"},
      {"run id empty", set("run_id", ""), "workflow.run_id"},
      {"run id endless", set("run_id", json::value(std::string(300, '1'))), "workflow.run_id"},
      {"attempt zero", set("run_attempt", 0), "workflow.run_attempt"},
      {"attempt text", set("run_attempt", "second"), "workflow.run_attempt"},
      {"attempt list", set("run_attempt", json::array{}), "workflow.run_attempt"},
      {"no name", erase("name"), "workflow.name"},
      {"name empty", set("name", ""), "workflow.name"},
      {"job name list", set("job_name", json::array{}), "workflow.job_name"},
      {"job name endless", set("job_name", json::value(std::string(2000, 'x'))),
       "workflow.job_name"},
      {"conclusion list", set("conclusion", json::array{}), "workflow.conclusion"},
      {"check run object", set("check_run_id", json::object{}), "workflow.check_run_id"},
  };
  for (const Case& c : cases) {
    auto body = report("in_progress");
    c.spoil(body);
    const auto response = send(body);
    EXPECT_EQ(response.status, 400) << c.name << ": " << response.body;
    EXPECT_THAT(std::string{test::answer_of(response)["detail"].as_string()},
                StartsWith("field " + std::string{c.says}))
        << c.name;
  }
  EXPECT_EQ(count("jobs"), 0);
}

TEST_F(CallbackTest, AdvisoryFieldsAreDroppedWhenMalformed) {
  auto body = report("completed", "success");
  auto& w = workflow_of(body);
  w["url"] = "javascript:alert(1)";
  w["artifact_url"] = "https://user:pass@x.example/";
  w["test_results"] = "many";
  w["triage_verdict"] = {{"category", "nonsense"}};
  w["failed_tests_detail"] = {{"name", "not a list"}};
  w["crosscheck"] = {{"results_digest", "short"}, {"combination", 7}};
  w["future"] = {{"kept", true}};
  EXPECT_EQ(send(body).status, 200);
  EXPECT_THAT(rows("SELECT word_url, word_passed, word_combination, results_digest FROM jobs", 4),
              ElementsAre("-|-|-|-"));
  const auto word = rows("SELECT word_body FROM jobs", 1)[0];
  EXPECT_THAT(word, HasSubstr("future"));
  for (const char* dropped : {"javascript", "user:pass", "nonsense", "not a list", "payload"})
    EXPECT_THAT(word, ::testing::Not(HasSubstr(dropped)));
}

TEST_F(CallbackTest, ARepeatBringsResultsThatCouldNotBeUploadedBefore) {
  EXPECT_EQ(send(report("completed", "failure")).status, 200);
  auto again = report("completed", "failure");
  workflow_of(again)["crosscheck"] = {{"results_digest", std::string(64, 'b')}};
  EXPECT_THAT(send(again).body, HasSubstr(R"("duplicate":true)"));
  EXPECT_THAT(rows("SELECT results_digest FROM jobs", 1), ElementsAre(std::string(64, 'b')));
}

json::object nightly(std::string_view conclusion = "success") {
  const std::string commit(40, 'C');
  auto body = report("completed", json::value(conclusion));
  body["event_type"] = "nightly";
  body["delivery_id"] = commit;
  body["payload"] = {{"head_sha", commit}};
  return body;
}

TEST_F(CallbackTest, NightlyReports) {
  const auto body = nightly();
  EXPECT_THAT(send(body).body, HasSubstr(R"("commit_verified":false)"));
  EXPECT_THAT(
      rows(
          "SELECT delivery, delivery_id, event_type, head_sha, commit_verified, queue_us FROM jobs",
          6),
      ElementsAre("-|" + std::string(40, 'c') + "|nightly|" + std::string(40, 'c') + "|0|-"));
  EXPECT_THAT(send(body).body, HasSubstr(R"("duplicate":true)"));
  auto started = body;
  workflow_of(started)["status"] = "in_progress";
  EXPECT_EQ(send(started).status, 400);
  auto elsewhere = body;
  elsewhere["payload"] = {{"head_sha", std::string(40, 'd')}};
  EXPECT_EQ(send(elsewhere).status, 400);
  auto nonsense = body;
  nonsense["delivery_id"] = "hello world";
  EXPECT_EQ(send(nonsense).status, 400);
  auto spelt = body;
  spelt["event_type"] = "Nightly";
  EXPECT_EQ(send(spelt).status, 400);
  auto periodic = body;
  periodic["event_type"] = "periodic";
  workflow_of(periodic)["run_id"] = "3f0c8d1e-0000-4000-8000-000000000001";
  EXPECT_EQ(send(periodic).status, 200);
  EXPECT_EQ(count("jobs WHERE event_type = 'periodic'"), 1);
  list("L2:\n  - org/two: {events: [pull_request]}\n");
  EXPECT_EQ(test::answer_of(send(body))["status"].as_string(), "ignored");
}

TEST_F(CallbackTest, ANightlyReportsCommitMustBeUpstreams) {
  std::vector<std::string> asked;
  auto answer = CommitAnswer::missing;
  options_.find_commit = [&](const std::string& sha) {
    asked.push_back(sha);
    return answer;
  };
  const auto refused = send(nightly());
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("field delivery_id"));
  EXPECT_EQ(count("jobs"), 0);
  answer = CommitAnswer::exists;
  EXPECT_THAT(send(nightly()).body, HasSubstr(R"("commit_verified":true)"));
  EXPECT_THAT(rows("SELECT commit_verified FROM jobs", 1), ElementsAre("1"));
  answer = CommitAnswer::unknown;
  auto other = nightly();
  workflow_of(other)["run_id"] = 124;
  EXPECT_THAT(send(other).body, HasSubstr(R"("commit_verified":false)"));
  EXPECT_THAT(asked, ::testing::Each(std::string(40, 'c')));
  EXPECT_EQ(asked.size(), 3U);
  // Nobody is asked about what was dispatched.
  EXPECT_EQ(send(report("in_progress")).status, 200);
  EXPECT_EQ(asked.size(), 3U);
}

TEST_P(CallbackOnEngine, ALaterNightlyReportIsAnotherAttempt) {
  const auto attempt = [&](std::string_view conclusion, int run_attempt) {
    auto body = nightly(conclusion);
    workflow_of(body)["run_attempt"] = run_attempt;
    const auto response = send(body);
    EXPECT_EQ(response.status, 200) << response.body;
    const auto answer = test::answer_of(response);
    const auto* stored = answer.if_contains("run_attempt");
    return std::pair{std::string{answer.at("effect").as_string()},
                     stored == nullptr ? std::int64_t{run_attempt} : stored->as_int64()};
  };
  using Kept = std::pair<std::string, std::int64_t>;
  EXPECT_EQ(attempt("failure", 1), (Kept{"advanced", 1}));
  EXPECT_EQ(attempt("success", 1), (Kept{"advanced", 2}));
  EXPECT_EQ(attempt("success", 1), (Kept{"duplicate", 2}));
  EXPECT_EQ(attempt("failure", 1), (Kept{"duplicate", 1}));
  EXPECT_EQ(attempt("cancelled", 1), (Kept{"advanced", 3}));
  EXPECT_EQ(attempt("failure", 2), (Kept{"advanced", 4}));
  EXPECT_EQ(attempt("success", 7), (Kept{"advanced", 7}));
  EXPECT_THAT(rows("SELECT run_attempt, conclusion FROM jobs ORDER BY run_attempt", 2),
              ElementsAre("1|failure", "2|success", "3|cancelled", "4|failure", "7|success"));
}

TEST_F(CallbackTest, HowLongAfterItsDispatchAReportIsTakenMayBeLimited) {
  clock_.advance(100h * 24);
  EXPECT_EQ(send(report("in_progress")).status, 200);
  options_.report_window = 100h * 24;
  EXPECT_THAT(send(report("in_progress")).body, HasSubstr(R"("duplicate":true)"));
  clock_.advance(1us);
  const auto late = send(report("completed", "success"));
  EXPECT_EQ(late.status, 400);
  EXPECT_THAT(late.body, HasSubstr("field delivery_id"));
  EXPECT_EQ(send(nightly()).status, 200);  // no dispatch came before it
}

TEST_P(CallbackOnEngine, WhatChangesIsForwardedInTheSameTransaction) {
  EXPECT_EQ(send(report("in_progress")).status, 200);
  EXPECT_EQ(count("forwards"), 0);
  options_.forwards = true;
  auto again = report("in_progress");
  workflow_of(again)["run_id"] = 124;
  EXPECT_EQ(send(again).status, 200);
  EXPECT_EQ(send(again).status, 200);
  workflow_of(again)["status"] = "completed";
  clock_.advance(3s);
  EXPECT_EQ(send(again).status, 200);
  EXPECT_EQ(send(nightly()).status, 200);
  EXPECT_THAT(
      rows("SELECT job, delivery_id, state FROM forwards ORDER BY id", 3),
      ElementsAre("2|d-1|pending", "2|d-1|pending", "3|" + std::string(40, 'c') + "|pending"));
  std::vector<std::string> bodies;
  ASSERT_TRUE(store_->read([&](store::Tx& tx) -> base::Result<void> {
    auto found = tx.query("SELECT body FROM forwards ORDER BY id");
    if (!found) return tl::unexpected(found.error());
    for (const auto& row : *found) bodies.emplace_back(store::as_text(row.bytes(0)));
    return {};
  }));
  EXPECT_THAT(bodies.at(1), HasSubstr(R"("execution_time":3.000)"));
  EXPECT_THAT(bodies.at(1), HasSubstr(json::serialize(again)));
}

TEST_P(CallbackOnEngine, TheRelaysOwnConclusionIsForwardedAsWell) {
  EXPECT_EQ(send(report("in_progress")).status, 200);
  ASSERT_TRUE(store_->write([&](store::Tx& tx) -> base::Result<void> {
    auto done = conclude_job(
        tx, 1, "timed_out",
        {.allowlist = *allowlist_->current(), .checks = nullptr, .forwards = true}, clock_.now());
    if (!done) return tl::unexpected(done.error());
    EXPECT_EQ(*done, "d-1");
    return {};
  }));
  std::string body;
  ASSERT_TRUE(store_->read([&](store::Tx& tx) -> base::Result<void> {
    auto found = tx.query("SELECT body FROM forwards");
    if (!found) return tl::unexpected(found.error());
    body = store::as_text(found->at(0).bytes(0));
    return {};
  }));
  const auto envelope = base::parse_json(body, "envelope").value();
  EXPECT_EQ(envelope.at("trusted").at("verified_repo"), "org/two");
  const auto& said = envelope.at("untrusted").at("callback_payload");
  EXPECT_EQ(said.at("workflow").at("status"), "completed");
  EXPECT_EQ(said.at("workflow").at("conclusion"), "timed_out");
  EXPECT_EQ(said.at("payload").at("pull_request").at("number"), 7);
}

TEST_F(CallbackTest, HandsOverWhichDeliveryItWasAbout) {
  CallbackHandler handler{*store_, *allowlist_, clock_, limiter_, options_};
  net::Request request;
  request.body = json::serialize(report("in_progress"));
  auto done = handler.handle(request);
  EXPECT_EQ(done.response.status, 401);
  EXPECT_EQ(done.delivery, "d-1");
  request.headers.set("Authorization", "Bearer " + json::serialize(token()));
  done = handler.handle(request);
  EXPECT_EQ(done.response.status, 200);
  EXPECT_EQ(done.delivery, "d-1");
  request.body = R"({"delivery_id":"d\u0000x","workflow":7})";
  done = handler.handle(request);
  EXPECT_EQ(done.response.status, 400);
  EXPECT_THAT(done.delivery, StartsWith("d"));
  for (const std::string& none : {std::string{"{"}, std::string{"{}"}, std::string{}}) {
    request.body = none;
    EXPECT_EQ(handler.handle(request).delivery, "") << none;
  }
}

TEST_F(CallbackTest, OverTheRateLimit) {
  RateLimiter two{2};
  CallbackHandler handler{*store_, *allowlist_, clock_, two, options_};
  net::Request request;
  request.headers.set("Authorization", "Bearer " + json::serialize(token()));
  request.body = json::serialize(report("in_progress"));
  EXPECT_EQ(handler.handle(request).response.status, 200);
  EXPECT_EQ(handler.handle(request).response.status, 200);
  clock_.advance(20s);
  const auto refused = handler.handle(request).response;
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.get("Retry-After"), "40");
  clock_.advance(40s);
  EXPECT_EQ(handler.handle(request).response.status, 200);
}

TEST_F(CallbackTest, LargeBodies) {
  auto body = report("in_progress");
  body["payload"] = {{"pull_request", {{"body", std::string(2'000'000, 'x')}}}};
  EXPECT_EQ(send(body).status, 200);
  EXPECT_EQ(send(std::string(k_callback_limit + 1, ' '), token(), *store_).status, 413);
}

TEST_P(CallbackOnEngine, OfManyEqualCallbacksExactlyOneAdvances) {
  for (int round = 0; round < 5; ++round) {
    auto body = report("in_progress");
    workflow_of(body)["run_id"] = round + 1;
    const std::string text = json::serialize(body);
    std::atomic<int> advanced{0};
    std::atomic<int> duplicate{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        const auto response = send(text, token(), *store_);
        if (response.body.find("\"duplicate\":true") != std::string::npos)
          ++duplicate;
        else if (response.status == 200)
          ++advanced;
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(advanced, 1);
    EXPECT_EQ(duplicate, 7);
  }
  EXPECT_EQ(count("jobs"), 5);
}

TEST_P(CallbackOnEngine, AFailingStoreLosesNoResult) {
  int failures = 0;
  for (std::int64_t n = 1;; ++n) {
    auto body = report("completed", "success");
    workflow_of(body)["run_id"] = n;
    store::FaultyStore faulty{*store_};
    faulty.fail_at(n);
    const auto response = send(json::serialize(body), token(), faulty);
    if (faulty.calls() < n) break;
    ++failures;
    EXPECT_EQ(response.status, 503) << n;
    EXPECT_EQ(count("jobs WHERE run_id = '" + std::to_string(n) + "'"), 0) << n;
    EXPECT_THAT(send(body).body, HasSubstr(R"("effect":"advanced")")) << n;
  }
  EXPECT_GE(failures, 3);
}

TEST_P(CallbackOnEngine, AnyTextIsStoredOrRefused) {
  for (const char* field : {"name", "job_name", "run_id", "check_run_id", "conclusion", "url",
                            "artifact_url", "combination", "triage", "test", "event_type"}) {
    auto body = report("completed", "success");
    auto& flow = workflow_of(body);
    const std::string_view name = field;
    if (name == "combination")
      flow["crosscheck"] = json::object{{"combination", json::object{{"backend", "MARK"}}}};
    else if (name == "triage")
      flow["triage_verdict"] = json::object{{"category", "infra"}, {"summary", "MARK"}};
    else if (name == "test")
      flow["failed_tests_detail"] = json::array{{{"name", "MARK"}}};
    else if (name == "event_type")
      body["event_type"] = "MARK";
    else
      flow[field] = "MARK";
    const std::string whole = json::serialize(body);
    for (const std::string& text : test::awkward_json_texts()) {
      std::string awkward = whole;
      awkward.replace(awkward.find("\"MARK\""), 6, text);
      const auto response = send(awkward, token(), *store_);
      EXPECT_LT(response.status, 500) << awkward << ": " << response.body;
    }
  }
  EXPECT_GT(count("jobs"), 0);
}

TEST_P(CallbackOnEngine, WhatIsKnownToBeOverIsConcludedByTheRelay) {
  const auto conclude = [&](std::string_view run, std::string_view conclusion) {
    const auto jobs =
        conclude_run(*store_, test::repo("Org/Two"), "d-1", run, conclusion, clock_.now());
    EXPECT_TRUE(jobs) << jobs.error().message;
    return jobs.value_or(-1);
  };
  auto first = report("in_progress");
  auto second = first;
  workflow_of(second)["job_name"] = "other";
  auto third = first;
  workflow_of(third)["run_id"] = "124";
  for (const auto& body : {first, second, third}) EXPECT_EQ(send(body).status, 200);
  auto ended = report("completed", "success");
  workflow_of(ended)["job_name"] = "other";
  EXPECT_EQ(send(ended).status, 200);
  clock_.advance(60s);
  EXPECT_EQ(conclude("123", "cancelled"), 1);
  EXPECT_EQ(conclude("123", "cancelled"), 0);
  EXPECT_EQ(conclude("999", "cancelled"), 0);
  EXPECT_THAT(
      rows("SELECT run_id, job_name, state, conclusion, concluded_by, execution_us FROM jobs "
           "ORDER BY id",
           6),
      ElementsAre("123|linux / test: cuda|completed|cancelled|relay|60000000",
                  "123|other|completed|success|downstream|0",
                  "124|linux / test: cuda|in_progress|-|-|-"));
  // The job's own word counts when it comes after all.
  EXPECT_THAT(send(report("completed", "failure")).body,
              HasSubstr(R"("effect":"replaced","replaced":"cancelled")"));
}

}  // namespace
}  // namespace crosscheck::relay
