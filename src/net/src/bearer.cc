#include "crosscheck/net/bearer.h"

#include "crosscheck/base/repo_name.h"

namespace crosscheck::net {

std::string_view bearer_of(const Request& request) {
  std::string_view token = request.headers.get("Authorization").value_or("");
  constexpr std::string_view scheme = "bearer ";
  if (base::to_lower_ascii(token.substr(0, scheme.size())) == scheme)
    token.remove_prefix(scheme.size());
  while (token.starts_with(' ')) token.remove_prefix(1);
  while (token.ends_with(' ')) token.remove_suffix(1);
  return base::to_lower_ascii(token) == "bearer" ? std::string_view{} : token;
}

}  // namespace crosscheck::net
