#include "crosscheck/base/repo_name.h"

#include <gtest/gtest.h>

namespace crosscheck::base {
namespace {

TEST(RepoName, KeepsTheSpellingAndComparesWithoutCase) {
  const RepoName a = RepoName::parse("PyTorch/PyTorch.github_io-x").value();
  const RepoName b = RepoName::parse("pytorch/pytorch.GitHub_io-X").value();
  EXPECT_EQ(a, b);
  EXPECT_FALSE(a < b);
  EXPECT_EQ(a.full_name(), "PyTorch/PyTorch.github_io-x");
  EXPECT_EQ(a.key(), "pytorch/pytorch.github_io-x");
  EXPECT_EQ(a.owner(), "PyTorch");
  EXPECT_EQ(a.name(), "PyTorch.github_io-x");
  EXPECT_NE(a, RepoName::parse("pytorch/vision").value());
}

TEST(RepoName, AcceptsTheLongest) {
  EXPECT_TRUE(RepoName::parse(std::string(39, 'o') + "/" + std::string(100, 'n')));
}

TEST(RepoName, Refuses) {
  for (const std::string& text : {std::string{},
                                  std::string{"/"},
                                  std::string{"a"},
                                  std::string{"a/"},
                                  std::string{"/b"},
                                  std::string{"a/b/c"},
                                  std::string{"a b/c"},
                                  std::string{"a/b c"},
                                  std::string{"a/."},
                                  std::string{"a/.."},
                                  std::string{"../b"},
                                  std::string{"a.b/c"},
                                  std::string{"a/b?x"},
                                  std::string{"a/b#x"},
                                  std::string{"a/b%2e"},
                                  std::string{"a/b\n"},
                                  std::string{"ä/b"},
                                  std::string("a/b\0c", 5),
                                  std::string(40, 'o') + "/n",
                                  "o/" + std::string(101, 'n')}) {
    const auto name = RepoName::parse(text);
    ASSERT_FALSE(name) << text;
    EXPECT_EQ(name.error().fault, Fault::invalid_input);
  }
}

TEST(ToLowerAscii, LeavesOtherBytesAlone) { EXPECT_EQ(to_lower_ascii("AbZ-Ä[`{@"), "abz-Ä[`{@"); }

}  // namespace
}  // namespace crosscheck::base
