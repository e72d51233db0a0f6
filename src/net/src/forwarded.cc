#include "crosscheck/net/forwarded.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace crosscheck::net {
namespace {

using Bytes = std::array<std::uint8_t, 16>;

// As IPv6; an IPv4 address is mapped.
std::optional<Bytes> parse_address(std::string_view text) {
  // inet_pton would read as far as the NUL, and take the rest for an address too.
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  const std::string copy{text};
  Bytes bytes{};
  if (::inet_pton(AF_INET6, copy.c_str(), bytes.data()) == 1) return bytes;
  if (::inet_pton(AF_INET, copy.c_str(), bytes.data() + 12) != 1) return std::nullopt;
  bytes[10] = bytes[11] = 0xff;
  return bytes;
}

std::string_view trim(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

// The addresses that proxies have appended, nearest last: of all headers of the name, in order.
std::vector<std::string_view> hops(const Headers& headers) {
  std::vector<std::string_view> all;
  for (const auto& [name, value] : headers.fields()) {
    if (!std::ranges::equal(name, std::string_view{"x-forwarded-for"}, [](char a, char b) {
          return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
        }))
      continue;
    std::string_view rest = value;
    while (true) {
      const auto comma = rest.find(',');
      all.push_back(trim(rest.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return all;
}

}  // namespace

std::optional<Network> Network::parse(std::string_view text) {
  Network network;
  const auto slash = text.find('/');
  const std::string_view address = text.substr(0, slash);
  const auto bytes = parse_address(address);
  if (!bytes) return std::nullopt;
  network.bytes_ = *bytes;
  if (slash == std::string_view::npos) return network;
  const std::string_view digits = text.substr(slash + 1);
  const bool is_v4 = address.find(':') == std::string_view::npos;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), network.bits_);
  if (error != std::errc{} || end != digits.data() + digits.size() || network.bits_ < 0 ||
      network.bits_ > (is_v4 ? 32 : 128))
    return std::nullopt;
  if (is_v4) network.bits_ += 96;
  return network;
}

bool Network::contains(std::string_view address) const {
  const auto bytes = parse_address(address);
  if (!bytes) return false;
  for (int bit = 0; bit < bits_; bit += 8) {
    const auto i = static_cast<std::size_t>(bit / 8);
    const int kept = std::min(8, bits_ - bit);
    const auto mask = static_cast<std::uint8_t>(0xff << (8 - kept));
    if (((*bytes)[i] & mask) != (bytes_[i] & mask)) return false;
  }
  return true;
}

void apply_forwarded(Request& request, std::span<const Network> trusted) {
  const auto is_trusted = [&](std::string_view address) {
    return std::ranges::any_of(trusted, [&](const Network& n) { return n.contains(address); });
  };
  if (!is_trusted(request.remote)) return;
  const std::string_view scheme = trim(request.headers.get("X-Forwarded-Proto").value_or(""));
  if (scheme == "https" || scheme == "http") request.scheme = scheme;
  const auto all = hops(request.headers);
  for (auto hop = all.rbegin(); hop != all.rend(); ++hop) {
    if (!parse_address(*hop)) return;  // what is before it is anybody's word
    request.remote = *hop;
    if (!is_trusted(*hop)) return;
  }
}

}  // namespace crosscheck::net
