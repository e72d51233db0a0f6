#include <cstdint>
#include <cstdlib>

#include "crosscheck/github/jwt.h"

using namespace crosscheck::github;

// What was taken apart is the token again, and nobody signed it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const SigningKey key = SigningKey::generate();
  static const VerifyingKey public_key = VerifyingKey::from_jwk(key.public_jwk()).value();
  const std::string_view token{reinterpret_cast<const char*>(data), size};
  const auto jws = parse_jws(token);
  if (!jws) return 0;
  if (!token.starts_with(jws->signed_part + ".")) std::abort();
  if (public_key.verify(jws->signed_part, jws->signature)) std::abort();
  return 0;
}
