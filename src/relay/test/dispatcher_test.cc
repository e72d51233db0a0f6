#include "crosscheck/relay/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "crosscheck/store/faulty_store.h"
#include "support.h"

namespace crosscheck::relay {
namespace {

using namespace std::chrono_literals;
using test::pull_request;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using Kind = Answer::Kind;

class DispatcherTest : public test::RelayTest {
 protected:
  using RelayTest::RelayTest;
  Dispatcher dispatcher(store::Store& store, std::size_t concurrency = 32) {
    return Dispatcher{
        store, clock_, target_, {.concurrency = concurrency, .jitter = [] { return 1.0; }}};
  }
  void step(Dispatcher& d) {
    const auto did = d.step();
    EXPECT_TRUE(did) << did.error().message;
  }
  void settle(Dispatcher& d) {
    for (int i = 0; i < 50; ++i) {
      const auto did = d.step();
      ASSERT_TRUE(did) << did.error().message;
      if (!*did) return;
    }
    FAIL() << "never at rest";
  }
  std::vector<std::string> column(const std::string& name) {
    return rows("SELECT " + name + " FROM dispatches ORDER BY id", 1);
  }

  test::FakeTarget target_;
};

class DispatcherOnEngine : public DispatcherTest,
                           public ::testing::WithParamInterface<store::Engine> {
 protected:
  DispatcherOnEngine() : DispatcherTest{GetParam()} {}
};
INSTANTIATE_TEST_SUITE_P(Engines, DispatcherOnEngine, test::engines(), test::engine_name);

TEST_P(DispatcherOnEngine, SendsWhatWasAcceptedOnce) {
  const auto body = pull_request("opened");
  accept_event("d-1", body);
  auto d = dispatcher(*store_);
  settle(d);
  EXPECT_THAT(target_.sent_to(),
              UnorderedElementsAre("org/one", "org/two", "org/three", "org/four"));
  EXPECT_EQ(*target_.sent[0].body, base::json::serialize(body));
  EXPECT_EQ(target_.sent[0].body, target_.sent[3].body);
  EXPECT_EQ(target_.sent[0].delivery_id, "d-1");
  EXPECT_EQ(target_.sent[0].event_type, "pull_request");
  EXPECT_EQ(target_.sent[0].pr_number, 7);
  EXPECT_THAT(column("state"), Each("sent"));
  settle(d);
  EXPECT_EQ(target_.sent.size(), 4U);
}

TEST_P(DispatcherOnEngine, TheAttemptIsOnRecordBeforeItIsMade) {
  accept_event("d-1", pull_request("opened"));
  target_.hold = true;
  auto d = dispatcher(*store_);
  step(d);
  EXPECT_THAT(column("state"), Each("sending"));
  EXPECT_THAT(column("first_attempt_at"), Each(std::to_string(base::to_micros(clock_.now()))));
  EXPECT_THAT(column("attempts"), Each("1"));
  for (auto& done : target_.held) done({});
  settle(d);
  EXPECT_THAT(column("state"), Each("sent"));
}

TEST_P(DispatcherOnEngine, EveryAnswerStandsAlone) {
  accept_event("d-1", pull_request("opened"));
  target_.answers = {{"org/one", {Kind::rejected, {}, "404"}},
                     {"org/two", {Kind::retry_later, clock_.now() + 90s, "429"}},
                     {"org/three", {Kind::uncertain, {}, "502"}}};
  auto d = dispatcher(*store_);
  settle(d);
  EXPECT_THAT(rows("SELECT repo, state, uncertain, last_error FROM dispatches ORDER BY id", 4),
              ElementsAre("org/one|dead|0|404", "org/two|pending|0|429", "org/three|pending|1|502",
                          "org/four|sent|0|-"));
  target_.sent.clear();
  clock_.advance(89s);
  settle(d);
  EXPECT_THAT(target_.sent_to(), ElementsAre("org/three"));
  EXPECT_EQ(target_.sent[0].attempt, 2);
  EXPECT_EQ(column("state")[2], "dead");
  target_.answers.clear();
  clock_.advance(1s);
  settle(d);
  EXPECT_THAT(column("state"), ElementsAre("dead", "sent", "dead", "sent"));
}

TEST_P(DispatcherOnEngine, ARepositoryThatHangsHoldsItsOwnPlacesOnly) {
  list("L2: [org/slow, org/quick]\n");
  for (int i = 0; i < 10; ++i)
    accept_event("d-" + std::to_string(i), pull_request("opened", i + 1));
  target_.hold = true;
  auto d = dispatcher(*store_, 8);
  step(d);
  ASSERT_EQ(target_.sent.size(), 8U);
  EXPECT_EQ(std::ranges::count(target_.sent_to(), std::string{"org/slow"}), 4);
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < target_.held.size(); ++i)
      if (target_.held[i] && target_.sent[i].repo == test::repo("org/quick"))
        std::exchange(target_.held[i], nullptr)({});
    step(d);
  }
  EXPECT_THAT(
      rows("SELECT COUNT(*) FROM dispatches WHERE repo = 'org/quick' AND state = 'sent'", 1),
      ElementsAre("10"));
  EXPECT_EQ(std::ranges::count(target_.sent_to(), std::string{"org/slow"}), 4);
  EXPECT_EQ(d.in_flight(), 4U);
  for (auto& done : target_.held)
    if (done) done({});
}

TEST_F(DispatcherTest, WhatTheTargetHasNoRoomForStaysInTheOutbox) {
  accept_event("d-1", pull_request("opened"));
  target_.places = 1;
  target_.hold = true;
  auto d = dispatcher(*store_);
  step(d);
  EXPECT_EQ(target_.sent.size(), 1U);
  target_.places = 0;
  step(d);
  EXPECT_EQ(target_.sent.size(), 1U);
  EXPECT_EQ(count("dispatches WHERE state = 'pending'"), 3);
  target_.held[0]({});
}

TEST_P(DispatcherOnEngine, AnExpiredLeaseIsTakenOverAndMarked) {
  list("L2: [org/two]\n");
  accept_event("d-1", pull_request("opened"));
  target_.hold = true;
  auto lost = dispatcher(*store_);
  step(lost);
  auto other = dispatcher(*store_);
  step(other);
  EXPECT_EQ(target_.sent.size(), 1U);
  clock_.advance(121s);
  step(other);
  ASSERT_EQ(target_.sent.size(), 2U);
  EXPECT_EQ(target_.sent[1].attempt, 2);
  EXPECT_THAT(column("uncertain"), ElementsAre("1"));
  // The first one's late answer is not the row's any more.
  target_.held[0]({Kind::rejected, {}, "404"});
  step(lost);
  EXPECT_THAT(column("state"), ElementsAre("sending"));
  target_.held[1]({});
  step(other);
  EXPECT_THAT(column("state"), ElementsAre("sent"));
}

TEST_F(DispatcherTest, ALateAnswerOfOnesOwnIsNotSentTwice) {
  list("L2: [org/two]\n");
  accept_event("d-1", pull_request("opened"));
  target_.hold = true;
  auto d = dispatcher(*store_);
  step(d);
  clock_.advance(10min);
  step(d);
  EXPECT_EQ(target_.sent.size(), 1U);
  target_.held[0]({});
  settle(d);
  EXPECT_THAT(column("state"), ElementsAre("sent"));
}

TEST_P(DispatcherOnEngine, WhatAProcessThatIsGoneHadClaimedIsTakenOverSoon) {
  list("L2: [org/two]\n");
  target_.hold = true;
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(gone, nullptr, 0), gone);
  // As if it had been claimed by a process of this machine that no longer runs.
  const auto claimed_by_the_dead = [&](const std::string& delivery) {
    accept_event(delivery, pull_request("opened"));
    auto d = dispatcher(*store_);
    step(d);
    ASSERT_TRUE(store_->write([&](store::Tx& tx) -> base::Result<void> {
      auto owner =
          tx.query("SELECT lease_owner FROM dispatches WHERE lease_owner IS NOT NULL LIMIT 1");
      if (!owner) return tl::unexpected(owner.error());
      const std::string text = owner->front().text(0);
      auto done = tx.execute(
          "UPDATE dispatches SET lease_owner = $1 WHERE lease_owner IS NOT NULL",
          {text.substr(0, text.find(':')) + ":" + std::to_string(gone) + ":aabbccddeeff"});
      if (!done) return tl::unexpected(done.error());
      return {};
    }));
  };
  claimed_by_the_dead("d-1");
  // One that starts finds it at once…
  auto next = dispatcher(*store_);
  step(next);
  EXPECT_EQ(target_.sent.size(), 2U);
  target_.held[1]({});
  step(next);
  // …and one that runs already within seconds.
  claimed_by_the_dead("d-2");
  step(next);
  EXPECT_EQ(target_.sent.size(), 3U);
  clock_.advance(5s);
  step(next);
  ASSERT_EQ(target_.sent.size(), 4U);
  EXPECT_EQ(target_.sent[3].delivery_id, "d-2");
  for (auto& done : target_.held) done({});
}

TEST_P(DispatcherOnEngine, ARetryThatANewerCommitOvertookIsWithdrawn) {
  list("L2: [org/two]\n");
  accept_event("d-1", pull_request("opened"));
  target_.hold = true;
  auto d = dispatcher(*store_);
  step(d);
  accept_event("d-2", pull_request("synchronize"));
  target_.held[0]({Kind::retry_later, {}, "503"});
  step(d);
  EXPECT_EQ(column("state")[0], "withdrawn");
  EXPECT_THAT(column("last_error")[0], ::testing::StartsWith("superseded"));
  for (std::size_t i = 1; i < target_.held.size(); ++i) target_.held[i]({});
}

TEST_F(DispatcherTest, ABodyPastItsRetentionIsADeadLetter) {
  list("L2: [org/two]\n");
  accept_event("d-1", pull_request("opened"));
  ASSERT_TRUE(store_->write([](store::Tx& tx) -> base::Result<void> {
    auto done = tx.execute("UPDATE deliveries SET body = NULL");
    if (!done) return tl::unexpected(done.error());
    return {};
  }));
  auto d = dispatcher(*store_);
  settle(d);
  EXPECT_THAT(column("state"), ElementsAre("dead"));
  EXPECT_TRUE(target_.sent.empty());
}

// Whichever call to the store fails: everything is sent in the end, and what was recorded as sent
// is not sent again.
TEST_P(DispatcherOnEngine, AFailingStoreLosesNothing) {
  for (std::int64_t n = 1;; ++n) {
    target_.sent.clear();
    accept_event("d-" + std::to_string(n), pull_request("opened", static_cast<int>(n)));
    store::FaultyStore faulty{*store_};
    faulty.fail_at(n);
    auto d = dispatcher(faulty);
    for (int i = 0; i < 10; ++i)
      if (const auto did = d.step(); did && !*did) break;
    EXPECT_EQ(target_.sent.size(), 4U) << n;
    EXPECT_EQ(count("dispatches WHERE state <> 'sent'"), 0) << n;
    if (faulty.calls() < n) break;
  }
}

// Commits, and says that it may not have: as when a connection is lost while committing.
class InDoubtStore final : public store::Store {
 public:
  explicit InDoubtStore(Store& inner) : inner_{inner} {}
  base::Result<void> write(const std::function<base::Result<void>(store::Tx&)>& body) override {
    auto done = inner_.write(body);
    if (done && ++writes_ == in_doubt_at)
      return base::fail(base::Fault::unavailable, "lost while committing");
    return done;
  }
  base::Result<void> read(const std::function<base::Result<void>(store::Tx&)>& body) override {
    return inner_.read(body);
  }
  bool wait_for(std::string_view channel, base::Duration timeout) override {
    return inner_.wait_for(channel, timeout);
  }
  void interrupt() override { inner_.interrupt(); }
  store::Engine engine() const override { return inner_.engine(); }
  std::size_t waiting_writes() const override { return inner_.waiting_writes(); }
  [[nodiscard]] int writes() const { return writes_; }

  int in_doubt_at = 0;

 private:
  Store& inner_;
  int writes_ = 0;
};

// Whichever commit is in doubt: each is sent once, without waiting for a lease to end.
TEST_P(DispatcherOnEngine, ACommitInDoubtNeitherLosesNorRepeats) {
  for (int n = 1;; ++n) {
    target_.sent.clear();
    accept_event("d-" + std::to_string(n), pull_request("opened", n));
    InDoubtStore store{*store_};
    store.in_doubt_at = n;
    auto d = dispatcher(store);
    for (int i = 0; i < 10; ++i)
      if (const auto did = d.step(); did && !*did) break;
    EXPECT_EQ(target_.sent.size(), 4U) << n;
    EXPECT_EQ(count("dispatches WHERE state <> 'sent' OR attempts <> 1 OR uncertain <> 0"), 0) << n;
    if (store.writes() < n) break;
  }
}

TEST_F(DispatcherTest, AThreadSendsWhatIsAcceptedWhileItRuns) {
  auto d = dispatcher(*store_);
  d.start();
  accept_event("d-1", pull_request("opened"));
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (count("dispatches WHERE state = 'sent'") < 4 &&
         std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_TRUE(d.health().running);
  d.stop(5s);
  EXPECT_FALSE(d.health().running);
  EXPECT_THAT(column("state"), Each("sent"));
}

TEST_P(DispatcherOnEngine, StoppingWaitsForWhatIsBeingSent) {
  list("L2: [org/two]\n");
  accept_event("d-1", pull_request("opened"));
  target_.hold = true;
  auto d = dispatcher(*store_);
  d.start();
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (target_.holding == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  ASSERT_EQ(target_.holding, 1U);
  std::thread stopping{[&] { d.stop(30s); }};
  target_.held[0]({});
  stopping.join();
  EXPECT_THAT(column("state"), ElementsAre("sent"));
}

}  // namespace
}  // namespace crosscheck::relay
