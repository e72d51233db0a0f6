#include "crosscheck/base/digest.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace crosscheck::base {
namespace {

std::string random_bytes(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random() & 255);
  return bytes;
}

TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(HmacSha256, PublishedVectors) {
  // RFC 4231, cases 1, 2 and 6 (a key longer than a block).
  EXPECT_EQ(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_hex(hmac_sha256(std::string(131, '\xaa'),
                               "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(to_hex(hmac_sha256({}, {})),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(Hex, RoundTrip) {
  std::mt19937_64 random{1};
  for (std::size_t n = 0; n < 200; ++n) {
    const std::string bytes = random_bytes(random, n);
    EXPECT_EQ(from_hex(to_hex(bytes)), bytes);
  }
  EXPECT_EQ(from_hex("aAfF"), "\xaa\xff");
  EXPECT_FALSE(from_hex("abc"));
  EXPECT_FALSE(from_hex("0x"));
  EXPECT_FALSE(from_hex("g0"));
}

TEST(Base64Url, Vectors) {
  EXPECT_EQ(base64url_encode(""), "");
  EXPECT_EQ(base64url_encode("f"), "Zg");
  EXPECT_EQ(base64url_encode("fo"), "Zm8");
  EXPECT_EQ(base64url_encode("foo"), "Zm9v");
  EXPECT_EQ(base64url_encode("\xfb\xff\xfe"), "-__-");
}

TEST(Base64Url, RoundTrip) {
  std::mt19937_64 random{2};
  for (std::size_t n = 0; n < 300; ++n) {
    const std::string bytes = random_bytes(random, n);
    EXPECT_EQ(base64url_decode(base64url_encode(bytes)), bytes);
  }
}

TEST(Base64Url, AcceptsOneSpellingOnly) {
  for (const std::string_view text :
       {"Z", "Zg=", "Zg==", "Zh", "Zm9", "+/+/", "Zg\n", "Z g", "Zm9vY"}) {
    EXPECT_FALSE(base64url_decode(text)) << text;
  }
}

TEST(EqualConstantTime, ComparesAll) {
  EXPECT_TRUE(equal_constant_time("", ""));
  EXPECT_TRUE(equal_constant_time({}, std::string_view{}));
  EXPECT_TRUE(equal_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_constant_time("abc", "ab"));
  EXPECT_FALSE(equal_constant_time("xbc", "abc"));
}

TEST(RandomHex, DoesNotRepeat) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string id = random_hex(16);
    EXPECT_EQ(id.size(), 32U);
    EXPECT_TRUE(from_hex(id));
    EXPECT_TRUE(seen.insert(id).second);
  }
  EXPECT_EQ(random_hex(1000).size(), 2000U);
  EXPECT_EQ(random_hex(0), "");
}

}  // namespace
}  // namespace crosscheck::base
