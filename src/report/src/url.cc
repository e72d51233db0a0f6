#include "url.h"

#include "crosscheck/net/http.h"

namespace crosscheck::report {

base::Result<void> may_carry_token(std::string_view url, std::string_view what,
                                   const Environment& environment) {
  if (url.starts_with("https://") && url.size() > 8) return {};
  if (constexpr std::string_view http = "http://"; url.starts_with(http)) {
    const auto rest = url.substr(http.size());
    const auto authority = rest.substr(0, rest.find_first_of("/?#"));
    // A user part ("localhost:x@elsewhere") would send the token elsewhere.
    if (authority.find('@') == std::string_view::npos) {
      const auto host = authority.starts_with('[') ? authority.substr(0, authority.find(']') + 1)
                                                   : authority.substr(0, authority.find(':'));
      if (net::is_loopback_host(host)) return {};
      if (!host.empty() && environment("CROSSCHECK_ALLOW_HTTP") == "1") return {};
    }
  }
  return base::fail(base::Fault::usage,
                    std::string{what} +
                        " must be https:// (or http:// to this machine: 127.0.0.1, localhost "
                        "or [::1]): a token is sent to it",
                    "give the https address, or set CROSSCHECK_ALLOW_HTTP=1 in a network where "
                    "nobody else listens");
}

}  // namespace crosscheck::report
