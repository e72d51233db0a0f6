#include "crosscheck/github/payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <random>

#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"

namespace crosscheck::github {
namespace {

namespace json = base::json;
using ::testing::HasSubstr;

// What downstream workflows read of the payload.
constexpr std::string_view k_fields[] = {
    "action",
    "pull_request.number",
    "pull_request.head.sha",
    "pull_request.head.ref",
    "pull_request.head.repo.full_name",
    "pull_request.base.ref",
    "pull_request.base.sha",
    "pull_request.merged",
    "pull_request.merge_commit_sha",
    "pull_request.user.login",
    "pull_request.title",
    "repository.full_name",
    "sender.login",
    "ref",
    "before",
    "after",
};

json::object sample() {
  return base::parse_json(
             R"({"action":"opened","number":7,"ref":"refs/heads/main","before":"b0","after":"a1",
    "pull_request":{"number":7,"title":"Título 日本","body":"text","merged":false,"merge_commit_sha":null,"url":"https://x",
      "html_url":"https://h","user":{"login":"someone","avatar_url":"https://a"},"_links":{"self":{"href":"https://x"}},
      "head":{"ref":"topic","sha":"h1","repo":{"full_name":"fork/r","id":1,"keys_url":"https://x"}},
      "base":{"ref":"main","sha":"b1","repo":{"full_name":"o/r","id":2}},
      "labels":[{"name":"ciflow/crcr/npu","color":"fff","url":"https://x"},{"name":"bug","description":null}]},
    "repository":{"full_name":"o/r","teams_url":"https://x"},"sender":{"login":"who"},
    "commits":[{"message":"m","added":["a"]}],"head_commit":{"id":"c","added":["a"],"removed":[],"modified":[]}})",
             "sample")
      .value()
      .as_object();
}

json::value made(const json::value& webhook, ClientPayload* whole = nullptr) {
  const auto payload = make_client_payload("pull_request", "d-1", json::serialize(webhook));
  EXPECT_TRUE(payload) << payload.error().message;
  if (!payload) return {};
  EXPECT_LE(payload->text.size(), k_client_payload_limit);
  if (whole != nullptr) *whole = *payload;
  const auto parsed = base::parse_json(payload->text, "client payload");
  EXPECT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(base::require_string(*parsed, "event_type"), "pull_request");
  EXPECT_EQ(base::require_string(*parsed, "delivery_id"), "d-1");
  EXPECT_EQ(parsed->as_object().contains("truncated"), payload->truncated);
  EXPECT_EQ(parsed->as_object().size(), payload->truncated ? 4U : 3U);
  return *parsed;
}

void expect_fields_kept(const json::value& webhook, const json::value& client_payload) {
  for (const std::string_view field : k_fields) {
    const json::value* before = base::find(webhook, field);
    const json::value* after = base::find(client_payload, "payload." + std::string{field});
    ASSERT_EQ(before == nullptr, after == nullptr) << field;
    if (before != nullptr) {
      EXPECT_EQ(*before, *after) << field;
    }
  }
  const auto names = [](const json::value* labels) {
    std::vector<std::string> list;
    if (labels != nullptr) {
      for (const json::value& label : labels->as_array())
        list.emplace_back(label.at("name").as_string());
    }
    return list;
  };
  EXPECT_EQ(names(base::find(client_payload, "payload.pull_request.labels")),
            names(base::find(webhook, "pull_request.labels")));
}

TEST(ClientPayload, WhatFitsGoesWholeAndAsItCame) {
  const std::string body = "{ \"n\": 1.50,\n\"a\":\"\\u00e9\" }";
  const auto payload = make_client_payload("push", "id \"x\"", body);
  ASSERT_TRUE(payload);
  EXPECT_FALSE(payload->truncated);
  EXPECT_EQ(payload->text,
            R"({"event_type":"push","delivery_id":"id \"x\"","payload":)" + body + "}");
}

TEST(ClientPayload, SpacesAloneDoNotTruncate) {
  const std::string body = "{\"a\":" + std::string(100'000, ' ') + "1}";
  const auto payload = make_client_payload("push", "d", body);
  ASSERT_TRUE(payload);
  EXPECT_FALSE(payload->truncated);
  EXPECT_THAT(payload->text, HasSubstr(R"("payload":{"a":1})"));
}

TEST(ClientPayload, TheLimitIsExact) {
  const std::size_t front = make_client_payload("push", "d", R"({"a":""})").value().text.size();
  const auto sized = [&](std::size_t n) {
    return make_client_payload("push", "d", R"({"a":")" + std::string(n, 'x') + "\"}").value();
  };
  EXPECT_EQ(sized(k_client_payload_limit - front).text.size(), k_client_payload_limit);
  EXPECT_FALSE(sized(k_client_payload_limit - front).truncated);
  EXPECT_TRUE(sized(k_client_payload_limit - front + 1).truncated);
}

TEST(ClientPayload, ALongDescriptionIsTheFirstToGo) {
  json::object webhook = sample();
  webhook["pull_request"].as_object()["body"] = std::string(65'536, 'x');
  ClientPayload whole;
  const json::value payload = made(webhook, &whole);
  EXPECT_TRUE(whole.truncated);
  EXPECT_EQ(payload.at("truncated"), true);
  expect_fields_kept(webhook, payload);
  webhook["pull_request"].as_object().erase("body");
  EXPECT_EQ(payload.at("payload"), webhook);  // and nothing else
}

TEST(ClientPayload, ThenAddressesThenCommitsThenTheRest) {
  json::object webhook = sample();
  webhook["repository"].as_object()["blobs_url"] = std::string(70'000, 'x');
  json::value payload = made(webhook);
  EXPECT_FALSE(payload.at("payload").at("repository").as_object().contains("blobs_url"));
  EXPECT_FALSE(payload.at("payload").at("pull_request").as_object().contains("_links"));
  EXPECT_EQ(payload.at("payload").at("pull_request").at("html_url"), "https://h");
  EXPECT_TRUE(payload.at("payload").as_object().contains("commits"));
  expect_fields_kept(webhook, payload);

  webhook["commits"].as_array().emplace_back(std::string(70'000, 'x'));
  payload = made(webhook);
  EXPECT_FALSE(payload.at("payload").as_object().contains("commits"));
  EXPECT_EQ(payload.at("payload").at("head_commit").at("id"), "c");
  expect_fields_kept(webhook, payload);

  webhook["else"] = std::string(70'000, 'x');
  payload = made(webhook);
  EXPECT_FALSE(payload.at("payload").as_object().contains("else"));
  expect_fields_kept(webhook, payload);
}

TEST(ClientPayload, AForkThatIsGoneStaysNull) {
  json::object webhook = sample();
  webhook["pull_request"].as_object()["head"].as_object()["repo"] = nullptr;
  webhook["else"] = std::string(70'000, 'x');
  const json::value payload = made(webhook);
  EXPECT_TRUE(payload.at("payload").at("pull_request").at("head").at("repo").is_null());
  expect_fields_kept(webhook, payload);
}

// Junk of every size at every place, round the fields.
void spoil(json::value& value, std::mt19937_64& random, int depth) {
  if (auto* object = value.if_object()) {
    for (auto& [key, member] : *object) spoil(member, random, depth + 1);
    for (auto n = random() % 3; n > 0; --n) {
      std::string junk(std::size_t{1} << (random() % 16), '\0');
      for (char& c : junk) c = static_cast<char>(random() & 127);
      json::value nested(json::string{junk});
      for (auto deep = random() % 20; deep > 0; --deep) nested = json::array{std::move(nested)};
      (*object)["junk" + std::to_string(random() % 100) + (random() % 2 == 0 ? "_url" : "")] =
          std::move(nested);
    }
  } else if (auto* array = value.if_array()) {
    for (json::value& element : *array) spoil(element, random, depth + 1);
  }
}

TEST(ClientPayload, AnyPayloadFitsAndKeepsTheFields) {
  std::mt19937_64 random{5};
  int truncated = 0;
  for (int i = 0; i < 300; ++i) {
    json::value webhook = sample();
    spoil(webhook, random, 0);
    for (auto n = random() % 100; n > 0; --n) {
      webhook.at("pull_request")
          .at("labels")
          .as_array()
          .push_back(json::object{{"name", "label" + std::to_string(n)},
                                  {"description", std::string(random() % 200, 'd')}});
    }
    ClientPayload whole;
    const json::value payload = made(webhook, &whole);
    expect_fields_kept(webhook, payload);
    truncated += whole.truncated ? 1 : 0;
  }
  EXPECT_GT(truncated, 100);
  EXPECT_LT(truncated, 300);
}

TEST(ClientPayload, FitsEvenWhenTheFieldsThemselvesAreAbsurd) {
  const std::string controls(20'000, '\x01');  // six bytes each, when escaped
  json::object webhook = sample();
  webhook["pull_request"].as_object()["title"] = controls + "é";
  for (const char* name : {"ref", "before", "after", "action"}) webhook[name] = controls;
  for (const char* side : {"head", "base"}) {
    for (const char* name : {"ref", "sha"}) {
      webhook["pull_request"].as_object()[side].as_object()[name] = controls;
    }
  }
  json::array& labels = webhook["pull_request"].as_object()["labels"].as_array();
  for (int i = 0; i < 20'000; ++i) labels.push_back(json::object{{"name", controls.substr(0, 50)}});
  const json::value payload = made(webhook);
  EXPECT_EQ(payload.at("payload").at("pull_request").at("number"), 7);
  EXPECT_EQ(payload.at("payload").at("repository").at("full_name"), "o/r");
  EXPECT_GT(payload.at("payload").at("pull_request").at("labels").as_array().size(), 10U);
}

TEST(ClientPayload, CutsAtACharacter) {
  json::object webhook = sample();
  std::string title;
  for (int i = 0; i < 40'000; ++i) title += "日";
  webhook["pull_request"].as_object()["title"] = title;
  const std::string kept{made(webhook).at("payload").at("pull_request").at("title").as_string()};
  EXPECT_EQ(kept.size(), 1023U);
  EXPECT_TRUE(title.starts_with(kept));
}

TEST(ClientPayload, TakesTheLargestWebhook) {
  json::object webhook = sample();
  json::array& commits = webhook["commits"].as_array();
  while (commits.size() < 2048)
    commits.push_back(json::object{{"message", std::string(12'000, 'm')}});
  expect_fields_kept(webhook, made(webhook));
}

TEST(ClientPayload, FieldsOfOtherTypesAreNoReasonToFail) {
  for (const std::string_view text :
       {R"({"pull_request":5,"repository":[],"sender":"x"})",
        R"({"pull_request":{"labels":5,"head":7,"user":[]}})",
        R"({"pull_request":{"labels":[5,{},{"name":7},{"name":"ok"}]},"head_commit":1})"}) {
    json::object webhook = base::parse_json(text, "t").value().as_object();
    webhook["junk"] = std::string(70'000, 'x');
    (void)made(webhook);
  }
}

TEST(ClientPayload, RefusesWhatIsNoWebhook) {
  const auto fault = [](std::string_view type, std::string_view id, std::string_view body) {
    const auto payload = make_client_payload(type, id, body);
    return payload ? std::string{"none"} : std::string{base::to_string(payload.error().fault)};
  };
  EXPECT_EQ(fault("push", "d", ""), "invalid_input");
  EXPECT_EQ(fault("push", "d", "[]"), "invalid_input");
  EXPECT_EQ(fault("push", "d", "{\"a\":\"\xff\"}"), "invalid_input");
  EXPECT_EQ(fault("push", std::string(256, 'd'), "{}"), "none");
  EXPECT_EQ(fault("push", std::string(257, 'd'), "{}"), "invalid_input");
  EXPECT_EQ(fault("push", "\xff", "{}"), "invalid_input");
  EXPECT_EQ(fault(std::string(101, 'p'), "d", "{}"), "invalid_input");
}

TEST(ClientPayload, GitHubsOwnExamplesFitWhole) {
  const std::filesystem::path examples =
      std::filesystem::path{CROSSCHECK_SOURCE_DIR} /
      "node_modules/@octokit/webhooks-examples/api.github.com/index.json";
  if (!std::filesystem::exists(examples))
    GTEST_SKIP() << examples << " is not there: run scripts/setup";
  const json::value all = base::parse_json(base::read_file(examples).value(), "examples").value();
  int seen = 0;
  for (const json::value& event : all.as_array()) {
    const auto& name = event.at("name").as_string();
    if (name != "pull_request" && name != "push") continue;
    for (const json::value& example : event.at("examples").as_array()) {
      ClientPayload whole;
      expect_fields_kept(example, made(example, &whole));
      EXPECT_FALSE(whole.truncated);
      json::value longer = example;
      longer.as_object()["junk"] = std::string(70'000, 'x');
      expect_fields_kept(example, made(longer, &whole));
      EXPECT_TRUE(whole.truncated);
      ++seen;
    }
  }
  EXPECT_GT(seen, 10);
}

}  // namespace
}  // namespace crosscheck::github
