#include "crosscheck/relay/local_issuer.h"

#include <boost/json/serialize.hpp>
#include <system_error>
#include <utility>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"
#include "crosscheck/net/bearer.h"
#include "crosscheck/relay/answer.h"

namespace crosscheck::relay {
namespace {

using base::Fault;
using base::Result;
namespace json = base::json;

constexpr std::string_view k_prefix = "/local/oidc/";
constexpr std::int64_t k_token_life_seconds = 300;  // as GitHub's
constexpr unsigned k_private = 0600;

// The bytes of `file`, made by `make` when it is not there.
template <class Make>
Result<std::string> keep(const std::filesystem::path& file, Make make) {
  std::error_code error;
  if (std::filesystem::exists(file, error)) return base::read_file(file, 64 * 1024);
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), error);
  if (error)
    return base::fail(Fault::environment,
                      file.parent_path().string() + ": cannot be made: " + error.message(),
                      "give --state-dir a folder that may be written");
  std::string bytes = make();
  if (auto written = base::write_file_atomically(file, bytes, k_private); !written)
    return tl::unexpected(written.error());
  return bytes;
}

}  // namespace

Result<std::string> keep_secret(const std::filesystem::path& file, std::size_t bytes) {
  auto secret = keep(file, [&] { return base::random_hex(bytes) + "\n"; });
  if (!secret) return secret;
  while (secret->ends_with('\n') || secret->ends_with('\r')) secret->pop_back();
  if (secret->size() < 16)
    return base::fail(Fault::invalid_input, file.string() + ": the secret is too short",
                      "remove the file; a new one is made");
  return secret;
}

Result<LocalIssuer> LocalIssuer::open(const std::filesystem::path& state_dir,
                                      const base::Clock& clock) {
  const auto key_file = state_dir / "local-issuer.pem";
  const auto pem = keep(key_file, [] { return github::SigningKey::generate().to_pem(); });
  if (!pem) return tl::unexpected(pem.error());
  auto key = github::SigningKey::from_pem(*pem);
  if (!key)
    return base::fail(Fault::invalid_input, key_file.string() + ": " + key.error().message,
                      "remove the file; a new key is made");
  auto secret = keep_secret(state_dir / "local-issuer.secret", 32);
  if (!secret) return tl::unexpected(secret.error());
  return LocalIssuer{std::move(*key), std::move(*secret), clock};
}

json::value LocalIssuer::jwks() const {
  return json::object{{"keys", json::array{key_.public_jwk()}}};
}

std::string LocalIssuer::request_token(const Dispatch& dispatch, std::string_view run_id) const {
  const std::string claims = json::serialize(json::object{{"repository", dispatch.repo.full_name()},
                                                          {"delivery_id", dispatch.delivery_id},
                                                          {"run_id", run_id}});
  return base::base64url_encode(claims) + "." +
         base::base64url_encode(base::hmac_sha256(secret_, claims));
}

std::optional<net::Response> LocalIssuer::handle(const net::Request& request) const {
  if (!request.path.starts_with(k_prefix)) return std::nullopt;
  const std::string_view name = std::string_view{request.path}.substr(k_prefix.size());
  if (name != "token" && name != ".well-known/jwks") return std::nullopt;
  if (request.method != "GET" && request.method != "HEAD") {
    auto response =
        answer_json(405, {{"ok", false}, {"error", "method_not_allowed"}, {"detail", "use GET"}});
    response.headers.set("Allow", "GET");
    return response;
  }
  return name == "token" ? token(request) : answer_json(200, jwks().as_object());
}

net::Response LocalIssuer::token(const net::Request& request) const {
  constexpr std::string_view event = "local_issuer.refused";
  const auto audience = request.parameter("audience");
  if (!audience || audience->empty() || audience->size() > 256 || !base::is_utf8(*audience))
    return refuse({Fault::invalid_input, "audience: missing or not text"}, event);
  const std::string_view bearer = net::bearer_of(request);
  const auto wrong = [&] {
    return refuse({Fault::unauthorized, "the request token is missing or not of this server",
                   "send ACTIONS_ID_TOKEN_REQUEST_TOKEN as bearer"},
                  event);
  };
  const auto dot = bearer.find('.');
  if (dot == std::string_view::npos) return wrong();
  const auto claims_text = base::base64url_decode(bearer.substr(0, dot));
  const auto mac = base::base64url_decode(bearer.substr(dot + 1));
  if (!claims_text || !mac ||
      !base::equal_constant_time(*mac, base::hmac_sha256(secret_, *claims_text)))
    return wrong();
  const auto claims = base::parse_json(*claims_text, "request token");
  const auto repository =
      claims ? base::require_string(*claims, "repository") : Result<std::string>{};
  const auto run_id = claims ? base::require_string(*claims, "run_id") : Result<std::string>{};
  if (!claims || !repository || !run_id) return wrong();
  const std::int64_t now =
      std::chrono::floor<std::chrono::seconds>(clock_->now()).time_since_epoch().count();
  const std::string jwt = github::sign_jwt(key_, {{"iss", url_},
                                                  {"aud", *audience},
                                                  {"sub", "repo:" + *repository + ":local"},
                                                  {"repository", *repository},
                                                  {"run_id", *run_id},
                                                  {"run_attempt", "1"},
                                                  {"iat", now},
                                                  {"nbf", now},
                                                  {"exp", now + k_token_life_seconds},
                                                  {"jti", base::random_hex(16)}});
  auto response = answer_json(200, {{"value", jwt}});
  response.headers.set("Cache-Control", "no-store");
  return response;
}

}  // namespace crosscheck::relay
