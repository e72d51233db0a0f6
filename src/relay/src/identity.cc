#include "crosscheck/relay/identity.h"

#include "crosscheck/net/bearer.h"

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

Result<Identity> identify(const net::Request& request, const VerifyToken& verify) {
  const std::string_view token = net::bearer_of(request);
  if (token.empty())
    return base::fail(Fault::unauthorized, "no token",
                      "send `Authorization: Bearer <OIDC token>`; a GitHub job needs "
                      "`permissions: id-token: write`");
  auto claims = verify(token);
  if (!claims) return tl::unexpected(claims.error());
  return identity_of(*claims);
}

}  // namespace crosscheck::relay
