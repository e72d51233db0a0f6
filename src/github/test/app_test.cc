#include "crosscheck/github/app.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "scripted_client.h"

namespace crosscheck::github {
namespace {

namespace json = base::json;
using namespace std::chrono_literals;
using base::RepoName;
using base::Time;
using Kind = CallAnswer::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t k_now_s = 1'777'927'708;
constexpr std::string_view k_installation = "GET /repos/o/r/installation";
constexpr std::string_view k_token = "POST /app/installations/42/access_tokens";
constexpr std::string_view k_dispatch = "POST /repos/o/r/dispatches";

const SigningKey& key() {
  static const SigningKey made = SigningKey::generate();
  return made;
}

Time at(std::int64_t seconds) { return Time{std::chrono::seconds{seconds}}; }

class AppTest : public ::testing::Test {
 protected:
  // Answers in order what is scripted for the call, else as GitHub would.
  net::ClientResult answer(const net::ClientRequest& request) {
    const std::string call = name(request);
    if (auto& scripted = script_[call]; !scripted.empty()) {
      net::ClientResult next = scripted.front();
      scripted.pop_front();
      return next;
    }
    if (call.ends_with("/installation")) return net::Response{200, {}, R"({"id":42})"};
    if (call.ends_with("/access_tokens")) {
      const std::string token = "ghs_token" + std::to_string(++tokens_);
      return net::Response{201,
                           {},
                           R"({"token":")" + token + R"(","expires_at":")" +
                               base::to_rfc3339(clock_.now() + 1h) + "\"}"};
    }
    return net::Response{204, {}, ""};
  }

  static std::string name(const net::ClientRequest& request) {
    std::string_view path = request.url;
    EXPECT_TRUE(path.starts_with("https://api.test/base/")) << path;
    path.remove_prefix(std::string_view{"https://api.test/base"}.size());
    return request.method + " " + std::string{path};
  }

  void script(std::string_view call, std::initializer_list<net::ClientResult> answers) {
    for (const net::ClientResult& one : answers) script_[std::string{call}].push_back(one);
  }

  CallAnswer dispatch(std::string_view repo = "o/r") {
    std::vector<CallAnswer> answers;
    app_.dispatch(RepoName::parse(repo).value(), "pull_request", R"({"delivery_id":"d"})",
                  [&answers](CallAnswer one) { answers.push_back(std::move(one)); });
    EXPECT_EQ(answers.size(), 1U);
    const CallAnswer answer = answers.empty() ? CallAnswer{} : answers[0];
    EXPECT_THAT(answer.reason, Not(HasSubstr("ghs_")));
    EXPECT_THAT(answer.reason, Not(HasSubstr("eyJ")));
    return answer;
  }

  std::vector<std::string> calls() {
    std::vector<std::string> names;
    for (const auto& request : client_.requests()) names.push_back(name(request));
    return names;
  }
  std::string bearer(std::size_t index) {
    const auto request = client_.requests().at(index);
    return std::string{request.headers.get("authorization").value_or("")};
  }

  base::ManualClock clock_{at(k_now_s)};
  std::map<std::string, std::deque<net::ClientResult>> script_;
  int tokens_ = 0;
  ScriptedClient client_{[this](const net::ClientRequest& request) { return answer(request); }};
  App app_{{.app_id = "4711", .api_url = "https://api.test/base/"}, key(), client_, clock_};
};

TEST_F(AppTest, GoesThroughThreeCalls) {
  const CallAnswer answer = dispatch();
  EXPECT_EQ(answer.kind, Kind::sent);
  EXPECT_EQ(answer.reason, "");
  EXPECT_THAT(calls(), ElementsAre(k_installation, k_token, k_dispatch));
  for (const auto& request : client_.requests()) {
    EXPECT_EQ(request.headers.get("accept"), "application/vnd.github+json");
    EXPECT_EQ(request.headers.get("x-github-api-version"), "2022-11-28");
    EXPECT_EQ(request.headers.get("user-agent"), "crosscheck");
    EXPECT_EQ(request.timeout, 10s);
  }
  EXPECT_EQ(bearer(2), "Bearer ghs_token1");
  EXPECT_EQ(client_.requests()[2].body,
            R"({"event_type":"pull_request","client_payload":{"delivery_id":"d"}})");
  EXPECT_EQ(client_.requests()[2].headers.get("content-type"), "application/json");
  EXPECT_EQ(client_.requests()[1].body, "");
}

TEST_F(AppTest, ItsTokenIsTheAppsAndLivesShortOfTenMinutes) {
  (void)dispatch();
  const std::string header = bearer(0);
  ASSERT_TRUE(header.starts_with("Bearer "));
  const auto jws = parse_jws(std::string_view{header}.substr(7));
  ASSERT_TRUE(jws) << jws.error().message;
  EXPECT_TRUE(
      VerifyingKey::from_jwk(key().public_jwk()).value().verify(jws->signed_part, jws->signature));
  EXPECT_EQ(jws->claims.at("iss"), "4711");
  EXPECT_EQ(jws->claims.at("iat"), k_now_s - 60);
  EXPECT_LE(jws->claims.at("exp").as_int64() - jws->claims.at("iat").as_int64(), 600);
  EXPECT_GT(jws->claims.at("exp").as_int64(), k_now_s);
}

TEST_F(AppTest, RemembersInstallationAndTokenUntilAMinuteBeforeItsEnd) {
  (void)dispatch();
  (void)dispatch();
  EXPECT_EQ(calls().size(), 4U);
  clock_.advance(59min - 1us);
  (void)dispatch();
  EXPECT_EQ(calls().size(), 5U);
  EXPECT_EQ(bearer(4), "Bearer ghs_token1");
  clock_.advance(1us);
  (void)dispatch();
  ASSERT_EQ(calls().size(), 7U);
  EXPECT_EQ(calls()[5], k_token);
  EXPECT_EQ(bearer(6), "Bearer ghs_token2");
}

TEST_F(AppTest, TwoRepositoriesOfAnInstallationShareItsToken) {
  (void)dispatch("o/r");
  (void)dispatch("o/second");
  EXPECT_THAT(calls(),
              ElementsAre(k_installation, k_token, k_dispatch, "GET /repos/o/second/installation",
                          "POST /repos/o/second/dispatches"));
}

TEST_F(AppTest, ARefusedTokenIsDroppedAndTriedOnceMore) {
  (void)dispatch();
  script(k_dispatch, {net::Response{401, {}, R"({"message":"Bad credentials"})"}});
  EXPECT_EQ(dispatch().kind, Kind::sent);
  EXPECT_THAT(calls(),
              ElementsAre(k_installation, k_token, k_dispatch, k_dispatch, k_token, k_dispatch));
  EXPECT_EQ(bearer(5), "Bearer ghs_token2");
  script(k_dispatch,
         {net::Response{401, {}, ""}, net::Response{401, {}, ""}, net::Response{401, {}, ""}});
  EXPECT_EQ(dispatch().kind, Kind::retry_later);
  EXPECT_EQ(calls().size(), 9U);
}

TEST_F(AppTest, AnInstallationThatIsGoneIsLookedUpAgain) {
  (void)dispatch();
  clock_.advance(2h);
  script(k_token, {net::Response{404, {}, R"({"message":"Not Found"})"}});
  script(k_installation, {net::Response{200, {}, R"({"id":43})"}});
  EXPECT_EQ(dispatch().kind, Kind::sent);
  EXPECT_THAT(calls(), ElementsAre(k_installation, k_token, k_dispatch, k_token, k_installation,
                                   "POST /app/installations/43/access_tokens", k_dispatch));
  // A fresh number that is not known either is an answer.
  clock_.advance(2h);
  script("POST /app/installations/43/access_tokens", {net::Response{404, {}, ""}});
  script(k_token, {net::Response{404, {}, ""}});
  EXPECT_EQ(dispatch().kind, Kind::rejected);
}

TEST_F(AppTest, ADispatchThatFindsNothingLooksUpTheInstallationNextTime) {
  script(k_dispatch, {net::Response{404, {}, R"({"message":"Not Found"})"}});
  EXPECT_EQ(dispatch().kind, Kind::rejected);
  (void)dispatch();
  EXPECT_THAT(calls(),
              ElementsAre(k_installation, k_token, k_dispatch, k_installation, k_dispatch));
}

TEST_F(AppTest, AnswersThatAreNotWhatGitHubSaysAreTriedLater) {
  for (const std::string_view body : {"", "[]", "<html>", "{}", R"({"id":"x"})", R"({"id":1.5})"}) {
    script(k_installation, {net::Response{200, {}, std::string{body}}});
    EXPECT_EQ(dispatch().kind, Kind::retry_later) << body;
  }
  for (const std::string_view body :
       {"", "{}", R"({"token":"ghs_x"})", R"({"token":"ghs_x","expires_at":"soon"})",
        R"({"token":"","expires_at":"2030-01-01T00:00:00Z"})",
        R"({"token":"ghs_x\r\nX-Evil: 1","expires_at":"2030-01-01T00:00:00Z"})"}) {
    script(k_token, {net::Response{201, {}, std::string{body}}});
    EXPECT_EQ(dispatch().kind, Kind::retry_later) << body;
  }
}

TEST_F(AppTest, NoAnswerIsUncertainOnlyForTheDispatchAndOnlyWhenItMayHaveLeft) {
  for (const bool maybe_sent : {false, true}) {
    script(k_installation, {no_answer(maybe_sent)});
    EXPECT_EQ(dispatch().kind, Kind::retry_later);
  }
  script(k_token, {no_answer(true)});
  EXPECT_EQ(dispatch().kind, Kind::retry_later);
  script(k_dispatch, {no_answer(false)});
  EXPECT_EQ(dispatch().kind, Kind::retry_later);
  script(k_dispatch, {no_answer(true)});
  const CallAnswer answer = dispatch();
  EXPECT_EQ(answer.kind, Kind::uncertain);
  EXPECT_THAT(answer.reason, HasSubstr("the dispatch: api.test does not answer"));
}

TEST_F(AppTest, OtherCallsAreMadeAsTheInstallationOnTheirRepository) {
  script("POST /repos/o/r/check-runs", {net::Response{201, {}, R"({"id":5})"}});
  std::vector<CallAnswer> answers;
  const auto keep = [&answers](CallAnswer one) { answers.push_back(std::move(one)); };
  const auto repo = RepoName::parse("o/r").value();
  app_.call(repo, AppCall::create_check_run, "/repos/o/r/check-runs", R"({"name":"n"})", keep);
  script("POST /repos/o/r/actions/runs/7/rerun",
         {net::Response{403, {}, R"({"message":"This workflow is already running"})"}});
  app_.call(repo, AppCall::rerun, "/repos/o/r/actions/runs/7/rerun", "", keep);
  script("GET /repos/o/r/x?page=2", {net::Response{200, {}, "[]"}});
  app_.call(repo, AppCall::get, "/repos/o/r/x?page=2", "", keep);
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].kind, Kind::sent);
  EXPECT_EQ(answers[0].content, R"({"id":5})");
  EXPECT_EQ(answers[1].kind, Kind::sent) << answers[1].reason;
  EXPECT_EQ(answers[2].kind, Kind::sent);
  EXPECT_EQ(answers[2].content, "[]");
}

TEST_F(AppTest, CallsInProgressOutliveIt) {
  std::function<void(net::ClientResult)> pending;
  class Holding final : public net::Client {
   public:
    explicit Holding(std::function<void(net::ClientResult)>& slot) : slot_{slot} {}
    void send(net::ClientRequest, std::function<void(net::ClientResult)> done) override {
      slot_ = std::move(done);
    }
    std::function<void(net::ClientResult)>& slot_;
  } client{pending};
  std::optional<CallAnswer> answer;
  {
    App app{{.app_id = "1"}, key(), client, clock_};
    app.dispatch(RepoName::parse("o/r").value(), "push", "{}",
                 [&](CallAnswer one) { answer = std::move(one); });
    EXPECT_FALSE(answer);
  }
  const auto finish = std::exchange(pending, nullptr);
  finish(net::Response{404, {}, ""});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->kind, Kind::rejected);
}

TEST(Judge, Table) {
  struct Case {
    AppCall call;
    int status;
    net::Headers headers;
    std::string body;
    Kind kind;
    std::optional<std::int64_t> wait_s = {};
  };
  const std::string secondary = R"({"message":"You have exceeded a secondary rate limit."})";
  const std::string forbidden = R"({"message":"Resource not accessible by integration"})";
  const std::string reset = std::to_string(k_now_s + 100);
  const std::string past = std::to_string(k_now_s - 100);
  using enum AppCall;
  const Case cases[] = {
      // Only 204 is success.
      {dispatch, 200, {}, "{}", Kind::uncertain},
      {dispatch, 202, {}, "", Kind::uncertain},
      {installation, 202, {}, "", Kind::retry_later},
      {dispatch, 301, {}, "", Kind::rejected},
      {installation, 301, {}, "", Kind::rejected},
      {dispatch, 307, {}, "", Kind::rejected},
      {dispatch, 400, {}, "", Kind::rejected},
      {installation, 404, {}, "", Kind::rejected},
      {access_token, 404, {}, "", Kind::rejected},
      {dispatch, 404, {}, "", Kind::rejected},
      {dispatch, 409, {}, "", Kind::rejected},
      {dispatch, 413, {}, "", Kind::rejected},
      {dispatch, 422, {}, "", Kind::rejected},
      {access_token, 422, {}, "", Kind::rejected},
      {installation, 401, {}, "", Kind::retry_later},
      {dispatch, 401, {}, "", Kind::retry_later},
      {dispatch, 403, {}, forbidden, Kind::rejected},
      {dispatch, 403, {{"X-RateLimit-Remaining", "12"}}, forbidden, Kind::rejected},
      {access_token,
       403,
       {},
       R"({"message":"This installation has been suspended"})",
       Kind::rejected},
      // Limits.
      {dispatch, 403, {}, secondary, Kind::retry_later, 60},
      {dispatch, 403, {{"retry-after", "17"}}, secondary, Kind::retry_later, 17},
      {dispatch, 403, {{"Retry-After", "0"}}, forbidden, Kind::retry_later, 1},
      {dispatch, 429, {}, "", Kind::retry_later, 60},
      {installation, 429, {{"Retry-After", "5"}}, "", Kind::retry_later, 5},
      {dispatch,
       429,
       {{"Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"}},
       "",
       Kind::retry_later,
       60},
      {dispatch, 429, {{"Retry-After", "-5"}}, "", Kind::retry_later, 60},
      {dispatch, 429, {{"Retry-After", "99999999999999999999"}}, "", Kind::retry_later, 60},
      {dispatch, 429, {{"Retry-After", "9223372036854775807"}}, "", Kind::retry_later, 86'400},
      {dispatch,
       403,
       {{"x-ratelimit-remaining", "0"}, {"x-ratelimit-reset", reset}},
       forbidden,
       Kind::retry_later,
       101},
      {dispatch,
       403,
       {{"x-ratelimit-remaining", "0"}, {"x-ratelimit-reset", past}},
       forbidden,
       Kind::retry_later,
       1},
      {dispatch,
       403,
       {{"x-ratelimit-remaining", "0"}, {"x-ratelimit-reset", "9223372036854775807"}},
       "",
       Kind::retry_later,
       86'400},
      {dispatch, 403, {{"x-ratelimit-remaining", "0"}}, forbidden, Kind::retry_later, 60},
      {dispatch,
       403,
       {{"x-ratelimit-remaining", "0"}, {"x-ratelimit-reset", reset}, {"retry-after", "3"}},
       "",
       Kind::retry_later,
       3},
      {dispatch,
       429,
       {{"x-ratelimit-remaining", "7"}, {"x-ratelimit-reset", reset}},
       "",
       Kind::retry_later,
       60},
      // Its own trouble: the dispatch may have gone through.
      {installation, 500, {}, "", Kind::retry_later},
      {access_token, 502, {}, "", Kind::retry_later},
      {dispatch, 500, {}, "", Kind::uncertain},
      {dispatch, 502, {}, "<html>", Kind::uncertain},
      {dispatch, 503, {{"Retry-After", "30"}}, "", Kind::uncertain, 30},
      {access_token, 503, {{"Retry-After", "30"}}, "", Kind::retry_later, 30},
      {dispatch, 408, {}, "", Kind::uncertain},
  };
  for (const Case& one : cases) {
    const CallAnswer answer =
        judge(one.call, net::Response{one.status, one.headers, one.body}, at(k_now_s));
    SCOPED_TRACE(answer.reason);
    EXPECT_EQ(answer.kind, one.kind);
    ASSERT_EQ(answer.not_before.has_value(), one.wait_s.has_value());
    if (one.wait_s) {
      EXPECT_EQ(*answer.not_before, at(k_now_s + *one.wait_s));
    }
    EXPECT_THAT(answer.reason, HasSubstr("was answered " + std::to_string(one.status)));
  }
}

TEST(Judge, QuotesGitHubsMessageAndNoMore) {
  const CallAnswer answer = judge(
      AppCall::dispatch,
      net::Response{422, {}, R"({"message":"Invalid\u001b[2J request","token":"ghs_x"})"}, at(0));
  EXPECT_EQ(answer.reason, "the dispatch was answered 422: Invalid\xEF\xBF\xBD[2J request");
  EXPECT_LT(judge(AppCall::dispatch,
                  net::Response{422, {}, R"({"message":")" + std::string(9999, 'x') + "\"}"}, at(0))
                .reason.size(),
            400U);
}

TEST_F(AppTest, AGetSaysWhetherThereIsNothingOrNobodyAnswered) {
  constexpr std::string_view path = "/repos/o/r/commits/c0ffee";
  const auto get = [&] {
    std::optional<base::Result<std::string>> answer;
    app_.get(RepoName::parse("o/r").value(), std::string{path},
             std::chrono::steady_clock::now() + 10s,
             [&answer](base::Result<std::string> one) { answer = std::move(one); });
    return answer.value();
  };
  const auto call = "GET " + std::string{path};
  script(call, {net::Response{200, {}, R"({"sha":"c0ffee"})"}});
  EXPECT_EQ(get(), R"({"sha":"c0ffee"})");
  for (const int status : {404, 422}) {
    script(call, {net::Response{status, {}, "{}"}});
    EXPECT_EQ(get().error().fault, base::Fault::not_found) << status;
  }
  for (const int status : {301, 403, 409, 429, 500, 502}) {
    script(call, {net::Response{status, {}, "{}"}});
    EXPECT_EQ(get().error().fault, base::Fault::unavailable) << status;
  }
  script(call, {no_answer(true)});
  EXPECT_EQ(get().error().fault, base::Fault::unavailable);
  // That the App is not installed says nothing of the commit.
  script(k_installation, {net::Response{404, {}, "{}"}});
  script(call, {net::Response{404, {}, "{}"}});
  EXPECT_EQ(get().error().fault, base::Fault::not_found);  // and the installation is forgotten
  EXPECT_EQ(get().error().fault, base::Fault::unavailable);
}

}  // namespace
}  // namespace crosscheck::github
