#include "crosscheck/store/access.h"

#include "harness.h"

namespace crosscheck::store::testing {
namespace {

using base::Fault;
using base::Result;
using std::chrono::hours;

constexpr base::Time k_now{std::chrono::seconds{1'800'000'000}};

class Access : public StoreTest {
 protected:
  Result<std::string> create(std::string_view name, Role role,
                             std::optional<base::Time> expires = std::nullopt,
                             base::Time now = k_now) {
    return store().write_value([&](Tx& tx) { return create_token(tx, name, role, expires, now); });
  }
  Result<AccessToken> check(std::string_view text, Role needed, base::Time now = k_now) {
    return store().write_value([&](Tx& tx) { return authorize(tx, text, needed, now); });
  }
  std::int64_t revoke(std::string_view name) {
    const auto done = store().write_value([&](Tx& tx) { return revoke_token(tx, name, k_now); });
    EXPECT_OK(done);
    return done.value_or(-1);
  }
};
INSTANTIATE_TEST_SUITE_P(Stores, Access, ::testing::ValuesIn(backends()), backend_name);

TEST_P(Access, ATokenOpensWhatItsRoleMay) {
  const auto operator_ = create("alice", Role::operate);
  const auto admin = create("bob", Role::admin);
  ASSERT_OK(operator_);
  ASSERT_OK(admin);
  EXPECT_NE(*operator_, *admin);
  EXPECT_EQ(check(*operator_, Role::operate)->name, "alice");
  EXPECT_EQ(check(*admin, Role::operate)->name, "bob");
  EXPECT_OK(check(*admin, Role::admin));
  EXPECT_FAULT(check(*operator_, Role::admin), Fault::forbidden);
  for (const std::string& wrong :
       {std::string{}, std::string{"cct_"}, *admin + "0", admin->substr(0, admin->size() - 1)})
    EXPECT_FAULT(check(wrong, Role::operate), Fault::unauthorized);
  // What is stored is of no use to who reads it.
  EXPECT_FAULT(check(query("SELECT digest FROM access_tokens").at(0).text(0), Role::operate),
               Fault::unauthorized);
}

TEST_P(Access, ATokenEndsWhenItExpiresOrIsRevoked) {
  const auto text = create("alice", Role::operate, k_now + hours{1});
  ASSERT_OK(text);
  EXPECT_OK(check(*text, Role::operate, k_now + hours{1} - base::Duration{1}));
  EXPECT_FAULT(check(*text, Role::operate, k_now + hours{1}), Fault::unauthorized);
  EXPECT_FAULT(create("alice", Role::admin), Fault::conflict);
  EXPECT_OK(create("alice", Role::admin, std::nullopt, k_now + hours{1}));

  const auto other = create("bob", Role::operate);
  ASSERT_OK(other);
  EXPECT_EQ(revoke("bob"), 1);
  EXPECT_EQ(revoke("bob"), 0);
  EXPECT_EQ(revoke("nobody"), 0);
  EXPECT_FAULT(check(*other, Role::operate), Fault::unauthorized);
  EXPECT_OK(create("bob", Role::operate));
}

TEST_P(Access, NamesAreForTheAuditLog) {
  for (const std::string& bad : {std::string{}, std::string{"a b"}, std::string{"a\n"},
                                 std::string(65, 'a'), std::string{"é"}})
    EXPECT_FAULT(create(bad, Role::operate), Fault::invalid_input);
  EXPECT_OK(create(std::string(64, 'a'), Role::operate));
  EXPECT_FAULT(create("late", Role::operate, k_now), Fault::invalid_input);
}

TEST_P(Access, UseIsNotedOnceAnHour) {
  const auto text = create("alice", Role::operate);
  ASSERT_OK(text);
  const auto used = [&] {
    return query("SELECT last_used_at FROM access_tokens").at(0).optional_time(0);
  };
  EXPECT_EQ(used(), std::nullopt);
  ASSERT_OK(check(*text, Role::operate, k_now));
  EXPECT_EQ(used(), k_now);
  ASSERT_OK(check(*text, Role::operate, k_now + hours{1} - base::Duration{1}));
  EXPECT_EQ(used(), k_now);
  ASSERT_OK(check(*text, Role::operate, k_now + hours{1}));
  EXPECT_EQ(used(), k_now + hours{1});
}

TEST_P(Access, AnAdoptedTokenReplacesTheOneBefore) {
  const auto adopt = [&](std::string_view text) {
    return store().write(
        [&](Tx& tx) { return adopt_token(tx, text, "local-admin", Role::admin, k_now); });
  };
  ASSERT_OK(adopt("first"));
  ASSERT_OK(adopt("first"));
  EXPECT_EQ(count("access_tokens"), 1);
  ASSERT_OK(adopt("second"));
  EXPECT_FAULT(check("first", Role::operate), Fault::unauthorized);
  EXPECT_OK(check("second", Role::admin));
  // One that was revoked stays so.
  EXPECT_EQ(revoke("local-admin"), 1);
  ASSERT_OK(adopt("second"));
  EXPECT_FAULT(check("second", Role::operate), Fault::unauthorized);
}

TEST_P(Access, TheAuditLogKeepsOrderAndTakesAnyText) {
  ASSERT_OK(store().write([&](Tx& tx) -> Result<void> {
    for (const std::string& subject : {std::string{"one"}, std::string{"\xff\x01"}})
      if (auto done =
              audit(tx, {k_now, "user:a", "host", "replay", subject, std::string(5000, 'x')});
          !done)
        return done;
    return {};
  }));
  const auto tail = store().read_value([](Tx& tx) { return audit_tail(tx, 10); });
  ASSERT_OK(tail);
  ASSERT_EQ(tail->size(), 2U);
  EXPECT_EQ(tail->at(1).subject, "one");
  EXPECT_LE(tail->at(0).outcome.size(), 500U);
  EXPECT_EQ(store().read_value([](Tx& tx) { return audit_tail(tx, 1); })->size(), 1U);
}

}  // namespace
}  // namespace crosscheck::store::testing
