#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"

// JSON Web Tokens signed with RS256, and no other algorithm.
namespace crosscheck::github {

struct RsaKey;  // OpenSSL's

// An RSA key pair of at least 2048 bits. Copies share the key. Thread-safe.
class SigningKey {
 public:
  // PKCS#1 (as GitHub hands out) or PKCS#8, not encrypted. The error never quotes the text.
  [[nodiscard]] static base::Result<SigningKey> from_pem(std::string_view pem);
  // A new one of 2048 bits.
  [[nodiscard]] static SigningKey generate();

  [[nodiscard]] std::string to_pem() const;  // PKCS#8: a secret
  // {"alg":"RS256","e":…,"kid":…,"kty":"RSA","n":…,"use":"sig"}
  [[nodiscard]] const base::json::object& public_jwk() const { return public_jwk_; }
  [[nodiscard]] const std::string& kid() const { return kid_; }  // RFC 7638's thumbprint
  [[nodiscard]] std::string sign(std::string_view bytes) const;  // the raw signature

 private:
  explicit SigningKey(std::shared_ptr<const RsaKey> key);
  std::shared_ptr<const RsaKey> key_;
  base::json::object public_jwk_;
  std::string kid_;
};

// The compact form. The header names the key if `with_kid`.
[[nodiscard]] std::string sign_jwt(const SigningKey& key, const base::json::object& claims,
                                   bool with_kid = true);

// Copies share the key. Thread-safe.
class VerifyingKey {
 public:
  // An RSA key of 2048 to 8192 bits that is not reserved for another use or algorithm.
  [[nodiscard]] static base::Result<VerifyingKey> from_jwk(const base::json::value& jwk);
  [[nodiscard]] bool verify(std::string_view bytes, std::string_view signature) const;

 private:
  explicit VerifyingKey(std::shared_ptr<const RsaKey> key) : key_{std::move(key)} {}
  std::shared_ptr<const RsaKey> key_;
};

// By key id.
using KeySet = std::map<std::string, VerifyingKey, std::less<>>;
// A JWKS. Keys that cannot verify RS256 or have no id are passed over; an error when none is left.
[[nodiscard]] base::Result<KeySet> parse_jwks(std::string_view text);
[[nodiscard]] base::Result<KeySet> read_jwks(const base::json::value& jwks);

// A token taken apart. Nothing in it is verified.
struct Jws {
  std::string algorithm;
  std::optional<std::string> kid;
  base::json::object claims;
  std::string signed_part;  // header.payload, as signed
  std::string signature;    // raw bytes
};
inline constexpr std::size_t k_token_limit = 16 * 1024;
// Strict: three parts of unpadded base64url, two JSON objects, no critical extensions. Errors never
// quote the token.
[[nodiscard]] base::Result<Jws> parse_jws(std::string_view compact);

}  // namespace crosscheck::github
