#include "crosscheck/relay/identity.h"

namespace crosscheck::relay {

using base::Fault;
using base::Result;

Result<Identity> identity_of(const base::json::value& claims) {
  const auto repository = base::require_string(claims, "repository");
  if (!repository || repository->empty())
    return base::fail(Fault::unauthorized, "the token has no claim 'repository'",
                      "use an OIDC token of the job itself");
  auto repo = base::RepoName::parse(*repository);
  if (!repo)
    return base::fail(Fault::unauthorized, "the token's claim 'repository' is not owner/repo");
  Identity identity{std::move(*repo), std::nullopt, std::nullopt};
  for (const auto& [name, into] :
       {std::pair{"run_id", &identity.run_id}, std::pair{"run_attempt", &identity.run_attempt}}) {
    auto claim = base::optional_id(claims, name);
    if (!claim)
      return base::fail(Fault::unauthorized,
                        std::string{"the token's claim '"} + name + "' is not an id");
    *into = std::move(*claim);
  }
  return identity;
}

std::string_view bearer_of(const net::Request& request) {
  std::string_view token = request.headers.get("Authorization").value_or("");
  constexpr std::string_view scheme = "bearer ";
  if (base::to_lower_ascii(token.substr(0, scheme.size())) == scheme)
    token.remove_prefix(scheme.size());
  while (token.starts_with(' ')) token.remove_prefix(1);
  while (token.ends_with(' ')) token.remove_suffix(1);
  return base::to_lower_ascii(token) == "bearer" ? std::string_view{} : token;
}

Result<Identity> identify(const net::Request& request, const VerifyToken& verify) {
  const std::string_view token = bearer_of(request);
  if (token.empty())
    return base::fail(Fault::unauthorized, "no token",
                      "send `Authorization: Bearer <OIDC token>`; a GitHub job needs "
                      "`permissions: id-token: write`");
  auto claims = verify(token);
  if (!claims) return tl::unexpected(claims.error());
  return identity_of(*claims);
}

}  // namespace crosscheck::relay
