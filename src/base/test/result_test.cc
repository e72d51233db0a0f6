#include "crosscheck/base/result.h"

#include <gtest/gtest.h>

#include <set>

namespace crosscheck::base {
namespace {

TEST(Error, ShowsItsRemedyOnALineOfItsOwn) {
  EXPECT_EQ(to_string(Error{Fault::full, "no space"}), "no space");
  EXPECT_EQ(to_string(Error{Fault::full, "no space", "free some"}),
            "no space\n  remedy: free some");
}

TEST(Fault, EveryOneHasANameOfItsOwnAndAnExitCodeThatIsNotSuccess) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Fault::internal); ++i) {
    const auto fault = static_cast<Fault>(i);
    EXPECT_TRUE(names.insert(to_string(fault)).second) << i;
    EXPECT_GE(static_cast<int>(exit_code(fault)), 2) << to_string(fault);
  }
}

TEST(Fault, ExitCodesAreTheDocumentedOnes) {
  EXPECT_EQ(exit_code(Fault::usage), ExitCode::usage);
  EXPECT_EQ(exit_code(Fault::invalid_input), ExitCode::bad_input);
  EXPECT_EQ(exit_code(Fault::not_found), ExitCode::bad_input);
  EXPECT_EQ(exit_code(Fault::busy), ExitCode::environment);
  EXPECT_EQ(exit_code(Fault::full), ExitCode::environment);
  EXPECT_EQ(exit_code(Fault::read_only), ExitCode::environment);
  EXPECT_EQ(exit_code(Fault::environment), ExitCode::environment);
  EXPECT_EQ(exit_code(Fault::internal), ExitCode::internal);
}

TEST(Fault, OnlyWhatMayPassByItselfIsRetried) {
  EXPECT_TRUE(is_retryable(Fault::busy));
  EXPECT_TRUE(is_retryable(Fault::unavailable));
  EXPECT_TRUE(is_retryable(Fault::rate_limited));
  EXPECT_FALSE(is_retryable(Fault::invalid_input));
  EXPECT_FALSE(is_retryable(Fault::full));
  EXPECT_FALSE(is_retryable(Fault::internal));
}

}  // namespace
}  // namespace crosscheck::base
