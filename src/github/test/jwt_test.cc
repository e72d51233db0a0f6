#include "crosscheck/github/jwt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/encoder.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "crosscheck/base/digest.h"

namespace crosscheck::github {
namespace {

namespace json = base::json;
using ::testing::HasSubstr;
using ::testing::Not;

// A key and a token made with the openssl command.
constexpr std::string_view k_modulus =
    "tJ2o39iLMCyvfioWTQyMcgdzpZsX5PMXn91Vp5Yb-NFuYhA388gnyNTgWHBi-"
    "rkBr2UD3t7VvR1tLUB3FKk62LGlsr041UUJPNyx_"
    "BRPRPBVNPsN3Q-"
    "sYnc102UWRUfjr9MKh26afPvsvyRZVRVA1kqksKwiJxJ5Ex1EMLL92dg2RAsQqYpvIyzQfy1aUjQIqlphvz0-"
    "NpUZC7nC0M3nBATayhWXUNdtBBcCZjfc07CLJLq9wDkMhU96bQwQqHYKl2kYJQd32wE1oZtHlvptt0QLp9m-"
    "jTHfX1dqegRRCe4GLUddtuyeSIzfmhDGg9xUmg3poQRYqSCv1Fynt8Jf_w";
constexpr std::string_view k_token =
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6ImsxIn0.eyJpc3MiOiJqb2UiLCJleHAiOjEzMDA4MTkzODB9."
    "MeRJvX7eB-Hwgb05qIcWC7HFpWH26G67Ah54Bw-"
    "Vviqr76jWs9KaIO39HZfI2HgFAbO4bfHaK14yso895DV97IDhjSYMMfYdPozFVIx-"
    "gsz0zcJAGDOUPKer02_"
    "yafs633kMc4jNbTElMSHHzSBaj0S7JGtVKpblKXOUxNY4qk3S0Sjny9l3dDOeh1YDvQHVY7V5pY_"
    "qqhIiEP26Lwne1Idem7g012ygOQS4Ut7ZkPMQ8Bo0DGkXomuw_Ld-"
    "HWKZrw18GqR3itjfjrjZBX0kHzrjLtr9eLuZRibqYMJ2RQHbYzOK6zOCHQrJiKUIJlzs45KzbH60belW0sN954Ssrw";

const SigningKey& key() {
  static const SigningKey made = SigningKey::generate();
  return made;
}

std::string token_of(std::string_view header, std::string_view claims,
                     std::string_view signature = "sig") {
  return base::base64url_encode(header) + "." + base::base64url_encode(claims) + "." +
         base::base64url_encode(signature);
}

TEST(VerifyingKey, ChecksATokenOfAnotherImplementation) {
  const auto public_key =
      VerifyingKey::from_jwk(json::object{{"kty", "RSA"}, {"n", k_modulus}, {"e", "AQAB"}});
  ASSERT_TRUE(public_key) << public_key.error().message;
  const auto jws = parse_jws(k_token);
  ASSERT_TRUE(jws) << jws.error().message;
  EXPECT_EQ(jws->algorithm, "RS256");
  EXPECT_EQ(jws->kid, "k1");
  EXPECT_EQ(jws->claims.at("iss"), "joe");
  EXPECT_TRUE(public_key->verify(jws->signed_part, jws->signature));
}

TEST(VerifyingKey, EveryBitOfTextAndSignatureCounts) {
  const auto public_key = VerifyingKey::from_jwk(key().public_jwk()).value();
  const std::string text = "header.claims";
  const std::string signature = key().sign(text);
  ASSERT_TRUE(public_key.verify(text, signature));
  for (std::size_t i = 0; i < signature.size(); i += 7) {
    std::string other = signature;
    other[i] ^= 1;
    EXPECT_FALSE(public_key.verify(text, other)) << i;
  }
  EXPECT_FALSE(public_key.verify("header.claimt", signature));
  EXPECT_FALSE(public_key.verify(text, ""));
  EXPECT_FALSE(public_key.verify(text, signature + '\0'));
  EXPECT_FALSE(public_key.verify(text, signature.substr(1)));
  EXPECT_FALSE(public_key.verify(text, std::string(signature.size(), '\xff')));
  EXPECT_FALSE(
      VerifyingKey::from_jwk(SigningKey::generate().public_jwk()).value().verify(text, signature));
}

TEST(VerifyingKey, RefusesUnfitKeys) {
  const std::string n{k_modulus};
  const std::string small = base::base64url_encode(std::string(128, '\xff'));
  const std::string even = base::base64url_encode(std::string(255, '\xff') + '\xfe');
  const std::string huge = base::base64url_encode(std::string(2048, '\xff'));
  for (const json::object& jwk : {
           json::object{},
           json::object{{"kty", "EC"}, {"n", n}, {"e", "AQAB"}},
           json::object{{"kty", "oct"}, {"k", n}},
           json::object{{"kty", "RSA"}, {"e", "AQAB"}},
           json::object{{"kty", "RSA"}, {"n", n}},
           json::object{{"kty", "RSA"}, {"n", 5}, {"e", "AQAB"}},
           json::object{{"kty", "RSA"}, {"n", n + "="}, {"e", "AQAB"}},
           json::object{{"kty", "RSA"}, {"n", small}, {"e", "AQAB"}},
           json::object{{"kty", "RSA"}, {"n", even}, {"e", "AQAB"}},
           json::object{{"kty", "RSA"}, {"n", huge}, {"e", "AQAB"}},
           json::object{{"kty", "RSA"}, {"n", n}, {"e", ""}},
           json::object{{"kty", "RSA"}, {"n", n}, {"e", "AQ"}},    // 1
           json::object{{"kty", "RSA"}, {"n", n}, {"e", "AQAA"}},  // even
           json::object{{"kty", "RSA"}, {"n", n}, {"e", "AQAB"}, {"alg", "RS512"}},
           json::object{{"kty", "RSA"}, {"n", n}, {"e", "AQAB"}, {"alg", 256}},
           json::object{{"kty", "RSA"}, {"n", n}, {"e", "AQAB"}, {"use", "enc"}},
       }) {
    EXPECT_FALSE(VerifyingKey::from_jwk(jwk)) << json::serialize(jwk);
  }
  EXPECT_FALSE(VerifyingKey::from_jwk("text"));
}

TEST(SigningKey, SurvivesItsPem) {
  const auto again = SigningKey::from_pem(key().to_pem());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->kid(), key().kid());
  EXPECT_EQ(again->sign("x"), key().sign("x"));
  EXPECT_EQ(again->public_jwk(), key().public_jwk());
}

TEST(SigningKey, ReadsPkcs1AsGitHubHandsItOut) {
  const std::string pem = key().to_pem();
  BIO* in = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  EVP_PKEY* pkey = PEM_read_bio_PrivateKey(in, nullptr, nullptr, nullptr);
  OSSL_ENCODER_CTX* encoder =
      OSSL_ENCODER_CTX_new_for_pkey(pkey, EVP_PKEY_KEYPAIR, "PEM", "type-specific", nullptr);
  unsigned char* text = nullptr;
  std::size_t size = 0;
  ASSERT_EQ(OSSL_ENCODER_to_data(encoder, &text, &size), 1);
  const std::string pkcs1{reinterpret_cast<char*>(text), size};
  OPENSSL_free(text);
  OSSL_ENCODER_CTX_free(encoder);
  EVP_PKEY_free(pkey);
  BIO_free(in);
  ASSERT_THAT(pkcs1, HasSubstr("BEGIN RSA PRIVATE KEY"));
  EXPECT_EQ(SigningKey::from_pem(pkcs1).value().kid(), key().kid());
}

std::string pem_of(EVP_PKEY* pkey, const char* passphrase = nullptr) {
  BIO* out = BIO_new(BIO_s_mem());
  PEM_write_bio_PKCS8PrivateKey(out, pkey, passphrase != nullptr ? EVP_aes_128_cbc() : nullptr,
                                passphrase, passphrase != nullptr ? 4 : 0, nullptr, nullptr);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out, &text);
  std::string pem{text, static_cast<std::size_t>(size)};
  BIO_free(out);
  EVP_PKEY_free(pkey);
  return pem;
}

TEST(SigningKey, RefusesOtherPemWithoutQuotingIt) {
  const std::string pem = key().to_pem();
  for (const std::string& other :
       {std::string{}, std::string{"SECRETSECRET"}, pem.substr(0, pem.size() / 2),
        pem_of(EVP_EC_gen("P-256")), pem_of(EVP_RSA_gen(1024U)),
        pem_of(EVP_RSA_gen(2048U), "pass")}) {
    const auto refused = SigningKey::from_pem(other);
    ASSERT_FALSE(refused) << other;
    EXPECT_EQ(refused.error().fault, base::Fault::invalid_input);
    EXPECT_THAT(refused.error().message, Not(HasSubstr("SECRET")));
  }
}

TEST(SigningKey, KidIsTheThumbprint) {
  const json::object& jwk = key().public_jwk();
  const std::string canonical =
      base::canonical_json(json::object{{"e", jwk.at("e")}, {"kty", "RSA"}, {"n", jwk.at("n")}});
  EXPECT_EQ(base::to_hex(base::base64url_decode(key().kid()).value()), base::sha256_hex(canonical));
  EXPECT_FALSE(jwk.contains("d"));
}

TEST(SignJwt, IsWhatParseJwsReads) {
  const json::object claims{{"iss", "x"}, {"exp", 5}, {"who", "日本"}};
  const auto jws = parse_jws(sign_jwt(key(), claims));
  ASSERT_TRUE(jws);
  EXPECT_EQ(jws->algorithm, "RS256");
  EXPECT_EQ(jws->kid, key().kid());
  EXPECT_EQ(jws->claims, claims);
  EXPECT_TRUE(
      VerifyingKey::from_jwk(key().public_jwk()).value().verify(jws->signed_part, jws->signature));
  EXPECT_EQ(parse_jws(sign_jwt(key(), claims, false)).value().kid, std::nullopt);
}

TEST(ParseJws, RefusesWithoutQuoting) {
  const std::string good = R"({"alg":"RS256"})";
  EXPECT_TRUE(parse_jws(token_of(good, "{}")));
  EXPECT_TRUE(parse_jws(token_of(good, "{}", "")));
  for (const std::string& token : {
           std::string{},
           std::string{"SECRET"},
           std::string{".."},
           std::string{"SECRET.SECRET"},
           token_of(good, "{}") + ".SECRET",  // four parts
           token_of(good, "{}") + "=",        // padded
           token_of(good, "{}") + "\n",
           " " + token_of(good, "{}"),
           token_of("[]", "{}"),
           token_of(good, "[]"),
           token_of(good, "1"),
           token_of("{", "{}"),
           token_of(good, "{\"a\":\"\xff\"}"),
           token_of("{}", "{}"),
           token_of(R"({"alg":5})", "{}"),
           token_of(R"({"alg":null})", "{}"),
           token_of(R"({"alg":"RS256","kid":5})", "{}"),
           token_of(R"({"alg":"RS256","crit":["b64"],"b64":false})", "{}"),
           token_of(good, std::string(100, '[')),
           token_of(good, std::string(k_token_limit, ' ') + "{}"),
       }) {
    const auto jws = parse_jws(token);
    ASSERT_FALSE(jws) << token.substr(0, 80);
    EXPECT_EQ(jws.error().fault, base::Fault::invalid_input);
    EXPECT_THAT(jws.error().message, Not(HasSubstr("SECRET")));
  }
}

TEST(ReadJwks, PassesOverWhatItCannotUse) {
  json::object elliptic{{"kty", "EC"}, {"kid", "e"}};
  json::object nameless = key().public_jwk();
  nameless.erase("kid");
  const auto set =
      read_jwks(json::object{{"keys", json::array{elliptic, nameless, 5, key().public_jwk()}}});
  ASSERT_TRUE(set);
  EXPECT_EQ(set->size(), 1U);
  EXPECT_TRUE(set->contains(key().kid()));
  for (const std::string_view text :
       {"", "{}", "[]", R"({"keys":{}})", R"({"keys":[]})", R"({"keys":[{"kty":"EC"}]})"}) {
    EXPECT_FALSE(parse_jwks(text)) << text;
  }
  json::array many(300, key().public_jwk());
  EXPECT_EQ(read_jwks(json::object{{"keys", many}}).error().fault, base::Fault::too_large);
}

}  // namespace
}  // namespace crosscheck::github
