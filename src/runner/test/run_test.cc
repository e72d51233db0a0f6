#include "crosscheck/runner/run.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <pugixml.hpp>
#include <thread>

#include "crosscheck/base/file.h"
#include "crosscheck/base/gzip.h"
#include "crosscheck/store/faulty_store.h"
#include "crosscheck/store/run_store.h"
#include "support.h"

namespace crosscheck::runner {
namespace {

using base::Outcome;
using testing::HasSubstr;

std::string attribute(pugi::xml_node node, const char* name) {
  return node.attribute(name).value();
}

class RunTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::unique_ptr<store::Store> store_;

  void SetUp() override {
    auto opened = store::open(folder_ / "c.db");
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }

  RunRequest request(const std::vector<std::string>& methods) {
    RunRequest request;
    request.setup = fake_probe();
    request.inventory.environment.torch = "9.9.9";
    request.inventory.environment.torch_git = "abc";
    request.inventory.environment.suite = "sha256:1";
    request.inventory.environment.device = {"cpu", 1, "fake"};
    request.environment = request.inventory.environment;
    for (const auto& method : methods) {
      auto test = make_test("test_a.py", method);
      test.id.variant = R"({"dtype":"float32","op":"add"})";
      request.inventory.tests.push_back(std::move(test));
    }
    request.workers = 1;
    request.store = store_.get();
    request.store_name = "c.db";
    request.junit_file = folder_ / "junit.xml";
    request.results_file = folder_ / "results.jsonl.gz";
    return request;
  }

  // Outcome to number, as the HUD will count them; nothing if the run has not ended.
  std::map<std::string, std::int64_t> stored(const std::string& run_id) {
    std::map<std::string, std::int64_t> counts;
    const auto read = store_->read([&](store::Tx& tx) -> base::Result<void> {
      auto rows = tx.query(
          "SELECT r.outcome, COUNT(*) FROM test_results r JOIN runs ON runs.id = r.run "
          "WHERE runs.run_key = $1 AND runs.finished_at IS NOT NULL GROUP BY r.outcome",
          {run_id});
      if (!rows) return tl::unexpected(rows.error());
      for (const auto& row : *rows) counts[row.text(0)] = row.integer(1);
      return {};
    });
    EXPECT_TRUE(read) << read.error().message;
    return counts;
  }
};

TEST_F(RunTest, FilesAndStoreAgree) {
  auto asked = request({"a", "fails", "signal_11", "missing", "b"});
  asked.inventory.errors = {{"test_broken.py", "SyntaxError", "invalid syntax", ""}};
  const auto report = run(asked);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->ok());
  EXPECT_FALSE(report->interrupted);
  const auto counts = report->results.counts();
  EXPECT_EQ(counts.total(), 6);
  EXPECT_EQ(counts[Outcome::passed], 2);
  EXPECT_EQ(counts.failures(), 2);
  EXPECT_EQ(counts.faults(), 2);

  EXPECT_THAT(stored(report->results.header.run_id),
              testing::ElementsAre(testing::Pair("crashed", 1), testing::Pair("failed", 1),
                                   testing::Pair("harness_error", 2), testing::Pair("passed", 2)));

  const auto bytes = base::read_file(folder_ / "results.jsonl.gz");
  ASSERT_TRUE(bytes);
  const auto text = base::gunzip(*bytes, std::size_t{1} << 24);
  ASSERT_TRUE(text);
  const auto results = base::parse_run_results(*text);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->results, report->results.results);
  EXPECT_EQ(results->header.combination, report->results.header.combination);

  pugi::xml_document document;
  ASSERT_TRUE(document.load_file((folder_ / "junit.xml").c_str()));
  const auto root = document.child("testsuites");
  EXPECT_EQ(attribute(root, "tests"), "6");
  EXPECT_EQ(attribute(root, "failures"), "2");
  EXPECT_EQ(attribute(root, "errors"), "2");
  EXPECT_EQ(attribute(root, "skipped"), "0");
  EXPECT_EQ(document.select_nodes("//testcase").size(), 6U);
  EXPECT_EQ(document.select_nodes("//testcase/failure").size(), 2U);
  EXPECT_EQ(document.select_nodes("//testcase/error").size(), 2U);
  const auto failure =
      document.select_node("//testcase[@name='fails[dtype=float32,op=add]']").node();
  EXPECT_EQ(attribute(failure, "file"), "test_a.py");
  EXPECT_EQ(attribute(failure, "classname"), "test_a.TestX");
  EXPECT_EQ(attribute(failure.child("failure"), "type"), "numerical_mismatch");
  EXPECT_THAT(attribute(failure.child("failure"), "message"), HasSubstr("Scalars are not close!"));
}

TEST_F(RunTest, IsOkWhenNothingFailed) {
  const auto report = run(request({"a", "b"}));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok());
}

Rule rule(base::Mode mode, const std::string& basis = "listed") {
  Rule made;
  made.governed = {mode, basis, "c.yaml:7:9", Outcome::not_run};
  made.reason = "because";
  return made;
}

TEST_F(RunTest, AConfigurationSaysWhatOutcomesMean) {
  using enum base::Mode;
  auto asked = request({"a", "fails", "signal_11", "b", "c", "d"});
  asked.governing.files = {{"c.yaml", "d16e57"}};
  asked.governing.rules = {
      rule(mandatory_success), rule(xfail), rule(xfail_strict), rule(xfail), rule(skip),
      rule(skip, "ungoverned")};
  const auto report = run(asked);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok());
  EXPECT_THAT(stored(report->results.header.run_id),
              testing::ElementsAre(testing::Pair("not_run", 1), testing::Pair("passed", 1),
                                   testing::Pair("skipped", 1), testing::Pair("xfailed", 2),
                                   testing::Pair("xpassed", 1)));
  pugi::xml_document document;
  ASSERT_TRUE(document.load_file((folder_ / "junit.xml").c_str()));
  EXPECT_EQ(attribute(document.child("testsuites"), "skipped"), "4");
  const auto crashed = document.select_node("//testcase[starts-with(@name,'signal_11')]").node();
  EXPECT_EQ(attribute(crashed.child("skipped"), "type"), "xfailed");
  EXPECT_EQ(attribute(crashed.select_node("properties/property[@name='observed']").node(), "value"),
            "crashed");
  EXPECT_EQ(attribute(crashed.select_node("properties/property[@name='place']").node(), "value"),
            "c.yaml:7:9");
  const auto text = summary_text(report->results, {}, false);
  EXPECT_THAT(text, HasSubstr("1 must pass: 1 passed\n2 may fail: 1 passed, 1 failed\n"));
}

TEST_F(RunTest, ObservingRunsAllAndFailsOnlyByWhatIsPromised) {
  using enum base::Mode;
  auto asked = request({"a", "fails", "signal_11"});
  asked.governing.files = {{"c.yaml", "d16e57"}};
  asked.governing.rules = {rule(skip), rule(skip, "unlisted"), rule(skip, "ungoverned")};
  asked.govern.observe = true;
  const auto report = run(asked);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->ok());
  EXPECT_TRUE(report->results.header.observe);
  EXPECT_THAT(stored(report->results.header.run_id),
              testing::ElementsAre(testing::Pair("xfailed", 2), testing::Pair("xpassed", 1)));
  asked.governing.rules[1] = rule(mandatory_success);
  const auto promised = run(asked);
  ASSERT_TRUE(promised);
  EXPECT_FALSE(promised->ok());
}

TEST_F(RunTest, AConfigurationThatListsNothingIsRefusedBeforeAnythingIsWritten) {
  auto asked = request({"a"});
  asked.governing.rules = {rule(base::Mode::skip, "unlisted")};
  const auto report = run(asked);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().fault, base::Fault::invalid_input);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "junit.xml"));
}

// Rows 3, 4 and 11 in small: attempts are results of their own, and flaky is not passed.
TEST_F(RunTest, APassAfterAFailureIsFlakyInEveryReport) {
  auto asked = request({"a", "flaky", "fails"});
  asked.setup = fake_probe(folder_ / "log");
  asked.retries = 1;
  const auto report = run(asked);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->results.results.size(), 5U);
  EXPECT_EQ(report->results.counts().flaky(), 1);
  EXPECT_EQ(report->results.counts()[Outcome::passed], 1);
  EXPECT_FALSE(report->ok());  // by the one that fails
  pugi::xml_document document;
  ASSERT_TRUE(document.load_file((folder_ / "junit.xml").c_str()));
  EXPECT_EQ(document.select_nodes("//testcase").size(), 3U);
  const auto flaky = document.select_node("//testcase[starts-with(@name,'flaky')]").node();
  EXPECT_THAT(attribute(flaky.child("flakyFailure"), "message"), HasSubstr("not yet"));
  EXPECT_FALSE(flaky.child("failure"));
  const auto fails = document.select_node("//testcase[starts-with(@name,'fails')]").node();
  EXPECT_TRUE(fails.child("failure") && fails.child("rerunFailure"));
  const auto text = summary_text(report->results, {}, false);
  EXPECT_THAT(text, HasSubstr("FLAKY test_a.py::TestX::flaky: passed in attempt 2"));
  EXPECT_THAT(text, HasSubstr("1 passed, 1 failed, 1 flaky"));
  EXPECT_EQ(summary_json(report->results, {}, false).at("counts").at("flaky"), 1);
}

TEST_F(RunTest, ShardsHoldEveryTestOnceAndBrokenFilesInTheFirst) {
  std::map<std::string, int> seen;
  for (std::size_t index = 1; index <= 3; ++index) {
    auto asked = request({"a", "b", "c", "d", "e"});
    asked.inventory.errors = {{"test_broken.py", "SyntaxError", "invalid syntax", ""}};
    asked.shard = ShardRequest{index, 3, {}};
    const auto report = run(asked);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_THAT(report->results.header.shard, testing::StartsWith(std::to_string(index) + "/3:"));
    for (const auto& result : report->results.results) ++seen[result.id.method];
  }
  EXPECT_THAT(seen, testing::ElementsAre(testing::Pair("(collection)", 1), testing::Pair("a", 1),
                                         testing::Pair("b", 1), testing::Pair("c", 1),
                                         testing::Pair("d", 1), testing::Pair("e", 1)));
}

// What an interrupted run leaves, made by hand: its first test has a result.
class ResumeTest : public RunTest {
 protected:
  RunRequest resuming(const std::string& id = "") {
    auto asked = request({"a", "fails", "c"});
    asked.resume = id;
    return asked;
  }
  // As a process would that died behind its first test.
  std::string leave_unfinished(const store::Owner& owner, bool interrupted = false) {
    auto asked = request({"a", "fails", "c"});
    base::RunHeader header;
    header.run_id = "r1";
    header.combination = combination_of(asked);
    header.selection = "bundled suite, all tests";
    header.started_at = base::from_micros(1'000'000);
    base::TestResult done;
    done.id = asked.inventory.tests[0].id;
    done.node_id = asked.inventory.tests[0].node_id;
    done.outcome = Outcome::passed;
    done.message = "kept";
    base::TestResult not_run;
    not_run.id = asked.inventory.tests[2].id;
    not_run.outcome = Outcome::not_run;
    const auto written = store_->write([&](store::Tx& tx) -> base::Result<void> {
      const auto id = store::begin_run(tx, header, owner);
      if (!id) return tl::unexpected(id.error());
      if (auto added = store::add_results(tx, *id, std::vector{done, not_run}); !added)
        return added;
      header.interrupted = true;
      return interrupted ? store::finish_run(tx, *id, header, owner) : base::Result<void>{};
    });
    EXPECT_TRUE(written) << written.error().message;
    return header.run_id;
  }
  std::string stored_text(const std::string& sql) {
    std::string text;
    const auto read = store_->read([&](store::Tx& tx) -> base::Result<void> {
      auto rows = tx.query(sql);
      if (!rows) return tl::unexpected(rows.error());
      for (const auto& row : *rows) text += row.optional_text(0).value_or("-") + " ";
      return {};
    });
    EXPECT_TRUE(read) << read.error().message;
    return text;
  }
  const store::Owner dead_{"another-boot/pid:[1] 7 8", base::from_micros(2'000'000)};
};

TEST_F(ResumeTest, RunsOnlyWhatHasNoResultAndEndsAsOneRun) {
  for (const auto& [id, interrupted] :
       {std::pair{std::string{}, false}, {std::string{"r1"}, true}}) {
    SetUp();
    leave_unfinished(interrupted ? store::Owner{} : dead_, interrupted);
    const auto report = run(resuming(id));
    ASSERT_TRUE(report) << report.error().message;
    const auto& results = report->results.results;
    ASSERT_EQ(results.size(), 3U);
    EXPECT_EQ(results[0].message, "kept");
    EXPECT_EQ(results[1].outcome, Outcome::failed);
    EXPECT_EQ(results[2].outcome, Outcome::passed);
    EXPECT_EQ(report->results.header.run_id, "r1");
    EXPECT_EQ(report->results.header.started_at, base::from_micros(1'000'000));
    EXPECT_EQ(stored_text("SELECT ended FROM runs"), "complete ");
    EXPECT_THAT(stored("r1"),
                testing::ElementsAre(testing::Pair("failed", 1), testing::Pair("passed", 2)));
    store_.reset();
    std::filesystem::remove(folder_ / "c.db");
  }
}

TEST_F(ResumeTest, RefusesWhatIsAnothersOrGoesOn) {
  const auto why = [&](const RunRequest& asked) {
    const auto report = run(asked);
    return report ? "nothing" : report.error().message;
  };
  EXPECT_EQ(why(resuming()), "there is no unfinished run of this subject and selection");
  EXPECT_EQ(why(resuming("r1")), "there is no unfinished run r1");
  leave_unfinished({"another-boot/pid:[1] 7 8", base::SystemClock{}.now()});
  EXPECT_EQ(why(resuming()), "run r1 still goes on");
  auto other = resuming("r1");
  other.selection.quick = true;
  other.inventory.tests[0].quick = true;
  EXPECT_EQ(why(other),
            "run r1 cannot be resumed: the selection was bundled suite, all tests and is bundled "
            "suite, quick set");
  other = resuming("r1");
  other.backend_revision = "abc";
  EXPECT_EQ(why(other), "run r1 cannot be resumed: the backend's revision was unknown and is abc");
  EXPECT_EQ(stored_text("SELECT ended FROM runs"), "- ");
}

TEST_F(ResumeTest, ARunWhoseProcessDiedIsEndedByTheNext) {
  leave_unfinished(dead_);
  ASSERT_TRUE(run(request({"a"})));
  EXPECT_EQ(stored_text("SELECT ended FROM runs ORDER BY started_at"), "died complete ");
  EXPECT_EQ(stored_text("SELECT counts FROM runs ORDER BY started_at LIMIT 1"),
            R"({"not_run":1,"passed":1} )");
  // It can still be resumed.
  const auto report = run(resuming("r1"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->results.results.size(), 3U);
}

TEST_F(ResumeTest, AFailureThatWasToBeTriedAgainIs) {
  for (const auto& [before, retries, attempts] :
       {std::tuple{1, 0, 1}, {1, 1, 2}, {2, 1, 2}, {2, 2, 3}}) {
    SetUp();
    auto asked = resuming();
    asked.retries = retries;
    leave_unfinished(dead_);
    ASSERT_TRUE(store_->write([&, before = before](store::Tx& tx) -> base::Result<void> {
      base::TestResult failed;
      failed.id = asked.inventory.tests[2].id;
      failed.outcome = Outcome::failed;
      for (failed.attempt = 1; failed.attempt <= before; ++failed.attempt) {
        auto cleared = tx.execute("DELETE FROM test_results WHERE outcome = 'not_run'", {});
        if (!cleared) return tl::unexpected(cleared.error());
        if (auto added = store::add_results(tx, 1, std::vector{failed}); !added) return added;
      }
      return {};
    }));
    const auto report = run(asked);
    ASSERT_TRUE(report) << report.error().message;
    std::vector<const base::TestResult*> of_test;
    for (const auto& result : report->results.results) {
      if (result.id == asked.inventory.tests[2].id) of_test.push_back(&result);
    }
    ASSERT_EQ(of_test.size(), static_cast<std::size_t>(attempts));
    EXPECT_EQ(of_test.back()->attempt, attempts);
    EXPECT_EQ(report->results.counts().flaky(), attempts > before ? 1 : 0);
    store_.reset();
    std::filesystem::remove(folder_ / "c.db");
  }
}

// Another store, but for its writes.
class WriteTap : public store::Store {
 public:
  explicit WriteTap(store::Store& inner) : inner_{inner} {}
  base::Result<void> read(const std::function<base::Result<void>(store::Tx&)>& body) override {
    return inner_.read(body);
  }
  bool wait_for(std::string_view channel, base::Duration timeout) override {
    return inner_.wait_for(channel, timeout);
  }
  void interrupt() override { inner_.interrupt(); }
  store::Engine engine() const override { return inner_.engine(); }
  std::size_t waiting_writes() const override { return inner_.waiting_writes(); }

 protected:
  store::Store& inner_;
};

// As if another process did, before this one's second write.
class StolenStore final : public WriteTap {
 public:
  using WriteTap::WriteTap;
  base::Result<void> write(const std::function<base::Result<void>(store::Tx&)>& body) override {
    if (++writes_ == 2) {
      const auto taken = inner_.write([](store::Tx& tx) -> base::Result<void> {
        auto done = tx.execute("UPDATE runs SET owner = 'thief'", {});
        if (!done) return tl::unexpected(done.error());
        return {};
      });
      EXPECT_TRUE(taken);
    }
    return inner_.write(body);
  }

 private:
  std::atomic<int> writes_ = 0;
};

TEST_F(ResumeTest, ARunThatWasTakenOverIsWrittenNoLongerAndItsProcessStops) {
  for (const bool at_its_end : {false, true}) {
    SetUp();
    StolenStore stolen{*store_};
    auto asked = request({"a", at_its_end ? "b" : "hang"});
    asked.store = &stolen;
    const auto report = run(asked);
    ASSERT_FALSE(report);
    EXPECT_EQ(exit_code(report.error().fault), base::ExitCode::environment);
    EXPECT_THAT(report.error().message, HasSubstr("is no longer this process's"));
    EXPECT_THAT(report.error().remedy, HasSubstr("--resume"));
    EXPECT_TRUE(std::filesystem::exists(folder_ / "results.jsonl.gz"));
    EXPECT_EQ(stored_text("SELECT owner FROM runs"), "thief ");
    EXPECT_EQ(stored_text("SELECT outcome FROM test_results"), "");
    store_.reset();
    std::filesystem::remove(folder_ / "c.db");
  }
}

TEST_F(RunTest, RefusesAnotherTorchBeforeAnythingIsWritten) {
  auto asked = request({"a"});
  asked.environment.torch = "1.0.0";
  const auto report = run(asked);
  ASSERT_FALSE(report);
  EXPECT_EQ(exit_code(report.error().fault), base::ExitCode::environment);
  EXPECT_THAT(report.error().message, testing::AllOf(HasSubstr("9.9.9"), HasSubstr("1.0.0")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "junit.xml"));
}

TEST_F(RunTest, KnowsBeforehandThatAFileCannotBeWritten) {
  auto asked = request({"a"});
  asked.junit_file = folder_ / "no/such/folder/junit.xml";
  const auto report = run(asked);
  ASSERT_FALSE(report);
  EXPECT_EQ(exit_code(report.error().fault), base::ExitCode::environment);
  EXPECT_THAT(report.error().message, HasSubstr("no/such/folder"));
}

TEST_F(RunTest, AFileThatCannotBeWrittenAtTheEndLosesNothingElse) {
  auto asked = request({"a"});
  std::filesystem::create_directories(folder_ / "gone");
  asked.junit_file = folder_ / "gone/junit.xml";
  asked.inventory.tests.push_back(make_test("test_a.py", "removes"));
  asked.setup.environment.emplace_back("FAKE_PROBE_REMOVES", folder_ / "gone");
  const auto report = run(asked);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("gone/junit.xml"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "results.jsonl.gz"));
}

// The store fails at its n-th call, for every n: never half a batch, never an end that is not
// there, and files are written all the same once tests have run.
TEST_F(RunTest, AStoreThatFailsGivesAnErrorAndNothingHalf) {
  for (std::int64_t n = 1;; ++n) {
    store::FaultyStore faulty{*store_};
    faulty.fail_at(n, base::Fault::full);
    auto asked = request({"a", "fails", "b"});
    asked.store = &faulty;
    asked.results_file = folder_ / ("results" + std::to_string(n) + ".jsonl");
    const auto report = run(asked);
    const bool failed = faulty.calls() >= n;
    if (!failed) {
      EXPECT_TRUE(report);
      break;
    }
    if (!report) {
      EXPECT_EQ(exit_code(report.error().fault), base::ExitCode::environment)
          << report.error().message;
    } else {
      EXPECT_EQ(stored(report->results.header.run_id).size(), 2U) << n;
    }
    ASSERT_LT(n, 100);
  }
  const auto whole = store_->read([&](store::Tx& tx) -> base::Result<void> {
    auto rows = tx.query("SELECT run, COUNT(*) FROM test_results GROUP BY run");
    if (!rows) return tl::unexpected(rows.error());
    for (const auto& row : *rows) EXPECT_EQ(row.integer(1), 3);
    return {};
  });
  EXPECT_TRUE(whole);
}

// Holds up every write after the first until `released`.
class HeldStore final : public WriteTap {
 public:
  HeldStore(store::Store& inner, std::function<bool()> released)
      : WriteTap{inner}, released_{std::move(released)} {}
  base::Result<void> write(const std::function<base::Result<void>(store::Tx&)>& body) override {
    if (writes_++ > 0) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
      while (!released_()) {
        if (std::chrono::steady_clock::now() > deadline) {
          ADD_FAILURE() << "the run waits for the store";
          break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds{5});
      }
    }
    return inner_.write(body);
  }

 private:
  std::function<bool()> released_;
  std::atomic<int> writes_ = 0;
};

TEST_F(RunTest, AStoreThatIsLockedHoldsUpNoTest) {
  std::vector<std::string> methods;
  for (int i = 0; i < 600; ++i) methods.push_back("a" + std::to_string(i));  // over a batch
  auto asked = request(methods);
  asked.inventory.tests.push_back(make_test("test_b.py", "hang"));
  asked.setup.environment.emplace_back("FAKE_PROBE_LOG", folder_ / "log");
  asked.limits.test = std::chrono::seconds{2};
  asked.limits.grace = std::chrono::milliseconds{100};
  asked.inventory.tests.push_back(make_test("test_c.py", "last"));
  // The last process begins only once the one before it hung and was killed.
  HeldStore held{*store_, [&] { return count(read_text(folder_ / "log"), "test_c.py") > 0; }};
  asked.store = &held;
  const auto report = run(asked);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->results.counts()[Outcome::timed_out], 1);
  EXPECT_THAT(stored(report->results.header.run_id),
              testing::ElementsAre(testing::Pair("passed", 601), testing::Pair("timed_out", 1)));
}

TEST_F(RunTest, WhatCannotBeReadLeavesNoRunOpen) {
  store::FaultyStore faulty{*store_};
  faulty.fail_at(1);
  auto asked = request({"a"});
  asked.store = &faulty;
  EXPECT_FALSE(run(asked));
  const auto runs =
      store_->read_value([](store::Tx& tx) { return tx.query("SELECT id FROM runs"); });
  ASSERT_TRUE(runs);
  EXPECT_TRUE(runs->empty());
}

TEST_F(RunTest, WritesToADevice) {
  auto asked = request({"a"});
  asked.junit_file = "/dev/null";
  const auto report = run(asked);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(RunTest, LearnsTimesFromEarlierRuns) {
  ASSERT_TRUE(run(request({"a", "b"})));
  // A second run reads the first one's times; they must not get in its way.
  const auto again = run(request({"a", "b", "c"}));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->results.counts()[Outcome::passed], 3);
}

base::RunResults awkward() {
  base::RunResults run;
  run.header.run_id = "r1";
  const auto add = [&](const std::string& method, Outcome outcome, const std::string& message) {
    base::TestResult result;
    result.id = {"dir/test_a.py", "", method, "{}"};
    result.node_id = "dir/test_a.py::" + method;
    result.outcome = outcome;
    result.message = message;
    result.detail = message;
    run.results.push_back(result);
  };
  add("markup", Outcome::failed, "<a href=\"x\">&amp; ]]> 'q'");
  add("control", Outcome::crashed, std::string{"bell \a esc \x1b[31m nul "} + '\0' + " end");
  add("not_utf8", Outcome::timed_out, "\xff\xfe \xed\xa0\x80");
  add("noncharacters", Outcome::environment_error, "\xEF\xBF\xBE and \xEF\xBF\xBF");
  add("lines", Outcome::skipped, "first\nsecond\tx");
  add("expected", Outcome::xfailed, "");
  add("surprise", Outcome::xpassed, "");
  add("left", Outcome::not_run, "");
  return run;
}

TEST(Junit, HoldsWhateverAMessageHolds) {
  const auto text = to_junit(awkward());
  for (const char c : text)
    EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') << int{c};
  EXPECT_TRUE(base::is_utf8(text));
  EXPECT_EQ(text.find("\xEF\xBF\xBE"), std::string::npos);
  EXPECT_EQ(text.find("\xEF\xBF\xBF"), std::string::npos);
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(text.c_str()));
  const auto root = document.child("testsuites");
  EXPECT_EQ(attribute(root, "tests"), "8");
  EXPECT_EQ(attribute(root, "failures"), "3");
  EXPECT_EQ(attribute(root, "errors"), "1");
  EXPECT_EQ(attribute(root, "skipped"), "3");
  const auto failure = document.select_node("//testcase[@name='markup']/failure").node();
  EXPECT_EQ(attribute(failure, "message"), "<a href=\"x\">&amp; ]]> 'q'");
  EXPECT_EQ(std::string{failure.child_value()}, "<a href=\"x\">&amp; ]]> 'q'");
  EXPECT_EQ(attribute(document.select_node("//testcase[@name='lines']/skipped").node(), "message"),
            "first\nsecond\tx");
  EXPECT_EQ(attribute(document.select_node("//testcase[@name='markup']").node(), "classname"),
            "dir.test_a");
}

TEST(Junit, ShowsTheLatestAttempt) {
  base::RunResults run;
  base::TestResult result;
  result.id = {"a.py", "T", "t", "{}"};
  result.outcome = Outcome::failed;
  run.results.push_back(result);
  result.attempt = 2;
  result.outcome = Outcome::passed;
  run.results.push_back(result);
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(to_junit(run).c_str()));
  EXPECT_EQ(attribute(document.child("testsuites"), "tests"), "1");
  EXPECT_TRUE(document.select_nodes("//failure").empty());
}

TEST(Summary, NamesAtMostTwentyFailures) {
  base::RunResults run;
  for (int i = 0; i < 25; ++i) {
    base::TestResult result;
    result.id = {"a.py", "T", "t" + std::to_string(i), "{}"};
    result.node_id = "a.py::T::t" + std::to_string(i);
    result.outcome = i % 2 == 0 ? Outcome::failed : Outcome::crashed;
    result.message = "first\nsecond";
    run.results.push_back(result);
  }
  run.header.run_id = "r1";
  const auto text = summary_text(run, {"j.xml", "", "c.db"}, true);
  EXPECT_THAT(text, HasSubstr("FAILED a.py::T::t0: first\nCRASHED a.py::T::t1: first\n"));
  EXPECT_EQ(text.find("second"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("t19: first\nand 5 more\n"));
  EXPECT_THAT(text, HasSubstr("25 tests in"));
  EXPECT_THAT(text, HasSubstr("13 failed, 12 crashed"));
  EXPECT_THAT(text, HasSubstr("interrupted"));
  EXPECT_THAT(text, HasSubstr("run r1 in c.db, JUnit in j.xml\n"));
  run.results[0].node_id = "a.py::\x1b[31mred\xC2\x9B";
  EXPECT_THAT(summary_text(run, {}, true),
              HasSubstr("FAILED a.py::\xEF\xBF\xBD[31mred\xEF\xBF\xBD: "));
  const auto object = summary_json(run, {"j.xml", "", "c.db"}, true);
  EXPECT_EQ(object.at("counts").at("failed").to_number<int>(), 13);
  EXPECT_EQ(object.at("failures").as_array().size(), 25U);
}

TEST(Progress, FitsTheTerminal) {
  Progress progress;
  progress.done = 10;
  progress.total = 40;
  progress.expected_done = std::chrono::seconds{10};
  progress.expected_total = std::chrono::seconds{40};
  progress.counts.add(Outcome::failed, 2);
  progress.running = {"test_é.py::T::t", "test_b.py::T::u"};
  const auto line = progress_line(progress, std::chrono::seconds{30}, 200);
  EXPECT_THAT(line, testing::StartsWith("10/40, 2 failed, 30"));
  EXPECT_THAT(line, HasSubstr("about 1 min 30 s left"));
  EXPECT_THAT(line, HasSubstr("test_é.py::T::t, test_b.py::T::u"));
  for (std::size_t width = 0; width < 100; ++width) {
    const auto cut = progress_line(progress, std::chrono::seconds{30}, width);
    EXPECT_TRUE(base::is_utf8(cut));
    EXPECT_TRUE(line.starts_with(cut));
  }
}

}  // namespace
}  // namespace crosscheck::runner
