#include "crosscheck/profile/source.h"

#include <gmock/gmock.h>

#include <string>

namespace crosscheck::profile {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> words(std::string_view source, Language language) {
  std::vector<std::string> all;
  for (const Token& token : tokens_of(source, language))
    all.push_back(token.kind == Token::Kind::text ? "'" + std::string{token.text} + "'"
                                                  : std::string{token.text});
  return all;
}

TEST(CppTokens, LeaveOutCommentsAndSeeStringsWhole) {
  EXPECT_THAT(words("a // b\\\nc\nd /* e\n* */ f", Language::cpp), ElementsAre("a", "d", "f"));
  EXPECT_THAT(words(R"(x = "a // \" b"; 'c')", Language::cpp),
              ElementsAre("x", "=", R"('a // \" b')", ";", "'c'"));
  EXPECT_THAT(words("R\"(a \" // )\" u8\"b\" LR\"x(c)\"d)x\"", Language::cpp),
              ElementsAre("'a \" // '", "'b'", "'c)\"d'"));
  EXPECT_THAT(words("1'000'000 0x1F a::b", Language::cpp),
              ElementsAre("1'000'000", "0x1F", "a", "::", "b"));
}

TEST(CppTokens, LeaveOutWhatThePreprocessorDrops) {
  const auto kept = [](std::string_view source) { return words(source, Language::cpp); };
  EXPECT_THAT(kept("#if 0\na\n#else\nb\n#endif\nc"), ElementsAre("b", "c"));
  EXPECT_THAT(kept("#if 1\na\n#elif X\nb\n#else\nc\n#endif"), ElementsAre("a"));
  EXPECT_THAT(kept("#ifdef X\na\n#else\nb\n#endif"), ElementsAre("a", "b"));
  EXPECT_THAT(kept("#if 0 // why\n#if 1\na\n#endif\n#else\nb\n#endif"), ElementsAre("b"));
  EXPECT_THAT(kept("#if 0 /* why\n */\na\n#endif"), IsEmpty());
  EXPECT_THAT(kept("# if false\na\n# endif"), IsEmpty());
  EXPECT_THAT(kept("#define NAME(x) \\\n  call(x)\nb"),
              ElementsAre("(", "x", ")", "call", "(", "x", ")", "b"));
  EXPECT_THAT(kept("#include <a/b.h>\n#pragma once\na"), ElementsAre("a"));
  EXPECT_THAT(kept("#endif\n#else\na"), ElementsAre("a"));
}

TEST(PythonTokens, LeaveOutCommentsAndSeeStringsWhole) {
  EXPECT_THAT(words("a # b\nc", Language::python), ElementsAre("a", "c"));
  EXPECT_THAT(words("'''a\n# b'''\nrb\"c\" f'{d}' x", Language::python),
              ElementsAre("'a\n# b'", "'c'", "'{d}'", "x"));
  EXPECT_THAT(words("'a\nb", Language::python), ElementsAre("'a'", "b"));
  EXPECT_THAT(words("\xEF\xBB\xBFn\xC3\xA4me", Language::python), ElementsAre("n\xC3\xA4me"));
}

TEST(Tokens, KnowTheirLines) {
  const auto lines = [](std::string_view source, Language language) {
    std::vector<int> all;
    for (const Token& token : tokens_of(source, language)) all.push_back(token.line);
    return all;
  };
  EXPECT_THAT(lines("a\n/*\n*/b \"\\\n\" c\nR\"(\n)\" d", Language::cpp),
              ElementsAre(1, 3, 3, 4, 5, 6));
  EXPECT_THAT(lines("'''\n''' a\\\nb", Language::python), ElementsAre(1, 2, 3));
  EXPECT_THAT(lines("#define X \\\r\n y\r\nz", Language::cpp), ElementsAre(2, 3));
}

std::vector<std::string> seen(std::string_view source, Language language, Mention::Kind kind) {
  std::vector<std::string> all;
  const auto tokens = tokens_of(source, language);
  for (const Mention& mention : mentions_of(tokens, language).all) {
    if (mention.kind != kind) continue;
    std::string chain;
    for (const auto part : mention.chain) chain += (chain.empty() ? "" : ".") + std::string{part};
    all.push_back(chain + "@" + std::to_string(mention.line));
  }
  return all;
}

TEST(Mentions, OfCppAreCallsAndBases) {
  const std::string source =
      "class A final : public b::C<d::E>, private virtual F {};\n"
      "struct EXPORT G;\n"
      "int x = h::i<j>(k(1), 2);\n";
  EXPECT_THAT(seen(source, Language::cpp, Mention::Kind::base),
              ElementsAre("b.C@1", "d.E@1", "F@1"));
  EXPECT_THAT(seen(source, Language::cpp, Mention::Kind::call), ElementsAre("h.i@3", "k@3"));
  EXPECT_THAT(seen(source, Language::cpp, Mention::Kind::definition), ElementsAre("A@1", "G@2"));
}

TEST(Mentions, OfPythonAreNamedAsImported) {
  const std::string source =
      "import torch.distributed as dist, os\n"
      "from torch._dynamo import (\n    register_backend as rb,\n    other)\n"
      "@rb(name='x')\n"
      "def f(): dist.Backend.register_backend('y')\n"
      "class S(torch.Stream, metaclass=M):\n  def g(self): other(1)\n";
  EXPECT_THAT(seen(source, Language::python, Mention::Kind::decorator),
              ElementsAre("torch._dynamo.register_backend@5"));
  EXPECT_THAT(seen(source, Language::python, Mention::Kind::call),
              ElementsAre("torch.distributed.Backend.register_backend@6", "torch._dynamo.other@8"));
  EXPECT_THAT(seen(source, Language::python, Mention::Kind::base), ElementsAre("torch.Stream@7"));
  EXPECT_THAT(seen(source, Language::python, Mention::Kind::definition),
              ElementsAre("f@6", "S@7", "g@8"));
}

TEST(Mentions, HaveTheirArgumentsAndConstants) {
  const std::string source =
      "NAME = 'dev'\nOTHER = 'a'\nOTHER = 'b'\nf(NAME, key=\"v\", g(h), [i])";
  const auto tokens = tokens_of(source, Language::python);
  const Mentions mentions = mentions_of(tokens, Language::python);
  EXPECT_EQ(mentions.constants.at("NAME"), "dev");
  EXPECT_EQ(mentions.constants.at("OTHER"), std::nullopt);
  const auto call = std::ranges::find(mentions.all, Mention::Kind::call, &Mention::kind);
  ASSERT_NE(call, mentions.all.end());
  EXPECT_THAT(call->arguments, ElementsAre(ElementsAre("NAME"), ElementsAre("key", "v"),
                                           ElementsAre("g"), IsEmpty()));
}

}  // namespace
}  // namespace crosscheck::profile
