#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <future>
#include <mutex>
#include <thread>

#include "crosscheck/base/digest.h"
#include "crosscheck/github/oidc.h"
#include "crosscheck/net/client.h"
#include "crosscheck/relay/callback.h"
#include "crosscheck/relay/local_issuer.h"
#include "crosscheck/relay/local_target.h"
#include "support.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
namespace json = base::json;

class LocalTest : public test::RelayTest {
 protected:
  static Dispatch dispatch(std::string_view to = "org/two") {
    return {.id = 12,
            .repo = test::repo(to),
            .event_type = "pull_request",
            .delivery_id = "d-1",
            .body = std::make_shared<const std::string>(R"({"action":"opened"})"),
            .attempt = 3};
  }
  LocalTargetOptions options(const std::string& command) {
    return {
        .commands = {{"org/two", command}},
        .jobs_dir = folder_ / "jobs",
        .server_url = "http://127.0.0.1:1",
        .request_token = [](const Dispatch&, const std::string& run) { return "token-" + run; }};
  }
  std::string log() { return base::read_file(folder_ / "jobs/12.log").value_or(""); }
  template <class Until>
  static bool wait_until(Until until) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (!until()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }
  static Answer send(LocalTarget& target, Dispatch d) {
    std::promise<Answer> answer;
    target.send(std::move(d), [&](Answer a) { answer.set_value(std::move(a)); });
    return answer.get_future().get();
  }
};

TEST_F(LocalTest, AJobSeesWhatAGithubWorkflowSees) {
  LocalTarget target{options(
      "cat \"$GITHUB_EVENT_PATH\"; echo; echo $GITHUB_EVENT_NAME $GITHUB_REPOSITORY $GITHUB_RUN_ID "
      "$GITHUB_RUN_ATTEMPT $CROSSCHECK_RELAY_URL $ACTIONS_ID_TOKEN_REQUEST_TOKEN; echo done")};
  EXPECT_EQ(send(target, dispatch()).kind, Answer::Kind::sent);
  ASSERT_TRUE(wait_until([&] { return log().find("done") != std::string::npos; }));
  EXPECT_THAT(
      log(),
      HasSubstr(
          R"({"action":"pull_request","repository":{"full_name":"org/two"},"client_payload":)"
          R"({"event_type":"pull_request","delivery_id":"d-1","payload":{"action":"opened"}}})"));
  EXPECT_THAT(log(),
              HasSubstr("repository_dispatch org/two 12003 1 http://127.0.0.1:1 token-12003"));
  net::Request request;
  request.method = "GET";
  request.path = "/org/two/actions/runs/12003";
  const auto shown = target.handle(request);
  ASSERT_TRUE(shown);
  EXPECT_THAT(shown->body, HasSubstr("done"));
  for (const char* other : {"/org/two/actions/runs/..", "/org/two/actions/runs/99003", "/org/two",
                            "/org/two/actions/runs/"}) {
    request.path = other;
    EXPECT_FALSE(target.handle(request)) << other;
  }
}

TEST_F(LocalTest, ARepositoryWithoutCommandIsRejected) {
  LocalTarget target{options("true")};
  const Answer answer = send(target, dispatch("org/other"));
  EXPECT_EQ(answer.kind, Answer::Kind::rejected);
  EXPECT_THAT(answer.message, HasSubstr("--command org/other="));
}

TEST_F(LocalTest, OneJobAtATimeAndThenTheNext) {
  LocalTarget target{options("while [ ! -e \"$PWD/" + (folder_ / "go").string().substr(1) +
                             "\" ] && [ ! -e " + (folder_ / "go").string() +
                             " ]; do sleep 0.01; done")};
  EXPECT_EQ(target.room(), 1U);
  EXPECT_EQ(send(target, dispatch()).kind, Answer::Kind::sent);
  EXPECT_EQ(target.room(), 0U);
  EXPECT_EQ(target.running(), 1U);
  EXPECT_TRUE(base::write_file_atomically(folder_ / "go", ""));
  EXPECT_TRUE(wait_until([&] { return target.room() == 1; }));
  EXPECT_EQ(send(target, dispatch()).kind, Answer::Kind::sent);
}

TEST_F(LocalTest, StoppingEndsTheWholeJob) {
  LocalTarget target{
      options("trap 'echo told' TERM; sleep 600 & echo child $!; echo ready; wait; wait")};
  EXPECT_EQ(send(target, dispatch()).kind, Answer::Kind::sent);
  ASSERT_TRUE(wait_until([&] { return log().find("ready") != std::string::npos; }));
  const std::string text = log();
  const pid_t child = std::stoi(text.substr(text.find("child ") + 6));
  target.stop(5s);
  EXPECT_EQ(target.running(), 0U);
  EXPECT_THAT(log(), HasSubstr("told"));
  EXPECT_TRUE(wait_until([&] {
    const auto stat = base::read_file("/proc/" + std::to_string(child) + "/stat");
    return !stat || stat->find(") Z ") != std::string::npos;
  }));
  EXPECT_EQ(send(target, dispatch()).kind, Answer::Kind::retry_later);
}

TEST_F(LocalTest, TellsHowAJobEnded) {
  std::mutex mutex;
  std::vector<std::string> ended;
  auto with =
      options("case $GITHUB_REPOSITORY in org/two) exit 3;; *) echo ready; sleep 600;; esac");
  with.commands["org/four"] = with.commands["org/two"];
  with.concurrency = 2;
  with.ended = [&](const base::RepoName& repo, const std::string& delivery, const std::string& run,
                   std::string_view conclusion) {
    const std::lock_guard lock{mutex};
    ended.push_back(repo.full_name() + " " + delivery + " " + run + " " + std::string{conclusion});
  };
  LocalTarget target{std::move(with)};
  EXPECT_EQ(send(target, dispatch()).kind, Answer::Kind::sent);
  EXPECT_TRUE(wait_until([&] {
    const std::lock_guard lock{mutex};
    return ended.size() == 1;
  }));
  EXPECT_EQ(send(target, dispatch("org/four")).kind, Answer::Kind::sent);
  ASSERT_TRUE(wait_until([&] { return log().find("ready") != std::string::npos; }));
  target.stop(5s);
  EXPECT_THAT(ended,
              ::testing::ElementsAre("org/two d-1 12003 failure", "org/four d-1 12003 cancelled"));
}

// As GitHub would give it, so that the report which echoes it is taken.
TEST_F(LocalTest, ALargeOrDeepEventCanBeReported) {
  auto large = test::pull_request("opened");
  large["pull_request"].as_object()["body"] = std::string(6 << 20, 'x');
  auto deep = test::pull_request("opened");
  json::value nested = json::array{};
  for (int i = 0; i < 30; ++i) nested = json::array{nested};
  deep["deep"] = nested;
  RateLimiter limiter{100};
  LocalTarget target{options("echo done")};
  int number = 0;
  for (const auto& event : {large, deep}) {
    const std::string id = "d-" + std::to_string(++number);
    ASSERT_EQ(IntakeHandler(*store_, *allowlist_, clock_,
                            {.upstream = test::upstream(),
                             .label_prefix = "ciflow/crcr/",
                             .webhook_secrets = {std::string{test::k_secret}}})
                  .handle(test::webhook(json::serialize(event), "pull_request", id))
                  .status,
              202);
    ASSERT_TRUE(store_->write([&](store::Tx& tx) -> base::Result<void> {
      auto done = tx.execute("UPDATE dispatches SET first_attempt_at = $1", {clock_.now()});
      if (!done) return tl::unexpected(done.error());
      return {};
    }));
    Dispatch sent = dispatch();
    sent.delivery_id = id;
    sent.body = std::make_shared<const std::string>(json::serialize(event));
    ASSERT_EQ(send(target, sent).kind, Answer::Kind::sent);
    const auto file = base::read_file(folder_ / "jobs/12.event.json");
    ASSERT_TRUE(file);
    const auto seen = base::parse_json(*file, "event");
    ASSERT_TRUE(seen) << seen.error().message;
    net::Request request;
    request.method = "POST";
    request.headers.set("Authorization", R"(Bearer {"repository":"org/two"})");
    request.body = json::serialize(json::object{
        {"event_type", "pull_request"},
        {"delivery_id", id},
        {"payload", *base::find(*seen, "client_payload.payload")},
        {"workflow", {{"status", "in_progress"}, {"name", "local"}, {"run_id", "12003"}}}});
    const auto answer =
        CallbackHandler{*store_, *allowlist_, clock_, limiter, {.verify = test::plain_tokens()}}
            .handle(request)
            .response;
    EXPECT_EQ(answer.status, 200) << answer.body;
    ASSERT_TRUE(wait_until([&] { return target.room() == 1; }));
  }
}

TEST_F(LocalTest, TheIssuersTokensAreGoodOnes) {
  auto issuer = LocalIssuer::open(folder_ / "state", clock_);
  ASSERT_TRUE(issuer) << issuer.error().message;
  issuer->set_url("http://127.0.0.1:1");
  struct stat info{};
  ASSERT_EQ(::stat((folder_ / "state/local-issuer.pem").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);

  net::Request request;
  request.method = "GET";
  request.path = "/local/oidc/token";
  request.query = "version=1&audience=us";
  request.headers.set("Authorization", "Bearer " + issuer->request_token(dispatch(), "12003"));
  const auto response = issuer->handle(request);
  ASSERT_TRUE(response);
  ASSERT_EQ(response->status, 200) << response->body;
  const std::string token{test::answer_of(*response)["value"].as_string()};

  const auto client = net::Client::create();
  github::TrustedIssuer trusted{.issuer = "http://127.0.0.1:1", .jwks = issuer->jwks()};
  const auto verifier = github::OidcVerifier::create("us", {trusted}, *client, clock_);
  ASSERT_TRUE(verifier) << verifier.error().message;
  const auto verified = (*verifier)->verify(token);
  ASSERT_TRUE(verified) << verified.error().message;
  EXPECT_EQ(verified->claims.at("repository").as_string(), "org/two");
  EXPECT_EQ(verified->claims.at("run_id").as_string(), "12003");

  // The next process has the same key and knows the request token.
  auto next = LocalIssuer::open(folder_ / "state", clock_);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->jwks(), issuer->jwks());
  EXPECT_EQ(next->handle(request)->status, 200);
}

TEST_F(LocalTest, TheIssuerRefusesOthers) {
  auto issuer = LocalIssuer::open(folder_ / "state", clock_).value();
  net::Request request;
  request.method = "GET";
  request.path = "/local/oidc/token";
  request.query = "audience=us";
  EXPECT_EQ(issuer.handle(request)->status, 401);
  const std::string good = issuer.request_token(dispatch(), "1");
  const std::string forged = base::base64url_encode(R"({"repository":"org/four","run_id":"1"})");
  for (const std::string& bearer :
       {std::string{}, std::string{"x"}, std::string{"."}, good + "A",
        good.substr(0, good.size() - 2), forged + good.substr(good.find('.')), "\xff." + good}) {
    request.headers.set("Authorization", "Bearer " + bearer);
    EXPECT_EQ(issuer.handle(request)->status, 401) << bearer;
  }
  request.headers.set("Authorization", "Bearer " + good);
  request.query = "";
  EXPECT_EQ(issuer.handle(request)->status, 400);
  request.query = "audience=us";
  request.method = "POST";
  EXPECT_EQ(issuer.handle(request)->status, 405);
  request.path = "/local/other";
  EXPECT_FALSE(issuer.handle(request));
}

TEST_F(LocalTest, ASecretIsMadeOnce) {
  const auto file = folder_ / "deep/secret";
  const auto secret = keep_secret(file, 32);
  ASSERT_TRUE(secret) << secret.error().message;
  EXPECT_EQ(secret->size(), 64U);
  EXPECT_EQ(keep_secret(file, 32).value(), *secret);
  ASSERT_TRUE(base::write_file_atomically(file, "x\n"));
  EXPECT_FALSE(keep_secret(file, 32));
}

}  // namespace
}  // namespace crosscheck::relay
