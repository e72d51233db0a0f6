#include "crosscheck/base/gzip.h"

#include <gtest/gtest.h>

#include <random>

namespace crosscheck::base {
namespace {

constexpr std::size_t k_no_limit = std::size_t{1} << 30;

std::string sample(std::size_t size, unsigned seed, unsigned alphabet) {
  std::mt19937 random{seed};
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random() % alphabet);
  return bytes;
}

TEST(Gzip, RoundTripAtAndAroundBufferEdges) {
  for (const std::size_t size : {0UL, 1UL, 65'535UL, 65'536UL, 65'537UL, 131'072UL, 1'000'003UL}) {
    for (const unsigned alphabet : {1U, 4U, 256U}) {
      const std::string bytes = sample(size, 7, alphabet);
      const auto again = gunzip(gzip(bytes), size);
      ASSERT_TRUE(again) << size << ": " << again.error().message;
      EXPECT_TRUE(*again == bytes) << size;
    }
  }
}

TEST(Gzip, IsDeterministic) {
  const std::string packed = gzip("the same");
  EXPECT_EQ(packed, gzip("the same"));
  EXPECT_EQ(packed.substr(4, 4), std::string(4, '\0'));  // no time
}

TEST(Gunzip, ReadsSeveralMembers) {
  EXPECT_EQ(gunzip(gzip("one ") + gzip("") + gzip("two"), 7).value(), "one two");
}

TEST(Gunzip, RefusesWhatPassesTheLimitByOne) {
  const std::string packed = gzip(std::string(100'000, 'x'));
  EXPECT_TRUE(gunzip(packed, 100'000));
  EXPECT_EQ(gunzip(packed, 99'999).error().fault, Fault::too_large);
  EXPECT_EQ(gunzip(gzip("x"), 0).error().fault, Fault::too_large);
  EXPECT_EQ(gunzip(gzip(""), 0).value(), "");
}

TEST(Gunzip, RefusesABombEarly) {
  // 64 MiB of zeros in about 64 KB; only the limit is ever kept.
  const std::string bomb = gzip(std::string(std::size_t{64} << 20, '\0'));
  ASSERT_LT(bomb.size(), 100'000U);
  EXPECT_EQ(gunzip(bomb, 1 << 20).error().fault, Fault::too_large);
}

TEST(Gunzip, NoticesEveryCut) {
  const std::string packed = gzip(sample(3000, 3, 16));
  for (std::size_t n = 0; n < packed.size(); ++n) {
    const auto result = gunzip(packed.substr(0, n), k_no_limit);
    ASSERT_FALSE(result) << n;
    EXPECT_EQ(result.error().fault, Fault::invalid_input) << n;
  }
}

TEST(Gunzip, RefusesGarbage) {
  EXPECT_EQ(gunzip("hello", k_no_limit).error().fault, Fault::invalid_input);
  EXPECT_EQ(gunzip(gzip("x") + "garbage", k_no_limit).error().fault, Fault::invalid_input);
  EXPECT_EQ(gunzip(gzip("x") + '\0', k_no_limit).error().fault, Fault::invalid_input);
}

TEST(Gunzip, NoticesDamage) {
  const std::string bytes = sample(5000, 5, 64);
  const std::string packed = gzip(bytes);
  std::mt19937 random{9};
  for (int i = 0; i < 300; ++i) {
    std::string damaged = packed;
    damaged[10 + random() % (packed.size() - 10)] ^= static_cast<char>(1 + random() % 255);
    const auto result = gunzip(damaged, k_no_limit);
    // Never other bytes: the checksum sees to it.
    if (result) {
      EXPECT_EQ(*result, bytes);
    }
  }
}

}  // namespace
}  // namespace crosscheck::base
