#include "crosscheck/base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace crosscheck::base::yaml {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(std::string_view text) {
  const auto root = parse(text, "f.yaml");
  return root ? "none" : root.error().message;
}

TEST(Yaml, KeepsTextAsWritten) {
  const auto root = parse("a: 012\nb: no\nc: 1.10\nd: \"~\"\ne: ~\nf:\n", "f.yaml");
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(root->find("a")->text, "012");
  EXPECT_EQ(root->find("b")->text, "no");
  EXPECT_EQ(root->find("c")->text, "1.10");
  EXPECT_EQ(root->find("d")->text, "~");
  EXPECT_TRUE(root->find("d")->quoted);
  EXPECT_TRUE(root->find("e")->is(Node::Kind::null));
  EXPECT_TRUE(root->find("f")->is(Node::Kind::null));
  EXPECT_EQ(root->find("g"), nullptr);
}

TEST(Yaml, KnowsWhereEverythingStands) {
  const auto root = parse("# note\na:\n  - x\n  - y: [1, 2]\n", "f.yaml");
  ASSERT_TRUE(root) << root.error().message;
  const Node& list = *root->find("a");
  ASSERT_EQ(list.items.size(), 2U);
  EXPECT_EQ(list.items[0].line, 3);
  EXPECT_EQ(list.items[0].column, 5);
  const Node& inner = list.items[1].entries[0].value;
  EXPECT_EQ(inner.items[1].line, 4);
  EXPECT_EQ(inner.items[1].column, 12);
}

TEST(Yaml, RefusesWhatMisleads) {
  EXPECT_THAT(error_of("a: 1\nb: 2\na: 3\n"),
              AllOf(StartsWith("f.yaml:3:1: "), HasSubstr("'a' stands twice (first in line 1)")));
  EXPECT_THAT(error_of("a: &x 1\nb: *x\n"), StartsWith("f.yaml:1:"));
  EXPECT_THAT(error_of("a: !!int 1\n"), HasSubstr("tags"));
  EXPECT_THAT(error_of("? [a]\n: 1\n"), HasSubstr("a key must be text"));
  EXPECT_THAT(error_of("a: 1\n---\nb: 2\n"), HasSubstr("a second document"));
  EXPECT_THAT(error_of("a: [1\n"), HasSubstr("not YAML"));
  EXPECT_THAT(error_of("a: \xff\n"), HasSubstr("not UTF-8"));
  EXPECT_THAT(error_of(std::string(40, '[')), StartsWith("f.yaml:1:"));
  EXPECT_THAT(error_of(std::string(200'000, '[')), StartsWith("f.yaml:1:"));
  EXPECT_THAT(error_of(std::string_view{"a: \0b\n", 6}), HasSubstr("NUL"));
  EXPECT_EQ(error_of(""), "none");
  EXPECT_EQ(error_of("# only a comment\n"), "none");
}

TEST(Yaml, AnUnclosedQuoteDoesNotSwallowTheRest) {
  for (const std::string_view quote : {"\"", "'"})
    for (const std::string_view text :
         {"a: Qx", "a:\n  - Qx", "a: {b: Qx", "Qa: x", "a: Qx\nb: y\n- z"})
      for (const std::string_view end : {"", "\n", "\n\n", "\r\n", " \n", "\n# note\n"}) {
        std::string open = std::string{text} + std::string{end};
        open.replace(open.find('Q'), 1, quote);
        EXPECT_THAT(error_of(open), HasSubstr("not YAML")) << open;
      }
  for (const std::string_view text :
       {"a: \"x\n  y\"\n", "a: 'it''s'\n", "a: it's\n", "a: |\n  \"x\n", "a: |\n", "a:\n  -\n",
        "a: x # \"\n", "a: \"x\" \n\n"})
    EXPECT_EQ(error_of(text), "none") << text;
  EXPECT_EQ(parse("a: |+\n  x\n\n", "f.yaml").value().find("a")->text, "x\n\n");
}

TEST(Yaml, NoTextHoldsANul) {
  for (const std::string_view text :
       {R"(a: "b\0")", R"("a\0": b)", R"(- "\x00")", R"([{a: "\u0000"}])"})
    EXPECT_THAT(error_of(text), AllOf(StartsWith("f.yaml:1:"), HasSubstr("NUL"))) << text;
}

}  // namespace
}  // namespace crosscheck::base::yaml
