#include "crosscheck/config/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support.h"

namespace crosscheck::config {
namespace {

std::string formatted(const std::string& text) {
  std::vector<Finding> findings;
  const auto document = Document::parse("t.yaml", text, findings);
  if (!document) return to_string(findings.at(0));
  const auto result = format(*document);
  return result ? *result : result.error().message;
}

TEST(Format, TheCanonicalLayout) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"a:   1\n", "a:   1\n"},
      {"a: 1", "a: 1\n"},
      {"a: 1   # c  \n", "a: 1  # c\n"},
      {"a: 1 # c\n", "a: 1  # c\n"},
      {"\n\n# c\n\n\n\na: 1\n\n\n", "# c\n\na: 1\n"},
      {"a:\n- 1\n- 2\n", "a:\n  - 1\n  - 2\n"},
      {"a:\n    - b: 1\n      c:\n          d: 2\n", "a:\n  - b: 1\n    c:\n      d: 2\n"},
      {"a:\n-   b: 1\n    c: 2\n", "a:\n  - b: 1\n    c: 2\n"},
      {"a:\n- - 1\n  - 2\n-  -  3\n", "a:\n  - - 1\n    - 2\n  - - 3\n"},
      {"a:\n-\n  b: 1\n", "a:\n  -\n    b: 1\n"},
      // Comments stand where they stood, seen from their neighbours.
      {"a:\n# of 1\n- 1\n# of 2\n- 2\n# end\n", "a:\n  # of 1\n  - 1\n  # of 2\n  - 2\n  # end\n"},
      {"a:\n-   b:\n    -   1\n    # - 2\n    c: 3\n# - d\n",
       "a:\n  - b:\n      - 1\n    # - 2\n    c: 3\n  # - d\n"},
      {"a: \n    # deep\n    b: 1\n", "a:\n  # deep\n  b: 1\n"},
      // Texts of several lines.
      {"a:\n    b: |\n        x\n          y   \n\n        z\n    c: 1\n",
       "a:\n  b: |\n      x\n        y   \n\n      z\n  c: 1\n"},
      {"a:\n    b: >-  # folded\n        x\n        y\n",
       "a:\n  b: >-  # folded\n      x\n      y\n"},
      {"a:\n    b: 'x # no comment\n      y'   # one\n",
       "a:\n  b: 'x # no comment\n    y'  # one\n"},
      {"a:\n    b: x\n     y  \n", "a:\n  b: x\n    y\n"},
      {"a:\n    b: [1, # one\n  2,\n          3]\n", "a:\n  b: [1,  # one\n    2,\n        3]\n"},
      {"a:\n    b:\n        'text'\n", "a:\n  b:\n      'text'\n"},
      {"a: \"#\" # c\n", "a: \"#\"  # c\n"},
      {"a: x#y\n", "a: x#y\n"},
      // Line breaks and marks.
      {"a:\r\n- 1\r\n", "a:\n  - 1\n"},
      {"\xEF\xBB\xBF"
       "a: 1\n",
       "a: 1\n"},
      {"# c\xE2\x80\xA9\na: 1\n", "# c\n\na: 1\n"},
      {"--- \na: 1\n", "---\na: 1\n"},
      {"", ""},
      {"# only\n", "# only\n"}};
  for (const auto& [text, expected] : table) {
    EXPECT_EQ(formatted(text), expected) << text;
    EXPECT_EQ(formatted(expected), expected);
  }
}

TEST(Format, WhatCannotBeLaidOutIsRefused) {
  EXPECT_THAT(formatted("a:\n    ? b\n    : 1\n"), ::testing::HasSubstr("t.yaml: this layout"));
}

TEST(Format, RealFilesKeepTheirCommentsAndSayTheSame) {
  std::filesystem::path root;
  const auto files = real_configurations(root);
  if (files.empty()) GTEST_SKIP() << "no configurations at " << root;
  const auto comments = [](const std::string& text) {
    std::multiset<std::string> all;
    for (std::size_t at = 0; at < text.size();) {
      const auto end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      while (!line.empty() && line.back() == ' ') line.pop_back();
      if (const auto hash = line.find('#'); hash != std::string::npos)
        all.insert(line.substr(hash));
      at = end + 1;
    }
    return all;
  };
  for (const auto& path : files) {
    const std::string text = *base::read_file(path);
    const std::string once = formatted(text);
    EXPECT_EQ(formatted(once), once) << path;
    EXPECT_TRUE(comments(once) == comments(text)) << path;
  }
}

}  // namespace
}  // namespace crosscheck::config
