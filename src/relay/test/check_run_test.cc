#include "crosscheck/relay/check_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "support.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
namespace json = base::json;

constexpr base::Time k_now{1'700'000'000s};

JobToShow ended(std::optional<std::string> conclusion) {
  JobToShow job{.repo = test::repo("Org/Three")};
  job.workflow = "CI";
  job.job_name = "linux / test: cuda";
  job.run_id = "123";
  job.head_sha = std::string{test::k_sha};
  job.pr_number = 7;
  job.details_url = "https://github.com/Org/Three/actions/runs/123";
  job.job = {.state = JobState::completed,
             .conclusion = std::move(conclusion),
             .concluded_by = ConcludedBy::downstream,
             .started_at = k_now,
             .completed_at = k_now + 90s,
             .queue = {},
             .execution = 90s};
  return job;
}
std::string text_of(const json::object& body, std::string_view name) {
  return std::string{body.at("output").at(name).as_string()};
}

TEST(CheckRun, WhichJobsHaveOne) {
  struct Case {
    Level level;
    bool label;
    bool demoted;
    bool shown;
    bool wanted;
  };
  for (const auto& [level, label, demoted, shown, wanted] :
       {Case{Level::L1, true, false, false, false}, Case{Level::L2, true, false, false, false},
        Case{Level::L3, false, false, false, false}, Case{Level::L3, true, false, false, true},
        Case{Level::L3, true, true, false, false}, Case{Level::L3, true, true, true, true},
        Case{Level::L3, false, false, true, true}, Case{Level::L2, false, false, true, true},
        Case{Level::L4, false, false, false, true}, Case{Level::L4, false, true, false, true}})
    EXPECT_EQ(wants_check_run({level, label, demoted, shown}), wanted)
        << to_string(level) << label << demoted << shown;
}

TEST(CheckRun, AsGitHubTakesIt) {
  auto job = ended("failure");
  job.passed = 42;
  job.failed = 3;
  const auto body = check_run_of(job);
  EXPECT_EQ(body.at("name").as_string(), "crcr/Org/Three/CI/linux / test: cuda");
  EXPECT_EQ(body.at("external_id").as_string(), "123:7");
  EXPECT_EQ(body.at("details_url").as_string(), "https://github.com/Org/Three/actions/runs/123");
  EXPECT_EQ(body.at("head_sha").as_string(), test::k_sha);
  EXPECT_EQ(body.at("status").as_string(), "completed");
  EXPECT_EQ(body.at("conclusion").as_string(), "failure");
  EXPECT_EQ(body.at("started_at").as_string(), "2023-11-14T22:13:20Z");
  EXPECT_EQ(body.at("completed_at").as_string(), "2023-11-14T22:14:50Z");
  EXPECT_EQ(text_of(body, "title"), "Failure");
  EXPECT_THAT(text_of(body, "summary"), HasSubstr("Org/Three"));
  EXPECT_THAT(text_of(body, "summary"), HasSubstr(job.details_url));
  EXPECT_THAT(text_of(body, "summary"),
              HasSubstr("Tests: 42 passed, 3 failed (as the backend says"));

  auto running = ended({});
  running.job = Job{};
  running.job.started_at = k_now;
  const auto begun = check_run_of(running);
  EXPECT_EQ(begun.at("status").as_string(), "in_progress");
  EXPECT_FALSE(begun.contains("conclusion"));
  EXPECT_FALSE(begun.contains("completed_at"));
  EXPECT_EQ(text_of(begun, "title"), "In progress");
}

TEST(CheckRun, Conclusions) {
  for (const char* known :
       {"success", "failure", "cancelled", "timed_out", "skipped", "neutral", "action_required"}) {
    EXPECT_EQ(github_conclusion(known), known);
    EXPECT_THAT(text_of(check_run_of(ended(known)), "summary"), Not(HasSubstr("neutral.")));
  }
  for (const char* unknown : {"stale", "startup_failure", "Success", "", "great"}) {
    const auto body = check_run_of(ended(unknown));
    EXPECT_EQ(body.at("conclusion").as_string(), "neutral") << unknown;
    EXPECT_THAT(text_of(body, "summary"), HasSubstr("does not know"));
    EXPECT_THAT(text_of(body, "summary"), HasSubstr(unknown));
  }
  const auto none = check_run_of(ended(std::nullopt));
  EXPECT_EQ(none.at("conclusion").as_string(), "neutral");
  EXPECT_EQ(text_of(none, "title"), "Completed");
  EXPECT_EQ(text_of(check_run_of(ended("timed_out")), "title"), "Timed out");
}

TEST(CheckRun, SaysWhoseWordItIs) {
  auto job = ended("timed_out");
  job.job.concluded_by = ConcludedBy::relay;
  EXPECT_THAT(text_of(check_run_of(job), "summary"), HasSubstr("the relay itself ended this job"));
  job = ended("success");
  job.replaced = "timed_out";
  EXPECT_THAT(text_of(check_run_of(job), "summary"),
              HasSubstr("after the relay had ended the job as `timed_out`, and replaces that"));
}

TEST(CheckRun, StaysWithinGitHubsLimitsAndItsMarkdown) {
  auto job = ended("failure");
  job.workflow = std::string(1000, 'w');
  job.counted = true;
  job.failed = 100'000;
  for (int i = 0; i < 5000; ++i)
    job.failed_tests.push_back({"test_`ops`\n# heading " + std::to_string(i), "failed",
                                "@team <img src=x> ![x](http://x)\nsecond line \xe2\x82\xac"});
  const auto body = check_run_of(job);
  EXPECT_LE(text_of(body, "summary").size(), k_output_limit);
  const auto text = text_of(body, "text");
  EXPECT_LE(text.size(), k_output_limit);
  EXPECT_GT(text.size(), k_output_limit / 2);
  EXPECT_TRUE(base::is_utf8(text));
  EXPECT_THAT(text, Not(HasSubstr("\n# heading")));
  EXPECT_THAT(text, Not(HasSubstr("second line")));
  EXPECT_THAT(text, HasSubstr(": `@team <img src=x> ![x](http://x)`\n"));
  EXPECT_THAT(text_of(body, "summary"), HasSubstr("Tests: 100000 failed."));
}

TEST(CheckRun, ReadsWhichRunItStandsFor) {
  struct Case {
    const char* name;
    const char* external_id;
    const char* repo;  // empty: no check run of ours
    const char* run_id;
  };
  for (const auto& [name, external_id, repo, run_id] :
       {Case{"crcr/o/r/CI/test", "77:42", "o/r", "77"}, Case{"crcr/o/r/CI", "77", "o/r", "77"},
        Case{"crcr/o/r/a/b/c", "77:42", "o/r", "77"},
        Case{"crcr/o/r/CI/test", "0190-uuid:42", "o/r", "0190-uuid"},
        Case{"crcr/o/r", "77:42", "", ""}, Case{"crcr/o/r/", "77:42", "", ""},
        Case{"crcr//r/CI/test", "77:42", "", ""}, Case{"o/r/CI/test", "77:42", "", ""},
        Case{"crcr/o/r/CI/test", "", "", ""}, Case{"crcr/o/r/CI/test", ":42", "", ""},
        Case{"", "", "", ""}}) {
    const auto shown = parse_check_run(name, external_id);
    ASSERT_EQ(shown.has_value(), *repo != '\0') << name << " " << external_id;
    if (!shown) continue;
    EXPECT_EQ(shown->repo.full_name(), repo);
    EXPECT_EQ(shown->run_id, run_id);
  }
  EXPECT_TRUE(is_actions_run("123"));
  for (const char* other : {"", "0190f7c2-uuid", "12a", "-1", "123456789012345678901"})
    EXPECT_FALSE(is_actions_run(other)) << other;
}

TEST(StableCheckRun, IsNamedAfterTheBackendAlone) {
  StableCheck check{.repo = test::repo("Org/Four"), .head_sha = "abc", .pr_number = 7};
  check.summary = "waiting";
  const auto body = check_run_of(check);
  EXPECT_EQ(body.at("name").as_string(), "crcr/Org/Four");
  EXPECT_EQ(body.at("status").as_string(), "queued");
  EXPECT_FALSE(body.contains("conclusion"));
  const auto id = std::string{body.at("external_id").as_string()};
  EXPECT_EQ(parse_stable_check("crcr/Org/Four", id)->full_name(), "Org/Four");
  EXPECT_FALSE(parse_stable_check("crcr/Org/Four", "77:42"));
  EXPECT_FALSE(parse_stable_check("crcr/Org/Four/CI/test", id));
  EXPECT_FALSE(parse_check_run("crcr/Org/Four", id));
}

TEST(StableCheckRun, IsDecidedByItsJobs) {
  using Jobs = std::vector<StableFacts::JobFacts>;
  const auto running = [](const char* name) {
    return StableFacts::JobFacts{name, JobState::in_progress, {}};
  };
  const auto done = [](const char* name, std::optional<std::string> conclusion) {
    return StableFacts::JobFacts{name, JobState::completed, std::move(conclusion)};
  };
  const StablePolicy policy{.settle = 5min, .silence = 6h};
  struct Case {
    const char* what;
    Jobs jobs;
    base::Duration quiet;
    const char* conclusion;
    base::Duration look_after;  // from the last report
  };
  for (const auto& [what, jobs, quiet, conclusion, look_after] :
       {Case{"nothing yet", {}, 1h, "", 6h}, Case{"silence", {}, 6h, "failure", 6h},
        Case{"the clock was set back", {}, -1h, "", 6h},
        Case{"one runs", {done("a", "failure"), running("b")}, 7h, "", 7h + 5min},
        Case{"not settled", {done("a", "success")}, 4min, "", 5min},
        Case{"passed", {done("a", "success"), done("b", "skipped")}, 5min, "success", 5min},
        Case{"nothing ran", {done("a", "skipped"), done("b", "neutral")}, 5min, "neutral", 5min},
        Case{"one failed", {done("a", "success"), done("b", "failure")}, 5min, "failure", 5min},
        Case{"timed out", {done("a", "timed_out")}, 5min, "failure", 5min},
        Case{"cancelled is not passed", {done("a", "cancelled")}, 5min, "failure", 5min},
        Case{"nor is what nobody knows", {done("a", "great")}, 5min, "failure", 5min},
        Case{"nor no conclusion", {done("a", std::nullopt)}, 5min, "failure", 5min}}) {
    const StableFacts facts{.jobs = jobs, .active_at = k_now};
    const auto verdict = decide_stable(facts, policy, k_now + quiet);
    EXPECT_EQ(verdict.conclusion, conclusion) << what;
    EXPECT_EQ(verdict.look_at, k_now + look_after) << what;
    EXPECT_EQ(verdict.summary.empty(), verdict.conclusion.empty()) << what;
  }
  StableFacts facts{.active_at = k_now};
  facts.dispatch_state = "dead";
  facts.dispatch_error = "404";
  EXPECT_EQ(decide_stable(facts, policy, k_now).conclusion, "failure");
  facts.dispatch_state = "withdrawn";
  EXPECT_EQ(decide_stable(facts, policy, k_now).conclusion, "skipped");
  facts.is_open = false;
  EXPECT_EQ(decide_stable(facts, policy, k_now).conclusion, "cancelled");
}

TEST(StableCheckRun, NamesWhatFailed) {
  StableFacts facts{.active_at = k_now};
  facts.jobs = {{"CI / `a`", JobState::completed, "failure"},
                {"CI / b", JobState::completed, "success"}};
  const auto verdict = decide_stable(facts, {}, k_now + 5min);
  EXPECT_THAT(verdict.summary, HasSubstr("1 of 2 jobs passed"));
  EXPECT_THAT(verdict.summary, HasSubstr("`CI / 'a'`: `failure`"));
  EXPECT_THAT(verdict.summary, Not(HasSubstr("CI / b")));
}

}  // namespace
}  // namespace crosscheck::relay
