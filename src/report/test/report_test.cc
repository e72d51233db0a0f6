#include "crosscheck/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <deque>
#include <filesystem>
#include <map>
#include <vector>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/temporary_folder.h"

namespace crosscheck::report {
namespace {

using base::Fault;
using base::Outcome;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers from a script and keeps what was asked.
class ScriptedClient final : public net::Client {
 public:
  using net::Client::send;
  void send(net::ClientRequest request, std::function<void(net::ClientResult)> done) override {
    asked.push_back(std::move(request));
    if (script.empty()) {
      done(tl::unexpected(net::ClientError{{Fault::unavailable, "script is over"}, false}));
      return;
    }
    auto next = std::move(script.front());
    script.pop_front();
    done(std::move(next));
  }
  void answer(int status, std::string body = R"({"ok":true,"status":"in_progress"})",
              net::Headers headers = {}) {
    script.emplace_back(net::Response{status, std::move(headers), std::move(body)});
  }
  void lose(bool maybe_sent) {
    script.emplace_back(
        tl::unexpected(net::ClientError{{Fault::unavailable, "connection lost"}, maybe_sent}));
  }
  std::deque<net::ClientResult> script;
  std::vector<net::ClientRequest> asked;
};

class TempFile {
 public:
  explicit TempFile(std::string_view text) {
    EXPECT_TRUE(base::write_file_atomically(path(), text));
  }
  [[nodiscard]] std::string path() const { return folder_ / "file"; }

 private:
  base::TemporaryFolder folder_;
};

constexpr std::string_view k_event = R"({"action":"pull_request","client_payload":{
  "event_type":"pull_request","delivery_id":"d-1","payload":{"action":"opened","number":7}}})";

Environment environment_of(std::map<std::string, std::string, std::less<>> variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return {};
    return found->second;
  };
}

std::map<std::string, std::string, std::less<>> actions_environment(const std::string& event) {
  return {{"CROSSCHECK_RELAY_URL", "https://relay.example//"},
          {"GITHUB_EVENT_PATH", event},
          {"GITHUB_WORKFLOW", "CI / nightly: a"},
          {"GITHUB_JOB", "test"},
          {"GITHUB_RUN_ID", "123"},
          {"GITHUB_RUN_ATTEMPT", "2"},
          {"GITHUB_REPOSITORY", "org/repo"},
          {"GITHUB_SERVER_URL", "https://ghe.example"}};
}

JobContext context() {
  JobContext job;
  job.relay_url = "https://relay.example";
  job.event_type = "pull_request";
  job.delivery_id = "d-1";
  job.payload = boost::json::parse(R"({"action":"opened"})");
  job.workflow = "CI";
  job.job = "test";
  job.url = "https://github.com/org/repo/actions/runs/123";
  job.run_id = "123";
  job.run_attempt = "2";
  return job;
}

base::RunResults results_of(std::initializer_list<std::pair<Outcome, int>> tests) {
  base::RunResults run;
  run.header.started_at = base::parse_rfc3339("2026-05-04T20:48:28.5Z").value();
  int n = 0;
  for (const auto& [outcome, count] : tests) {
    for (int i = 0; i < count; ++i) {
      base::TestResult result;
      result.id = {"test_a.py", "TestA", "test_" + std::to_string(n++), "{}"};
      result.outcome = outcome;
      run.results.push_back(result);
    }
  }
  return run;
}

struct Rig {
  ScriptedClient client;
  base::ManualClock clock{base::parse_rfc3339("2026-05-04T20:50:00Z").value()};
  std::vector<milliseconds> pauses;
  int tokens = 0;

  Reporter reporter(int attempts = 4) {
    return {context(), client,
            [this]() -> base::Result<std::string> { return "token-" + std::to_string(++tokens); },
            clock,
            RetryPolicy{attempts, milliseconds{1000}, milliseconds{30'000},
                        [this](milliseconds pause) { pauses.push_back(pause); }}};
  }
};

TEST(Context, IsReadFromTheWorkflowsEnvironment) {
  const TempFile event{k_event};
  const auto job = read_context(environment_of(actions_environment(event.path())), {});
  ASSERT_TRUE(job) << to_string(job.error());
  EXPECT_EQ(job->relay_url, "https://relay.example");
  EXPECT_EQ(job->delivery_id, "d-1");
  EXPECT_EQ(job->event_type, "pull_request");
  EXPECT_EQ(job->workflow, "CI / nightly: a");
  EXPECT_EQ(job->run_attempt, "2");
  EXPECT_EQ(job->url, "https://ghe.example/org/repo/actions/runs/123");
  EXPECT_EQ(boost::json::serialize(job->payload), R"({"action":"opened","number":7})");
}

TEST(Context, NamesEveryMissingVariableAtOnce) {
  const auto job =
      read_context(environment_of({{"GITHUB_JOB", "test"}, {"GITHUB_RUN_ID", ""}}), {});
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().fault, Fault::usage);
  for (const auto* name : {"CROSSCHECK_RELAY_URL", "GITHUB_EVENT_PATH", "GITHUB_WORKFLOW",
                           "GITHUB_RUN_ID", "GITHUB_REPOSITORY"}) {
    EXPECT_THAT(job.error().message, HasSubstr(name));
  }
  EXPECT_THAT(job.error().message, ::testing::Not(HasSubstr("GITHUB_JOB")));
}

TEST(Context, RefusesAnEventThatNoRelaySent) {
  for (const auto* text :
       {"{}", R"({"client_payload":{}})", R"({"client_payload":{"event_type":"push"}})",
        R"({"client_payload":{"event_type":1,"delivery_id":"d"}})", "[]", "not json", ""}) {
    const TempFile event{text};
    const auto job = read_context(environment_of(actions_environment(event.path())), {});
    ASSERT_FALSE(job) << text;
    EXPECT_EQ(job.error().fault, Fault::invalid_input) << text;
    EXPECT_THAT(job.error().message, HasSubstr(event.path())) << text;
  }
}

TEST(Context, SendsTokensOnlyWhereNobodyElseReadsThem) {
  const TempFile event{k_event};
  auto variables = actions_environment(event.path());
  const std::map<std::string, bool> table{{"https://relay.example", true},
                                          {"http://127.0.0.1:8787", true},
                                          {"http://localhost", true},
                                          {"http://[::1]:80/x", true},
                                          {"http://relay.example", false},
                                          {"http://localhost.evil.example", false},
                                          {"http://localhost:x@evil.example", false},
                                          {"http://127.0.0.1@evil.example", false},
                                          {"ftp://relay.example", false},
                                          {"relay.example", false},
                                          {"https://", false}};
  for (const auto& [url, allowed] : table) {
    variables["CROSSCHECK_RELAY_URL"] = url;
    EXPECT_EQ(read_context(environment_of(variables), {}).has_value(), allowed) << url;
  }
  // A job of `serve --local` that listens on another of the machine's addresses.
  variables["CROSSCHECK_ALLOW_HTTP"] = "1";
  for (const auto& [url, allowed] : std::map<std::string, bool>{{"http://10.0.0.7:8080", true},
                                                                {"http://a@10.0.0.7", false},
                                                                {"http://", false},
                                                                {"ftp://10.0.0.7", false}}) {
    variables["CROSSCHECK_RELAY_URL"] = url;
    EXPECT_EQ(read_context(environment_of(variables), {}).has_value(), allowed) << url;
  }
}

TEST(Body, IsWhatTheWireSays) {
  const auto now = base::parse_rfc3339("2026-05-04T20:50:00.25Z").value();
  EXPECT_EQ(
      boost::json::serialize(callback_body(context(), now, {})),
      R"({"event_type":"pull_request","delivery_id":"d-1","payload":{"action":"opened"},)"
      R"("workflow":{"schema_version":"1","status":"in_progress","conclusion":null,"name":"CI",)"
      R"("url":"https://github.com/org/repo/actions/runs/123","run_id":"123","run_attempt":"2",)"
      R"("job_name":"test","check_run_id":null,"started_at":"2026-05-04T20:50:00Z","completed_at":null}})");
  Completion completion{.conclusion = "failure",
                        .results = results_of({{Outcome::passed, 4},
                                               {Outcome::xfailed, 1},
                                               {Outcome::failed, 2},
                                               {Outcome::crashed, 1},
                                               {Outcome::environment_error, 1},
                                               {Outcome::skipped, 3},
                                               {Outcome::not_run, 1}}),
                        .results_digest = "abc",
                        .artifact_url = {}};
  const auto body = callback_body(context(), now, completion);
  const auto& workflow = body.at("workflow");
  EXPECT_EQ(workflow.at("status").as_string(), "completed");
  EXPECT_EQ(workflow.at("started_at").as_string(), "2026-05-04T20:48:28Z");
  EXPECT_EQ(boost::json::serialize(workflow.at("test_results")),
            R"({"passed":5,"failed":4,"skipped":4})");
  EXPECT_EQ(workflow.at("crosscheck").at("results_digest").as_string(), "abc");
}

TEST(Conclude, SucceedsOnlyWhenEverythingRanAndNothingFailed) {
  EXPECT_EQ(
      conclude(results_of({{Outcome::passed, 3}, {Outcome::skipped, 1}, {Outcome::xfailed, 1}})),
      "success");
  EXPECT_EQ(conclude(results_of({})), "failure");
  for (const auto bad : {Outcome::failed, Outcome::crashed, Outcome::timed_out,
                         Outcome::environment_error, Outcome::harness_error, Outcome::not_run}) {
    EXPECT_EQ(conclude(results_of({{Outcome::passed, 3}, {bad, 1}})), "failure") << to_string(bad);
  }
  // What a configuration leaves out on purpose is no failure; what was cut short is.
  auto governed = results_of({{Outcome::passed, 3}, {Outcome::not_run, 1}});
  governed.results.back().governed = base::Governed{.mode = base::Mode::xfail, .basis = "listed"};
  EXPECT_EQ(conclude(governed), "success");
  governed.header.interrupted = true;
  EXPECT_EQ(conclude(governed), "failure");
}

TEST(Reporter, TriesAgainWhatMayPassAndNotWhatIsRefused) {
  struct Case {
    int status;
    bool again;
    Fault fault;
  };
  for (const auto& [status, again, fault] :
       {Case{500, true, Fault::unavailable}, Case{502, true, Fault::unavailable},
        Case{503, true, Fault::unavailable}, Case{429, true, Fault::rate_limited},
        Case{400, false, Fault::invalid_input}, Case{401, false, Fault::unauthorized},
        Case{403, false, Fault::forbidden}, Case{409, false, Fault::conflict}}) {
    Rig rig;
    for (int i = 0; i < 4; ++i) rig.client.answer(status, R"({"error":"why"})");
    const auto answer = rig.reporter().start();
    ASSERT_FALSE(answer) << status;
    EXPECT_EQ(answer.error().fault, fault) << status;
    EXPECT_THAT(answer.error().message, HasSubstr("why")) << status;
    EXPECT_EQ(rig.client.asked.size(), again ? 4U : 1U) << status;
  }
}

TEST(Reporter, WaitsAsAskedElseLongerEachTimeAndTakesANewTokenEachTime) {
  Rig rig;
  rig.client.lose(true);
  rig.client.answer(429, "{}", {{"Retry-After", "7"}});
  rig.client.answer(503, "{}", {{"Retry-After", "soon"}});
  rig.client.answer(200);
  const auto answer = rig.reporter().start();
  ASSERT_TRUE(answer) << to_string(answer.error());
  EXPECT_EQ(*answer, Answer::accepted);
  EXPECT_THAT(rig.pauses, ElementsAre(milliseconds{1000}, milliseconds{7000}, milliseconds{4000}));
  EXPECT_EQ(rig.client.asked.back().headers.get("authorization"), "Bearer token-4");
}

TEST(Reporter, KnowsDuplicateAndIgnored) {
  Rig rig;
  rig.client.answer(200, R"({"ok":true,"status":"in_progress","duplicate":true})");
  rig.client.answer(200, R"({"ok":true,"status":"ignored"})");
  rig.client.answer(200, "not json");
  auto reporter = rig.reporter();
  EXPECT_EQ(reporter.start().value(), Answer::duplicate);
  EXPECT_EQ(reporter.start().value(), Answer::ignored);
  EXPECT_EQ(reporter.start().value(), Answer::accepted);
}

TEST(Reporter, UploadsBeforeItReports) {
  Rig rig;
  rig.client.answer(200, "{}");
  rig.client.answer(200);
  const std::string bytes = "gzip bytes";
  ASSERT_TRUE(
      rig.reporter().finish({"success", results_of({{Outcome::passed, 1}}), {}, {}}, bytes));
  ASSERT_EQ(rig.client.asked.size(), 2U);
  EXPECT_EQ(rig.client.asked[0].method, "PUT");
  EXPECT_EQ(rig.client.asked[0].url,
            "https://relay.example/api/v1/results/" + base::sha256_hex(bytes));
  EXPECT_EQ(rig.client.asked[0].body, bytes);
  const auto body = boost::json::parse(rig.client.asked[1].body);
  EXPECT_EQ(body.at("workflow").at("crosscheck").at("results_digest").as_string(),
            base::sha256_hex(bytes));
}

TEST(Reporter, ReportsTheEndEvenWhenTheUploadFails) {
  Rig rig;
  rig.client.answer(413, R"({"error":"too large"})");
  rig.client.answer(200);
  const auto answer =
      rig.reporter().finish({"failure", results_of({{Outcome::failed, 1}}), {}, {}}, "bytes");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().fault, Fault::too_large);
  ASSERT_EQ(rig.client.asked.size(), 2U);
  const auto body = boost::json::parse(rig.client.asked[1].body);
  EXPECT_EQ(body.at("workflow").at("status").as_string(), "completed");
  EXPECT_FALSE(body.at("workflow").at("crosscheck").as_object().contains("results_digest"));
}

TEST(Reporter, WorksWithARelayThatTakesNoResults) {
  Rig rig;
  rig.client.answer(404, "not found");
  rig.client.answer(200);
  EXPECT_TRUE(
      rig.reporter().finish({"success", results_of({{Outcome::passed, 1}}), {}, {}}, "bytes"));
}

TEST(Token, ComesFromGitHubsServiceWithTheRelaysAudience) {
  ScriptedClient client;
  client.answer(200, R"({"value":"jwt"})");
  const auto source = token_source(
      environment_of({{"ACTIONS_ID_TOKEN_REQUEST_URL", "https://tokens.example/x?api=1"},
                      {"ACTIONS_ID_TOKEN_REQUEST_TOKEN", "secret"}}),
      {}, client);
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)().value(), "jwt");
  EXPECT_EQ(client.asked[0].url,
            "https://tokens.example/x?api=1&audience=pytorch-cross-repo-ci-relay");
  EXPECT_EQ(client.asked[0].headers.get("Authorization"), "Bearer secret");
}

TEST(Token, MissingOrRefusedNamesThePermission) {
  ScriptedClient client;
  const auto missing = token_source(environment_of({}), {}, client);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().fault, Fault::environment);
  EXPECT_THAT(missing.error().remedy, HasSubstr("id-token: write"));
  client.answer(403, "secret text of the service");
  const auto source =
      token_source(environment_of({{"ACTIONS_ID_TOKEN_REQUEST_URL", "http://127.0.0.1/t"},
                                   {"ACTIONS_ID_TOKEN_REQUEST_TOKEN", "secret"}}),
                   {}, client);
  const auto refused = (*source)();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::Not(HasSubstr("secret")));
  EXPECT_FALSE(
      token_source(environment_of({{"ACTIONS_ID_TOKEN_REQUEST_URL", "http://tokens.example/"},
                                   {"ACTIONS_ID_TOKEN_REQUEST_TOKEN", "secret"}}),
                   {}, client));
}

TEST(Token, TheAudienceIsTheRelays) {
  const std::map<std::string, std::string, std::less<>> actions{
      {"ACTIONS_ID_TOKEN_REQUEST_URL", "https://tokens.example/x"},
      {"ACTIONS_ID_TOKEN_REQUEST_TOKEN", "secret"}};
  auto with_variable = actions;
  with_variable["CROSSCHECK_OIDC_AUDIENCE"] = "our relay";
  Overrides given;
  given.audience = "a&b";
  ScriptedClient client;
  for (int i = 0; i < 2; ++i) client.answer(200, R"({"value":"jwt"})");
  EXPECT_TRUE((*token_source(environment_of(with_variable), {}, client))());
  EXPECT_TRUE((*token_source(environment_of(with_variable), given, client))());
  EXPECT_EQ(client.asked[0].url, "https://tokens.example/x?audience=our%20relay");
  EXPECT_EQ(client.asked[1].url, "https://tokens.example/x?audience=a%26b");
}

}  // namespace
}  // namespace crosscheck::report
