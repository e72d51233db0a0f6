#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/github/jwt.h"
#include "crosscheck/net/client.h"

namespace crosscheck::github {

// What came of one call.
struct CallAnswer {
  enum class Kind : std::uint8_t {
    sent,         // GitHub has done it
    rejected,     // refused, and would be again: a person must act
    retry_later,  // not taken, may be tried again
    uncertain,    // may or may not have been taken: no answer after it was sent, or a 5xx
  };
  Kind kind = Kind::sent;
  std::string reason = {};                    // why not; holds no secret
  std::optional<base::Time> not_before = {};  // when GitHub said so
  bool is_missing = false;                    // of a GET: GitHub has nothing there (404, 422)
  std::string content = {};                   // of `sent`: the answer's body
};

// Which call an answer is to: what it means depends on it.
enum class AppCall : std::uint8_t {
  installation,
  access_token,
  dispatch,
  get,
  create_check_run,  // POST /repos/{owner}/{repo}/check-runs
  rerun,             // POST /repos/{owner}/{repo}/actions/runs/{id}/rerun, …/rerun-failed-jobs
};
// What `response` means for the request as a whole, when it is not the call's success (200, 201,
// 204). A run that GitHub will not start again because it is running is as good as started.
[[nodiscard]] CallAnswer judge(AppCall call, const net::Response& response, base::Time now);
// The same for no answer.
[[nodiscard]] CallAnswer judge(AppCall call, const net::ClientError& error);

// How many calls GitHub still takes, as its last answer said.
struct ApiBudget {
  std::string account;   // whose installation; empty: the App itself
  std::string resource;  // "core"
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  base::Time resets_at{};
};

// A GitHub App that sends repository_dispatch events, makes check runs, starts runs again, and
// reads from the API. Installation ids and their tokens are kept in memory, a token until a minute
// before it expires. Thread-safe.
class App {
 public:
  struct Options {
    std::string app_id;
    std::string api_url = "https://api.github.com";  // GitHub Enterprise: https://HOST/api/v3
    std::chrono::milliseconds timeout{10'000};       // each call
  };
  // `client` and `clock` outlive every call in progress.
  App(Options options, SigningKey key, net::Client& client, const base::Clock& clock);
  ~App();
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  // POST /repos/{owner}/{repo}/dispatches, with the calls that authorise it. `client_payload` is
  // the text of a JSON object. `done` is called exactly once, on the client's thread: it must not
  // block.
  void dispatch(const base::RepoName& repo, std::string_view event_type,
                std::string_view client_payload, std::function<void(CallAnswer)> done);

  // One of the calls after `dispatch`, to `path` ("/repos/…", with its query) as the installation
  // on `repo`. `body` is the text of a JSON value, empty for none. `done` as of `dispatch`.
  void call(const base::RepoName& repo, AppCall which, std::string path, std::string body,
            std::function<void(CallAnswer)> done);

  // GET of `path` ("/repos/…", with its query) as the installation on `repo`: the answer's body
  // when it is 200, `not_found` for 404 and 422 to this very call, `unavailable` for all else and
  // when `until` has passed, whatever call it waits for. `done` as of `dispatch`.
  void get(const base::RepoName& repo, std::string path,
           std::chrono::steady_clock::time_point until,
           std::function<void(base::Result<std::string>)> done);

  // Signs with another key from now on.
  void set_key(SigningKey key);

  // By account and resource.
  [[nodiscard]] std::vector<ApiBudget> budgets() const;

  // As `get`, with `headers` besides, one of which may make it conditional: the answer when it is
  // 200 or 304, else why not.
  void fetch(const base::RepoName& repo, std::string path, net::Headers headers,
             std::chrono::steady_clock::time_point until,
             std::function<void(base::Result<net::Response, CallAnswer>)> done);

 private:
  class Session;
  struct State;
  std::shared_ptr<State> state_;  // shared with calls in progress
};

// As `App::fetch`, for what anybody may read. Waits.
[[nodiscard]] base::Result<net::Response, CallAnswer> fetch_anonymously(
    net::Client& client, std::string_view api_url, std::string_view path,
    const net::Headers& headers, std::chrono::milliseconds timeout);

}  // namespace crosscheck::github
