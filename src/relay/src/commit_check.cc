#include "crosscheck/relay/commit_check.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"

namespace crosscheck::relay {
namespace {

using base::Result;

constexpr std::int64_t k_commits_a_pass = 50;

// A clock that was set back forgets rather than remembers for too long.
bool within(base::Time since, base::Duration span, base::Time now) {
  return since <= now && now - since < span;
}

}  // namespace

CommitAnswer read_commit(const Result<std::string>& answer, std::string_view sha) {
  if (!answer)
    return answer.error().fault == base::Fault::not_found ? CommitAnswer::missing
                                                          : CommitAnswer::unknown;
  const auto body = base::parse_json(*answer, "answer");
  const auto found = body ? base::require_string(*body, "sha") : Result<std::string>{""};
  if (!body || !found) return CommitAnswer::unknown;
  // A branch may be called as a commit is.
  return base::to_lower_ascii(*found) == sha ? CommitAnswer::exists : CommitAnswer::missing;
}

CommitAnswer CommitCheck::recall(const std::string& sha, base::Time now) {
  const auto found = known_.find(sha);
  if (found == known_.end()) return CommitAnswer::unknown;
  if (found->second.answer == CommitAnswer::exists || within(found->second.at, k_missing_for, now))
    return found->second.answer;
  known_.erase(found);
  return CommitAnswer::unknown;
}

CommitAnswer CommitCheck::find(const std::string& sha) {
  {
    const std::lock_guard lock{mutex_};
    const auto now = clock_.now();
    if (const auto answer = recall(sha, now); answer != CommitAnswer::unknown) return answer;
    if (asking_ >= k_at_once || (failed_ && within(failed_at_, k_pause, now)))
      return CommitAnswer::unknown;
    ++asking_;
  }
  const auto promise = std::make_shared<std::promise<Result<std::string>>>();
  ask_(sha, std::chrono::steady_clock::now() + k_longest,
       [promise](Result<std::string> answer) { promise->set_value(std::move(answer)); });
  const auto body = promise->get_future().get();
  const auto answer = read_commit(body, sha);
  const std::lock_guard lock{mutex_};
  --asking_;
  failed_ = answer == CommitAnswer::unknown;
  if (failed_) {
    failed_at_ = clock_.now();
    base::log::warning(
        "commit.not_verified",
        {{"sha", sha}, {"reason", body ? "GitHub's answer cannot be read" : body.error().message}});
    return answer;
  }
  if (known_.size() >= k_kept) known_.clear();
  known_.insert_or_assign(sha, Known{answer, clock_.now()});
  return answer;
}

CommitCheck::Ask ask_github(github::App& app, base::RepoName upstream) {
  return [&app, upstream = std::move(upstream)](const std::string& sha, auto until, auto done) {
    app.get(upstream, "/repos/" + upstream.full_name() + "/commits/" + sha, until, std::move(done));
  };
}

Result<std::int64_t> verify_commits(store::Store& store, const FindCommit& find) {
  std::vector<std::string> commits;
  const auto read = store.read([&](store::Tx& tx) -> Result<void> {
    commits.clear();
    auto rows = tx.query(
        "SELECT DISTINCT head_sha FROM jobs WHERE commit_verified = 0 AND head_sha IS NOT NULL "
        "ORDER BY head_sha LIMIT $1",
        {k_commits_a_pass});
    if (!rows) return tl::unexpected(rows.error());
    for (const auto& row : *rows) commits.push_back(row.text(0));
    return {};
  });
  if (!read) return tl::unexpected(read.error());
  std::int64_t settled = 0;
  for (const std::string& sha : commits) {
    const auto answer = find(sha);
    if (answer == CommitAnswer::unknown) break;
    const auto state =
        answer == CommitAnswer::exists ? CommitState::verified : CommitState::missing;
    auto written = store.write([&](store::Tx& tx) -> Result<void> {
      auto done = tx.execute(
          "UPDATE jobs SET commit_verified = $1 WHERE head_sha = $2 AND commit_verified = 0",
          {static_cast<std::int64_t>(state), sha});
      if (!done) return tl::unexpected(done.error());
      return {};
    });
    if (!written) return tl::unexpected(written.error());
    ++settled;
    base::log::info("commit.verified", {{"sha", sha}, {"exists", answer == CommitAnswer::exists}});
  }
  return settled;
}

}  // namespace crosscheck::relay
