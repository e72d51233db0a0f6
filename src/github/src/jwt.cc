#include "crosscheck/github/jwt.h"

#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <stdexcept>

#include "crosscheck/base/digest.h"

namespace crosscheck::github {

using base::Fault;
using base::Result;
namespace json = base::json;

struct RsaKey {
  EVP_PKEY* pkey;
  explicit RsaKey(EVP_PKEY* key) : pkey{key} {}
  RsaKey(const RsaKey&) = delete;
  RsaKey& operator=(const RsaKey&) = delete;
  ~RsaKey() { EVP_PKEY_free(pkey); }
};

namespace {

constexpr int k_least_bits = 2048;
constexpr int k_most_bits = 8192;         // larger ones only cost time
constexpr std::size_t k_most_keys = 256;  // of one set

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* pointer) const {
    free(pointer);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Number = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using Context = std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using ParameterBuilder = std::unique_ptr<OSSL_PARAM_BLD, Freed<OSSL_PARAM_BLD_free>>;
using Parameters = std::unique_ptr<OSSL_PARAM, Freed<OSSL_PARAM_free>>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// OpenSSL refused what cannot be refused: out of memory, or a build without RSA.
[[noreturn]] void broken(const char* what) {
  ERR_clear_error();
  throw std::runtime_error{std::string{"OpenSSL: "} + what};
}

Number number_of(std::string_view bytes) {
  return Number{BN_bin2bn(bytes_of(bytes), static_cast<int>(bytes.size()), nullptr)};
}

std::string parameter(const EVP_PKEY* key, const char* name) {
  BIGNUM* raw = nullptr;
  if (EVP_PKEY_get_bn_param(key, name, &raw) != 1) broken("no such parameter of a key");
  const Number number{raw};
  std::string bytes(static_cast<std::size_t>(BN_num_bytes(raw)), '\0');
  BN_bn2bin(raw, reinterpret_cast<unsigned char*>(bytes.data()));
  return base::base64url_encode(bytes);
}

// An encrypted key must not ask on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

}  // namespace

SigningKey::SigningKey(std::shared_ptr<const RsaKey> key) : key_{std::move(key)} {
  const std::string e = parameter(key_->pkey, OSSL_PKEY_PARAM_RSA_E);
  const std::string n = parameter(key_->pkey, OSSL_PKEY_PARAM_RSA_N);
  const std::string thumbprint =
      base::sha256_hex(base::canonical_json(json::object{{"e", e}, {"kty", "RSA"}, {"n", n}}));
  kid_ = base::base64url_encode(base::from_hex(thumbprint).value());
  public_jwk_ = {{"alg", "RS256"}, {"e", e}, {"kid", kid_},
                 {"kty", "RSA"},   {"n", n}, {"use", "sig"}};
}

Result<SigningKey> SigningKey::from_pem(std::string_view pem) {
  const Bio bio{BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))};
  if (!bio) broken("no memory");
  EVP_PKEY* raw = PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr);
  ERR_clear_error();
  if (raw == nullptr) {
    return base::fail(Fault::invalid_input, "the private key is not an unencrypted key in PEM form",
                      "use the .pem file that GitHub made for the App");
  }
  auto key = std::make_shared<const RsaKey>(raw);
  if (EVP_PKEY_get_base_id(raw) != EVP_PKEY_RSA || EVP_PKEY_get_bits(raw) < k_least_bits) {
    return base::fail(
        Fault::invalid_input,
        fmt::format("the private key is not an RSA key of {} bits or more", k_least_bits));
  }
  return SigningKey{std::move(key)};
}

SigningKey SigningKey::generate() {
  EVP_PKEY* raw = EVP_RSA_gen(static_cast<unsigned>(k_least_bits));
  if (raw == nullptr) broken("no RSA key can be made");
  return SigningKey{std::make_shared<const RsaKey>(raw)};
}

std::string SigningKey::to_pem() const {
  const Bio bio{BIO_new(BIO_s_mem())};
  if (!bio || PEM_write_bio_PKCS8PrivateKey(bio.get(), key_->pkey, nullptr, nullptr, 0, nullptr,
                                            nullptr) != 1) {
    broken("a key cannot be written");
  }
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

std::string SigningKey::sign(std::string_view bytes) const {
  const DigestContext context{EVP_MD_CTX_new()};
  std::size_t size = 0;
  if (!context ||
      EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_->pkey) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, bytes_of(bytes), bytes.size()) != 1) {
    broken("a signature cannot be begun");
  }
  std::string signature(size, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     bytes_of(bytes), bytes.size()) != 1) {
    broken("a signature cannot be made");
  }
  signature.resize(size);
  return signature;
}

std::string sign_jwt(const SigningKey& key, const json::object& claims, bool with_kid) {
  json::object header{{"alg", "RS256"}, {"typ", "JWT"}};
  if (with_kid) header["kid"] = key.kid();
  std::string token = base::base64url_encode(json::serialize(header)) + "." +
                      base::base64url_encode(json::serialize(claims));
  const std::string signature = key.sign(token);
  return token + "." + base::base64url_encode(signature);
}

Result<VerifyingKey> VerifyingKey::from_jwk(const json::value& jwk) {
  const auto bad = [](std::string_view why) {
    return base::fail(Fault::invalid_input, fmt::format("not a key for RS256: {}", why));
  };
  const auto type = base::require_string(jwk, "kty");
  const auto n = base::require_string(jwk, "n");
  const auto e = base::require_string(jwk, "e");
  const auto algorithm = base::optional_string(jwk, "alg");
  const auto use = base::optional_string(jwk, "use");
  if (!type || *type != "RSA") return bad("kty is not RSA");
  if (!algorithm || algorithm->value_or("RS256") != "RS256") return bad("alg is not RS256");
  if (!use || use->value_or("sig") != "sig") return bad("use is not sig");
  const auto modulus = n ? base::base64url_decode(*n) : std::nullopt;
  const auto exponent = e ? base::base64url_decode(*e) : std::nullopt;
  if (!modulus || !exponent) return bad("n and e are not base64url");
  if (exponent->empty() || exponent->size() > 8) return bad("e is out of range");
  if (modulus->size() > k_most_bits / 8 + 1) return bad("n is too long");

  const Number n_number = number_of(*modulus);
  const Number e_number = number_of(*exponent);
  if (!n_number || !e_number) broken("no memory");
  const int bits = BN_num_bits(n_number.get());
  if (bits < k_least_bits || bits > k_most_bits || BN_is_odd(n_number.get()) == 0) {
    return bad(fmt::format("n is not odd with {} to {} bits", k_least_bits, k_most_bits));
  }
  if (BN_is_odd(e_number.get()) == 0 || BN_is_one(e_number.get()) != 0) {
    return bad("e is not odd and above 1");
  }
  const ParameterBuilder builder{OSSL_PARAM_BLD_new()};
  if (!builder ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n_number.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e_number.get()) != 1) {
    broken("no memory");
  }
  const Parameters parameters{OSSL_PARAM_BLD_to_param(builder.get())};
  const Context context{EVP_PKEY_CTX_new_from_name(nullptr, "RSA", nullptr)};
  if (!parameters || !context || EVP_PKEY_fromdata_init(context.get()) != 1) broken("no RSA");
  EVP_PKEY* raw = nullptr;
  if (EVP_PKEY_fromdata(context.get(), &raw, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
    ERR_clear_error();
    return bad("OpenSSL does not take it");
  }
  return VerifyingKey{std::make_shared<const RsaKey>(raw)};
}

bool VerifyingKey::verify(std::string_view bytes, std::string_view signature) const {
  const DigestContext context{EVP_MD_CTX_new()};
  if (!context ||
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key_->pkey) != 1) {
    broken("a signature cannot be checked");
  }
  const bool good = EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(),
                                     bytes_of(bytes), bytes.size()) == 1;
  ERR_clear_error();
  return good;
}

Result<KeySet> read_jwks(const json::value& jwks) {
  const json::value* keys = base::find(jwks, "keys");
  if (keys == nullptr || !keys->is_array()) {
    return base::fail(Fault::invalid_input, "field keys: expected an array of keys");
  }
  if (keys->get_array().size() > k_most_keys) {
    return base::fail(Fault::too_large, fmt::format("field keys: over {} keys", k_most_keys));
  }
  KeySet set;
  for (const json::value& jwk : keys->get_array()) {
    auto kid = base::require_string(jwk, "kid");
    if (!kid) continue;
    if (auto key = VerifyingKey::from_jwk(jwk)) set.try_emplace(*std::move(kid), *std::move(key));
  }
  if (set.empty()) {
    return base::fail(Fault::invalid_input, "field keys: none of them can check RS256");
  }
  return set;
}

Result<KeySet> parse_jwks(std::string_view text) {
  return base::parse_json(text, "key set").and_then(read_jwks);
}

Result<Jws> parse_jws(std::string_view compact) {
  const auto bad = [](std::string_view why) {
    return base::fail(Fault::invalid_input, fmt::format("not a signed JSON Web Token: {}", why));
  };
  if (compact.size() > k_token_limit) return bad(fmt::format("over {} bytes", k_token_limit));
  const std::size_t first = compact.find('.');
  if (first == std::string_view::npos) return bad("there are no three parts");
  const std::size_t second = compact.find('.', first + 1);
  if (second == std::string_view::npos || compact.find('.', second + 1) != std::string_view::npos) {
    return bad("there are no three parts");
  }
  const auto header_text = base::base64url_decode(compact.substr(0, first));
  const auto claims_text = base::base64url_decode(compact.substr(first + 1, second - first - 1));
  auto signature = base::base64url_decode(compact.substr(second + 1));
  if (!header_text || !claims_text || !signature) return bad("a part is not base64url");

  const auto header = base::parse_json(*header_text, "header");
  auto claims = base::parse_json(*claims_text, "claims");
  if (!header || !header->is_object()) return bad("its header is not a JSON object");
  if (!claims || !claims->is_object()) return bad("its claims are not a JSON object");
  auto algorithm = base::require_string(*header, "alg");
  auto kid = base::optional_string(*header, "kid");
  if (!algorithm || !kid) return bad("alg or kid of its header is not text");
  // RFC 7515: who does not know an extension that is marked critical must refuse.
  if (header->get_object().contains("crit")) return bad("it needs an extension");
  return Jws{.algorithm = *std::move(algorithm),
             .kid = *std::move(kid),
             .claims = std::move(claims->get_object()),
             .signed_part = std::string{compact.substr(0, second)},
             .signature = *std::move(signature)};
}

}  // namespace crosscheck::github
