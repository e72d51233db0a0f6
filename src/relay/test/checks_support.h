#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/digest.h"
#include "crosscheck/relay/callback.h"
#include "crosscheck/relay/checks.h"
#include "crosscheck/relay/github_calls.h"
#include "crosscheck/relay/rerun.h"
#include "crosscheck/store/run_store.h"
#include "support.h"

// What the tests of check runs, re-runs and the sweeper share.
namespace crosscheck::relay::test {

inline json::object& pr_of(json::object& event) { return event["pull_request"].as_object(); }

inline CallbackBody parsed(const json::object& body) {
  auto result = parse_callback(body);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(CallbackBody{});
}

// A run of three tests of which two failed, as an upload leaves it. Its digest.
inline std::string store_run(store::Store& store, std::string_view repo_key, base::Time now) {
  const std::string digest(64, 'd');
  base::RunHeader header;
  header.run_id = "r-1";
  header.started_at = now;
  header.finished_at = now;
  const auto result = [](std::string method, base::Outcome outcome, std::string message) {
    base::TestResult one;
    one.id.file = "test_ops.py";
    one.id.class_name = "T";
    one.id.method = std::move(method);
    one.node_id = "test_ops.py::T::" + one.id.method;
    one.outcome = outcome;
    one.message = std::move(message);
    return one;
  };
  const base::RunResults run{header,
                             {result("test_one", base::Outcome::failed, "not close\nmore"),
                              result("test_two", base::Outcome::crashed, ""),
                              result("test_three", base::Outcome::passed, "")}};
  EXPECT_TRUE(store.write([&](store::Tx& tx) -> base::Result<void> {
    auto imported = store::import_run(tx, run, {repo_key, digest});
    if (!imported) return tl::unexpected(imported.error());
    return {};
  }));
  return digest;
}

class ChecksTest : public RelayTest {
 protected:
  explicit ChecksTest(store::Engine engine = store::Engine::sqlite) : RelayTest{engine} {}

  static json::object labelled(std::initializer_list<std::string_view> labels, int number = 7,
                               std::string_view action = "opened") {
    auto body = pull_request(action, number);
    json::array list;
    for (const auto label : labels) list.push_back(json::object{{"name", label}});
    pr_of(body)["labels"] = list;
    return body;
  }

  // An event that was accepted, and dispatched.
  void event(const std::string& delivery_id, const json::object& body,
             const std::string& type = "pull_request") {
    const auto event = read_event(type, body);
    ASSERT_TRUE(event) << event.error().message;
    const auto accepted = accept(*store_, *allowlist_->current(), delivery_id, *event,
                                 json::serialize(body), clock_.now(), &options_);
    ASSERT_TRUE(accepted) << accepted.error().message;
    set_dispatches("sent");
  }
  void set_dispatches(std::string_view state) {
    EXPECT_TRUE(store_->write([&](store::Tx& tx) -> base::Result<void> {
      auto done = tx.execute(
          "UPDATE dispatches SET state = $1, first_attempt_at = COALESCE(first_attempt_at, $2), "
          "last_error = 'why'",
          {state, clock_.now()});
      if (!done) return tl::unexpected(done.error());
      return {};
    }));
  }

  std::vector<std::string> label(const std::string& delivery_id, const json::object& body,
                                 std::string_view name = "ciflow/crcr/npu") {
    const auto event = read_event("pull_request", body);
    EXPECT_TRUE(event) << event.error().message;
    const auto asked = accept_label(*store_, *allowlist_->current(), options_, delivery_id, *event,
                                    name, clock_.now());
    EXPECT_TRUE(asked) << asked.error().message;
    return asked ? asked->queued : std::vector<std::string>{"error"};
  }

  static json::object callback(std::string_view delivery_id, std::string_view status,
                               json::value conclusion = nullptr, std::string_view job = "test") {
    return {{"event_type", "pull_request"},
            {"delivery_id", delivery_id},
            {"payload", json::object{}},
            {"workflow",
             {{"status", status},
              {"conclusion", std::move(conclusion)},
              {"name", "CI"},
              {"run_id", "123"},
              {"job_name", job}}}};
  }
  void report_body(std::string_view from, const json::object& body, std::int64_t attempt = 1) {
    const Backend* backend = allowlist_->current()->find(repo(from));
    ASSERT_NE(backend, nullptr);
    const auto recorded =
        record_report(*store_, {backend->repo, backend->level, backend->device}, parsed(body),
                      {.run_attempt = attempt, .checks = &options_}, clock_.now());
    EXPECT_TRUE(recorded) << recorded.error().message;
  }
  void report(std::string_view delivery_id, std::string_view from, std::string_view status,
              json::value conclusion = nullptr, std::string_view job = "test") {
    report_body(from, callback(delivery_id, status, std::move(conclusion), job));
  }

  // So that only what comes after is sent.
  void set_calls_aside() {
    EXPECT_TRUE(store_->write([](store::Tx& tx) -> base::Result<void> {
      auto done = tx.execute("UPDATE github_calls SET state = 'sent'");
      if (!done) return tl::unexpected(done.error());
      return {};
    }));
  }

  // What check runs say, in the order in which they were queued: of jobs, or of stable checks.
  std::vector<std::string> said(std::string_view subject = "job") {
    std::vector<std::string> lines;
    for (const auto& row :
         rows("SELECT c.repo, COALESCE(j.job_name, ''), c.says FROM github_calls c LEFT JOIN jobs "
              "j ON j.id = c.job WHERE c.subject LIKE $1 ORDER BY c.id",
              3, {"[\"" + std::string{subject} + "%"})) {
      std::string line = row;
      for (auto at = line.find('|'); at != std::string::npos; at = line.find('|'))
        line.replace(at, line.substr(at, 2) == "||" ? 2 : 1, " ");
      lines.push_back(line);
    }
    return lines;
  }
  std::vector<std::string> said_since(std::ptrdiff_t first) {
    auto lines = said();
    lines.erase(lines.begin(), lines.begin() + std::min(first, std::ssize(lines)));
    return lines;
  }
  std::vector<json::object> bodies(std::string_view subject = "job") {
    std::vector<json::object> all;
    for (const auto& row :
         rows("SELECT payload FROM github_calls WHERE subject LIKE $1 ORDER BY id", 1,
              {"[\"" + std::string{subject} + "%"}))
      all.push_back(base::parse_json(row, "payload")->as_object());
    return all;
  }

  const CheckOptions options_{.upstream = upstream(),
                              .stable = {.settle = 5min, .silence = 6h},
                              .pages_url = "https://pages.test"};
};

}  // namespace crosscheck::relay::test
