#include "crosscheck/relay/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "../../github/test/scripted_client.h"
#include "crosscheck/relay/path_filter.h"
#include "crosscheck/store/faulty_store.h"
#include "support.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using test::webhook;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace json = base::json;

class RoutesTest : public test::RelayTest {
 protected:
  std::unique_ptr<Relay> relay(store::Store& store) {
    return std::make_unique<Relay>(
        store, clock_, *allowlist_, target_,
        RelayOptions{.intake = {.upstream = test::upstream(),
                                .label_prefix = "ciflow/crcr/",
                                .webhook_secrets = {std::string{test::k_secret}}},
                     .verify_token = test::plain_tokens(),
                     .dispatcher = {},
                     .allowlist_poll = 1ms,
                     .version = "1.2.3"});
  }
  static net::Request get(const std::string& path, const std::string& method = "GET") {
    net::Request request;
    request.method = method;
    request.path = path;
    return request;
  }
  test::FakeTarget target_;
};

TEST_F(RoutesTest, MethodsAndPaths) {
  const auto relay = this->relay(*store_);
  struct Case {
    const char* method;
    const char* path;
    int status;  // 0: not the relay's
  };
  for (const auto& [method, path, status] :
       {Case{"GET", "/github/webhook", 405}, Case{"PUT", "/github/callback", 405},
        Case{"DELETE", "/api/v1/results/x", 405}, Case{"POST", "/healthz", 405},
        Case{"GET", "/healthz", 200}, Case{"HEAD", "/healthz", 200}, Case{"GET", "/metrics", 200},
        Case{"POST", "/github/webhook/", 0}, Case{"POST", "/github", 0}, Case{"GET", "/", 0},
        Case{"POST", "/github/webhook", 200}, Case{"POST", "/github/callback", 401}}) {
    const auto response = relay->handle(get(path, method));
    ASSERT_EQ(response.has_value(), status != 0) << method << path;
    if (!response) continue;
    EXPECT_EQ(response->status, status) << method << path;
    if (status == 405) {
      EXPECT_TRUE(response->headers.get("Allow"));
      EXPECT_TRUE(test::answer_of(*response).contains("detail"));
    }
  }
}

TEST_F(RoutesTest, BodyLimits) {
  EXPECT_EQ(Relay::body_limit(get("/github/webhook")), std::size_t{25} << 20);
  EXPECT_EQ(Relay::body_limit(get("/github/callback")), std::size_t{4} << 20);
  EXPECT_EQ(Relay::body_limit(get("/api/v1/results/x")), std::size_t{32} << 20);
  EXPECT_EQ(Relay::body_limit(get("/other")), std::size_t{1} << 20);
}

TEST_F(RoutesTest, ReadyOnlyWhenAllOfItIs) {
  const auto relay = this->relay(*store_);
  EXPECT_EQ(relay->handle(get("/readyz"))->status, 503);
  relay->start();
  EXPECT_EQ(relay->handle(get("/readyz"))->status, 200);
  EXPECT_EQ(relay->handle(get("/readyz"))->body.find("error"), std::string::npos);
  relay->stop(1s);
  EXPECT_EQ(relay->handle(get("/readyz"))->status, 503);
}

TEST_F(RoutesTest, NotReadyWhenTheStoreCannotBeWritten) {
  store::FaultyStore faulty{*store_};
  const auto relay = this->relay(faulty);
  faulty.fail_at(1, base::Fault::read_only);
  const auto response = relay->handle(get("/readyz"));
  EXPECT_EQ(response->status, 503);
  EXPECT_THAT(response->body, HasSubstr(R"("reasons":["store: cannot be written")"));
}

TEST_F(RoutesTest, WhoeverAsksOftenWhetherItIsReadyDoesNotWriteOften) {
  store::FaultyStore counting{*store_};
  const auto relay = this->relay(counting);
  const auto calls_of_one = [&] {
    const auto before = counting.calls();
    std::ignore = relay->handle(get("/readyz"));
    return counting.calls() - before;
  };
  EXPECT_GT(calls_of_one(), 0);
  EXPECT_EQ(calls_of_one(), 0);
  clock_.advance(1s);
  EXPECT_GT(calls_of_one(), 0);
  clock_.advance(-1h);
  EXPECT_GT(calls_of_one(), 0);
}

TEST_F(RoutesTest, MetricsCountWhatWasAnswered) {
  const auto relay = this->relay(*store_);
  const auto body = json::serialize(test::pull_request("opened"));
  EXPECT_EQ(relay->handle(webhook(body))->status, 202);
  EXPECT_EQ(relay->handle(webhook(body))->status, 200);
  clock_.advance(5s);
  const auto text = relay->handle(get("/metrics"))->body;
  for (const char* line : {"crosscheck_build_info{version=\"1.2.3\"} 1\n",
                           "crosscheck_requests_total{kind=\"webhook\",status=\"202\"} 1\n",
                           "crosscheck_requests_total{kind=\"webhook\",status=\"200\"} 1\n",
                           "crosscheck_dispatches{state=\"pending\"} 4\n",
                           "crosscheck_github_calls{state=\"dead\"} 0\n",
                           "crosscheck_outbox_size 4\n", "crosscheck_outbox_age_seconds 5.000\n",
                           "crosscheck_allowlist_refused 0\n", "crosscheck_allowlist_backends 4\n",
                           "crosscheck_allowlist_checked_time_seconds 1700000000\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

class AllowlistFileTest : public test::RelayTest {
 protected:
  void write(const std::string& text) {
    EXPECT_TRUE(base::write_file_atomically(folder_ / "allowlist.yaml", text));
  }
  std::vector<std::string> backends() {
    return rows("SELECT repo, level, listed, since FROM backends ORDER BY repo", 4);
  }
};

TEST_F(AllowlistFileTest, AChangeIsTakenOver) {
  write("L2: [org/one, org/new]\n");
  clock_.advance(10s);
  ASSERT_TRUE(allowlist_->poll());
  EXPECT_EQ(allowlist_->current()->backends().size(), 2U);
  EXPECT_THAT(backends(),
              ElementsAre("org/four|L4|0|1700000010000000", "org/new|L2|1|1700000010000000",
                          "org/one|L2|1|1700000010000000", "org/three|L3|0|1700000010000000",
                          "org/two|L2|0|1700000010000000"));
  EXPECT_EQ(count("allowlist_versions"), 2);
  clock_.advance(10s);
  ASSERT_TRUE(allowlist_->poll());
  write("L2: [org/one, org/new]  # a word\n");
  ASSERT_TRUE(allowlist_->poll());
  EXPECT_EQ(backends()[2], "org/one|L2|1|1700000010000000");
}

TEST_F(AllowlistFileTest, TheLastGoodOneStaysInForce) {
  write("L2: [org/two\n");
  for (int i = 0; i < 3; ++i) {
    const auto polled = allowlist_->poll();
    ASSERT_FALSE(polled);
    EXPECT_THAT(polled.error().message, HasSubstr("allowlist.yaml:"));
  }
  EXPECT_EQ(allowlist_->current()->backends().size(), 4U);
  EXPECT_THAT(allowlist_->status().error, HasSubstr("not YAML"));
  EXPECT_EQ(count("backends WHERE listed = 1"), 4);
  EXPECT_EQ(count("allowlist_versions WHERE error IS NOT NULL"), 1);
  std::filesystem::remove(folder_ / "allowlist.yaml");
  EXPECT_FALSE(allowlist_->poll());
  EXPECT_EQ(allowlist_->current()->backends().size(), 4U);
  write("L1: [org/one]\n");
  EXPECT_TRUE(allowlist_->poll());
  EXPECT_EQ(allowlist_->status().error, "");
  EXPECT_EQ(allowlist_->current()->backends().size(), 1U);
}

TEST_F(AllowlistFileTest, AFileThatLostItsContentIsNotTheWishToListNobody) {
  for (const char* text : {"", "\n", " \r\n\t"}) {
    write(text);
    const auto polled = allowlist_->poll();
    ASSERT_FALSE(polled) << '"' << text << '"';
    EXPECT_THAT(polled.error().message, HasSubstr("there is nothing in it any more"));
    EXPECT_EQ(allowlist_->current()->backends().size(), 4U);
    EXPECT_EQ(count("backends WHERE listed = 1"), 4);
  }
  for (const char* text : {"# nobody\n", "L1: []\n", ""}) {
    write(text);
    EXPECT_TRUE(allowlist_->poll()) << text;
    EXPECT_TRUE(allowlist_->current()->backends().empty()) << text;
  }
}

TEST_F(AllowlistFileTest, ABrokenFirstOneIsAnError) {
  write("L9: []\n");
  AllowlistFile fresh{list_source(), *store_, clock_};
  const auto loaded = fresh.load();
  ASSERT_FALSE(loaded);
  EXPECT_EQ(base::exit_code(loaded.error().fault), base::ExitCode::bad_input);
  AllowlistFile missing{file_source(folder_ / "missing.yaml", "the allowlist", 100), *store_,
                        clock_};
  EXPECT_EQ(base::exit_code(missing.load().error().fault), base::ExitCode::bad_input);
}

TEST_F(AllowlistFileTest, AFailingStoreIsTriedAgain) {
  for (std::int64_t n = 1;; ++n) {
    store::FaultyStore faulty{*store_};
    write("L2: [org/one]  # " + std::to_string(n) + "\n");
    AllowlistFile file{list_source(), faulty, clock_};
    faulty.fail_at(n);
    const auto loaded = file.load();
    if (faulty.calls() < n) break;
    EXPECT_EQ(file.status().loaded, loaded.has_value()) << n;
    EXPECT_TRUE(file.poll()) << n;
    EXPECT_EQ(file.current()->backends().size(), 1U);
  }
}

// What another server would answer.
class RemoteList final : public TextSource {
 public:
  using Answer = base::Result<std::optional<std::string>>;
  explicit RemoteList(const Answer& answer) : answer_{answer} {}
  const std::string& name() const override { return name_; }
  bool is_remote() const override { return true; }
  Answer read() override { return answer_; }

 private:
  const std::string name_ = "https://github.com/o/r/blob/main/list.yaml";
  const Answer& answer_;
};

TEST_F(AllowlistFileTest, OneOnAnotherServerOutlastsThatServer) {
  RemoteList::Answer answer = base::fail(base::Fault::unavailable, "list.yaml: no answer");
  const auto make = [&] {
    return AllowlistFile{std::make_unique<RemoteList>(answer), *store_, clock_};
  };
  EXPECT_FALSE(make().recall()) << "nothing is known yet";
  EXPECT_FALSE(make().load());
  answer = "L2: [org/one, org/two]\n";
  ASSERT_TRUE(make().load());
  EXPECT_EQ(count("allowlist_errors"), 0);

  for (const RemoteList::Answer& bad :
       {RemoteList::Answer{base::fail(base::Fault::unavailable, "list.yaml: no answer")},
        RemoteList::Answer{"L2: [org/one\n"}, RemoteList::Answer{std::string(100, '\xff')}}) {
    clock_.advance(10s);
    answer = bad;
    auto list = make();
    EXPECT_FALSE(list.is_loaded());
    ASSERT_TRUE(list.recall());
    EXPECT_TRUE(list.is_loaded());
    EXPECT_EQ(list.current()->backends().size(), 2U);
    EXPECT_FALSE(list.poll());
    EXPECT_EQ(list.current()->backends().size(), 2U);
    const auto status = list.status();
    EXPECT_TRUE(status.loaded);
    EXPECT_THAT(rows("SELECT MAX(loaded_at) FROM allowlist_versions WHERE error IS NULL", 1),
                ElementsAre(std::to_string(base::to_micros(status.loaded_at))));
    EXPECT_EQ(status.checked_at, std::nullopt);
    EXPECT_THAT(status.error, HasSubstr("list.yaml"));
    EXPECT_THAT(rows("SELECT error FROM allowlist_errors", 1),
                ElementsAre(base::to_utf8(status.error)));
    // The repair is taken over, and is no new version where it is the old text.
    const auto versions = count("allowlist_versions WHERE error IS NULL");
    answer = "L2: [org/one, org/two]\n";
    ASSERT_TRUE(list.poll());
    EXPECT_EQ(list.status().error, "");
    EXPECT_EQ(list.status().checked_at, clock_.now());
    EXPECT_EQ(count("allowlist_errors"), 0);
    EXPECT_LE(count("allowlist_versions WHERE error IS NULL"), versions + 1);
    answer = std::nullopt;
    ASSERT_TRUE(list.poll());
    EXPECT_EQ(list.current()->backends().size(), 2U);
  }
}

class PathFilterTest : public test::RelayTest {
 protected:
  Answer send(PathFilter& filter, const std::string& to, const std::string& delivery = "d-1") {
    Answer result;
    filter.send({.repo = test::repo(to),
                 .event_type = "pull_request",
                 .delivery_id = delivery,
                 .pr_number = 7},
                [&](Answer answer) { result = std::move(answer); });
    return result;
  }
  test::FakeTarget target_;
};

TEST_F(PathFilterTest, AsksOnceForADeliveryAndLeavesOutWhoIsNotConcerned) {
  list(
      "L2:\n  - org/aten: {paths: ['aten/**']}\n  - org/docs: {paths: ['docs/**']}\n  - org/all\n");
  int asked = 0;
  PathFilter filter{target_, *allowlist_, [&](std::int64_t pr, const GotChangedFiles& done) {
                      EXPECT_EQ(pr, 7);
                      ++asked;
                      done(std::make_shared<const ChangedFiles>(ChangedFiles{"aten/x.cpp"}));
                    }};
  EXPECT_EQ(send(filter, "org/aten").kind, Answer::Kind::sent);
  EXPECT_EQ(send(filter, "org/docs").kind, Answer::Kind::unwanted);
  EXPECT_EQ(send(filter, "org/all").kind, Answer::Kind::sent);
  EXPECT_EQ(asked, 1);
  EXPECT_THAT(target_.sent_to(), ElementsAre("org/aten", "org/all"));
}

TEST_F(PathFilterTest, WhatCannotBeFoundOutIsSent) {
  list("L2:\n  - org/aten: {paths: ['aten/**']}\n");
  PathFilter filter{target_, *allowlist_, [](std::int64_t, const GotChangedFiles& done) {
                      done(base::fail(base::Fault::unavailable, "GitHub is down"));
                    }};
  EXPECT_EQ(send(filter, "org/aten").kind, Answer::Kind::sent);
}

TEST_F(PathFilterTest, WhoComesMeanwhileWaitsForTheSameList) {
  list("L2:\n  - org/aten: {paths: ['aten/**']}\n  - org/docs: {paths: ['docs/**']}\n");
  std::vector<GotChangedFiles> asked;
  PathFilter filter{target_, *allowlist_,
                    [&](std::int64_t, const GotChangedFiles& done) { asked.push_back(done); }};
  std::vector<Answer> answers;
  const auto begin = [&](const std::string& to) {
    filter.send({.repo = test::repo(to),
                 .event_type = "pull_request",
                 .delivery_id = "d-1",
                 .pr_number = 7},
                [&](Answer answer) { answers.push_back(std::move(answer)); });
  };
  begin("org/aten");
  begin("org/docs");
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_TRUE(answers.empty());
  asked[0](base::fail(base::Fault::unavailable, "GitHub is down"));
  EXPECT_EQ(answers.size(), 2U);
  EXPECT_THAT(target_.sent_to(), ElementsAre("org/aten", "org/docs"));
  // A failure is not kept.
  begin("org/docs");
  ASSERT_EQ(asked.size(), 2U);
  asked[1](std::make_shared<const ChangedFiles>(ChangedFiles{"aten/x.cpp"}));
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[2].kind, Answer::Kind::unwanted);
}

class ListChangedFilesTest : public ::testing::Test {
 protected:
  // The App's calls as GitHub answers them, the pages from `pages`.
  net::ClientResult answer(const net::ClientRequest& request) {
    const std::string& url = request.url;
    if (url.ends_with("/installation")) return net::Response{200, {}, R"({"id":42})"};
    if (url.ends_with("/access_tokens"))
      return net::Response{201, {}, R"({"token":"ghs_t","expires_at":"2033-01-01T00:00:00Z"})"};
    EXPECT_EQ(request.headers.get("Authorization"), "Bearer ghs_t");
    asked.push_back(url);
    const auto page = std::stoul(url.substr(url.rfind('=') + 1));
    if (page > pages.size()) return net::Response{500, {}, ""};
    return net::Response{200, {}, pages[page - 1]};
  }
  base::Result<std::shared_ptr<const ChangedFiles>> get(std::chrono::milliseconds longest = 30s) {
    base::Result<std::shared_ptr<const ChangedFiles>> got = nullptr;
    list_changed_files(app_, test::upstream(), longest)(7, [&](auto files) { got = files; });
    return got;
  }
  static std::string page(int entries) {
    json::array list;
    for (int i = 0; i < entries; ++i) list.push_back(json::object{{"filename", "f"}});
    return json::serialize(list);
  }

  std::vector<std::string> pages;
  std::vector<std::string> asked;
  base::ManualClock clock_{base::Time{1'700'000'000s}};
  github::ScriptedClient client_{[this](const auto& request) { return answer(request); }};
  github::App app_{{.app_id = "1", .api_url = "https://api.test"},
                   github::SigningKey::generate(),
                   client_,
                   clock_};
};

TEST_F(ListChangedFilesTest, ReadsAllPagesAsTheApp) {
  pages = {page(100), R"([{"filename":"a/b","previous_filename":"c"},{"filename":1},{}])"};
  const auto files = get();
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ((*files)->size(), 102U);
  EXPECT_EQ((*files)->back(), "c");
  EXPECT_THAT(
      asked,
      ElementsAre("https://api.test/repos/pytorch/pytorch/pulls/7/files?per_page=100&page=1",
                  "https://api.test/repos/pytorch/pytorch/pulls/7/files?per_page=100&page=2"));
}

TEST_F(ListChangedFilesTest, SaysWhyItCouldNot) {
  pages = {page(100)};  // and the second fails
  EXPECT_THAT(get().error().message, HasSubstr("changed files: the request was answered 500"));
  pages = {"{}"};
  EXPECT_THAT(get().error().message, HasSubstr("not a list"));
  pages = {"no JSON"};
  EXPECT_FALSE(get());
  pages.assign(31, page(100));
  EXPECT_EQ(get().error().fault, base::Fault::too_large);
}

TEST_F(ListChangedFilesTest, EndsInTime) {
  pages = {page(1)};
  const auto late = get(0ms);
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("too long"));
  EXPECT_TRUE(client_.requests().empty());
}

}  // namespace
}  // namespace crosscheck::relay
