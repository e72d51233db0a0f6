#include "crosscheck/net/http.h"

#include <gtest/gtest.h>

#include <random>

#include "crosscheck/net/bearer.h"

namespace crosscheck::net {
namespace {

using Segments = std::vector<std::string_view>;

TEST(Headers, NamesCompareWithoutCaseAndMayRepeat) {
  Headers headers{{"Accept", "a"}, {"X-One", "1"}, {"accept", "b"}};
  EXPECT_EQ(headers.get("ACCEPT"), "a");
  EXPECT_EQ(headers.get("Accep"), std::nullopt);
  headers.add("ACCEPT", "c");
  EXPECT_EQ(headers.fields().size(), 4U);
  headers.set("Accept", "d");
  EXPECT_EQ(headers.get("accept"), "d");
  EXPECT_EQ(headers.fields().size(), 2U);
  EXPECT_EQ(headers.fields().front().first, "X-One");
}

TEST(Request, ItsBearerTokenWithTheSchemeOrWithout) {
  const std::pair<std::string, std::string> cases[] = {{"Bearer abc", "abc"},
                                                       {"bearer  abc ", "abc"},
                                                       {"abc", "abc"},
                                                       {"Bearer", ""},
                                                       {"Bearer ", ""},
                                                       {"", ""},
                                                       {"Basic eDp5", "Basic eDp5"}};
  for (const auto& [sent, token] : cases) {
    Request request;
    request.headers = {{"Authorization", sent}};
    EXPECT_EQ(bearer_of(request), token) << sent;
  }
  EXPECT_EQ(bearer_of(Request{}), "");
}

TEST(Request, ParameterIsTheFirstOfItsNameDecoded) {
  const struct {
    std::string query;
    std::string name;
    std::optional<std::string> value;
  } cases[] = {
      {"a=1&b=2", "b", "2"},
      {"a=1&a=2", "a", "1"},
      {"", "a", std::nullopt},
      {"a", "a", ""},
      {"a=", "a", ""},
      {"=x", "", "x"},
      {"ab=1", "a", std::nullopt},
      {"a=b=c", "a", "b=c"},
      {"&&a=1&", "a", "1"},
      {"q=two+words%2Band%20more", "q", "two words+and more"},
      {"n%61me=x", "name", "x"},
      {"a=%zz&b=1", "a", std::nullopt},
      {"a=%zz&b=1", "b", "1"},
      {"%zz=1", "%zz", std::nullopt},
  };
  for (const auto& c : cases) {
    Request request;
    request.query = c.query;
    EXPECT_EQ(request.parameter(c.name), c.value) << c.query << " : " << c.name;
  }
}

TEST(Response, SaysItsType) {
  EXPECT_EQ(Response::text(200, "x").headers.get("content-type"), "text/plain; charset=utf-8");
  EXPECT_EQ(Response::html(404, "x").headers.get("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(Response::json(201, "{}").headers.get("content-type"), "application/json");
  EXPECT_EQ(Response::html(404, "x").status, 404);
  EXPECT_EQ(Response::html(404, "x").body, "x");
}

TEST(SplitPath, GivesTheSegments) {
  EXPECT_EQ(split_path("/"), Segments{""});
  EXPECT_EQ(split_path("/b/org/repo"), (Segments{"b", "org", "repo"}));
  EXPECT_EQ(split_path("/b/"), (Segments{"b", ""}));
  EXPECT_EQ(split_path("//b"), (Segments{"", "b"}));
}

TEST(Percent, EncodesAllButUnreservedCharacters) {
  EXPECT_EQ(percent_encode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encode("a b/c?&=+%\n"), "a%20b%2Fc%3F%26%3D%2B%25%0A");
  EXPECT_EQ(percent_encode("\xc3\xa9"), "%C3%A9");
  EXPECT_EQ(percent_encode(std::string_view{"\0", 1}), "%00");
}

TEST(Percent, DecodesOrRefuses) {
  EXPECT_EQ(percent_decode("a%2fB%2F+"), "a/B/+");
  EXPECT_EQ(percent_decode("%00"), std::string(1, '\0'));
  for (const std::string_view bad : {"%", "%4", "%4g", "%g4", "a%", "%%41", "%-1", "% 1", "%+1"}) {
    EXPECT_EQ(percent_decode(bad), std::nullopt) << bad;
  }
}

TEST(Percent, DecodeUndoesEncode) {
  std::mt19937 random{20};
  std::uniform_int_distribution<int> byte{0, 255};
  std::uniform_int_distribution<std::size_t> length{0, 64};
  for (int round = 0; round < 2'000; ++round) {
    std::string text(length(random), '\0');
    for (char& c : text) c = static_cast<char>(byte(random));
    const std::string encoded = percent_encode(text);
    EXPECT_EQ(percent_decode(encoded), text);
    Request request;
    request.query = percent_encode(text) + "=" + encoded;
    EXPECT_EQ(request.parameter(text), text);
  }
}

TEST(Loopback, IsThisMachineOnly) {
  for (const char* host : {"localhost", "a.localhost", "127.0.0.1", "127.1.2.3", "[::1]"})
    EXPECT_TRUE(is_loopback_host(host)) << host;
  for (const char* host : {"", "127.evil.example", "127.0.0.1.evil.example", "localhost.example",
                           "10.0.0.1", "128.0.0.1", "0.0.0.0", "[::2]", "::1", "xlocalhost"})
    EXPECT_FALSE(is_loopback_host(host)) << host;
}

}  // namespace
}  // namespace crosscheck::net
