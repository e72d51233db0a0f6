#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/net/client.h"

namespace crosscheck::github {

// Why a token was refused. The names are API: clients and metrics see them.
enum class TokenRefusal : std::uint8_t {
  missing,
  malformed,
  unsupported_algorithm,
  unknown_issuer,
  wrong_audience,
  expired,
  not_yet_valid,
  bad_signature,
  unknown_key,
  keys_unavailable,  // the issuer's keys cannot be had: not the caller's fault
  no_identity,       // a good token that does not say who calls
};
[[nodiscard]] std::string_view to_string(TokenRefusal refusal);

struct TokenError {
  TokenRefusal refusal = TokenRefusal::malformed;
  std::string message;  // for the caller; quotes claims, never the token
};
// `unavailable` for keys_unavailable, else `unauthorized`; the message begins with the refusal's
// name.
[[nodiscard]] base::Error to_error(const TokenError& error);

// Where a token says who calls.
enum class IssuerKind : std::uint8_t {
  github,     // claim `repository`
  buildkite,  // claims `organization_id` and `pipeline_id`, which somebody maps to a repository
  generic,    // a claim of any name that holds owner/name
};

struct TrustedIssuer {
  std::string issuer;  // claim `iss`, to the letter
  IssuerKind kind = IssuerKind::github;
  std::string identity_claim = {};             // of `generic`
  std::string jwks_url = {};                   // where its keys are fetched
  std::optional<base::json::value> jwks = {};  // or the keys themselves: then nothing is fetched
};
[[nodiscard]] TrustedIssuer github_actions();
[[nodiscard]] TrustedIssuer buildkite();

// What a good token says.
struct VerifiedToken {
  std::string issuer;
  IssuerKind kind = IssuerKind::github;
  // All claims, but that `repository` is always the caller's, as its issuer's kind says: of
  // `buildkite` there is none, whatever the token holds.
  base::json::object claims;
};

// Checks OIDC tokens: RS256, a trusted issuer's key, audience, times (with 60 s of leeway; `exp`
// must be there), and that the caller is named. Keys are kept, read again when an unknown one is
// named (at most every 10 s) or they are an hour old, and the last good ones stay when the issuer
// cannot be reached. Thread-safe; `verify` may wait for a fetch, of which there is one at a time
// for an issuer.
class OidcVerifier {
 public:
  static constexpr base::Duration k_leeway = std::chrono::seconds{60};
  static constexpr base::Duration k_refresh_interval = std::chrono::seconds{10};
  static constexpr base::Duration k_max_age = std::chrono::hours{1};

  // `client` and `clock` outlive it. `invalid_input` when an issuer's settings are wrong.
  [[nodiscard]] static base::Result<std::unique_ptr<OidcVerifier>> create(
      std::string audience, std::vector<TrustedIssuer> issuers, net::Client& client,
      const base::Clock& clock);
  ~OidcVerifier();

  [[nodiscard]] base::Result<VerifiedToken, TokenError> verify(std::string_view token);

 private:
  class Issuer;
  OidcVerifier(std::string audience, std::vector<std::unique_ptr<Issuer>> issuers,
               const base::Clock& clock);
  const std::string audience_;
  const std::vector<std::unique_ptr<Issuer>> issuers_;
  const base::Clock& clock_;
};

}  // namespace crosscheck::github
