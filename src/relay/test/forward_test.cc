#include "crosscheck/relay/forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../github/test/scripted_client.h"
#include "support.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using github::no_answer;
using github::ScriptedClient;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
namespace json = base::json;

Forwarded reported(bool completed = false) {
  Forwarded what{
      .repo = test::repo("Org/Two"), .level = Level::L3, .state = {}, .completed = completed};
  what.state.queue = 1'234'567us;
  if (completed) what.state.execution = 61s;
  return what;
}

TEST(Envelope, IsAsPyTorchsRelayMakesIt) {
  const std::string body = R"({"delivery_id": "d", "a": [1e2, "\u00e9"]})";
  EXPECT_EQ(make_envelope(reported(), body),
            R"({"trusted":{"ci_metrics":{"queue_time":1.235,"execution_time":null},)"
            R"("verified_repo":"Org/Two","downstream_repo_level":"L3"},)"
            R"("untrusted":{"callback_payload":{"delivery_id": "d", "a": [1e2, "\u00e9"]}}})");
  const auto ended = base::parse_json(make_envelope(reported(true), "{}"), "e").value();
  EXPECT_EQ(base::canonical_json(ended.at("trusted").at("ci_metrics")),
            R"({"execution_time":61.0,"queue_time":null})");
}

TEST(JudgeForward, OnlyARefusalOfTheBodyIsForGood) {
  using Kind = Answer::Kind;
  const base::Time now{1'700'000'000s};
  struct Case {
    int status;
    Kind kind;
  };
  for (const auto& [status, kind] :
       {Case{200, Kind::sent}, Case{204, Kind::sent}, Case{302, Kind::retry_later},
        Case{400, Kind::rejected}, Case{401, Kind::retry_later}, Case{403, Kind::retry_later},
        Case{404, Kind::retry_later}, Case{413, Kind::rejected}, Case{422, Kind::rejected},
        Case{429, Kind::retry_later}, Case{500, Kind::retry_later}, Case{502, Kind::retry_later}})
    EXPECT_EQ(judge_forward(net::Response{status, {}, "x"}, now).kind, kind) << status;
  EXPECT_EQ(judge_forward(no_answer(true), now).kind, Kind::retry_later);
  for (const auto& [header, wait] :
       {std::pair{"90", 90s}, {"1000000000", 3600s}, {"0", 0s}, {"soon", 0s}, {"-5", 0s}}) {
    const auto at =
        judge_forward(net::Response{429, {{"Retry-After", header}}, ""}, now).not_before;
    EXPECT_EQ(at.value_or(now), now + wait) << header;
  }
}

class ForwarderTest : public test::RelayTest, public ::testing::WithParamInterface<store::Engine> {
 protected:
  ForwarderTest() : RelayTest{GetParam()} {
    EXPECT_TRUE(store_->write([&](store::Tx& tx) -> base::Result<void> {
      for (const char* job : {"one", "two"}) {
        auto done = tx.execute(
            "INSERT INTO jobs (delivery_id, event_type, repo_key, repo, level, run_id, "
            "run_attempt, "
            "job_name, state, first_seen_at, word_workflow, word_body) VALUES ('d-1', 'nightly', "
            "'org/two', 'org/two', 'L2', '1', 1, $1, 'in_progress', $2, 'CI', "
            R"('{"delivery_id":"d-1","workflow":{"name":"CI","status":"in_progress"}}'))",
            {job, clock_.now()});
        if (!done) return tl::unexpected(done.error());
      }
      return {};
    }));
  }
  void report(std::int64_t job, const std::string& body) {
    EXPECT_TRUE(store_->write([&](store::Tx& tx) {
      auto what = reported();
      what.job = job;
      return forward_report(tx, what, body, clock_.now());
    }));
  }
  void run() {
    for (int quiet = 0; quiet < 2;) quiet = forwarder_.step().value_or(false) ? 0 : quiet + 1;
  }
  std::vector<std::string> sent() {
    std::vector<std::string> bodies;
    for (const auto& request : client_.requests()) {
      EXPECT_EQ(request.url, "https://hud.test/api/crcr/results");
      EXPECT_EQ(request.headers.get("x-hud-internal-bot"), "a key");
      const auto body = base::parse_json(request.body, "envelope").value();
      bodies.push_back(base::canonical_json(body.at("untrusted").at("callback_payload")));
    }
    return bodies;
  }
  std::vector<std::string> stored() {
    return rows("SELECT job, state, body IS NULL FROM forwards ORDER BY id", 2);
  }

  std::function<net::ClientResult()> answer_ = [] { return net::Response{200, {}, "{}"}; };
  ScriptedClient client_{[this](const net::ClientRequest&) { return answer_(); }};
  Forwarder forwarder_{*store_, clock_, client_, {"https://hud.test/api/crcr/results", "a key"}};
};
INSTANTIATE_TEST_SUITE_P(Engines, ForwarderTest, test::engines(), test::engine_name);

TEST_P(ForwarderTest, SendsAJobsReportsInOrder) {
  report(1, R"({"n":1})");
  report(1, R"({"n":2})");
  report(2, R"({"n":3})");
  answer_ = [] { return net::Response{503, {}, ""}; };
  run();
  EXPECT_THAT(sent(), ::testing::UnorderedElementsAre(R"({"n":1})", R"({"n":3})"));
  answer_ = [] { return net::Response{200, {}, ""}; };
  clock_.advance(10s);
  run();
  EXPECT_THAT(stored(), ElementsAre("1|sent", "1|sent", "2|sent"));
  EXPECT_THAT(sent(), ::testing::IsSupersetOf({R"({"n":1})", R"({"n":2})", R"({"n":3})"}));
  EXPECT_EQ(sent().back(), R"({"n":2})");
  EXPECT_EQ(count("forwards WHERE body IS NOT NULL"), 0);
  EXPECT_EQ(forget_forwarded(*store_, clock_.now()), 0);
  EXPECT_EQ(forget_forwarded(*store_, clock_.now() + 1s), 3);
}

TEST_P(ForwarderTest, WhatIsRefusedIsKeptAndHoldsUpNothing) {
  report(1, R"({"n":1})");
  answer_ = [] { return net::Response{400, {}, "job_name is missing"}; };
  run();
  report(1, R"({"n":2})");
  answer_ = [] { return net::Response{200, {}, ""}; };
  run();
  EXPECT_THAT(stored(), ElementsAre("1|dead", "1|sent"));
  EXPECT_THAT(rows("SELECT last_error FROM forwards WHERE state = 'dead'", 1),
              ElementsAre(HasSubstr("HUD answered 400")));
  EXPECT_EQ(count("forwards WHERE body IS NOT NULL"), 1);
}

TEST_P(ForwarderTest, WhatDiedIsSentAgainWhenAPersonSaysSo) {
  report(1, R"({"n":1})");
  answer_ = [] { return net::Response{400, {}, ""}; };
  run();
  answer_ = [] { return net::Response{200, {}, ""}; };
  const auto arm = [&](std::string_view delivery) {
    std::int64_t armed = -1;
    EXPECT_TRUE(store_->write([&](store::Tx& tx) -> base::Result<void> {
      auto done = arm_forwards_again(tx, "delivery_id = $1", delivery, clock_.now());
      if (!done) return tl::unexpected(done.error());
      armed = *done;
      return {};
    }));
    return armed;
  };
  EXPECT_EQ(arm("another"), 0);
  EXPECT_EQ(arm("d-1"), 1);
  run();
  EXPECT_THAT(stored(), ElementsAre("1|sent"));
  EXPECT_EQ(arm("d-1"), 0);
}

// Stopped for so long that its lease has ended, a process says what came of its call.
TEST_P(ForwarderTest, WhatAnotherProcessTookOverKeepsItsBody) {
  report(1, R"({"n":1})");
  ScriptedClient their_client{[](const auto&) { return net::Response{503, {}, ""}; }};
  Forwarder other{*store_, clock_, their_client, {"https://hud.test/api/crcr/results", "a key"}};
  answer_ = [&] {
    clock_.advance(121s);
    EXPECT_TRUE(other.step());
    EXPECT_TRUE(other.step());
    return net::Response{200, {}, ""};
  };
  run();
  EXPECT_EQ(count("forwards WHERE state = 'pending' AND body IS NOT NULL"), 1);
  their_client.set_answer([](const auto&) { return net::Response{200, {}, ""}; });
  clock_.advance(1min);
  EXPECT_TRUE(other.step());
  EXPECT_TRUE(other.step());
  EXPECT_THAT(their_client.requests().back().body, HasSubstr(R"({"n":1})"));
  EXPECT_THAT(stored(), ElementsAre("1|sent"));
}

TEST_P(ForwarderTest, TheRelaysOwnConclusionIsForwardedInTheDownstreamsForm) {
  EXPECT_TRUE(store_->write([&](store::Tx& tx) {
    auto what = reported(true);
    what.job = 1;
    what.state.conclusion = "timed_out";
    return forward_conclusion(tx, what, clock_.now());
  }));
  run();
  EXPECT_THAT(sent(), ElementsAre(HasSubstr(R"("conclusion":"timed_out")")));
  EXPECT_THAT(sent()[0], HasSubstr(R"("status":"completed")"));
  EXPECT_THAT(sent()[0], HasSubstr(R"("delivery_id":"d-1")"));
}

}  // namespace
}  // namespace crosscheck::relay
