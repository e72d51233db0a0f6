#include "crosscheck/relay/intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <thread>

#include "crosscheck/store/faulty_store.h"
#include "support.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using test::pull_request;
using test::push;
using test::webhook;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace json = base::json;

class IntakeTest : public test::RelayTest {
 protected:
  using RelayTest::RelayTest;
  IntakeHandler handler(store::Store& store) {
    return IntakeHandler{store,
                         *allowlist_,
                         clock_,
                         {.upstream = test::upstream(),
                          .label_prefix = "ciflow/crcr/",
                          .webhook_secrets = {"new secret", std::string{test::k_secret}}}};
  }
  net::Response handle(const net::Request& request) { return handler(*store_).handle(request); }
};

class IntakeOnEngine : public IntakeTest, public ::testing::WithParamInterface<store::Engine> {
 protected:
  IntakeOnEngine() : IntakeTest{GetParam()} {}
};
INSTANTIATE_TEST_SUITE_P(Engines, IntakeOnEngine, test::engines(), test::engine_name);

TEST_F(IntakeTest, AnEventAndItsDispatchesAreStored) {
  const auto response = handle(webhook(json::serialize(pull_request("opened"))));
  EXPECT_EQ(response.status, 202) << response.body;
  EXPECT_EQ(response.body, R"({"ok":true,"event":1,"dispatches":4})");
  EXPECT_THAT(
      rows("SELECT delivery_id, event_type, action, pr_number, head_sha, labels FROM deliveries",
           6),
      ElementsAre("d-1|pull_request|opened|7|" + std::string{test::k_sha} +
                  "|[\"ciflow/crcr/npu\"]"));
  EXPECT_THAT(rows("SELECT repo, level, device, state FROM dispatches ORDER BY id", 4),
              ElementsAre("org/one|L1|-|pending", "org/two|L2|-|pending",
                          "org/three|L3|npu|pending", "org/four|L4|-|pending"));
  EXPECT_TRUE(store_->wait_for("dispatch", 0s));
}

TEST_F(IntakeTest, TheSameDeliveryAgainChangesNothing) {
  const auto request = webhook(json::serialize(pull_request("opened")));
  EXPECT_EQ(handle(request).status, 202);
  const auto again = handle(request);
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body, R"({"ok":true,"event":1,"duplicate":true,"armed_again":0})");
  EXPECT_EQ(count("deliveries"), 1);
  EXPECT_EQ(count("dispatches"), 4);
}

TEST_F(IntakeTest, TheSameDeliveryAgainArmsWhatDied) {
  const auto request = webhook(json::serialize(pull_request("opened")));
  EXPECT_EQ(handle(request).status, 202);
  ASSERT_TRUE(store_->write([](store::Tx& tx) -> base::Result<void> {
    for (const char* sql : {"UPDATE dispatches SET state = 'dead' WHERE repo = 'org/two'",
                            "UPDATE dispatches SET state = 'sent' WHERE repo <> 'org/two'"})
      if (auto done = tx.execute(sql); !done) return tl::unexpected(done.error());
    return {};
  }));
  EXPECT_THAT(handle(request).body, HasSubstr(R"("armed_again":1)"));
  EXPECT_THAT(states(),
              ElementsAre("org/one|sent", "org/two|pending", "org/three|sent", "org/four|sent"));
}

TEST_P(IntakeOnEngine, ANewerCommitWithdrawsWhatWasNotSent) {
  list("L2: [org/two, org/other]\n");
  EXPECT_EQ(handle(webhook(json::serialize(pull_request("opened")), "pull_request", "d-1")).status,
            202);
  EXPECT_EQ(
      handle(webhook(json::serialize(pull_request("opened", 8)), "pull_request", "d-2")).status,
      202);
  ASSERT_TRUE(store_->write([](store::Tx& tx) -> base::Result<void> {
    auto done = tx.execute("UPDATE dispatches SET state = 'sent' WHERE id = 1");
    if (!done) return tl::unexpected(done.error());
    return {};
  }));
  EXPECT_EQ(
      handle(webhook(json::serialize(pull_request("synchronize")), "pull_request", "d-3")).status,
      202);
  EXPECT_THAT(states(), ElementsAre("org/two|sent", "org/other|withdrawn",     // d-1
                                    "org/two|pending", "org/other|pending",    // d-2, another PR
                                    "org/two|pending", "org/other|pending"));  // d-3
  EXPECT_EQ(handle(webhook(json::serialize(pull_request("closed")), "pull_request", "d-4")).status,
            202);
  EXPECT_THAT(rows("SELECT state FROM dispatches WHERE delivery = 3", 1),
              ElementsAre("withdrawn", "withdrawn"));
  EXPECT_THAT(rows("SELECT state FROM dispatches WHERE delivery = 4", 1),
              ElementsAre("pending", "pending"));
}

json::object pull_request_at(std::string_view action, std::string_view updated_at) {
  auto body = pull_request(action);
  if (!updated_at.empty()) body["pull_request"].as_object()["updated_at"] = updated_at;
  return body;
}

// Two events in the order of their arrival, and what becomes of either's dispatch.
struct Order {
  const char* name;
  std::string_view first_action, first_at;
  std::string_view second_action, second_at;
  std::string_view first, second;  // states
};
constexpr std::string_view k_at = "2026-11-30T20:00:00Z";
constexpr std::string_view k_later = "2026-11-30T20:00:01Z";
constexpr std::array<Order, 9> k_orders{{
    {"in order", "synchronize", k_at, "synchronize", k_later, "withdrawn", "pending"},
    {"the older arrives late", "synchronize", k_later, "synchronize", k_at, "pending", "withdrawn"},
    {"at the same time", "synchronize", k_at, "synchronize", k_at, "withdrawn", "pending"},
    {"opening arrives late", "synchronize", k_later, "opened", k_at, "pending", "withdrawn"},
    {"the end arrives late", "reopened", k_later, "closed", k_at, "pending", "pending"},
    {"after the end", "closed", k_later, "synchronize", k_at, "pending", "withdrawn"},
    {"no times", "opened", "", "synchronize", "", "withdrawn", "pending"},
    {"only the first has a time", "opened", k_later, "synchronize", "", "withdrawn", "pending"},
    {"only the second has a time", "opened", "", "synchronize", k_at, "withdrawn", "pending"},
}};

TEST_P(IntakeOnEngine, WhichEventIsTheNewerIsAMatterOfItsOwnTime) {
  list("L2: [org/two]\n");
  int number = 0;
  for (const Order& order : k_orders) {
    SCOPED_TRACE(order.name);
    ++number;
    const auto send = [&](const std::string& which, std::string_view action, std::string_view at) {
      auto body = pull_request_at(action, at);
      body["pull_request"].as_object()["number"] = number;
      return handle(webhook(json::serialize(body), "pull_request", which + std::to_string(number)));
    };
    EXPECT_THAT(send("first ", order.first_action, order.first_at).body,
                HasSubstr(R"("dispatches":1})"));
    EXPECT_THAT(send("second ", order.second_action, order.second_at).body,
                HasSubstr(order.second == "pending" ? R"("dispatches":1})"
                                                    : R"("dispatches":0,"superseded":true})"));
    EXPECT_THAT(rows("SELECT state FROM dispatches WHERE delivery IN (SELECT id FROM deliveries "
                     "WHERE pr_number = $1) ORDER BY id",
                     1, {number}),
                ElementsAre(order.first, order.second));
  }
  EXPECT_EQ(count("dispatches WHERE state = 'withdrawn' AND last_error LIKE 'superseded by %'"),
            count("dispatches WHERE state = 'withdrawn'"));
}

// Redelivered, it comes a second time: what died of it stays dead.
TEST_P(IntakeOnEngine, WhatANewerCommitSupersededIsNotArmedAgainWhateverArrivedFirst) {
  list("L2: [org/two]\n");
  const auto older =
      webhook(json::serialize(pull_request_at("synchronize", k_at)), "pull_request", "older");
  const auto newer =
      webhook(json::serialize(pull_request_at("synchronize", k_later)), "pull_request", "newer");
  EXPECT_EQ(handle(newer).status, 202);
  EXPECT_EQ(handle(older).status, 202);
  ASSERT_TRUE(store_->write([](store::Tx& tx) -> base::Result<void> {
    auto done = tx.execute("UPDATE dispatches SET state = 'dead'");
    if (!done) return tl::unexpected(done.error());
    return {};
  }));
  EXPECT_THAT(handle(older).body, HasSubstr(R"("armed_again":0)"));
  EXPECT_THAT(handle(newer).body, HasSubstr(R"("armed_again":1)"));
  EXPECT_THAT(states(), ElementsAre("org/two|pending", "org/two|dead"));
}

TEST_F(IntakeTest, FiltersDecideWhoGetsADispatch) {
  list(
      "L2:\n  - org/nightly: {events: [nightly]}\n  - org/main: {branches: [main]}\n"
      "  - org/docs: {paths: ['docs/**']}\n  - org/aten: {paths: ['aten/**']}\n");
  EXPECT_EQ(handle(webhook(json::serialize(push("refs/heads/x")), "push")).status, 202);
  EXPECT_THAT(states(), ElementsAre("org/docs|pending"));
}

TEST_F(IntakeTest, WhatIsNotForUsIsIgnored) {
  auto request = webhook("not even json", "ping");
  request.headers.set("X-Hub-Signature-256", "nonsense");
  EXPECT_EQ(handle(request).status, 200);
  EXPECT_TRUE(test::answer_of(handle(request))["ignored"].as_bool());
  auto foreign = pull_request("opened");
  foreign["repository"] = {{"full_name", "fork/pytorch"}};
  for (const auto& response : {handle(webhook(json::serialize(foreign))),
                               handle(webhook(json::serialize(pull_request("edited")))),
                               handle(webhook("{}", "check_run")), handle(webhook("{}"))}) {
    EXPECT_EQ(response.status, 200);
    EXPECT_TRUE(test::answer_of(response)["ignored"].as_bool());
  }
  EXPECT_EQ(count("deliveries"), 0);
}

TEST_F(IntakeTest, BadRequestsAreRefusedWithAReason) {
  const std::string good = json::serialize(pull_request("opened"));
  struct Case {
    const char* name;
    net::Request request;
    int status;
    const char* says;
  };
  std::vector<Case> cases;
  std::deque<std::string> fields;  // that cases point at
  for (const std::string event : {"pull_request", "push", "check_run", "check_suite"}) {
    auto unsigned_ = webhook(good, event);
    unsigned_.headers.set("X-Hub-Signature-256", "");
    cases.push_back({"no signature", unsigned_, 400, "signature"});
    auto wrong = webhook(good, event);
    wrong.headers.set("X-Hub-Signature-256", github::sign_body("other", good));
    cases.push_back({"wrong signature", wrong, 401, "signature"});
    auto upper = webhook(good, event);
    upper.headers.set("X-Hub-Signature-256", "sha256=" + std::string(64, 'A'));
    cases.push_back({"wrong digest", upper, 401, "signature"});
    auto cut = webhook(good, event);
    cut.body.resize(cut.body.size() / 2);
    cases.push_back({"cut off on its way", cut, 401, "signature"});
    cases.push_back(
        {"signed, but cut off", webhook(good.substr(0, good.size() / 2), event), 400, "body"});
    cases.push_back({"empty", webhook("", event), 400, "body"});
    cases.push_back({"not UTF-8", webhook("{\"action\":\"\xff\xfe\"}", event), 400, "body"});
    cases.push_back({"nested", webhook(std::string(100'000, '['), event), 400, "body"});
    cases.push_back({"nested objects",
                     webhook(
                         [] {
                           std::string text;
                           for (int i = 0; i < 50'000; ++i) text += "{\"a\":";
                           return text;
                         }(),
                         event),
                     400, "body"});
    for (const std::string body : {"[]", "null", "7", "\"text\"", "true"})
      cases.push_back({"not an object", webhook(body, event), 400, "expected an object"});
    cases.push_back({"form-encoded", webhook("payload=%7B%7D", event), 400, "body"});
    auto nameless = webhook(good, event, "");
    cases.push_back({"no delivery id", nameless, 400, "X-GitHub-Delivery"});
    cases.push_back(
        {"delivery id not text", webhook(good, event, "\xff"), 400, "X-GitHub-Delivery"});
    cases.push_back({"delivery id too long", webhook(good, event, std::string(257, 'x')), 400,
                     "X-GitHub-Delivery"});
  }
  auto no_head = pull_request("opened");
  no_head["pull_request"].as_object()["head"] = nullptr;
  cases.push_back({"no head", webhook(json::serialize(no_head)), 400, "pull_request.head"});
  no_head["pull_request"] = json::array{};
  cases.push_back({"no pull request", webhook(json::serialize(no_head)), 400, "pull_request"});
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN}) {
    auto odd = pull_request("opened");
    odd["pull_request"].as_object()["number"] = number;
    cases.push_back({"odd number", webhook(json::serialize(odd)), 400, "pull_request.number"});
  }
  for (const std::string side : {"head", "base"})
    for (const std::string field : {"sha", "ref"}) {
      auto odd = pull_request("synchronize");
      odd["pull_request"].as_object()[side].as_object()[field] = "";
      fields.push_back("pull_request." + side + "." + field);
      cases.push_back({"empty", webhook(json::serialize(odd)), 400, fields.back().c_str()});
    }
  for (const char* field : {"ref", "after", "before"}) {
    auto odd = push("refs/heads/x");
    odd[field] = "";
    cases.push_back({"empty", webhook(json::serialize(odd), "push"), 400, field});
  }
  auto no_ref = push("refs/heads/x");
  no_ref["ref"] = 7;
  cases.push_back({"no ref", webhook(json::serialize(no_ref), "push"), 400, "ref"});
  for (const Case& c : cases) {
    const auto response = handle(c.request);
    EXPECT_EQ(response.status, c.status) << c.name << ": " << response.body;
    const auto answer = test::answer_of(response);
    ASSERT_TRUE(answer.contains("detail")) << c.name;
    EXPECT_THAT(base::to_lower_ascii(answer.at("detail").as_string()),
                HasSubstr(base::to_lower_ascii(c.says)))
        << c.name;
  }
  EXPECT_EQ(count("deliveries"), 0);
}

TEST_F(IntakeTest, TooLargeIsRefusedBeforeItsSignatureIsComputed) {
  auto request = webhook("x");
  request.body.assign(k_webhook_limit + 1, ' ');
  EXPECT_EQ(handle(request).status, 413);
}

// Whichever call to the store fails: nothing or all is there, the answer is a 503, and GitHub's
// next try succeeds.
TEST_P(IntakeOnEngine, AFailingStoreNeverLeavesHalf) {
  const auto body = json::serialize(pull_request("synchronize"));
  std::int64_t failures = 0;
  for (std::int64_t n = 1;; ++n) {
    store::FaultyStore faulty{*store_};
    faulty.fail_at(n);
    const auto request = webhook(body, "pull_request", "d-" + std::to_string(n));
    const auto before = std::pair{count("deliveries"), count("dispatches")};
    const auto response = handler(faulty).handle(request);
    if (faulty.calls() < n) {
      EXPECT_EQ(response.status, 202);
      break;
    }
    ++failures;
    EXPECT_EQ(response.status, 503) << n << ": " << response.body;
    EXPECT_EQ((std::pair{count("deliveries"), count("dispatches")}), before) << n;
    EXPECT_EQ(handle(request).status, 202) << n;
    EXPECT_EQ((std::pair{count("deliveries"), count("dispatches")}),
              (std::pair{before.first + 1, before.second + 4}))
        << n;
  }
  EXPECT_GE(failures, 6);
}

TEST_P(IntakeOnEngine, TheSameDeliveryFromManyThreadsIsStoredOnce) {
  const auto request = webhook(json::serialize(pull_request("opened")));
  std::atomic<int> accepted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      const auto response = handle(request);
      if (response.status == 202) ++accepted;
      EXPECT_LE(response.status, 202);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(accepted, 1);
  EXPECT_EQ(count("deliveries"), 1);
  EXPECT_EQ(count("dispatches"), 4);
}

TEST_P(IntakeOnEngine, AnyTextIsStoredOrRefused) {
  const std::string marker = "\"MARK\"";
  std::vector<std::string> bodies;
  for (const char* path : {"title", "label", "sender", "head ref", "head sha", "base ref"}) {
    auto body = pull_request("opened");
    auto& pr = body["pull_request"].as_object();
    const std::string_view name = path;
    if (name == "title") pr["title"] = "MARK";
    if (name == "label") pr["labels"] = json::array{json::object{{"name", "MARK"}}};
    if (name == "sender") body["sender"] = json::object{{"login", "MARK"}};
    if (name == "head ref") pr["head"].as_object()["ref"] = "MARK";
    if (name == "head sha") pr["head"].as_object()["sha"] = "MARK";
    if (name == "base ref") pr["base"].as_object()["ref"] = "MARK";
    bodies.push_back(json::serialize(body));
  }
  int delivery = 0;
  for (const std::string& body : bodies) {
    for (const std::string& text : test::awkward_json_texts()) {
      std::string awkward = body;
      awkward.replace(awkward.find(marker), marker.size(), text);
      const auto response =
          handle(webhook(awkward, "pull_request", "d-" + std::to_string(++delivery)));
      EXPECT_TRUE(response.status == 202 || response.status == 400)
          << response.status << ": " << awkward;
    }
  }
  EXPECT_GT(count("deliveries"), 0);
}

TEST_F(IntakeTest, ADeepEventIsRefused) {
  const auto nested = [](int levels) {
    auto body = json::serialize(pull_request("opened"));
    // The body itself is the first level.
    body.insert(1, "\"x\":" + std::string(static_cast<std::size_t>(levels - 1), '[') +
                       std::string(static_cast<std::size_t>(levels - 1), ']') + ",");
    return webhook(body, "pull_request", "d-" + std::to_string(levels));
  };
  EXPECT_EQ(handle(nested(32)).status, 202);
  const auto refused = handle(nested(33));
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, HasSubstr("over 32 levels"));
}

}  // namespace
}  // namespace crosscheck::relay
