#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <thread>

#include "../../store/test/postgres_fixture.h"
#include "crosscheck/base/gzip.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/temporary_folder.h"
#include "crosscheck/hud/hud.h"
#include "crosscheck/store/faulty_store.h"
#include "crosscheck/store/upgrades.h"
#include "seed.h"

namespace crosscheck::hud::test {
namespace {

namespace json = base::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

net::Request get(const std::string& target) {
  net::Request request;
  request.method = "GET";
  const auto mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  return request;
}

// As a server decodes it.
net::Request get_url(const std::string& url) {
  auto request = get(url.substr(0, url.find('#')));
  request.path = net::percent_decode(request.path).value_or(request.path);
  return request;
}

class TempDb {
 public:
  TempDb() {
    auto opened = store::open((folder_ / "t.db").string());
    if (!opened) throw std::runtime_error(opened.error().message);
    store_ = std::move(*opened);
  }
  store::Store& operator*() { return *store_; }

 private:
  base::TemporaryFolder folder_;
  std::unique_ptr<store::Store> store_;
};

class Pages : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    db_ = new TempDb;
    seeded_ = new Seeded{seed_fleet(**db_)};
  }
  static void TearDownTestSuite() {
    delete seeded_;
    delete db_;
  }

  net::Response fetch(const net::Request& request) {
    auto response = hud_.handle(request);
    if (!response) throw std::runtime_error("not the HUD's: " + request.path);
    return *response;
  }
  std::string html(const std::string& target, int status = 200) {
    const auto response = fetch(get(target));
    EXPECT_EQ(response.status, status) << target;
    return response.body;
  }
  json::value twin(const std::string& target, int status = 200) {
    const auto response = fetch(get(target));
    EXPECT_EQ(response.status, status) << target;
    auto value = base::parse_json(response.body, target);
    if (!value) throw std::runtime_error(value.error().message);
    return *value;
  }
  static std::int64_t number(const json::value& value, std::string_view path) {
    return base::require_int(value, path).value();
  }
  static std::string text(const json::value& value, std::string_view path) {
    return base::require_string(value, path).value();
  }

  static inline TempDb* db_ = nullptr;
  static inline Seeded* seeded_ = nullptr;
  base::ManualClock clock_{k_now};
  Hud hud_{**db_, {.clock = clock_, .upstream_repo = "pytorch/pytorch", .version = "0.1.0"}};
};

std::map<std::string, std::int64_t> counts_in(const std::string& html) {
  static const std::regex k_count{R"re(id="count-([a-z_]+)" data-count="(\d+)">(\d+))re"};
  std::map<std::string, std::int64_t> counts;
  for (auto it = std::sregex_iterator(html.begin(), html.end(), k_count);
       it != std::sregex_iterator{}; ++it) {
    EXPECT_EQ((*it)[2], (*it)[3]);
    counts[(*it)[1]] = std::stoll((*it)[2]);
  }
  return counts;
}

// The relay refuses to replay it by the same condition.
TEST(DeadLetters, TheOlderOfTwoEventsIsSupersededWhicheverArrivedFirst) {
  for (const bool is_late : {false, true}) {
    TempDb db;
    Seed seed{*db};
    for (const bool is_newer : {is_late, !is_late}) {
      const std::string name = is_newer ? "newer" : "older";
      const auto id = seed.delivery({.delivery_id = name,
                                     .pr_number = 7,
                                     .head_sha = name,
                                     .said_at = k_now - (is_newer ? 1h : 2h)});
      seed.dispatch(id, "acme/refdev", "L2", "dead", k_now);
    }
    const base::ManualClock clock{k_now};
    Hud hud{*db, {.clock = clock, .upstream_repo = "pytorch/pytorch", .version = "0.1.0"}};
    const auto ops = base::parse_json(hud.handle(get("/ops.json"))->body, "ops");
    ASSERT_TRUE(ops);
    const auto& letters = base::find(*ops, "dead_letters")->as_array();
    ASSERT_EQ(letters.size(), 2U);
    for (const auto& letter : letters)
      EXPECT_EQ(base::require_string(letter, "not_replayable") == "superseded",
                base::require_string(letter, "delivery_id") == "older")
          << letter;
  }
}

TEST_F(Pages, AJobsCountsAreThoseOfTheRunItUploaded) {
  const auto path = "/job/" + std::to_string(seeded_->failed_job);
  const auto expected = seeded_->failed_run.counts();
  const auto on_page = counts_in(html(path));
  const auto value = twin(path + ".json");
  ASSERT_EQ(on_page.size(), base::k_outcome_count + 4);
  EXPECT_EQ(expected.flaky(), 1);
  EXPECT_EQ(on_page.at("flaky"), 1);
  for (std::size_t i = 0; i < base::k_outcome_count; ++i) {
    const auto outcome = static_cast<base::Outcome>(i);
    const std::string name{to_string(outcome)};
    EXPECT_EQ(on_page.at(name), expected[outcome]) << name;
    EXPECT_EQ(number(value, "run.counts." + name), expected[outcome]) << name;
  }
  EXPECT_EQ(on_page.at("total"), expected.total());
  EXPECT_EQ(on_page.at("failures"), expected.failures());
  EXPECT_EQ(number(value, "run.counts.total"), expected.total());
  EXPECT_EQ(number(value, "run.counts.failures"), expected.failures());
  EXPECT_GT(expected.failures(), 0);
}

TEST_F(Pages, AJobShowsWhatOfItIsOnItsPullRequest) {
  const auto path = "/job/" + std::to_string(seeded_->failed_job);
  EXPECT_THAT(html(path), Not(HasSubstr("<dt>Check runs</dt>")));
  const auto call = [&](const std::string& says, const std::string& payload,
                        const std::string& state, const std::optional<std::string>& error) {
    ASSERT_TRUE((**db_).write([&](store::Tx& tx) -> base::Result<void> {
      auto added = tx.execute(
          "INSERT INTO github_calls (kind, delivery, repo_key, repo, subject, says, order_key, "
          "job, payload, state, not_before, last_error, created_at) SELECT 'create_check_run', "
          "delivery, repo_key, repo, 'job', $1, 'o', id, $2, $3, 0, $4, $5 FROM jobs WHERE id = $6",
          {says, payload, state, error, k_now, seeded_->failed_job});
      if (!added) return tl::unexpected(added.error());
      return {};
    }));
  };
  call("begun", R"({"status":"in_progress"})", "sent", std::nullopt);
  call("ended", R"({"status":"completed","conclusion":"failure"})", "dead", "403: <b>no</b>");
  const auto page = html(path);
  EXPECT_THAT(page, HasSubstr("in_progress: sent"));
  EXPECT_THAT(page, HasSubstr("failure: dead"));
  EXPECT_THAT(page, HasSubstr("403: &lt;b&gt;no&lt;/b&gt;"));
  const auto value = twin(path + ".json");
  const auto& checks = base::find(value, "check_runs")->as_array();
  ASSERT_EQ(checks.size(), 2U);
  EXPECT_EQ(checks[1].at("status").as_string(), "failure");
  EXPECT_EQ(checks[1].at("reason").as_string(), "403: <b>no</b>");
  // The seed is the other tests' too.
  ASSERT_TRUE((**db_).write([](store::Tx& tx) -> base::Result<void> {
    auto removed = tx.execute("DELETE FROM github_calls");
    if (!removed) return tl::unexpected(removed.error());
    return {};
  }));
}

TEST_F(Pages, AJobShowsItsFailedTestsWithTheirErrors) {
  const auto page = html("/job/" + std::to_string(seeded_->failed_job));
  EXPECT_THAT(
      page,
      HasSubstr(
          "The operator &apos;aten::linalg_cholesky_ex.L&apos; is not currently implemented"));
  EXPECT_THAT(page, HasSubstr("test_forward_softmax_refdev_float16"));
  EXPECT_THAT(page, HasSubstr("greatest absolute difference <b>0.0341797</b> (tolerance 1e-05)"));
  EXPECT_THAT(page, HasSubstr("Traceback (most recent call last)"));
  EXPECT_THAT(page, HasSubstr("--select &apos;quick and not slow&apos;"));
  EXPECT_THAT(page, HasSubstr("Downstream’s word"));
  EXPECT_THAT(page, HasSubstr("blocks the merge"));
  EXPECT_THAT(page, Not(HasSubstr("exit code")));
  EXPECT_THAT(page, Not(HasSubstr("test_forward_matmul_refdev_float32")));
}

TEST_F(Pages, TestsAreFilteredAndPaged) {
  const auto path = "/job/" + std::to_string(seeded_->failed_job) + ".json";
  const auto nodes = [&](const std::string& query) {
    std::vector<std::string> result;
    const auto value = twin(path + query);
    for (const auto& test : value.at("tests").as_array()) result.push_back(text(test, "node_id"));
    return result;
  };
  const auto counts = seeded_->failed_run.counts();
  EXPECT_EQ(static_cast<std::int64_t>(nodes("").size()), counts.failures());
  EXPECT_EQ(static_cast<std::int64_t>(nodes("?outcome=crashed").size()), 1);
  EXPECT_EQ(static_cast<std::int64_t>(nodes("?outcome=skipped").size()),
            counts[base::Outcome::skipped]);
  EXPECT_THAT(nodes("?outcome=flaky"),
              ElementsAre("test_ops.py::TestOpsPRIVATEUSE1::test_forward_dropout_refdev_float32"));
  // It is none of those that passed at once.
  EXPECT_EQ(static_cast<std::int64_t>(nodes("?outcome=passed").size() +
                                      nodes("?outcome=passed&page=2").size()),
            counts[base::Outcome::passed]);
  EXPECT_EQ(nodes("?outcome=all&q=SoftMax").size(), 1U);
  EXPECT_EQ(nodes("?outcome=all&q=%25").size(), 0U);  // not a wildcard
  EXPECT_EQ(nodes("?outcome=all&q=t_st_forward").size(), 0U);
  std::set<std::string> all;
  for (int page = 1; page <= 2; ++page) {
    for (const auto& node : nodes("?outcome=all&page=" + std::to_string(page)))
      EXPECT_TRUE(all.insert(node).second);
  }
  EXPECT_EQ(static_cast<std::int64_t>(all.size()), counts.total());
  EXPECT_TRUE(nodes("?outcome=all&page=3").empty());
}

TEST_F(Pages, PassRateIsTheSameOnEveryPage) {
  const auto fleet = twin("/index.json");
  const auto fleet_html = html("/");
  int compared = 0;
  for (const auto& backend : fleet.at("backends").as_array()) {
    const auto repo = text(backend, "backend");
    const auto grid = twin("/b/" + repo + ".json");
    EXPECT_TRUE(backend.at("pass_rate") == grid.at("summary").at("pass_rate")) << repo;
    EXPECT_TRUE(backend.at("queue") == grid.at("summary").at("queue")) << repo;
    if (number(backend, "pass_rate.counted") == 0) continue;
    const auto fraction = fmt::format("{}/{}", number(backend, "pass_rate.passed"),
                                      number(backend, "pass_rate.counted"));
    const auto percentage = text(backend, "pass_rate.percent") + " %";
    EXPECT_THAT(fleet_html, HasSubstr("<small>" + fraction + "</small>"));
    EXPECT_THAT(html("/b/" + repo), HasSubstr(percentage + " <small>" + fraction + "</small>"));
    ++compared;
  }
  EXPECT_EQ(compared, 4);
}

TEST_F(Pages, AChangeHasItsVerdictFirst) {
  const auto path = "/pr/" + std::to_string(seeded_->pr);
  const std::string sentence = "1 of 3 backends failed and blocks the merge; 2 still pending.";
  EXPECT_EQ(text(twin(path + ".json"), "sentence"), sentence);
  const auto page = html(path);
  EXPECT_THAT(page, HasSubstr(sentence));
  EXPECT_LT(page.find(sentence), page.find("<table"));
  EXPECT_THAT(page, HasSubstr("unclassified"));
  const auto commit = twin("/commit/" + seeded_->head_sha + ".json");
  EXPECT_EQ(text(commit, "sentence"), sentence);
  EXPECT_TRUE(commit == twin("/commit/" + seeded_->head_sha.substr(0, 9) + ".json"));
}

TEST_F(Pages, DeadAndPendingDispatchesAreVisible) {
  const auto page = html("/b/intel/torch-xpu-ops");
  EXPECT_THAT(page, HasSubstr("in the outbox"));
  EXPECT_THAT(page, HasSubstr("is the App installed there?"));
  EXPECT_EQ(number(twin("/b/intel/torch-xpu-ops.json?status=dead"), "grid.commits"), 1);
  EXPECT_EQ(number(twin("/b/intel/torch-xpu-ops.json?status=pending"), "grid.commits"), 1);
}

TEST_F(Pages, TheGridIsFilteredAndPaged) {
  EXPECT_EQ(number(twin("/b/acme/refdev.json"), "grid.commits"), 40);
  EXPECT_EQ(twin("/b/acme/refdev.json").at("grid").at("rows").as_array().size(), 25U);
  EXPECT_EQ(twin("/b/acme/refdev.json?page=2").at("grid").at("rows").as_array().size(), 15U);
  EXPECT_EQ(number(twin("/b/acme/refdev.json?status=failed"), "grid.commits"), 3);
  EXPECT_EQ(number(twin("/b/acme/refdev.json?q=%23171266"), "grid.commits"), 5);
  EXPECT_EQ(number(twin("/b/acme/refdev.json?q=" + seeded_->head_sha.substr(0, 8)), "grid.commits"),
            1);
  EXPECT_EQ(number(twin("/b/acme/refdev.json?event=push"), "grid.commits"), 0);
  EXPECT_EQ(number(twin("/b/acme/refdev.json?branch=main"), "grid.commits"), 40);
  EXPECT_EQ(number(twin("/b/quiet/backend.json?event=nightly"), "grid.commits"), 1);
  EXPECT_EQ(twin("/b/acme/refdev.json?group=off").at("grid").at("columns").as_array().size(), 4U);
  EXPECT_TRUE(twin("/b/ACME/RefDev.json").at("grid") == twin("/b/acme/refdev.json").at("grid"));
}

TEST_F(Pages, EveryLinkLeadsSomewhereAndEveryPageHasATwin) {
  static const std::regex k_link{R"re(href="(/[^"]*)")re"};
  static const std::regex k_title{"<title>([^<]*)</title>"};
  static const std::regex k_inline{
      R"re(<[a-z]+[^>]*\s(style|on[a-z]+)=|<style|<script>|javascript:)re"};
  std::vector<std::string> todo{"/"};
  std::set<std::string> seen{"/"};
  std::map<std::string, std::string> titles;
  std::size_t pages = 0;
  for (std::size_t i = 0; i < todo.size() && i < 150; ++i) {
    const auto url = todo[i];
    const auto response = fetch(get_url(url));
    ASSERT_EQ(response.status, 200) << url;
    EXPECT_TRUE(response.headers.get("content-security-policy")) << url;
    EXPECT_THAT(std::string{*response.headers.get("content-security-policy")},
                Not(HasSubstr("unsafe")));
    EXPECT_EQ(response.headers.get("x-content-type-options"), "nosniff");
    EXPECT_TRUE(response.headers.get("referrer-policy"));
    if (!response.headers.get("content-type")->starts_with("text/html")) continue;
    ++pages;
    EXPECT_FALSE(std::regex_search(response.body, k_inline)) << url;
    EXPECT_LE(base::gzip(response.body).size(), 45U * 1024U) << url;
    EXPECT_THAT(response.body, HasSubstr("rel=\"alternate\" type=\"application/json\"")) << url;
    std::smatch title;
    ASSERT_TRUE(std::regex_search(response.body, title, k_title));
    const auto [known, is_new] = titles.try_emplace(title[1], url.substr(0, url.find('?')));
    EXPECT_TRUE(is_new || known->second == url.substr(0, url.find_first_of("?#")))
        << url << " and " << known->second;
    for (auto it = std::sregex_iterator(response.body.begin(), response.body.end(), k_link);
         it != std::sregex_iterator{}; ++it) {
      std::string link = (*it)[1];
      link = std::regex_replace(link.substr(0, link.find('#')), std::regex{"&amp;"}, "&");
      if (seen.insert(link).second) todo.push_back(link);
    }
  }
  EXPECT_GT(pages, 70U);
  for (const auto& url : todo) {
    if (url.find(".json") == std::string::npos) continue;
    const auto response = fetch(get_url(url));
    ASSERT_EQ(response.status, 200) << url;
    EXPECT_TRUE(base::parse_json(response.body, url)) << url;
  }
}

TEST_F(Pages, UnchangedPagesAreNotSentAgain) {
  for (const std::string path :
       {"/", "/index.json", "/b/acme/refdev", "/help/metrics", "/help/metrics.json"}) {
    auto request = get(path);
    const auto first = fetch(request);
    const std::string tag{first.headers.get("etag").value()};
    request.headers.set("If-None-Match", "\"other\", " + tag);
    const auto again = fetch(request);
    EXPECT_EQ(again.status, 304) << path;
    EXPECT_TRUE(again.body.empty());
    EXPECT_EQ(again.headers.get("etag"), tag);
    request.headers.set("If-None-Match", "W/\"0\"");
    EXPECT_EQ(fetch(request).status, 200);
  }
  // A twin stays the same while its data do; a page's ages go on by the minute.
  const auto tag = [&](const std::string& path) {
    return std::string{fetch(get(path)).headers.get("etag").value()};
  };
  const auto page = tag("/pr/" + std::to_string(seeded_->pr));
  const auto data = tag("/pr/" + std::to_string(seeded_->pr) + ".json");
  clock_.advance(3min);
  EXPECT_NE(tag("/pr/" + std::to_string(seeded_->pr)), page);
  EXPECT_EQ(tag("/pr/" + std::to_string(seeded_->pr) + ".json"), data);
}

TEST_F(Pages, GzipIsUsedWhereItIsAccepted) {
  struct Case {
    const char* accept;
    bool expected;
  };
  for (const auto& c : {Case{"gzip, br", true},
                        {"br;q=1.0, gzip;q=0.5", true},
                        {"GZIP", true},
                        {"gzip;q=0", false},
                        {"gzip; q=0.0", false},
                        {"br", false},
                        {"", false}}) {
    auto request = get("/");
    request.headers.set("Accept-Encoding", c.accept);
    const auto response = fetch(request);
    EXPECT_EQ(response.headers.get("content-encoding").has_value(), c.expected) << c.accept;
    if (c.expected) {
      EXPECT_THAT(base::gunzip(response.body, 1 << 22).value(), HasSubstr("<h1>Fleet</h1>"));
    }
    EXPECT_EQ(response.headers.get("vary"), "Accept-Encoding");
  }
}

TEST_F(Pages, AssetsNeverChangeUnderTheirName) {
  std::smatch found;
  const auto page = html("/");
  ASSERT_TRUE(
      std::regex_search(page, found, std::regex{R"re(href="(/assets/hud\.[0-9a-f]{12}\.css)")re"}));
  const auto response = fetch(get(found[1].str()));
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(std::string{*response.headers.get("cache-control")}, HasSubstr("immutable"));
  EXPECT_THAT(html("/assets/hud.css", 404), HasSubstr("</html>"));
  EXPECT_EQ(fetch(get("/assets/../hud.h")).status, 404);
}

TEST_F(Pages, OnlyReadingIsAnswered) {
  auto request = get("/");
  request.method = "HEAD";
  EXPECT_EQ(fetch(request).status, 200);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "BREW"}) {
    request.method = method;
    const auto response = fetch(request);
    EXPECT_EQ(response.status, 405);
    EXPECT_EQ(response.headers.get("allow"), "GET, HEAD");
  }
  for (const char* path :
       {"/github/webhook", "/healthz", "/api/v1/results/x", "/bb", "/index.html", ""}) {
    EXPECT_FALSE(hud_.handle(get(path))) << path;
  }
}

TEST_F(Pages, WhatIsNotThereIsNamed) {
  for (const char* target : {"/b",
                             "/b/",
                             "/b/acme",
                             "/b/acme/",
                             "/b/acme/refdev/",
                             "/b/acme/none",
                             "/b/acme/ref dev",
                             "/b/../etc",
                             "/b/acme/refdev/x",
                             "/pr",
                             "/pr/",
                             "/pr/0",
                             "/pr/-1",
                             "/pr/1",
                             "/pr/abc",
                             "/pr/99999999999999999999",
                             "/commit/xyz",
                             "/commit/0123",
                             "/commit/0000000",
                             "/job/0",
                             "/job/-3",
                             "/job/999999999",
                             "/job/1/2",
                             "/job/1e3",
                             "/job/\xff\xfe",
                             "/help",
                             "/help/other",
                             "/go",
                             "/go/x",
                             "/assets",
                             "/assets/",
                             "/badge/acme",
                             "/badge/acme/refdev",
                             "/badge/a/b/c.svg"}) {
    const auto response = fetch(get(target));
    EXPECT_EQ(response.status, 404) << target;
    EXPECT_THAT(response.body, HasSubstr("404")) << target;
  }
  for (const char* target : {"/pr/0.json", "/b/acme/none.json", "/job/999999999.json",
                             "/commit/xyz.json", "/help/other.json"}) {
    const auto value = twin(target, 404);
    EXPECT_FALSE(text(value, "error").empty()) << target;
    EXPECT_EQ(number(value, "status"), 404);
  }
  EXPECT_EQ(hud_.not_found(get("/whatever")).status, 404);
  EXPECT_TRUE(base::parse_json(hud_.not_found(get("/whatever.json")).body, "twin"));
  const auto job = "/job/" + std::to_string(seeded_->failed_job);
  for (const std::string target :
       {"/b/acme/refdev?page=0", "/b/acme/refdev?page=-1", "/b/acme/refdev?page=x",
        "/b/acme/refdev?page=99999999999999999999", "/b/acme/refdev?status=green"}) {
    EXPECT_EQ(fetch(get(target)).status, 400) << target;
  }
  EXPECT_EQ(fetch(get(job + "?outcome=green")).status, 400);
  EXPECT_EQ(fetch(get(job + "?page=-5")).status, 400);
  EXPECT_EQ(fetch(get(job + "?page=10000")).status, 200);
}

TEST_F(Pages, NoRequestIsAnswered500) {
  const std::vector<std::string> pieces{"/",
                                        "b",
                                        "acme",
                                        "refdev",
                                        ".json",
                                        "pr",
                                        "job",
                                        "commit",
                                        "171266",
                                        "1",
                                        "-1",
                                        "%2F",
                                        "%00",
                                        "..",
                                        "?",
                                        "q=",
                                        "&page=",
                                        "outcome=",
                                        "status=",
                                        "failed",
                                        "\xff",
                                        "\xc3\xa9",
                                        std::string(1, '\0'),
                                        "'",
                                        "\"",
                                        "<script>",
                                        "%",
                                        ";",
                                        "\\",
                                        "index",
                                        "help",
                                        "metrics",
                                        "badge",
                                        ".svg",
                                        "go",
                                        "assets",
                                        std::string(300, 'a'),
                                        "9999999999999999999999",
                                        "event=",
                                        "branch=",
                                        "group=off"};
  std::mt19937 random{20260914};
  const auto pick = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>{0, n - 1}(random);
  };
  std::set<int> statuses;
  for (int round = 0; round < 800; ++round) {
    std::string target = "/";
    const auto n = 1 + pick(9);
    for (std::size_t i = 0; i < n; ++i)
      target += pieces[pick(pieces.size())] + (pick(3) == 0 ? "/" : "");
    const auto response = hud_.handle(get_url(target));
    if (!response) continue;
    statuses.insert(response->status);
    ASSERT_LT(response->status, 500) << target;
  }
  EXPECT_TRUE(statuses.contains(404));
}

TEST_F(Pages, TheSearchBoxFindsWhatIsMeant) {
  const auto leads = [&](const std::string& q) {
    const auto response = fetch(get("/go?q=" + q));
    return response.status == 302 ? std::string{*response.headers.get("location")}
                                  : std::to_string(response.status);
  };
  EXPECT_EQ(leads("%23171266"), "/pr/171266");
  EXPECT_EQ(leads("171266"), "/pr/171266");
  EXPECT_EQ(leads("97FF761"), "/commit/97ff761");
  EXPECT_EQ(leads("acme%2Frefdev"), "/b/acme/refdev");
  EXPECT_EQ(leads("%2F%2Fevil.example"), "404");
  EXPECT_EQ(leads("x%0d%0aSet-Cookie"), "404");
}

TEST_F(Pages, PagesAreMadeInParallel) {
  std::vector<std::string> first(4);
  std::vector<std::thread> threads;
  for (auto& body : first) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i)
        body = hud_.handle(get("/pr/" + std::to_string(seeded_->pr)))->body;
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& body : first) EXPECT_EQ(body, first.front());
}

TEST_F(Pages, AStoreThatFailsAtAnyCallIsAPageThatSaysSo) {
  const auto job = "/job/" + std::to_string(seeded_->failed_job);
  for (const std::string& target :
       {std::string{"/"}, std::string{"/b/acme/refdev"}, "/pr/" + std::to_string(seeded_->pr),
        "/commit/" + seeded_->head_sha, job, job + ".json", std::string{"/index.json"},
        std::string{"/badge/acme/refdev.svg"}}) {
    store::FaultyStore counting{**db_};
    Hud sound{counting, {.clock = clock_}};
    ASSERT_EQ(sound.handle(get(target))->status, 200);
    const auto calls = counting.calls();
    ASSERT_GT(calls, 0);
    for (std::int64_t n = 1; n <= calls; ++n) {
      const std::array faults{base::Fault::unavailable, base::Fault::busy, base::Fault::internal};
      const auto fault = faults[static_cast<std::size_t>(n) % faults.size()];
      counting.fail_at(counting.calls() + n, fault);
      const auto response = sound.handle(get(target));
      ASSERT_EQ(response->status, 503) << target << " call " << n;
      if (target.ends_with(".svg")) continue;
      EXPECT_TRUE(response->headers.get("retry-after"));
      EXPECT_THAT(response->body, HasSubstr("The store cannot be read now (" +
                                            std::string{to_string(fault)} + ")"));
    }
  }
}

TEST(EmptyStore, EveryPageStandsAndTheFirstSaysWhatToDo) {
  TempDb db;
  base::ManualClock clock{k_now};
  Hud hud{*db, {.clock = clock}};
  const auto fleet = hud.handle(get("/"));
  EXPECT_EQ(fleet->status, 200);
  EXPECT_THAT(fleet->body, HasSubstr("No backend is listed yet"));
  EXPECT_THAT(fleet->body, HasSubstr("allowlist"));
  EXPECT_EQ(hud.handle(get("/index.json"))->status, 200);
  EXPECT_EQ(hud.handle(get("/help/metrics"))->status, 200);
  EXPECT_EQ(hud.handle(get("/pr/1"))->status, 404);
  EXPECT_EQ(hud.handle(get("/commit/0123456789"))->status, 404);
  EXPECT_EQ(hud.handle(get("/job/1"))->status, 404);
  EXPECT_EQ(hud.handle(get("/badge/a/b.svg"))->status, 404);
  Seed seed{*db};
  seed.backend("a/b", "L2", "x", {});
  EXPECT_THAT(hud.handle(get("/"))->body, HasSubstr("no report yet"));
  EXPECT_THAT(hud.handle(get("/b/a/b"))->body,
              HasSubstr("Nothing has been dispatched to this backend yet"));
  EXPECT_EQ(hud.handle(get("/badge/a/b.svg"))->status, 200);
}

TEST(Outside, TextIsShownAndNeverRun) {
  TempDb db;
  Seed seed{*db};
  const std::string script = "<script>alert(1)</script>";
  const std::string quote = "\"><img src=x onerror=alert(1)>' {{{x}}} &amp;";
  seed.backend("a/b", "L2", script, {quote});
  SeedDelivery delivery{.delivery_id = quote,
                        .pr_number = 1,
                        .title = script + quote,
                        .head_sha = "abcdef0123456789",
                        .head_ref = quote,
                        .sender = script};
  const auto id = seed.delivery(delivery);
  seed.dispatch(id, "a/b", "L2", "sent", k_now, quote);
  auto test =
      Seed::test("test_x", "add", "float32", base::Outcome::failed, base::FailureKind::other,
                 std::string{"\x1b[31mred\x1b[0m \x01 "} + script + "\nsecond\x7f",
                 std::string(80'000, 'x') + quote);
  test.node_id = script + "::" + quote;
  auto run = Seed::run_of(quote, {test});
  run.header.command = {script, quote};
  run.header.environment = {{script, quote}};
  seed.run(run, quote);
  SeedJob job{.delivery = id,
              .delivery_id = quote,
              .repo = "a/b",
              .device = script,
              .head_sha = delivery.head_sha,
              .pr_number = 1,
              .run_id = quote,
              .name = script,
              .workflow = quote,
              .conclusion = "failure",
              .url = "javascript:alert(1)",
              .passed = 1,
              .digest = quote};
  const auto job_id = seed.job(job);
  job.name = quote;
  job.conclusion = quote;
  job.url = "https://user:secret@example.org/";
  seed.job(job);
  base::ManualClock clock{k_now};
  Hud hud{*db, {.clock = clock, .upstream_repo = "pytorch/pytorch"}};
  for (const std::string& target :
       {std::string{"/"}, std::string{"/b/a/b?q=%22%3E%3Cscript%3Ealert(1)"}, std::string{"/b/a/b"},
        std::string{"/pr/1"}, std::string{"/commit/abcdef0"},
        "/job/" + std::to_string(job_id) + "?q=%22%3E%3Cimg", "/job/" + std::to_string(job_id)}) {
    const auto response = hud.handle(get(target));
    ASSERT_EQ(response->status, 200) << target;
    EXPECT_THAT(response->body, Not(HasSubstr("<script>alert"))) << target;
    EXPECT_THAT(response->body, Not(HasSubstr("<img src=x"))) << target;
    EXPECT_THAT(response->body, Not(HasSubstr("javascript:"))) << target;
    EXPECT_THAT(response->body, Not(HasSubstr("user:secret"))) << target;
    EXPECT_TRUE(base::is_utf8(response->body)) << target;
    for (const char c : response->body) {
      ASSERT_TRUE(static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t') << target;
    }
    const auto twin = hud.handle(
        get(target == "/" ? "/index.json" : target.substr(0, target.find('?')) + ".json"));
    EXPECT_TRUE(base::parse_json(twin->body, target)) << target;
  }
  EXPECT_THAT(hud.handle(get("/job/" + std::to_string(job_id)))->body,
              HasSubstr("&lt;script&gt;alert(1)"));
}

TEST(Word, IsShownApartFromWhatTheRelayEstablished) {
  TempDb db;
  Seed seed{*db};
  seed.backend("a/b", "L2", "x", {});
  seed.run(Seed::run_of("r", {Seed::test("test_x", "add", "float32", base::Outcome::failed,
                                         base::FailureKind::other, "boom")}),
           "digest");
  seed.run(Seed::run_of("of another", {}), "not its own", "other/repo");
  SeedJob job{.delivery_id = "n",
              .event_type = "nightly",
              .repo = "a/b",
              .head_sha = "abcdef0123456789",
              .conclusion = "success",
              .passed = 9,
              .digest = "digest"};
  const auto lies = seed.job(job);
  job.run_id = "2";
  job.digest = "not its own";  // and not uploaded by a/b
  const auto waits = seed.job(job);
  job.run_id = "3";
  job.digest.reset();
  job.conclusion = "timed_out";
  job.concluded_by = "relay";
  const auto silent = seed.job(job);
  base::ManualClock clock{k_now};
  Hud hud{*db, {.clock = clock}};
  const auto body = [&](std::int64_t id) {
    return hud.handle(get("/job/" + std::to_string(id)))->body;
  };
  EXPECT_THAT(
      body(lies),
      HasSubstr(
          "The downstream concluded success; the stored results hold 1 test that did not pass."));
  EXPECT_THAT(body(lies), HasSubstr("A newer attempt of this job counts"));
  EXPECT_THAT(body(waits), HasSubstr("names test results that have not been uploaded yet"));
  EXPECT_THAT(body(silent), HasSubstr("stopped reporting and was ended by the relay"));
  EXPECT_THAT(body(silent), HasSubstr("the backend reported by itself"));
  EXPECT_THAT(body(silent), HasSubstr("No test results were uploaded"));
  EXPECT_THAT(body(silent), HasSubstr("said by: relay (timed_out)"));
  EXPECT_THAT(body(silent), HasSubstr("<dt>Conclusion</dt><dd>none</dd>"));
  EXPECT_THAT(body(lies), HasSubstr("<dt>Conclusion</dt><dd>success</dd>"));
  const auto twin = [&](std::int64_t id) {
    return base::parse_json(hud.handle(get("/job/" + std::to_string(id) + ".json"))->body, "twin")
        .value();
  };
  EXPECT_EQ(twin(silent).at_pointer("/established/conclusion"), "timed_out");
  EXPECT_TRUE(twin(silent).at_pointer("/word/conclusion").is_null());
  EXPECT_TRUE(twin(lies).at_pointer("/established/conclusion").is_null());
  EXPECT_EQ(twin(lies).at_pointer("/word/conclusion"), "success");
}

TEST(Word, AVerdictAndFailedTestsAreShownAsTheDownstreams) {
  TempDb db;
  Seed seed{*db};
  seed.backend("a/b", "L2", "x", {});
  json::array tests;
  for (int i = 0; i < 30; ++i)
    tests.push_back(json::object{{"name", fmt::format("test_{}", i)},
                                 {"classname", "TestX"},
                                 {"message", "boom <b>\nmore"},
                                 {"stacktrace", "frame <i>"}});
  json::object verdict{
      {"category", "upstream"},
      {"confidence", 0.5},
      {"summary", "broke <u>"},
      {"suspected_upstream", {{"pr", 4711}, {"commit", "ABCDEF01"}, {"reason", "a new signature"}}},
      {"evidence",
       {{{"job", "build"}, {"log_url", "https://ci.test/1"}, {"excerpt", "error <x>"}},
        {{"test", "test_1"}, {"log_url", "javascript:alert(1)"}}}}};
  SeedJob job{.delivery_id = std::string(40, 'a'),
              .event_type = "nightly",
              .repo = "a/b",
              .head_sha = std::string(40, 'a'),
              .conclusion = "failure",
              .body = base::canonical_json(json::object{
                  {"workflow",
                   {{"name", "CI"}, {"triage_verdict", verdict}, {"failed_tests_detail", tests}}}}),
              .commit_verified = 0};
  const auto id = std::to_string(seed.job(job));
  job.run_id = "2";
  job.commit_verified = 2;
  job.body = R"({"workflow":{"triage_verdict":7,"failed_tests_detail":{"a":1}}})";
  const auto other = std::to_string(seed.job(job));
  base::ManualClock clock{k_now};
  Hud hud{
      *db,
      {.clock = clock, .upstream_repo = "pytorch/pytorch", .upstream_url = "https://github.com"}};
  const auto page = hud.handle(get("/job/" + id))->body;
  for (const char* shown :
       {"Its verdict: <span class=\"kind\">upstream</span>", "confidence: 0.5", "broke &lt;u&gt;",
        "href=\"https://github.com/pytorch/pytorch/pull/4711\"",
        "href=\"https://github.com/pytorch/pytorch/commit/abcdef01\"", "a new signature",
        "href=\"https://ci.test/1\"", "error &lt;x&gt;", "Failed tests that it names: 30 tests",
        "<code>test_24</code>", "boom &lt;b&gt;", "frame &lt;i&gt;",
        "not verified: upstream could not be asked yet"})
    EXPECT_THAT(page, HasSubstr(shown));
  EXPECT_THAT(page, Not(HasSubstr("<code>test_25</code>")));
  EXPECT_THAT(page, Not(HasSubstr("href=\"javascript:")));
  const auto twin =
      base::parse_json(hud.handle(get("/job/" + id + ".json"))->body, "twin").value().as_object();
  EXPECT_EQ(twin.at("word_failed_tests").as_array().size(), 30U);
  EXPECT_EQ(twin.at("word_triage_verdict").at("suspected_pr"), 4711);
  EXPECT_EQ(twin.at("word_triage_verdict").at("evidence").at(1).at("log_url"), nullptr);
  EXPECT_EQ(twin.at("commit_verified"), false);
  const auto bare = hud.handle(get("/job/" + other))->body;
  EXPECT_THAT(bare, HasSubstr("upstream has no such commit"));
  EXPECT_THAT(bare, Not(HasSubstr("Its verdict")));
  EXPECT_THAT(bare, Not(HasSubstr("Failed tests that it names")));
}

TEST(JobPage, CountsStandBeforeTheErrorsAndErrorsThatAreLeftOutAreSaid) {
  TempDb db;
  Seed seed{*db};
  std::vector<base::TestResult> tests;
  for (int i = 0; i < 12; ++i)
    tests.push_back(Seed::test("test_x", fmt::format("op{}", i), "float32", base::Outcome::failed,
                               base::FailureKind::assertion, fmt::format("{} is wrong", i)));
  seed.run(Seed::run_of("r", std::move(tests)), "many");
  const SeedJob job{.delivery_id = "n",
                    .event_type = "nightly",
                    .repo = "a/b",
                    .head_sha = "abcdef0123456789",
                    .conclusion = "failure",
                    .digest = "many"};
  base::ManualClock clock{k_now};
  Hud hud{*db, {.clock = clock}};
  const auto body = hud.handle(get("/job/" + std::to_string(seed.job(job))))->body;
  EXPECT_LT(body.find("id=\"counts\""), body.find("id=\"errors\""));
  EXPECT_THAT(body, HasSubstr("and <b>4 tests</b> with other errors, below"));
}

TEST(Engines, GiveTheSameAnswers) {
  TempDb sqlite;
  auto postgres = store::open(store::testing::Postgres::shared().make_database());
  ASSERT_TRUE(postgres) << to_string(postgres.error());
  const auto seeded = seed_fleet(*sqlite);
  ASSERT_EQ(seed_fleet(**postgres).failed_job, seeded.failed_job);
  base::ManualClock clock{k_now};
  Hud a{*sqlite, {.clock = clock}};
  Hud b{**postgres, {.clock = clock}};
  const auto job = "/job/" + std::to_string(seeded.failed_job);
  for (const std::string& target :
       {std::string{"/index.json"}, std::string{"/b/acme/refdev.json"},
        std::string{"/b/acme/refdev.json?q=test&status=failed&event=pull_request&branch=main"},
        std::string{"/b/quiet/backend.json?event=nightly"},
        "/pr/" + std::to_string(seeded.pr) + ".json",
        "/commit/" + seeded.head_sha.substr(0, 8) + ".json", job + ".json",
        job + ".json?outcome=passed&q=MAT_mul%25", job + ".json?outcome=all&page=2",
        std::string{"/job/999999.json"}, std::string{"/pr/%00.json"}}) {
    const auto from_sqlite = a.handle(get_url(target));
    const auto from_postgres = b.handle(get_url(target));
    EXPECT_LT(from_sqlite->status, 500) << target;
    EXPECT_EQ(from_postgres->status, from_sqlite->status) << target;
    EXPECT_EQ(from_postgres->body, from_sqlite->body) << target;
  }
}

TEST_F(Pages, ReadinessIsAPageAndItsTwin) {
  const auto value = twin("/b/acme/refdev/readiness.json");
  EXPECT_EQ(text(value, "backend"), "acme/refdev");
  EXPECT_EQ(number(value, "promotion.window_days"), 14);
  EXPECT_EQ(number(value, "stay.window_days"), 7);
  const auto page = html("/b/acme/refdev/readiness");
  for (const auto& criterion : value.at("promotion").at("criteria").as_array()) {
    EXPECT_THAT(page, HasSubstr(text(criterion, "measured_text")));
    EXPECT_THAT(page, HasSubstr(criterion.at("verdict") == "met" ? "met" : "insufficient data"));
  }
  EXPECT_THAT(html("/b/acme/refdev"), HasSubstr("/b/acme/refdev/readiness"));
  EXPECT_THAT(html("/b/nobody/nothing/readiness", 404), HasSubstr("not on the allowlist"));
  for (const char* path : {"/b/acme/refdev/else", "/b/acme/refdev/readiness/x"}) html(path, 404);
  const auto help = html("/help/metrics");
  for (const char* id : {"tenure", "time-outs", "readiness", "queue", "end-to-end", "pass-rate"})
    EXPECT_THAT(help, HasSubstr("id=\"" + std::string{id} + "\""));
}

TEST(AllowlistPage, ShowsLevelsErrorsAndHistory) {
  TempDb db;
  base::ManualClock clock{k_now};
  Hud hud{*db, {.clock = clock}};
  const auto fetch = [&](const std::string& path) { return hud.handle(get(path)).value(); };
  EXPECT_THAT(fetch("/allowlist").body, HasSubstr("Nobody is listed"));
  Seed seed{*db};
  seed.backend("org/four", "L4", "", {"ann", "bob"});
  seed.backend("org/three", "L3", "npu", {});
  seed.backend("org/gone", "L2", "", {}, false);
  const auto version = [&](const std::string& digest, const std::string& text,
                           const std::optional<std::string>& error) {
    ASSERT_TRUE((*db).write([&](store::Tx& tx) -> base::Result<void> {
      auto done = tx.execute(
          "INSERT INTO allowlist_versions (digest, source, text, error, loaded_at) "
          "VALUES ($1, 'list<1>.yaml', $2, $3, $4)",
          {digest, text, error, k_now - 5min});
      if (done && error)
        done = tx.execute(
            "INSERT INTO allowlist_errors (source, error, since) VALUES ('list', $1, $2)",
            {error, k_now - 4min});
      if (!done) return tl::unexpected(done.error());
      return {};
    }));
  };
  version("aa", "L4:\n  - org/four\nL2:\n  - org/gone  # soon\n", std::nullopt);
  version("bb", "L4:\n  - org/four\nL2: [\n", "list.yaml:3:6: not <YAML>");
  version("cc", "L4:\n  - org/four  # ours\nL3:\n  npu:\n    org/three: []\n", std::nullopt);
  const auto page = fetch("/allowlist").body;
  for (const char* part : {"2 backends: 1 L3, 1 L4.", "list&lt;1&gt;.yaml", "not &lt;YAML&gt;",
                           "ann, bob", "No longer listed", "/b/org/three/readiness"})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_THAT(page, Not(HasSubstr("/b/org/gone/readiness")));
  const auto value = base::parse_json(fetch("/allowlist.json").body, "twin").value();
  EXPECT_EQ(value.at("errors").as_array().size(), 1U);
  EXPECT_EQ(value.at("backends").as_array().size(), 3U);
  const auto& versions = value.at("versions").as_array();
  ASSERT_EQ(versions.size(), 3U);
  EXPECT_EQ(versions[0].at("added"), (json::array{"L3:", "npu:", "org/three: []"}));
  EXPECT_EQ(versions[0].at("removed"), (json::array{"L2:", "- org/gone"}));
  EXPECT_EQ(versions[1].at("error"), "list.yaml:3:6: not <YAML>");
  EXPECT_EQ(versions[2].at("added"), json::array{});
}

TEST_F(Pages, UpgradesAreShownWhateverTheirReportsHold) {
  TempDb db;
  base::ManualClock clock{k_now};
  Hud hud{*db, {.clock = clock}};
  const auto body = [&](const std::string& url, int status = 200) {
    const auto response = hud.handle(get_url(url));
    EXPECT_EQ(response->status, status) << url;
    return response->body;
  };
  EXPECT_THAT(body("/upgrade"), HasSubstr("Nothing is published here"));
  const auto publish = [&](const std::string& matrix, const std::string& report) {
    return (*db)
        .write_value([&](store::Tx& tx) {
          return store::publish_upgrade(tx,
                                        {.matrix = matrix,
                                         .name = "<b>" + matrix,
                                         .decision = "rollback",
                                         .decided_at = k_now - 1h,
                                         .report = report},
                                        k_now);
        })
        .value()
        .id;
  };
  for (const std::string& odd :
       {std::string{"{"}, std::string{"[1]"},
        std::string{R"({"rulings":3,"cells":[1,{"gates":[2]}]})"},
        std::string{R"({"rulings":[{"workload":7}],"waivers":[{"expires":"soon"}]})"}}) {
    const auto page = fmt::format("/upgrade/{}", publish("odd" + odd, odd));
    EXPECT_THAT(body(page), HasSubstr("&lt;b&gt;odd")) << odd;
    EXPECT_TRUE(base::parse_json(body(page + ".json"), "twin")) << odd;
  }
  json::array cells;
  for (int i = 0; i < 100; ++i) {
    json::array gates;
    for (int j = 0; j < 7; ++j)
      gates.push_back(json::object{{"gate", "latency"}, {"status", "PASS"}, {"reason", "<i>"}});
    cells.push_back(json::object{{"workload", "mlp"}, {"backend", "cpu"}, {"gates", gates}});
  }
  const auto id = publish("large", base::canonical_json(json::object{{"cells", cells}}));
  const auto page = body(fmt::format("/upgrade/{}", id));
  EXPECT_THAT(page, HasSubstr("100 more are in the JSON"));
  EXPECT_THAT(page, Not(HasSubstr("<i>")));
  for (int i = 0; i < 20; ++i) publish(fmt::format("more{}", i), "{}");
  EXPECT_THAT(body("/upgrade"), HasSubstr("/upgrade?page=2"));
  EXPECT_THAT(body("/upgrade?page=2"), HasSubstr("/upgrade?page=1"));
  EXPECT_THAT(body("/help/metrics"), HasSubstr("id=\"upgrades\""));
}

TEST_F(Pages, MoreReadersThanMayWaitAreAskedToComeBack) {
  base::ManualClock clock{k_now};
  Hud full{**db_, {.clock = clock, .readers = 0, .waiting_readers = 0}};
  for (const char* url : {"/", "/index.json", "/b/org/one", "/pr/1.json", "/badge/org/one.svg",
                          "/go?q=1", "/help/metrics"}) {
    const auto response = full.handle(get_url(url));
    ASSERT_TRUE(response) << url;
    EXPECT_EQ(response->status, 503) << url;
    EXPECT_EQ(response->headers.get("Retry-After"), "2") << url;
  }
  EXPECT_EQ(full.handle(get_url("/assets/none.css"))->status, 404);
  EXPECT_EQ(full.not_found(get_url("/nowhere")).status, 404);
}

}  // namespace
}  // namespace crosscheck::hud::test
