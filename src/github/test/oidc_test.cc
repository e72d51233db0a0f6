#include "crosscheck/github/oidc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <limits>
#include <thread>

#include "crosscheck/base/digest.h"
#include "crosscheck/github/jwt.h"
#include "scripted_client.h"

namespace crosscheck::github {
namespace {

namespace json = base::json;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view k_audience = "pytorch-cross-repo-ci-relay";
constexpr std::int64_t k_now_s = 1'777'927'708;
constexpr std::string_view k_issuer = "https://token.actions.githubusercontent.com";

const SigningKey& key() {
  static const SigningKey made = SigningKey::generate();
  return made;
}
const SigningKey& other_key() {
  static const SigningKey made = SigningKey::generate();
  return made;
}

std::string jwks_of(std::initializer_list<SigningKey> keys) {
  json::array list;
  for (const SigningKey& one : keys) list.push_back(one.public_jwk());
  return json::serialize(json::object{{"keys", std::move(list)}});
}

json::object good_claims() {
  return {{"iss", k_issuer}, {"aud", k_audience},   {"exp", k_now_s + 300}, {"nbf", k_now_s - 10},
          {"iat", k_now_s},  {"repository", "o/r"}, {"run_id", "123"}};
}

class OidcTest : public ::testing::Test {
 protected:
  OidcTest() : client_{[this](const net::ClientRequest&) { return answer_; }} { serve({key()}); }

  void serve(std::initializer_list<SigningKey> keys) {
    answer_ = net::Response{200, {}, jwks_of(keys)};
  }

  OidcVerifier& verifier() {
    if (!verifier_) verifier_ = make({github_actions()});
    return *verifier_;
  }
  std::unique_ptr<OidcVerifier> make(std::vector<TrustedIssuer> issuers) {
    return OidcVerifier::create(std::string{k_audience}, std::move(issuers), client_, clock_)
        .value();
  }
  std::string refusal(std::string_view token) {
    const auto verified = verifier().verify(token);
    if (verified) return "accepted";
    EXPECT_THAT(verified.error().message, Not(HasSubstr("eyJ")));  // no token in a message
    return std::string{to_string(verified.error().refusal)};
  }
  std::string refusal_with(std::string_view claim, json::value value) {
    json::object claims = good_claims();
    claims[claim] = std::move(value);
    return refusal(sign_jwt(key(), claims));
  }
  std::string refusal_without(std::string_view claim) {
    json::object claims = good_claims();
    claims.erase(claim);
    return refusal(sign_jwt(key(), claims));
  }
  std::size_t fetches() const { return client_.requests().size(); }

  base::ManualClock clock_{base::Time{std::chrono::seconds{k_now_s}}};
  net::ClientResult answer_{net::Response{}};
  ScriptedClient client_;
  std::unique_ptr<OidcVerifier> verifier_;
};

TEST_F(OidcTest, AcceptsAGoodTokenAndReturnsItsClaims) {
  const auto verified = verifier().verify(sign_jwt(key(), good_claims()));
  ASSERT_TRUE(verified) << verified.error().message;
  EXPECT_EQ(verified->issuer, k_issuer);
  EXPECT_EQ(verified->kind, IssuerKind::github);
  EXPECT_EQ(verified->claims, good_claims());
  ASSERT_EQ(fetches(), 1U);
  EXPECT_EQ(client_.requests()[0].url, std::string{k_issuer} + "/.well-known/jwks");
}

TEST_F(OidcTest, TakesTheAudienceFromAList) {
  EXPECT_EQ(refusal_with("aud", json::array{"x", k_audience}), "accepted");
  EXPECT_EQ(refusal_with("aud", json::array{}), "wrong_audience");
  EXPECT_EQ(refusal_with("aud", json::array{"x", 5}), "wrong_audience");
  EXPECT_EQ(refusal_with("aud", "x"), "wrong_audience");
  EXPECT_EQ(refusal_with("aud", json::string{std::string{k_audience} + "x"}), "wrong_audience");
  EXPECT_EQ(refusal_with("aud", 5), "wrong_audience");
  EXPECT_EQ(refusal_with("aud", nullptr), "wrong_audience");
  EXPECT_EQ(refusal_without("aud"), "wrong_audience");
}

TEST_F(OidcTest, TimesHaveAMinuteOfLeewayAndNoMore) {
  EXPECT_EQ(refusal_with("exp", k_now_s - 59), "accepted");
  EXPECT_EQ(refusal_with("exp", k_now_s - 60), "expired");
  EXPECT_EQ(refusal_with("exp", k_now_s - 59.5), "accepted");
  EXPECT_EQ(refusal_with("exp", k_now_s - 60.5), "expired");
  EXPECT_EQ(refusal_with("exp", 0), "expired");
  EXPECT_EQ(refusal_with("exp", -1e300), "expired");
  EXPECT_EQ(refusal_with("nbf", k_now_s + 60), "accepted");
  EXPECT_EQ(refusal_with("nbf", k_now_s + 61), "not_yet_valid");
  EXPECT_EQ(refusal_with("iat", k_now_s + 60), "accepted");
  EXPECT_EQ(refusal_with("iat", k_now_s + 61), "not_yet_valid");
  EXPECT_EQ(refusal_with("iat", std::numeric_limits<std::uint64_t>::max()), "not_yet_valid");
  EXPECT_EQ(refusal_without("nbf"), "accepted");
  EXPECT_EQ(refusal_without("iat"), "accepted");
  EXPECT_EQ(refusal_without("exp"), "malformed");
  for (const char* name : {"exp", "nbf", "iat"}) {
    EXPECT_EQ(refusal_with(name, "1777927708"), "malformed") << name;
    EXPECT_EQ(refusal_with(name, nullptr), "malformed") << name;
  }
}

TEST_F(OidcTest, RefusesForgeries) {
  const auto forged = [](std::string_view header, std::string_view signature) {
    return base::base64url_encode(header) + "." +
           base::base64url_encode(json::serialize(good_claims())) + "." +
           base::base64url_encode(signature);
  };
  EXPECT_EQ(refusal(""), "missing");
  EXPECT_EQ(refusal("garbage"), "malformed");
  EXPECT_EQ(refusal(forged(R"({"alg":"none"})", "")), "unsupported_algorithm");
  EXPECT_EQ(refusal(forged(R"({"alg":"None"})", "")), "unsupported_algorithm");
  EXPECT_EQ(refusal(forged(R"({"alg":"rs256"})", "")), "unsupported_algorithm");

  // HS256, signed with what everybody knows of the key.
  const std::string header = R"({"alg":"HS256","kid":")" + key().kid() + "\"}";
  const std::string text =
      base::base64url_encode(header) + "." + base::base64url_encode(json::serialize(good_claims()));
  for (const std::string& secret :
       {json::serialize(key().public_jwk()), std::string{key().public_jwk().at("n").as_string()}}) {
    EXPECT_EQ(refusal(text + "." + base::base64url_encode(base::hmac_sha256(secret, text))),
              "unsupported_algorithm");
  }

  // Right key id, wrong key.
  const std::string named =
      base::base64url_encode(R"({"alg":"RS256","kid":")" + key().kid() + "\"}") + "." +
      base::base64url_encode(json::serialize(good_claims()));
  EXPECT_EQ(refusal(named + "." + base::base64url_encode(other_key().sign(named))),
            "bad_signature");
  EXPECT_EQ(refusal(named + "."), "bad_signature");
  // A key in the header of the token itself is nobody's key.
  const std::string own =
      base::base64url_encode(json::serialize(json::object{
          {"alg", "RS256"}, {"kid", key().kid()}, {"jwk", other_key().public_jwk()}})) +
      "." + base::base64url_encode(json::serialize(good_claims()));
  EXPECT_EQ(refusal(own + "." + base::base64url_encode(other_key().sign(own))), "bad_signature");
  EXPECT_EQ(refusal(sign_jwt(key(), good_claims(), false)), "unknown_key");
  EXPECT_EQ(refusal(sign_jwt(other_key(), good_claims())), "unknown_key");
}

TEST_F(OidcTest, EveryByteOfATokenCounts) {
  const std::string token = sign_jwt(key(), good_claims());
  for (std::size_t i = 0; i < token.size(); i += 3) {
    std::string other = token;
    other[i] = other[i] == 'A' ? 'B' : 'A';
    if (other == token) continue;
    EXPECT_NE(refusal(other), "accepted") << i;
  }
}

TEST_F(OidcTest, OnlyTrustedIssuersToTheLetter) {
  EXPECT_EQ(refusal_with("iss", json::string{std::string{k_issuer} + "/"}), "unknown_issuer");
  EXPECT_EQ(refusal_with("iss", "https://evil.test"), "unknown_issuer");
  EXPECT_EQ(refusal_with("iss", nullptr), "unknown_issuer");
  EXPECT_EQ(refusal_without("iss"), "unknown_issuer");
  EXPECT_EQ(fetches(), 0U);  // nobody makes us ask around
}

TEST_F(OidcTest, TheCallerMustBeNamed) {
  EXPECT_EQ(refusal_without("repository"), "no_identity");
  EXPECT_EQ(refusal_with("repository", ""), "no_identity");
  EXPECT_EQ(refusal_with("repository", "r"), "no_identity");
  EXPECT_EQ(refusal_with("repository", 5), "no_identity");
}

TEST_F(OidcTest, OtherIssuersNameTheCallerTheirOwnWay) {
  TrustedIssuer own{.issuer = "https://ci.test",
                    .kind = IssuerKind::generic,
                    .identity_claim = "project",
                    .jwks = json::object{{"keys", json::array{other_key().public_jwk()}}}};
  verifier_ = make({buildkite(), own});
  json::object claims = good_claims();
  claims["iss"] = "https://ci.test";
  claims["project"] = "mine/repo";
  claims["repository"] = "somebody/elses";
  const auto generic = verifier().verify(sign_jwt(other_key(), claims));
  ASSERT_TRUE(generic) << generic.error().message;
  EXPECT_EQ(generic->claims.at("repository"), "mine/repo");
  EXPECT_EQ(fetches(), 0U);  // its keys are given
  // The key of one issuer is none of another's.
  claims["iss"] = "https://agent.buildkite.com";
  EXPECT_EQ(refusal(sign_jwt(other_key(), claims)), "unknown_key");

  EXPECT_EQ(refusal(sign_jwt(key(), claims)), "no_identity");
  claims["organization_id"] = "org-id";
  claims["pipeline_id"] = "pipe-id";
  const auto agent = verifier().verify(sign_jwt(key(), claims));
  ASSERT_TRUE(agent) << agent.error().message;
  EXPECT_EQ(agent->kind, IssuerKind::buildkite);
  EXPECT_FALSE(agent->claims.contains("repository"));
}

TEST_F(OidcTest, KeysAreFetchedOnceAndAgainForANewOneAtALimitedRate) {
  const std::string token = sign_jwt(key(), good_claims());
  const std::string rotated = sign_jwt(other_key(), good_claims());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(refusal(token), "accepted");
  EXPECT_EQ(fetches(), 1U);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(refusal(rotated), "unknown_key");
  EXPECT_EQ(fetches(), 1U);  // just looked
  clock_.advance(OidcVerifier::k_refresh_interval);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(refusal(rotated), "unknown_key");
  EXPECT_EQ(fetches(), 2U);
  serve({key(), other_key()});
  clock_.advance(OidcVerifier::k_refresh_interval);
  EXPECT_EQ(refusal(rotated), "accepted");
  EXPECT_EQ(refusal(token), "accepted");
  EXPECT_EQ(fetches(), 3U);
}

TEST_F(OidcTest, AKeyThatWasTakenBackEndsWithinTheHour) {
  json::object claims = good_claims();
  claims["exp"] = k_now_s + 100'000;
  const std::string token = sign_jwt(key(), claims);
  EXPECT_EQ(refusal(token), "accepted");
  serve({other_key()});
  clock_.advance(OidcVerifier::k_max_age - 1us);
  EXPECT_EQ(refusal(token), "accepted");
  clock_.advance(1us);
  EXPECT_EQ(refusal(token), "unknown_key");
}

TEST_F(OidcTest, LastGoodKeysStayWhenTheIssuerIsAway) {
  json::object claims = good_claims();
  claims["exp"] = k_now_s + 1'000'000;
  const std::string token = sign_jwt(key(), claims);
  EXPECT_EQ(refusal(token), "accepted");
  for (net::ClientResult bad : {no_answer(true), net::ClientResult{net::Response{503, {}, ""}},
                                net::ClientResult{net::Response{200, {}, "<html>"}},
                                net::ClientResult{net::Response{200, {}, R"({"keys":[]})"}}}) {
    answer_ = std::move(bad);
    clock_.advance(OidcVerifier::k_max_age);
    EXPECT_EQ(refusal(token), "accepted");
    EXPECT_EQ(refusal(token), "accepted");
  }
  EXPECT_EQ(fetches(), 5U);  // and is not asked at every token
}

TEST_F(OidcTest, WithoutAnyKeysItIsNotTheCallersFault) {
  answer_ = no_answer(false);
  const std::string token = sign_jwt(key(), good_claims());
  EXPECT_EQ(refusal(token), "keys_unavailable");
  EXPECT_EQ(refusal(token), "keys_unavailable");
  EXPECT_EQ(fetches(), 1U);
  EXPECT_EQ(to_error(verifier().verify(token).error()).fault, base::Fault::unavailable);
  EXPECT_EQ(to_error(verifier().verify("").error()).fault, base::Fault::unauthorized);
  serve({key()});
  clock_.advance(OidcVerifier::k_refresh_interval);
  EXPECT_EQ(refusal(token), "accepted");
}

TEST_F(OidcTest, AClockSetBackDoesNotStopRefreshing) {
  EXPECT_EQ(refusal(sign_jwt(key(), good_claims())), "accepted");
  clock_.advance(-1h);
  json::object claims = good_claims();
  for (const char* name : {"nbf", "iat"}) claims[name] = k_now_s - 4000;
  serve({key(), other_key()});
  EXPECT_EQ(refusal(sign_jwt(other_key(), claims)), "accepted");
}

TEST_F(OidcTest, OneFetchAtATimeAndNobodyIsTurnedAwayMeanwhile) {
  const std::string token = sign_jwt(key(), good_claims());
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  std::atomic<int> started = 0;
  constexpr int k_threads = 8;
  client_.set_answer([&](const net::ClientRequest&) -> net::ClientResult {
    most = std::max(most.load(), ++at_once);
    while (started < k_threads) std::this_thread::yield();
    --at_once;
    return net::Response{200, {}, jwks_of({key()})};
  });
  OidcVerifier& shared = verifier();
  std::atomic<int> accepted = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < k_threads; ++i) {
    threads.emplace_back([&] {
      ++started;
      if (shared.verify(token)) ++accepted;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(accepted, k_threads);
  EXPECT_EQ(most, 1);
  EXPECT_EQ(fetches(), 1U);
}

TEST_F(OidcTest, SettingsAreChecked) {
  const auto error_of = [this](std::vector<TrustedIssuer> issuers) {
    const auto made = OidcVerifier::create("aud", std::move(issuers), client_, clock_);
    return made ? std::string{"none"} : made.error().message;
  };
  EXPECT_EQ(error_of({}), "none");
  EXPECT_THAT(error_of({{.issuer = "", .jwks_url = "x"}}), HasSubstr("no name"));
  EXPECT_THAT(error_of({github_actions(), github_actions()}), HasSubstr("twice"));
  EXPECT_THAT(error_of({{.issuer = "i"}}), HasSubstr("keys"));
  EXPECT_THAT(error_of({{.issuer = "i", .jwks = json::object{}}}), HasSubstr("field keys"));
  EXPECT_THAT(error_of({{.issuer = "i", .kind = IssuerKind::generic, .jwks_url = "x"}}),
              HasSubstr("claim"));
  EXPECT_FALSE(OidcVerifier::create("", {}, client_, clock_));
}

}  // namespace
}  // namespace crosscheck::github
