#include "crosscheck/relay/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support.h"

namespace crosscheck::relay {
namespace {

using test::pull_request;
using test::push;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Route = Routed::Route;

Route routed(std::string_view type, const base::json::object& body) {
  return route(type, body, test::upstream(), "ciflow/crcr/").route;
}

TEST(Route, PullRequestsByAction) {
  for (const std::string_view action : {"opened", "reopened", "synchronize", "closed"})
    EXPECT_EQ(routed("pull_request", pull_request(action)), Route::dispatch) << action;
  for (const std::string_view action :
       {"edited", "assigned", "ready_for_review", "converted_to_draft", "review_requested",
        "unlabeled", "enqueued", "", "Opened"})
    EXPECT_EQ(routed("pull_request", pull_request(action)), Route::ignore) << action;
}

TEST(Route, Labels) {
  auto body = pull_request("labeled");
  EXPECT_EQ(routed("pull_request", body), Route::ignore);
  body["label"] = {{"name", "ciflow/crcr/npu"}};
  EXPECT_EQ(routed("pull_request", body), Route::label);
  body["label"] = {{"name", "ciflow/trunk"}};
  EXPECT_EQ(routed("pull_request", body), Route::ignore);
  body["label"] = "ciflow/crcr/npu";
  EXPECT_EQ(routed("pull_request", body), Route::ignore);
}

TEST(Route, PushesButDeletions) {
  EXPECT_EQ(routed("push", push("refs/heads/main")), Route::dispatch);
  EXPECT_EQ(routed("push", push("refs/tags/ciflow/trunk/7")), Route::dispatch);
  auto body = push("refs/heads/x");
  body["deleted"] = true;
  EXPECT_EQ(routed("push", body), Route::ignore);
  body = push("refs/heads/x");
  body["after"] = std::string(40, '0');
  EXPECT_EQ(routed("push", body), Route::ignore);
}

TEST(ReadEvent, TheTimeThatUpstreamGivesIt) {
  using namespace std::chrono_literals;
  auto pr = pull_request("opened");
  EXPECT_EQ(read_event("pull_request", pr)->said_at, std::nullopt);
  pr["pull_request"].as_object()["updated_at"] = "2026-11-30T20:00:01Z";
  EXPECT_EQ(read_event("pull_request", pr)->said_at, base::Time{1'796'068'801s});
  auto pushed = push("refs/heads/main");
  EXPECT_EQ(read_event("push", pushed)->said_at, std::nullopt);
  for (const auto& [said, at] :
       {std::pair{base::json::value(1'796'068'801), std::optional{base::Time{1'796'068'801s}}},
        std::pair{base::json::value("2026-11-30T20:00:01Z"), std::optional<base::Time>{}},
        std::pair{base::json::value(INT64_MAX), std::optional<base::Time>{}},
        std::pair{base::json::value(-1), std::optional<base::Time>{}}}) {
    pushed["repository"].as_object()["pushed_at"] = said;
    EXPECT_EQ(read_event("push", pushed)->said_at, at) << said;
  }
}

TEST(Route, OtherRepositoriesAreIgnored) {
  auto body = pull_request("opened");
  for (const base::json::value& repository :
       {base::json::value{}, base::json::value(base::json::object{{"full_name", "fork/pytorch"}}),
        base::json::value("pytorch/pytorch"),
        base::json::value(base::json::object{{"full_name", 7}})}) {
    body["repository"] = repository;
    EXPECT_EQ(routed("pull_request", body), Route::ignore);
  }
  body.erase("repository");
  EXPECT_EQ(routed("pull_request", body), Route::ignore);
}

TEST(Route, Reruns) {
  base::json::object body{{"action", "rerequested"},
                          {"repository", {{"full_name", "pytorch/pytorch"}}}};
  EXPECT_EQ(routed("check_run", body), Route::rerun);
  EXPECT_EQ(routed("check_suite", body), Route::rerun);
  body["action"] = "completed";
  EXPECT_EQ(routed("check_run", body), Route::ignore);
}

TEST(ReadEvent, PullRequest) {
  const auto event = read_event("pull_request", pull_request("synchronize", 42));
  ASSERT_TRUE(event) << event.error().message;
  EXPECT_EQ(event->action, "synchronize");
  EXPECT_EQ(event->pr_number, 42);
  EXPECT_EQ(event->head_sha, test::k_sha);
  EXPECT_EQ(event->base_ref, "main");
  EXPECT_EQ(event->sender, "somebody");
  EXPECT_THAT(event->labels, ElementsAre("ciflow/crcr/npu"));
  EXPECT_TRUE(event->supersedes());
}

TEST(ReadEvent, AMissingFieldIsNamed) {
  for (const auto& [key, inner] : {std::pair{"number", ""}, {"head", "sha"}, {"base", "ref"}}) {
    auto body = pull_request("opened");
    auto& pr = body["pull_request"].as_object();
    if (*inner == '\0')
      pr.erase(key);
    else
      pr[key].as_object().erase(inner);
    const auto event = read_event("pull_request", body);
    ASSERT_FALSE(event) << key;
    EXPECT_EQ(event.error().fault, base::Fault::invalid_input);
    EXPECT_THAT(event.error().message, HasSubstr(std::string{"pull_request."} + key));
  }
}

TEST(ReadEvent, ATagOfCiflowBelongsToItsPullRequest) {
  struct Case {
    std::string_view ref;
    std::optional<std::int64_t> pr;
  };
  for (const auto& [ref, pr] :
       {Case{"refs/tags/ciflow/trunk/123", 123}, Case{"refs/tags/ciflow/a/b/9", 9},
        Case{"refs/tags/ciflow/123", {}}, Case{"refs/tags/ciflow/trunk/x", {}},
        Case{"refs/tags/ciflow/trunk/-1", {}}, Case{"refs/tags/v1/2", {}},
        Case{"refs/heads/ciflow/trunk/123", {}}}) {
    const auto event = read_event("push", push(ref));
    ASSERT_TRUE(event) << ref;
    EXPECT_EQ(event->pr_number, pr) << ref;
    EXPECT_EQ(event->head_sha, std::string(40, '4')) << ref;
  }
}

TEST(ReadEvent, TextThatNoStoreTakesIsReplaced) {
  auto body = pull_request("opened");
  body["pull_request"].as_object()["title"] = std::string_view{"a\0b", 3};
  const auto event = read_event("pull_request", body);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->pr_title->find('\0'), std::string::npos);
}

TEST(Wants, ParticipationAndFilters) {
  Backend backend{.repo = test::repo("org/x")};
  const auto pr = read_event("pull_request", pull_request("opened")).value();
  const auto main = read_event("push", push("refs/heads/main")).value();
  const auto stack = read_event("push", push("refs/heads/gh/me/1/head")).value();
  const auto tag = read_event("push", push("refs/tags/ciflow/trunk/7")).value();
  EXPECT_TRUE(wants(backend, pr) && wants(backend, main) && wants(backend, stack) &&
              wants(backend, tag));

  backend.branches = Patterns{{"!gh/**"}};
  EXPECT_TRUE(wants(backend, pr) && wants(backend, main) && wants(backend, tag));
  EXPECT_FALSE(wants(backend, stack));
  backend.branches = Patterns{{"release/*"}};
  EXPECT_FALSE(wants(backend, pr) || wants(backend, main));

  backend.branches = {};
  backend.paths = Patterns{{"aten/**"}};
  EXPECT_FALSE(wants(backend, main));
  EXPECT_TRUE(wants(backend, pr));  // its files are looked up before sending
  auto unlisted = main;
  unlisted.changed_files.reset();
  EXPECT_TRUE(wants(backend, unlisted));
  backend.paths = Patterns{{"docs/**"}};
  EXPECT_TRUE(wants(backend, main));

  backend.pull_requests = false;
  EXPECT_FALSE(wants(backend, pr) || wants(backend, tag));
}

}  // namespace
}  // namespace crosscheck::relay
