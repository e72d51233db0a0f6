#include "crosscheck/github/webhook.h"

#include <gtest/gtest.h>

#include <cctype>
#include <vector>

namespace crosscheck::github {
namespace {

using base::Fault;
using Secrets = std::vector<std::string>;

// From GitHub's documentation.
constexpr std::string_view k_body = "Hello, World!";
const std::string k_secret = "It's a Secret to Everybody";
constexpr std::string_view k_signature =
    "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

TEST(VerifySignature, AcceptsThePublishedOne) {
  EXPECT_EQ(sign_body(k_secret, k_body), k_signature);
  EXPECT_TRUE(verify_signature(Secrets{k_secret}, k_body, k_signature));
}

TEST(VerifySignature, AcceptsEitherSecretWhileTheyOverlap) {
  EXPECT_TRUE(verify_signature(Secrets{"new", k_secret}, k_body, k_signature));
  EXPECT_TRUE(verify_signature(Secrets{k_secret, "new"}, k_body, k_signature));
  EXPECT_TRUE(verify_signature(Secrets{k_secret, "new"}, k_body, sign_body("new", k_body)));
}

TEST(VerifySignature, MissingIsNotWrong) {
  EXPECT_EQ(verify_signature(Secrets{k_secret}, k_body, std::nullopt).error().fault,
            Fault::invalid_input);
  EXPECT_EQ(verify_signature(Secrets{k_secret}, k_body, "").error().fault, Fault::invalid_input);
}

TEST(VerifySignature, RefusesEverythingElse) {
  std::string upper{k_signature};
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const std::string& header :
       {std::string{k_signature.substr(7)}, "sha1=" + std::string{k_signature.substr(7)}, upper,
        std::string{k_signature} + "0", std::string{k_signature.substr(0, 70)},
        std::string{"sha256="}, std::string{"sha256"}, std::string(1'000'000, 'a'),
        sign_body(k_secret, "Hello, World"), sign_body("other", k_body)}) {
    const auto result = verify_signature(Secrets{k_secret}, k_body, header);
    ASSERT_FALSE(result) << header.substr(0, 100);
    EXPECT_EQ(result.error().fault, Fault::unauthorized);
    EXPECT_EQ(base::to_string(result.error()).find(k_secret), std::string::npos);
  }
}

TEST(VerifySignature, EveryByteOfTheBodyCounts) {
  const std::string body = "{\"a\":\"\xff\"}";
  const std::string header = sign_body(k_secret, body);
  EXPECT_TRUE(verify_signature(Secrets{k_secret}, body, header));
  for (std::size_t i = 0; i < body.size(); ++i) {
    std::string other = body;
    other[i] ^= 1;
    EXPECT_FALSE(verify_signature(Secrets{k_secret}, other, header)) << i;
  }
}

TEST(VerifySignature, AnEmptySecretOpensNothing) {
  EXPECT_FALSE(verify_signature(Secrets{}, k_body, sign_body("", k_body)));
  EXPECT_FALSE(verify_signature(Secrets{""}, k_body, sign_body("", k_body)));
}

}  // namespace
}  // namespace crosscheck::github
