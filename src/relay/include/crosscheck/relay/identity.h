#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/json.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/result.h"
#include "crosscheck/net/http.h"

namespace crosscheck::relay {

// Checks a token's signature, issuer, audience and times, and returns its claims. `unauthorized`
// when it is not good, `unavailable` when the issuer's keys cannot be had.
using VerifyToken = std::function<base::Result<base::json::value>(std::string_view token)>;

// Who calls, as a verified token says.
struct Identity {
  base::RepoName repo;
  // Where the issuer says which run calls, a body may not say otherwise.
  std::optional<std::string> run_id;
  std::optional<std::string> run_attempt;
};

[[nodiscard]] base::Result<Identity> identify(const net::Request& request,
                                              const VerifyToken& verify);
[[nodiscard]] base::Result<Identity> identity_of(const base::json::value& claims);

}  // namespace crosscheck::relay
