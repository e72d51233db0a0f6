#include "crosscheck/github/oidc.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <map>
#include <mutex>

#include "crosscheck/base/log.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/github/jwt.h"

namespace crosscheck::github {

using base::Fault;
using base::Result;
using base::Time;
namespace json = base::json;

namespace {

constexpr std::size_t k_shown = 200;  // of a claim in a message
constexpr std::chrono::milliseconds k_fetch_timeout{5'000};

tl::unexpected<TokenError> refuse(TokenRefusal refusal, std::string message) {
  return tl::unexpected{TokenError{refusal, std::move(message)}};
}

std::string shown(const json::value* claim) {
  if (claim == nullptr) return "nothing";
  if (const auto* text = claim->if_string())
    return fmt::format("'{}'", base::to_utf8(*text, k_shown));
  return base::to_utf8(base::canonical_json(*claim), k_shown);
}

bool names_audience(const json::value* claim, std::string_view audience) {
  if (claim == nullptr) return false;
  if (const auto* text = claim->if_string()) return *text == audience;
  const auto* several = claim->if_array();
  if (several == nullptr) return false;
  for (const json::value& one : *several) {
    if (one.is_string() && one.get_string() == audience) return true;
  }
  return false;
}

// Seconds since 1970, as the standard has them; nothing of another type. A double holds them to
// well under a second for any year that matters, and takes whatever a token may hold.
Result<std::optional<double>, TokenError> seconds_of(const json::object& claims,
                                                     std::string_view name) {
  const json::value* claim = claims.if_contains(name);
  if (claim == nullptr) return std::nullopt;
  if (!claim->is_number()) {
    return refuse(TokenRefusal::malformed,
                  fmt::format("claim {} is not a number of seconds", name));
  }
  return claim->to_number<double>();
}

Result<void, TokenError> check_times(const json::object& claims, Time now) {
  const double at = static_cast<double>(base::to_micros(now)) / 1e6;
  constexpr double k_leeway = std::chrono::duration<double>{OidcVerifier::k_leeway}.count();
  const auto exp = seconds_of(claims, "exp");
  if (!exp) return tl::unexpected{exp.error()};
  if (!*exp) return refuse(TokenRefusal::malformed, "claim exp is missing");
  if (!(at < **exp + k_leeway)) {
    return refuse(TokenRefusal::expired, "the token has expired: ask for a new one");
  }
  for (const std::string_view name : {"nbf", "iat"}) {
    const auto from = seconds_of(claims, name);
    if (!from) return tl::unexpected{from.error()};
    if (*from && !(**from <= at + k_leeway)) {
      return refuse(TokenRefusal::not_yet_valid,
                    fmt::format("claim {} lies in the future: is the clock right?", name));
    }
  }
  return {};
}

// Puts the caller's repository where it is always looked for.
Result<void, TokenError> settle_identity(json::object& claims, const TrustedIssuer& issuer) {
  const auto text = [&claims](std::string_view name) -> std::string {
    const json::value* claim = claims.if_contains(name);
    return claim != nullptr && claim->is_string() ? std::string{claim->get_string()}
                                                  : std::string{};
  };
  const auto missing = [](std::string_view name, std::string_view wanted) {
    return refuse(TokenRefusal::no_identity,
                  fmt::format("the token's claim {} is not {}", name, wanted));
  };
  switch (issuer.kind) {
    case IssuerKind::github:
    case IssuerKind::generic: {
      const std::string_view name = issuer.kind == IssuerKind::github
                                        ? "repository"
                                        : std::string_view{issuer.identity_claim};
      const std::string repository = text(name);
      if (!base::RepoName::parse(repository)) return missing(name, "owner/name");
      claims["repository"] = repository;
      return {};
    }
    case IssuerKind::buildkite:
      for (const std::string_view name : {"organization_id", "pipeline_id"}) {
        if (text(name).empty()) return missing(name, "an id");
      }
      claims.erase("repository");
      return {};
  }
  return missing("repository", "owner/name");
}

}  // namespace

// An issuer and what is known of its keys.
class OidcVerifier::Issuer {
 public:
  Issuer(TrustedIssuer settings, std::optional<KeySet> fixed, net::Client& client,
         const base::Clock& clock)
      : settings_{std::move(settings)},
        client_{client},
        clock_{clock},
        is_fixed_{fixed.has_value()} {
    if (fixed) keys_ = std::make_shared<const KeySet>(*std::move(fixed));
  }

  const TrustedIssuer& settings() const { return settings_; }

  Result<VerifyingKey, TokenError> key(const std::string& kid) {
    auto known = look(kid);
    if (known && !is_stale()) return *known;
    if (!is_fixed_) {
      // Who has a key, if an old one, does not wait for somebody else's fetch.
      std::unique_lock fetch{fetching_, std::defer_lock};
      if (known) {
        (void)fetch.try_lock();
      } else {
        fetch.lock();
        known = look(kid);  // whoever fetched meanwhile may have found it
      }
      if (fetch.owns_lock() && (!known || is_stale()) && may_fetch()) {
        refresh();
        known = look(kid);
      }
    }
    if (known) return *known;
    if (!has_keys()) {
      return refuse(TokenRefusal::keys_unavailable,
                    fmt::format("the keys of {} cannot be read now: try again", settings_.issuer));
    }
    return refuse(TokenRefusal::unknown_key,
                  fmt::format("{} has no key '{}'", settings_.issuer, base::to_utf8(kid, k_shown)));
  }

 private:
  std::optional<VerifyingKey> look(const std::string& kid) const {
    const std::lock_guard lock{mutex_};
    if (!keys_) return std::nullopt;
    const auto found = keys_->find(kid);
    return found != keys_->end() ? std::optional{found->second} : std::nullopt;
  }

  bool has_keys() const {
    const std::lock_guard lock{mutex_};
    return keys_ != nullptr;
  }

  bool is_stale() const {
    if (is_fixed_) return false;
    const std::lock_guard lock{mutex_};
    return !within(fetched_at_, k_max_age);
  }

  bool may_fetch() const {
    const std::lock_guard lock{mutex_};
    return !within(tried_at_, k_refresh_interval);
  }

  // A clock that was set back must not keep us from fetching.
  bool within(const std::optional<Time>& since, base::Duration span) const {
    if (!since) return false;
    const Time now = clock_.now();
    return now >= *since && now - *since < span;
  }

  void refresh() {
    auto keys = fetch();
    if (!keys) {
      base::log::warning("oidc_keys_not_refreshed",
                         {{"issuer", settings_.issuer}, {"why", keys.error().message}});
    }
    const std::lock_guard lock{mutex_};
    tried_at_ = clock_.now();
    if (!keys) return;
    keys_ = std::make_shared<const KeySet>(*std::move(keys));
    fetched_at_ = tried_at_;
  }

  Result<KeySet> fetch() {
    net::ClientRequest request;
    request.url = settings_.jwks_url;
    request.headers = {{"Accept", "application/json"}};
    request.timeout = k_fetch_timeout;
    request.body_limit = 1024 * 1024;
    const net::ClientResult response = client_.send(std::move(request));
    if (!response) return tl::unexpected{response.error().error};
    if (response->status != 200) {
      return base::fail(Fault::unavailable, fmt::format("it answered {}", response->status));
    }
    return parse_jwks(response->body);
  }

  const TrustedIssuer settings_;
  net::Client& client_;
  const base::Clock& clock_;
  const bool is_fixed_;
  std::mutex fetching_;       // held during a fetch
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<const KeySet> keys_;
  std::optional<Time> fetched_at_;
  std::optional<Time> tried_at_;
};

std::string_view to_string(TokenRefusal refusal) {
  switch (refusal) {
    case TokenRefusal::missing:
      return "missing";
    case TokenRefusal::malformed:
      return "malformed";
    case TokenRefusal::unsupported_algorithm:
      return "unsupported_algorithm";
    case TokenRefusal::unknown_issuer:
      return "unknown_issuer";
    case TokenRefusal::wrong_audience:
      return "wrong_audience";
    case TokenRefusal::expired:
      return "expired";
    case TokenRefusal::not_yet_valid:
      return "not_yet_valid";
    case TokenRefusal::bad_signature:
      return "bad_signature";
    case TokenRefusal::unknown_key:
      return "unknown_key";
    case TokenRefusal::keys_unavailable:
      return "keys_unavailable";
    case TokenRefusal::no_identity:
      return "no_identity";
  }
  return "malformed";
}

base::Error to_error(const TokenError& error) {
  const bool ours = error.refusal == TokenRefusal::keys_unavailable;
  return {ours ? Fault::unavailable : Fault::unauthorized,
          fmt::format("token {}: {}", to_string(error.refusal), error.message)};
}

TrustedIssuer github_actions() {
  return {.issuer = "https://token.actions.githubusercontent.com",
          .kind = IssuerKind::github,
          .jwks_url = "https://token.actions.githubusercontent.com/.well-known/jwks"};
}

TrustedIssuer buildkite() {
  return {.issuer = "https://agent.buildkite.com",
          .kind = IssuerKind::buildkite,
          .jwks_url = "https://agent.buildkite.com/.well-known/jwks"};
}

Result<std::unique_ptr<OidcVerifier>> OidcVerifier::create(std::string audience,
                                                           std::vector<TrustedIssuer> issuers,
                                                           net::Client& client,
                                                           const base::Clock& clock) {
  std::vector<std::unique_ptr<Issuer>> made;
  for (TrustedIssuer& issuer : issuers) {
    const auto bad = [&issuer](std::string_view why) {
      return base::fail(Fault::invalid_input,
                        fmt::format("trusted issuer '{}': {}", issuer.issuer, why));
    };
    if (issuer.issuer.empty()) return bad("it has no name");
    for (const auto& other : made) {
      if (other->settings().issuer == issuer.issuer) return bad("it stands twice");
    }
    if (issuer.kind == IssuerKind::generic && issuer.identity_claim.empty()) {
      return bad("which claim names the repository is not said");
    }
    if (issuer.jwks.has_value() == !issuer.jwks_url.empty()) {
      return bad("either the address of its keys or the keys themselves are needed");
    }
    std::optional<KeySet> fixed;
    if (issuer.jwks) {
      auto keys = read_jwks(*issuer.jwks);
      if (!keys) return bad(keys.error().message);
      fixed = *std::move(keys);
    }
    made.push_back(std::make_unique<Issuer>(std::move(issuer), std::move(fixed), client, clock));
  }
  if (audience.empty()) return base::fail(Fault::invalid_input, "the audience of tokens is empty");
  return std::unique_ptr<OidcVerifier>{
      new OidcVerifier{std::move(audience), std::move(made), clock}};
}

OidcVerifier::OidcVerifier(std::string audience, std::vector<std::unique_ptr<Issuer>> issuers,
                           const base::Clock& clock)
    : audience_{std::move(audience)}, issuers_{std::move(issuers)}, clock_{clock} {}

OidcVerifier::~OidcVerifier() = default;

Result<VerifiedToken, TokenError> OidcVerifier::verify(std::string_view token) {
  if (token.empty()) return refuse(TokenRefusal::missing, "there is no token");
  auto jws = parse_jws(token);
  if (!jws) return refuse(TokenRefusal::malformed, jws.error().message);
  if (jws->algorithm != "RS256") {
    return refuse(
        TokenRefusal::unsupported_algorithm,
        fmt::format("algorithm '{}' is not RS256", base::to_utf8(jws->algorithm, k_shown)));
  }
  const json::value* name = jws->claims.if_contains("iss");
  Issuer* issuer = nullptr;
  for (const auto& trusted : issuers_) {
    if (name != nullptr && name->is_string() && name->get_string() == trusted->settings().issuer) {
      issuer = trusted.get();
    }
  }
  if (issuer == nullptr) {
    return refuse(TokenRefusal::unknown_issuer,
                  fmt::format("issuer {} is not trusted", shown(name)));
  }
  if (!jws->kid) return refuse(TokenRefusal::unknown_key, "the token names no key");
  const auto key = issuer->key(*jws->kid);
  if (!key) return tl::unexpected{key.error()};
  if (!key->verify(jws->signed_part, jws->signature)) {
    return refuse(TokenRefusal::bad_signature, "the signature is wrong");
  }
  if (const json::value* audience = jws->claims.if_contains("aud");
      !names_audience(audience, audience_)) {
    return refuse(TokenRefusal::wrong_audience,
                  fmt::format("audience {} is not '{}'", shown(audience), audience_));
  }
  if (auto times = check_times(jws->claims, clock_.now()); !times) {
    return tl::unexpected{std::move(times.error())};
  }
  if (auto settled = settle_identity(jws->claims, issuer->settings()); !settled) {
    return tl::unexpected{std::move(settled.error())};
  }
  return VerifiedToken{.issuer = issuer->settings().issuer,
                       .kind = issuer->settings().kind,
                       .claims = std::move(jws->claims)};
}

}  // namespace crosscheck::github
