#include "url.h"

#include <algorithm>
#include <array>

namespace crosscheck::report {

base::Result<void> may_carry_token(std::string_view url, std::string_view what) {
  if (url.starts_with("https://") && url.size() > 8) return {};
  if (constexpr std::string_view http = "http://"; url.starts_with(http)) {
    const auto rest = url.substr(http.size());
    const auto authority = rest.substr(0, rest.find_first_of("/?#"));
    // A user part ("localhost:x@elsewhere") would send the token elsewhere.
    if (authority.find('@') == std::string_view::npos) {
      const auto host = authority.starts_with('[') ? authority.substr(0, authority.find(']') + 1)
                                                   : authority.substr(0, authority.find(':'));
      constexpr std::array<std::string_view, 3> loopback{"127.0.0.1", "localhost", "[::1]"};
      if (std::ranges::find(loopback, host) != loopback.end()) return {};
    }
  }
  return base::fail(base::Fault::usage,
                    std::string{what} +
                        " must be https:// (or http:// to 127.0.0.1, localhost or "
                        "[::1]): a token is sent to it",
                    "give the https address");
}

}  // namespace crosscheck::report
