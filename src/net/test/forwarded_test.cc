#include "crosscheck/net/forwarded.h"

#include <gtest/gtest.h>

#include <vector>

namespace crosscheck::net {
namespace {

TEST(Network, ContainsItsAddressesAndNoOthers) {
  const struct {
    std::string network;
    std::string address;
    bool contains;
  } cases[] = {
      {"192.0.2.7", "192.0.2.7", true},
      {"192.0.2.7", "192.0.2.8", false},
      {"192.0.2.7", "::ffff:192.0.2.7", true},
      {"10.0.0.0/8", "10.255.255.255", true},
      {"10.0.0.0/8", "11.0.0.0", false},
      {"10.0.0.0/9", "10.128.0.0", false},
      {"0.0.0.0/0", "203.0.113.9", true},
      {"0.0.0.0/0", "2001:db8::1", false},
      {"::/0", "203.0.113.9", true},
      {"2001:db8::/33", "2001:db8:7fff::1", true},
      {"2001:db8::/33", "2001:db8:8000::1", false},
      {"::1", "::1", true},
      {"::1", "127.0.0.1", false},
      {"127.0.0.1", "", false},
      {"127.0.0.1", "localhost", false},
  };
  for (const auto& c : cases) {
    const auto network = Network::parse(c.network);
    ASSERT_TRUE(network) << c.network;
    EXPECT_EQ(network->contains(c.address), c.contains) << c.network << " " << c.address;
  }
}

TEST(Network, RefusesWhatIsNone) {
  for (const char* text : {"", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x",
                           "::/129", "10.0.0", "host", "10.0.0.0/8/8", "1.2.3.4 ", "0x7f.0.0.1"})
    EXPECT_FALSE(Network::parse(text)) << text;
}

TEST(Network, NothingIsAnAddressThatGoesOnAfterANulCharacter) {
  using namespace std::string_view_literals;
  for (const auto text : {"::\0"sv, "::1\0/8"sv, "10.0.0.1\0x"sv, "10.0.0.0\0/8"sv}) {
    EXPECT_FALSE(Network::parse(text)) << text;
    EXPECT_FALSE(Network::parse("::/0")->contains(text)) << text;
  }
}

TEST(ApplyForwarded, BelievesTrustedProxiesAlone) {
  const std::vector<Network> trusted{*Network::parse("10.0.0.0/8"), *Network::parse("::1")};
  const struct {
    std::string remote;
    std::vector<std::string> forwarded;  // one header each
    std::string proto;
    std::string caller;
    std::string scheme;
  } cases[] = {
      {"203.0.113.9", {"198.51.100.1"}, "https", "203.0.113.9", "http"},
      {"10.0.0.1", {"198.51.100.1"}, "https", "198.51.100.1", "https"},
      {"10.0.0.1", {}, "https", "10.0.0.1", "https"},
      {"10.0.0.1", {"198.51.100.1"}, "gopher", "198.51.100.1", "http"},
      {"::1", {"192.0.2.1, 198.51.100.1, 10.0.0.2"}, "", "198.51.100.1", "http"},
      {"::1", {"192.0.2.1", "198.51.100.1", "10.0.0.2"}, "", "198.51.100.1", "http"},
      {"10.0.0.1", {"192.0.2.1, rubbish"}, "", "10.0.0.1", "http"},
      {"10.0.0.1", {"192.0.2.1, 10.0.0.3, rubbish, 10.0.0.2"}, "", "10.0.0.2", "http"},
      {"10.0.0.1", {"10.0.0.3,10.0.0.2"}, "", "10.0.0.3", "http"},
      {"10.0.0.1", {" 2001:db8::7 "}, "", "2001:db8::7", "http"},
      {"10.0.0.1", {",,"}, "", "10.0.0.1", "http"},
      {"", {"198.51.100.1"}, "https", "", "http"},
  };
  for (const auto& c : cases) {
    Request request;
    request.remote = c.remote;
    for (const std::string& line : c.forwarded) request.headers.add("X-Forwarded-For", line);
    if (!c.proto.empty()) request.headers.add("X-Forwarded-Proto", c.proto);
    apply_forwarded(request, trusted);
    EXPECT_EQ(request.remote, c.caller) << (c.forwarded.empty() ? "" : c.forwarded.front());
    EXPECT_EQ(request.scheme, c.scheme) << c.proto;
  }
}

}  // namespace
}  // namespace crosscheck::net
