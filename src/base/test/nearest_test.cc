#include "crosscheck/base/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace crosscheck::base {
namespace {

constexpr std::array<std::string_view, 3> k_words{"oncalls", "events", "paths"};

TEST(Nearest, FindsWhatWasMeant) {
  EXPECT_EQ(nearest("oncall", k_words), "oncalls");
  EXPECT_EQ(nearest("EVENTS", k_words), "events");
  EXPECT_EQ(nearest("pahts", k_words), "paths");
  EXPECT_EQ(nearest("colour", k_words), "");
  EXPECT_EQ(nearest("", k_words), "");
  EXPECT_EQ(nearest(std::string(100'000, 'p'), k_words), "");
}

TEST(Suggest, ListsAllWhenNothingIsNear) {
  EXPECT_EQ(suggest("event", k_words), "did you mean 'events'?");
  EXPECT_EQ(suggest("colour", k_words), "use one of oncalls, events, paths");
}

}  // namespace
}  // namespace crosscheck::base
