#include "crosscheck/github/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scripted_client.h"

namespace crosscheck::github {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FileAddress, Table) {
  struct Case {
    std::string_view url;
    std::string_view means;  // "repository ref path"; empty: refused
    std::string_view api = "https://api.github.com";
  };
  constexpr std::string_view k_enterprise = "https://ghe.example/api/v3";
  for (const auto& [url, means, api] : {
           Case{"https://github.com/o/r/blob/main/list.yml", "o/r main list.yml"},
           Case{"https://github.com/o/r/blob/main/.github/a%20b.yml#L3",
                "o/r main .github/a%20b.yml"},
           Case{"https://github.com/o/r/blob/main/x.yml?plain=1", "o/r main x.yml"},
           Case{"https://github.com/o/r/blob/a%2Fb/x.yml", "o/r a%2Fb x.yml"},
           Case{"https://github.com/o/r/blob/refs/heads/main/x.yml", "o/r refs/heads/main x.yml"},
           Case{"https://github.com/o/r/blob/refs/tags/v1/d/x.yml", "o/r refs/tags/v1 d/x.yml"},
           Case{"https://api.github.com/repos/o/r/contents/d/x.yml?ref=v1", "o/r v1 d/x.yml"},
           Case{"https://api.github.com/repos/o/r/contents/x.yml", "o/r  x.yml"},
           Case{"https://ghe.example/o/r/blob/main/x.yml", "o/r main x.yml", k_enterprise},
           Case{"https://ghe.example/api/v3/repos/o/r/contents/x.yml?ref=b", "o/r b x.yml",
                k_enterprise},
           Case{"https://github.com/o/r/blob/main/x.yml", "o/r main x.yml", k_enterprise},
           Case{"https://ghe.example/o/r/blob/main/x.yml", ""},
           Case{"https://evil.example/o/r/blob/main/x.yml", "", k_enterprise},
           Case{"https://github.com.evil.example/o/r/blob/main/x.yml", ""},
           Case{"https://raw.githubusercontent.com/o/r/main/x.yml", ""},
           Case{"https://github.com/o/r/blob/main", ""},
           Case{"https://github.com/o/r/blob/main/", ""},
           Case{"https://github.com/o/r/blob/refs/heads/main", ""},
           Case{"https://github.com/o/r/tree/main/x.yml", ""},
           Case{"https://github.com/o/r/blob/main/../x.yml", ""},
           Case{"https://github.com/o/r/blob//x.yml", ""},
           Case{"https://github.com/o//blob/main/x.yml", ""},
           Case{"https://github.com", ""},
           Case{"https://github.com/o/r/blob/main/a b", ""},
           Case{"https://api.github.com/repos/o/r/contents/x.yml?ref=a&b=c", ""},
           Case{"https://api.github.com/user", ""},
           Case{"", ""},
       }) {
    const auto address = parse_file_address(url, api);
    EXPECT_EQ(address ? address->repo.full_name() + " " + address->ref + " " + address->path
                      : std::string{},
              means)
        << url;
    if (!address) {
      EXPECT_THAT(address.error().remedy, HasSubstr("/blob/")) << url;
    }
  }
}

class ReadFile : public ::testing::Test {
 protected:
  // As GitHub: the App is on o/r alone, and what it may read is at version "1".
  net::ClientResult answer(const net::ClientRequest& request) {
    const std::string_view path = std::string_view{request.url}.substr(16);
    const bool known = request.headers.get("Authorization") == "Bearer ghs_1";
    calls_.push_back(request.method + (known ? " as the App " : " ") + std::string{path});
    if (path == "/repos/o/r/installation") return net::Response{200, {}, R"({"id":42})"};
    if (path.ends_with("/installation")) return net::Response{404, {}, "{}"};
    if (path.ends_with("/access_tokens"))
      return net::Response{201, {}, R"({"token":"ghs_1","expires_at":"2100-01-01T00:00:00Z"})"};
    EXPECT_EQ(request.headers.get("Accept"), "application/vnd.github.raw+json");
    if (status_ != 200) return net::Response{status_, {}, R"({"message":"because"})"};
    if (request.headers.get("If-None-Match") == "\"1\"") return net::Response{304, {}, ""};
    return net::Response{200, {{"ETag", "\"1\""}}, "L2: []\n"};
  }
  base::Result<std::optional<FileVersion>> read(std::string_view repo, std::string_view etag = "") {
    const FileAddress address{base::RepoName::parse(repo).value(), "main", "d/x.yml"};
    return read_file({.client = client_, .api_url = "https://api.test/", .app = &app_}, address,
                     etag);
  }

  int status_ = 200;
  std::vector<std::string> calls_;
  base::SystemClock clock_;
  ScriptedClient client_{[this](const net::ClientRequest& r) { return answer(r); }};
  App app_{{.app_id = "1", .api_url = "https://api.test"}, SigningKey::generate(), client_, clock_};
};

TEST_F(ReadFile, AsTheAppWithTheLastTag) {
  const auto first = read("o/r");
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->text, "L2: []\n");
  EXPECT_EQ((*first)->etag, "\"1\"");
  const auto again = read("o/r", (*first)->etag);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, std::nullopt);
  EXPECT_THAT(calls_,
              ElementsAre("GET /repos/o/r/installation", "POST /app/installations/42/access_tokens",
                          "GET as the App /repos/o/r/contents/d/x.yml?ref=main",
                          "GET as the App /repos/o/r/contents/d/x.yml?ref=main"));
}

TEST_F(ReadFile, WithoutTheAppWhereItIsNotInstalled) {
  const auto first = read("other/public");
  ASSERT_TRUE(first && *first) << first.error().message;
  EXPECT_EQ(*read("other/public", (*first)->etag), std::nullopt);
  EXPECT_THAT(calls_, ElementsAre("GET /repos/other/public/installation",
                                  "GET /repos/other/public/contents/d/x.yml?ref=main",
                                  "GET /repos/other/public/installation",
                                  "GET /repos/other/public/contents/d/x.yml?ref=main"));
}

TEST_F(ReadFile, SaysWhyNot) {
  for (const auto& [status, fault] : {std::pair{404, base::Fault::not_found},
                                      {403, base::Fault::not_found},
                                      {429, base::Fault::unavailable},
                                      {500, base::Fault::unavailable},
                                      {304, base::Fault::not_found},
                                      {302, base::Fault::not_found}}) {
    status_ = status;
    const auto refused = read("o/r");
    ASSERT_FALSE(refused) << status;
    EXPECT_EQ(refused.error().fault, fault) << status;
    EXPECT_THAT(refused.error().message, HasSubstr(std::to_string(status) + ": because"));
  }
  client_.set_answer([](const auto&) { return no_answer(true); });
  EXPECT_EQ(read("o/r").error().fault, base::Fault::unavailable);
}

}  // namespace
}  // namespace crosscheck::github
