#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "crosscheck/net/http.h"

// Behind a proxy that a person trusts, who calls stands in headers that anybody else could invent.
namespace crosscheck::net {

// An address or a network, "192.0.2.7", "10.0.0.0/8", "2001:db8::/32". IPv4 addresses that are
// written as IPv6 ("::ffff:192.0.2.7") are the same.
class Network {
 public:
  [[nodiscard]] static std::optional<Network> parse(std::string_view text);
  [[nodiscard]] bool contains(std::string_view address) const;

 private:
  std::array<std::uint8_t, 16> bytes_{};
  int bits_ = 128;
};

// Makes `remote` the address that called the outermost of the trusted proxies, and `scheme` what it
// was spoken to in; the headers themselves (X-Forwarded-For, X-Forwarded-Proto) of a peer that is
// not trusted are ignored. Pure.
void apply_forwarded(Request& request, std::span<const Network> trusted);

}  // namespace crosscheck::net
