#include "crosscheck/relay/commit_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/serialize.hpp>
#include <thread>

#include "crosscheck/base/json.h"
#include "support.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
namespace json = base::json;
using base::Fault;
using base::Result;
using ::testing::ElementsAre;
using Answer = CommitAnswer;

const std::string k_commit(40, 'c');

Result<std::string> commit(std::string_view sha) {
  return json::serialize(json::object{{"sha", sha}, {"node_id", "x"}});
}

TEST(ReadCommit, OnlyTheCommitItselfCounts) {
  struct Case {
    Result<std::string> answer;
    Answer means;
  };
  for (const auto& [answer, means] :
       {Case{commit(k_commit), Answer::exists}, Case{commit(std::string(40, 'C')), Answer::exists},
        Case{commit(std::string(40, 'd')), Answer::missing},
        Case{base::fail(Fault::not_found, "404"), Answer::missing},
        Case{base::fail(Fault::unavailable, "502"), Answer::unknown},
        Case{std::string{"<html>"}, Answer::unknown}, Case{std::string{}, Answer::unknown},
        Case{std::string{"[]"}, Answer::unknown},
        Case{std::string{R"({"sha":7})"}, Answer::unknown}})
    EXPECT_EQ(read_commit(answer, k_commit), means) << answer.value_or("error");
}

class CommitCheckTest : public ::testing::Test {
 protected:
  Answer find(const std::string& sha = k_commit) { return check_.find(sha); }

  base::ManualClock clock_{base::Time{1'700'000'000s}};
  std::function<Result<std::string>(const std::string&)> answer_ = [](const std::string& sha) {
    return commit(sha);
  };
  std::atomic<int> asked_{0};
  CommitCheck check_{[this](const std::string& sha, auto, const auto& done) {
                       ++asked_;
                       done(answer_(sha));
                     },
                     clock_};
};

TEST_F(CommitCheckTest, ACommitThatIsThereIsAskedForOnce) {
  EXPECT_EQ(find(), Answer::exists);
  clock_.advance(48h);
  answer_ = [](const std::string&) { return base::fail(Fault::unavailable, "away"); };
  EXPECT_EQ(find(), Answer::exists);
  EXPECT_EQ(asked_, 1);
}

TEST_F(CommitCheckTest, OneThatIsNotMayBePushedLater) {
  answer_ = [](const std::string&) { return base::fail(Fault::not_found, "404"); };
  EXPECT_EQ(find(), Answer::missing);
  clock_.advance(CommitCheck::k_missing_for - 1us);
  EXPECT_EQ(find(), Answer::missing);
  EXPECT_EQ(asked_, 1);
  answer_ = [](const std::string& sha) { return commit(sha); };
  clock_.advance(1us);
  EXPECT_EQ(find(), Answer::exists);
}

TEST_F(CommitCheckTest, WhileGitHubIsAwayItIsNotAskedByEverybody) {
  answer_ = [](const std::string&) { return base::fail(Fault::unavailable, "away"); };
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(find(std::string(40, static_cast<char>('0' + i))), Answer::unknown);
  EXPECT_EQ(asked_, 1);
  clock_.advance(CommitCheck::k_pause);
  EXPECT_EQ(find(), Answer::unknown);
  EXPECT_EQ(asked_, 2);
  // A clock that is set back does not make the pause longer.
  clock_.advance(-1h);
  answer_ = [](const std::string& sha) { return commit(sha); };
  EXPECT_EQ(find(), Answer::exists);
  EXPECT_EQ(find(std::string(40, 'e')), Answer::exists);
}

TEST(CommitCheckWaits, FewCallersAtATime) {
  const base::ManualClock clock{base::Time{1'700'000'000s}};
  std::mutex mutex;
  std::vector<std::function<void(Result<std::string>)>> held;
  CommitCheck check{[&](const std::string&, auto, auto done) {
                      const std::lock_guard lock{mutex};
                      held.push_back(std::move(done));
                    },
                    clock};
  std::vector<std::thread> waiting;
  std::atomic<int> found{0};
  for (int i = 0; i < CommitCheck::k_at_once; ++i)
    waiting.emplace_back([&, i] {
      if (check.find(std::string(40, static_cast<char>('0' + i))) == Answer::missing) ++found;
    });
  const auto all_wait = [&] {
    const std::lock_guard lock{mutex};
    return std::ssize(held) == CommitCheck::k_at_once;
  };
  while (!all_wait()) std::this_thread::yield();
  EXPECT_EQ(check.find(k_commit), Answer::unknown);  // and returned at once
  for (const auto& done : held) done(base::fail(Fault::not_found, "404"));
  for (auto& thread : waiting) thread.join();
  EXPECT_EQ(found, CommitCheck::k_at_once);
}

class VerifyCommitsTest : public test::RelayTest,
                          public ::testing::WithParamInterface<store::Engine> {
 protected:
  VerifyCommitsTest() : RelayTest{GetParam()} {}
  void add(const std::string& sha, int run, int verified = 0) {
    EXPECT_TRUE(store_->write([&](store::Tx& tx) -> Result<void> {
      auto done = tx.execute(
          "INSERT INTO jobs (delivery_id, event_type, repo_key, repo, level, head_sha, run_id, "
          "run_attempt, job_name, state, first_seen_at, word_workflow, word_body, commit_verified) "
          "VALUES ($1, 'nightly', 'org/two', 'org/two', 'L2', $1, $2, 1, 'j', 'completed', $3, "
          "'CI', '{}', $4)",
          {sha, std::to_string(run), clock_.now(), std::int64_t{verified}});
      if (!done) return tl::unexpected(done.error());
      return {};
    }));
  }
  std::vector<std::string> stored() {
    return rows("SELECT run_id, commit_verified FROM jobs ORDER BY id", 2);
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, VerifyCommitsTest, test::engines(), test::engine_name);

TEST_P(VerifyCommitsTest, WhatCouldNotBeAskedIsAskedLater) {
  const std::string there(40, 'a');
  const std::string gone(40, 'b');
  const std::string away(40, 'c');
  add(away, 1);
  add(there, 2);
  add(there, 3);
  add(gone, 4);
  add(there, 5, 1);
  std::vector<std::string> asked;
  const FindCommit find = [&](const std::string& sha) {
    asked.push_back(sha);
    return sha == there ? Answer::exists : sha == gone ? Answer::missing : Answer::unknown;
  };
  EXPECT_EQ(verify_commits(*store_, find), 2);
  EXPECT_THAT(asked, ElementsAre(there, gone, away));
  EXPECT_THAT(stored(), ElementsAre("1|0", "2|1", "3|1", "4|2", "5|1"));
  EXPECT_EQ(verify_commits(*store_, find), 0);
  EXPECT_THAT(asked, ElementsAre(there, gone, away, away));
}

}  // namespace
}  // namespace crosscheck::relay
