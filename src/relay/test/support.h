#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../store/test/postgres_fixture.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/temporary_folder.h"
#include "crosscheck/github/webhook.h"
#include "crosscheck/net/http.h"
#include "crosscheck/relay/allowlist_file.h"
#include "crosscheck/relay/event.h"
#include "crosscheck/relay/identity.h"
#include "crosscheck/relay/intake.h"
#include "crosscheck/relay/target.h"
#include "crosscheck/store/store.h"

// What the relay's tests share: a real store (SQLite, or either engine by parameter) and allowlist
// file in a temporary folder, a clock that is moved by hand, events as GitHub sends them, a target
// that remembers.
namespace crosscheck::relay::test {

using namespace std::chrono_literals;
namespace json = base::json;

inline constexpr std::string_view k_secret = "s3cr3t";
inline constexpr std::string_view k_sha = "1111111111111111111111111111111111111111";

inline const base::RepoName& upstream() {
  static const auto name = base::RepoName::parse("pytorch/pytorch").value();
  return name;
}
inline base::RepoName repo(std::string_view name) { return base::RepoName::parse(name).value(); }

inline std::string engine_name(const ::testing::TestParamInfo<store::Engine>& engine) {
  return engine.param == store::Engine::sqlite ? "sqlite" : "postgresql";
}
// For INSTANTIATE_TEST_SUITE_P: what must hold on both.
inline auto engines() {
  return ::testing::Values(store::Engine::sqlite, store::Engine::postgresql);
}

// What JSON may hold and a store's text may not, or a careless reader cuts off.
inline const std::vector<std::string>& awkward_json_texts() {
  static const std::vector<std::string> texts{R"("\u0000")",
                                              R"("a\u0000b")",
                                              R"("\ud800")",
                                              R"("\udc00 alone")",
                                              R"("\ud83d\ude00")",
                                              R"("\u0001\u001b[31m\u007f")",
                                              R"("\ufffe\uffff")",
                                              "\"\xef\xbf\xbf\"",
                                              R"("'; DROP TABLE jobs; --")",
                                              R"("$1 {{bytes}} %s ?1")"};
  return texts;
}

class RelayTest : public ::testing::Test {
 protected:
  explicit RelayTest(store::Engine engine = store::Engine::sqlite) {
    auto opened = store::open(engine == store::Engine::sqlite
                                  ? (folder_ / "x.db").string()
                                  : store::testing::Postgres::shared().make_database());
    if (!opened) throw std::runtime_error{opened.error().message};
    store_ = std::move(*opened);
    list("L1: [org/one]\nL2: [org/two]\nL3: {npu: {org/three: [o]}}\nL4: [org/four]\n");
  }

  void list(const std::string& text) {
    EXPECT_TRUE(base::write_file_atomically(folder_ / "allowlist.yaml", text));
    allowlist_ = std::make_unique<AllowlistFile>(list_source(), *store_, clock_);
    const auto loaded = allowlist_->load();
    ASSERT_TRUE(loaded) << loaded.error().message;
  }

  std::unique_ptr<TextSource> list_source() const {
    return file_source(folder_ / "allowlist.yaml", "the allowlist", k_allowlist_limit);
  }

  // Rows as text, columns joined by '|', NULL as "-".
  std::vector<std::string> rows(const std::string& sql, std::size_t columns,
                                const store::Parameters& parameters = {}) {
    std::vector<std::string> result;
    const auto read = store_->read([&](store::Tx& tx) -> base::Result<void> {
      auto found = tx.query(sql, parameters);
      if (!found) return tl::unexpected(found.error());
      for (const auto& row : *found) {
        std::string line;
        for (std::size_t i = 0; i < columns; ++i) {
          if (i > 0) line += '|';
          if (row.is_null(i)) {
            line += '-';
          } else {
            try {
              line += row.text(i);
            } catch (const std::logic_error&) {
              line += std::to_string(row.integer(i));
            }
          }
        }
        result.push_back(line);
      }
      return {};
    });
    EXPECT_TRUE(read) << read.error().message;
    return result;
  }
  std::int64_t count(const std::string& from) {
    return std::stoll(rows("SELECT COUNT(*) FROM " + from, 1).at(0));
  }
  std::vector<std::string> states() {
    return rows("SELECT repo, state FROM dispatches ORDER BY id", 2);
  }

  // Stores an event as the intake does.
  Accepted accept_event(const std::string& delivery_id, const json::object& body,
                        const std::string& type = "pull_request") {
    const auto event = read_event(type, body);
    EXPECT_TRUE(event) << event.error().message;
    const auto accepted = accept(*store_, *allowlist_->current(), delivery_id, *event,
                                 json::serialize(body), clock_.now());
    EXPECT_TRUE(accepted) << accepted.error().message;
    return accepted.value_or(Accepted{});
  }

  base::TemporaryFolder folder_;
  base::ManualClock clock_{base::Time{1'700'000'000s}};
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<AllowlistFile> allowlist_;
};

inline json::object pull_request(std::string_view action, int number = 7) {
  return {{"action", action},
          {"number", number},
          {"repository", {{"full_name", "PyTorch/PyTorch"}}},
          {"sender", {{"login", "somebody"}}},
          {"pull_request",
           {{"number", number},
            {"title", "A title"},
            {"labels", {{{"name", "ciflow/crcr/npu"}}}},
            {"head", {{"sha", k_sha}, {"ref", "feature"}}},
            {"base", {{"sha", std::string(40, '2')}, {"ref", "main"}}}}}};
}

inline json::object push(std::string_view ref) {
  return {{"ref", ref},
          {"before", std::string(40, '3')},
          {"after", std::string(40, '4')},
          {"deleted", false},
          {"repository", {{"full_name", "pytorch/pytorch"}}},
          {"sender", {{"login", "somebody"}}},
          {"commits",
           {{{"added", {"docs/a.md"}}, {"modified", json::array{}}, {"removed", json::array{}}}}}};
}

inline net::Request webhook(const std::string& body, const std::string& event = "pull_request",
                            const std::string& delivery_id = "d-1") {
  net::Request request;
  request.method = "POST";
  request.path = "/github/webhook";
  request.headers = {{"X-GitHub-Event", event},
                     {"X-GitHub-Delivery", delivery_id},
                     {"X-Hub-Signature-256", github::sign_body(k_secret, body)}};
  request.body = body;
  return request;
}

inline json::object answer_of(const net::Response& response) {
  const auto value = base::parse_json(response.body, "answer");
  EXPECT_TRUE(value) << response.body;
  return value && value->is_object() ? value->get_object() : json::object{};
}

// A token is its claims: `identity` is what matters here, signatures are the github part's tests.
inline VerifyToken plain_tokens() {
  return [](std::string_view token) -> base::Result<json::value> {
    auto claims = base::parse_json(token, "token");
    if (!claims) return base::fail(base::Fault::unauthorized, "malformed: not a token");
    return *claims;
  };
}

class FakeTarget final : public DispatchTarget {
 public:
  void send(Dispatch dispatch, std::function<void(Answer)> done) override {
    sent.push_back(dispatch);
    if (hold) {
      held.emplace_back(std::move(done));
      ++holding;
      return;
    }
    const auto found = answers.find(dispatch.repo.key());
    done(found == answers.end() ? Answer{} : found->second);
  }
  [[nodiscard]] std::size_t room() const override { return places; }

  std::vector<std::string> sent_to() const {
    std::vector<std::string> names;
    for (const Dispatch& d : sent) names.push_back(d.repo.full_name());
    return names;
  }

  bool hold = false;  // keep `done` for the test to call
  std::size_t places = 100;
  std::map<std::string, Answer> answers;  // by repo key; else sent
  std::vector<Dispatch> sent;
  std::vector<std::function<void(Answer)>> held;
  std::atomic<std::size_t> holding{0};  // how many `held` has, for another thread to wait for
};

}  // namespace crosscheck::relay::test
