#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/github/jwt.h"
#include "crosscheck/net/http.h"
#include "crosscheck/relay/target.h"

namespace crosscheck::relay {

// A secret of `bytes` random bytes as hex, made once and kept in `file` (0600).
[[nodiscard]] base::Result<std::string> keep_secret(const std::filesystem::path& file,
                                                    std::size_t bytes);

// Local mode's stand-in for GitHub's OIDC issuer: jobs that the local target starts get their
// tokens here as they would there. Its key and secret are kept in `state_dir`, so jobs outlive a
// restart. Thread-safe.
class LocalIssuer {
 public:
  [[nodiscard]] static base::Result<LocalIssuer> open(const std::filesystem::path& state_dir,
                                                      const base::Clock& clock);

  // The address it signs as; set before requests are handled.
  void set_url(std::string url) { url_ = std::move(url); }
  // {"keys": […]}, for a verifier that need not fetch it.
  [[nodiscard]] base::json::value jwks() const;
  // Proves, to this issuer alone, which job asks: repository, delivery and run under an HMAC.
  [[nodiscard]] std::string request_token(const Dispatch& dispatch, std::string_view run_id) const;

  // GET /local/oidc/token?audience=… and /local/oidc/.well-known/jwks; nothing for other paths.
  [[nodiscard]] std::optional<net::Response> handle(const net::Request& request) const;

 private:
  LocalIssuer(github::SigningKey key, std::string secret, const base::Clock& clock)
      : key_{std::move(key)}, secret_{std::move(secret)}, clock_{&clock} {}
  [[nodiscard]] net::Response token(const net::Request& request) const;

  github::SigningKey key_;
  std::string secret_;
  const base::Clock* clock_;
  std::string url_;
};

}  // namespace crosscheck::relay
