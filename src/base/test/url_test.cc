#include "crosscheck/base/url.h"

#include <gtest/gtest.h>

#include <string>

namespace crosscheck::base {
namespace {

TEST(WebUrl, OnlyPlainAddressesPass) {
  for (const std::string_view good :
       {"https://x.example", "HTTP://x.example/a?b#c", "https://x.example/@me",
        "https://github.com/org/repo/actions/runs/1", "http://ci.example:8080/x?y=z#w",
        "HTTPS://EXAMPLE.ORG", "https://example.org/a@b"})
    EXPECT_TRUE(is_web_url(good)) << good;
  for (const std::string_view bad :
       {"", "https://", "https:///path", "javascript:alert(1)", "ftp://x.example", "//x.example",
        "https://me@x.example", "https://me:pw@x.example/", "https://x.example/\"onclick",
        "https://x.example/<b>", "https://x.example/a b", "https://x\nexample",
        "https://x.example\\@evil", "data:text/html,x", "/job/1", " https://example.org"})
    EXPECT_FALSE(is_web_url(bad)) << bad;
  EXPECT_FALSE(is_web_url(std::string_view{"https://x.example/\0a", 20}));
  EXPECT_FALSE(is_web_url("https://example.org/" + std::string(3000, 'a')));
}

}  // namespace
}  // namespace crosscheck::base
