#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/github/app.h"
#include "crosscheck/store/store.h"

// Whether the commit that a nightly report names is one of upstream's.
namespace crosscheck::relay {

enum class CommitAnswer : std::uint8_t {
  exists,
  missing,
  unknown,  // nobody could be asked
};
// May wait some seconds.
using FindCommit = std::function<CommitAnswer(const std::string& sha)>;

// What GitHub's answer to GET /repos/{owner}/{repo}/commits/{sha} means: its body, `not_found` for
// 404 and 422, any other error for no answer. Pure.
[[nodiscard]] CommitAnswer read_commit(const base::Result<std::string>& answer,
                                       std::string_view sha);

// Asks GitHub, as the App. What it says is remembered: that a commit is there for good, that it is
// not for five minutes. While GitHub does not answer, it is not asked by every caller: some at a
// time wait for it, and after it has failed none for half a minute. Thread-safe.
class CommitCheck {
 public:
  // Calls `done` exactly once, on any thread, before `until`.
  using Ask =
      std::function<void(const std::string& sha, std::chrono::steady_clock::time_point until,
                         std::function<void(base::Result<std::string>)> done)>;
  CommitCheck(Ask ask, const base::Clock& clock) : ask_{std::move(ask)}, clock_{clock} {}

  [[nodiscard]] CommitAnswer find(const std::string& sha);

  static constexpr std::chrono::seconds k_longest{4};  // the caller's client gives up after ten
  static constexpr int k_at_once = 4;
  static constexpr base::Duration k_pause = std::chrono::seconds{30};
  static constexpr base::Duration k_missing_for = std::chrono::minutes{5};
  static constexpr std::size_t k_kept = 4096;

 private:
  struct Known {
    CommitAnswer answer = CommitAnswer::exists;
    base::Time at{};
  };
  // What needs no question.
  [[nodiscard]] CommitAnswer recall(const std::string& sha, base::Time now);

  const Ask ask_;
  const base::Clock& clock_;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, Known, std::less<>> known_;
  base::Time failed_at_{};
  bool failed_ = false;
  int asking_ = 0;
};
// As the installation on `upstream`. `app` outlives the calls.
[[nodiscard]] CommitCheck::Ask ask_github(github::App& app, base::RepoName upstream);

// `commit_verified` of a job, as stored. Of jobs that were dispatched always `verified`.
enum class CommitState : std::int64_t { unverified = 0, verified = 1, missing = 2 };

// Asks about commits of reports that came while nobody could be asked, and stores the answers;
// stops at the first that still has none. How many were settled.
[[nodiscard]] base::Result<std::int64_t> verify_commits(store::Store& store,
                                                        const FindCommit& find);

}  // namespace crosscheck::relay
