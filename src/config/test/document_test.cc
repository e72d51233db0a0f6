#include "crosscheck/config/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support.h"

namespace crosscheck::config {
namespace {

std::shared_ptr<const Document> parsed(const std::string& text) {
  std::vector<Finding> findings;
  auto document = Document::parse("t.yaml", text, findings);
  EXPECT_TRUE(document) << text << (findings.empty() ? "" : to_string(findings.at(0)));
  return document;
}

// Every value lies inside what it is in, behind what comes before it, and stands where it says.
std::size_t expect_placed(Node node, std::size_t from, std::size_t to) {
  EXPECT_LE(from, node.begin()) << to_string(node.place());
  EXPECT_LE(node.begin(), node.end()) << to_string(node.place());
  EXPECT_LE(node.end(), to) << to_string(node.place());
  if (node.is(Node::Kind::text)) {
    const std::string_view source = node.source();
    const bool one_line = source.find('\n') == std::string_view::npos;
    if (node.style() == Node::Style::plain && one_line) {
      EXPECT_EQ(source, node.text());
    }
    if (node.style() == Node::Style::quoted) {
      EXPECT_TRUE(source.size() >= 2 && source.front() == source.back() &&
                  (source.front() == '"' || source.front() == '\''))
          << source;
    }
    return node.end();
  }
  std::size_t after = node.begin();
  for (const Node child : node.children()) after = expect_placed(child, after, node.end());
  return node.end();
}

TEST(Document, ValuesStandWhereTheySay) {
  const std::string text =
      "\xEF\xBB\xBF# \xC3\xA4\r\n\xC3\xB6: '\xC3\xBC'  # \xE2\x82\xAC\r\n"
      "list:\n- {a: [1, \"\xF0\x9F\x98\x80\", x]}\n-\n  b: |\n    \xC3\xA4\n\n  c: two\n    "
      "lines\n";
  const auto document = parsed(text);
  expect_placed(document->root(), 0, text.size());
  const Node first = document->root().first();
  EXPECT_EQ(first.source(), "\xC3\xB6");
  EXPECT_EQ(first.next().source(), "'\xC3\xBC'");
  EXPECT_EQ(first.next().text(), "\xC3\xBC");
  EXPECT_EQ(to_string(first.next().place()), "t.yaml:2:4");
  const Node list = document->root().find("list");
  EXPECT_EQ(list.first().find("a").first().next().source(), "\"\xF0\x9F\x98\x80\"");
  EXPECT_EQ(to_string(list.first().find("a").first().next().next().place()), "t.yaml:4:16");
  EXPECT_EQ(list.first().next().find("b").text(), "\xC3\xA4\n");
  EXPECT_EQ(list.first().next().find("c").text(), "two lines");
  EXPECT_EQ(list.first().next().find("c").source(), "two\n    lines");
}

TEST(Document, RealFilesToo) {
  std::filesystem::path root;
  const auto files = real_configurations(root);
  if (files.empty()) GTEST_SKIP() << "no configurations at " << root;
  for (const auto& path : files) {
    SCOPED_TRACE(path);
    const std::string text = *base::read_file(path);
    expect_placed(parsed(text)->root(), 0, text.size());
  }
}

TEST(Document, WhatSaysTheSame) {
  const auto same = [](const std::string& a, const std::string& b) {
    return same_value(parsed(a)->root(), parsed(b)->root());
  };
  EXPECT_TRUE(same("{a: 1, b: [x]}", "b:\n- 'x'  # c\na: 1\n"));
  EXPECT_FALSE(same("{a: 1}", "{a: '1'}"));
  EXPECT_FALSE(same("{a: yes}", "{a: 'yes'}"));
  EXPECT_FALSE(same("{a: ~}", "{a: '~'}"));
  EXPECT_FALSE(same("[a, b]", "[b, a]"));
  EXPECT_FALSE(same("[a]", "[a, b]"));
  EXPECT_FALSE(same("{a: 1}", "{a: 1, b: 2}"));
  EXPECT_FALSE(same("{a: {}}", "{a: []}"));
}

TEST(Document, ManyKeysAreComparedToo) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "key" + std::to_string(i) + ": 1\n";
  std::vector<Finding> findings;
  ASSERT_TRUE(Document::parse("t.yaml", text + "\"key\\x33\": 2\nkey39: 2\n", findings));
  EXPECT_THAT(brief(findings), ::testing::ElementsAre("duplicate 41:1 4:1", "duplicate 42:1 40:1"));
}

}  // namespace
}  // namespace crosscheck::config
