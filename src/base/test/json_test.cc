#include "crosscheck/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <limits>
#include <random>

namespace crosscheck::base {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(std::string_view text) {
  const auto value = parse_json(text, "body");
  if (value) return "no error";
  EXPECT_EQ(value.error().fault, Fault::invalid_input);
  return value.error().message;
}

TEST(ParseJson, ErrorsNameLineAndColumn) {
  EXPECT_THAT(error_of(""), HasSubstr("body:1:1: the JSON text is cut off"));
  EXPECT_THAT(error_of("{\"a\":1"), StartsWith("body:1:"));
  EXPECT_THAT(error_of("{\n  \"a\": tru,\n}"), StartsWith("body:2:"));
  EXPECT_THAT(error_of("{\n\n\"a\": 1,\n @}"), StartsWith("body:4:2: "));
  EXPECT_THAT(error_of("1 2"), HasSubstr("body:1:3: something follows"));
  EXPECT_THAT(error_of("{} x"), HasSubstr("something follows"));
  const auto offset = parse_json("[", "file", 7);
  ASSERT_FALSE(offset);
  EXPECT_THAT(offset.error().message, StartsWith("file:7:"));
}

TEST(ParseJson, RefusesWhatIsNotStrictJson) {
  for (const std::string_view text :
       {"{a:1}", "[1,]", "{\"a\":1,}", "// c\n1", "NaN", "Infinity", "01", "'x'", "\"\t\"", "+1",
        ".5", "\"\\x\"", "nul", "\xEF\xBB\xBF{}"}) {
    EXPECT_THAT(error_of(text), StartsWith("body:")) << text;
  }
}

TEST(ParseJson, RefusesInvalidUtf8) {
  for (const std::string_view text : {"\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"",
                                      "\"\xf4\x90\x80\x80\"", "{\"\x80\":1}", "\"\xe2\x82\""}) {
    EXPECT_THAT(error_of(text), StartsWith("body:")) << text;
  }
}

TEST(ParseJson, LimitsDepthTo64) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(parse_json(nested(64), "body"));
  EXPECT_THAT(error_of(nested(65)), HasSubstr("nested"));
  EXPECT_THAT(error_of(std::string(10'000'000, '[')), HasSubstr("nested"));
}

TEST(CheckJson, SaysWhatParsingWouldSay) {
  const std::string deep(65, '[');
  for (const std::string_view text : std::initializer_list<std::string_view>{
           "", " ", "{}", "[1,]", "{\"a\":1", "{\n \"a\": tru}", "1 2", "{} x", "{} ", "\"\xff\"",
           "\"\\ud800\"", "\"a\\u0000\"", "1e400", "99999999999999999999", "-", "// c\n1",
           "\xEF\xBB\xBF{}", "{\"a\":{\"b\":[null,true,-1,2.5,\"c\"]}}", deep}) {
    const auto parsed = parse_json(text, "body");
    const auto checked = check_json(text, "body");
    ASSERT_EQ(checked.has_value(), parsed.has_value()) << text;
    EXPECT_EQ(checked ? "" : checked.error().message, parsed ? "" : parsed.error().message);
  }
}

TEST(ParseJson, TheLastOfEqualKeysCounts) {
  EXPECT_EQ(require_int(parse_json(R"({"a":1,"a":2})", "body").value(), "a").value(), 2);
}

TEST(Find, FollowsPaths) {
  const json::value root =
      parse_json(R"({"a":{"b":{"c":7}},"n":null,"s":"x","l":[1]})", "t").value();
  ASSERT_NE(find(root, "a.b.c"), nullptr);
  EXPECT_EQ(*find(root, "a.b.c"), 7);
  ASSERT_NE(find(root, "n"), nullptr);
  EXPECT_TRUE(find(root, "n")->is_null());
  for (const std::string_view path :
       {"", "x", "a.x", "a.b.c.d", "s.x", "n.x", "l.0", "a..b", "."}) {
    EXPECT_EQ(find(root, path), nullptr) << path;
  }
  EXPECT_EQ(find(json::value(1), "a"), nullptr);
}

TEST(TypedLookUps, ReadOrNamePathAndWhatWasFound) {
  const json::value root =
      parse_json(R"({"w":{"id":123,"text":"x","big":18446744073709551615,"half":1.5,"no":null,
                     "yes":true,"list":[],"map":{}}})",
                 "t")
          .value();
  EXPECT_EQ(require_string(root, "w.text").value(), "x");
  EXPECT_EQ(require_int(root, "w.id").value(), 123);
  EXPECT_EQ(require_id(root, "w.id").value(), "123");
  EXPECT_EQ(require_id(root, "w.text").value(), "x");
  EXPECT_EQ(require_id(root, "w.big").value(), "18446744073709551615");
  EXPECT_EQ(optional_string(root, "w.no").value(), std::nullopt);
  EXPECT_EQ(optional_string(root, "w.gone").value(), std::nullopt);
  EXPECT_EQ(optional_int(root, "w.no").value(), std::nullopt);
  EXPECT_EQ(optional_int(root, "w.id").value(), 123);
  EXPECT_EQ(optional_id(root, "w.no").value(), std::nullopt);
  EXPECT_EQ(optional_id(root, "w.id").value(), "123");

  EXPECT_EQ(require_string(root, "w.gone").error().message,
            "field w.gone: expected text, found nothing");
  EXPECT_THAT(require_string(root, "w.id").error().message, HasSubstr("found an integer"));
  EXPECT_THAT(require_string(root, "w.no").error().message, HasSubstr("found null"));
  EXPECT_THAT(require_int(root, "w.big").error().message, HasSubstr("field w.big"));
  EXPECT_THAT(require_int(root, "w.half").error().message, HasSubstr("no 64-bit integer"));
  EXPECT_THAT(require_int(root, "w.text").error().message, HasSubstr("found text"));
  for (const std::string_view path : {"w.half", "w.yes", "w.list", "w.map"}) {
    EXPECT_FALSE(require_id(root, path)) << path;
    EXPECT_FALSE(optional_id(root, path)) << path;
    EXPECT_FALSE(optional_string(root, path)) << path;
    EXPECT_FALSE(optional_int(root, path)) << path;
  }
}

json::value random_value(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 0 ? 8 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random());
    case 3:
      return random();
    case 4:
      return static_cast<double>(random() % 1000) / 8.0;
    case 5: {
      json::string text;
      for (auto n = random() % 6; n > 0; --n) {
        const std::string_view letters[] = {
            "a", "\"", "\\", "\n", "\x01", "é", "日", "\xF0\x9F\x98\x80", "/"};
        text += letters[random() % std::size(letters)];
      }
      return text;
    }
    case 6: {
      json::array array;
      for (auto n = random() % 4; n > 0; --n) array.push_back(random_value(random, depth - 1));
      return array;
    }
    default: {
      json::object object;
      for (auto n = random() % 5; n > 0; --n) {
        object[std::string(1, static_cast<char>('a' + random() % 8))] =
            random_value(random, depth - 1);
      }
      return object;
    }
  }
}

TEST(CanonicalJson, ReadsBackAndIsAFixedPoint) {
  std::mt19937_64 random{42};
  for (int i = 0; i < 5'000; ++i) {
    const json::value value = random_value(random, 4);
    const std::string canonical = canonical_json(value);
    const auto again = parse_json(canonical, "canonical");
    ASSERT_TRUE(again) << canonical;
    ASSERT_EQ(*again, value) << canonical;
    ASSERT_EQ(canonical_json(*again), canonical);
    ASSERT_EQ(parse_json(pretty_json(value), "pretty").value(), value);
  }
}

TEST(CanonicalJson, DoesNotDependOnTheOrderOfKeys) {
  const json::value a =
      parse_json(R"({"b":{"y":1,"x":[1, 2]},"a":"é\/\u0001","B":0.5})", "t").value();
  const json::value b =
      parse_json(R"({"B":5e-1,"a":"\u00e9/\u0001","b":{"x":[1,2],"y":1}})", "t").value();
  EXPECT_EQ(canonical_json(a), canonical_json(b));
  EXPECT_EQ(canonical_json(a), R"({"B":0.5,"a":"é/\u0001","b":{"x":[1,2],"y":1}})");
}

TEST(CanonicalJson, NumbersStayWhatTheyAre) {
  EXPECT_EQ(canonical_json(json::value(1.0)), "1.0");
  EXPECT_EQ(canonical_json(json::value(-0.0)), "-0.0");
  EXPECT_EQ(canonical_json(json::value(1e300)), "1e+300");
  EXPECT_EQ(canonical_json(json::value(std::numeric_limits<double>::infinity())), "null");
  EXPECT_EQ(canonical_json(json::value(std::numeric_limits<std::uint64_t>::max())),
            "18446744073709551615");
}

TEST(PrettyJson, IndentsByTwo) {
  EXPECT_EQ(pretty_json(parse_json(R"({"b":[1,{}],"a":[]})", "t").value()),
            "{\n  \"b\": [\n    1,\n    {}\n  ],\n  \"a\": []\n}");
}

TEST(IsUtf8, Table) {
  for (const std::string_view good :
       {"", "abc", "é", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF", "\xF0\x90\x80\x80"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  EXPECT_TRUE(is_utf8(std::string_view{"\0", 1}));
  for (const std::string_view bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(is_utf8(bad));
  }
}

TEST(ToUtf8, ReplacesWhatDoesNotBelong) {
  EXPECT_EQ(to_utf8("a\tb\nc é"), "a\tb\nc é");
  EXPECT_EQ(to_utf8("a\xff"
                    "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(to_utf8("\x1b[31m"), "\xEF\xBF\xBD[31m");
  EXPECT_EQ(to_utf8("\x7f"), "\xEF\xBF\xBD");
  EXPECT_EQ(to_utf8("\xC2\x85"), "\xEF\xBF\xBD");  // C1
  EXPECT_EQ(to_utf8("\xC2\xA0"), "\xC2\xA0");
  EXPECT_EQ(to_utf8("\u202Eba\u2069"), "\uFFFDba\uFFFD");  // would be read as "ab"
  EXPECT_EQ(to_utf8("\u2029\u202F\u206A"), "\u2029\u202F\u206A");
}

TEST(ToUtf8, OfAnyBytesIsUtf8WithinTheLimit) {
  std::mt19937_64 random{3};
  for (int i = 0; i < 5'000; ++i) {
    std::string bytes(random() % 60, '\0');
    for (char& c : bytes)
      c = static_cast<char>(random() % 3 == 0 ? 'a' + random() % 26 : random() & 255);
    const std::size_t limit = random() % 50;
    const std::string cut = to_utf8(bytes, limit);
    ASSERT_TRUE(is_utf8(cut));
    ASSERT_LE(cut.size(), limit);
    const std::string whole = to_utf8(bytes);
    ASSERT_TRUE(is_utf8(whole));
    ASSERT_TRUE(whole.starts_with(cut));
    ASSERT_LT(std::min(whole.size(), limit), cut.size() + 4);  // nothing more would have fitted
    ASSERT_EQ(to_utf8(whole), whole);
  }
}

}  // namespace
}  // namespace crosscheck::base
