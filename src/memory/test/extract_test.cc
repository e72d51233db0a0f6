#include "crosscheck/memory/extract.h"

#include <gmock/gmock.h>

#include "support.h"

#ifdef __SANITIZE_ADDRESS__
// What is given up there is given up on purpose.
extern "C" const char* __lsan_default_suppressions() { return "leak:libtree-sitter"; }
#endif

namespace crosscheck::memory {
namespace {

using test::facts_of;
using test::find;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Extract, ALeadingCommentIsThatBeforeTheFirstStatement) {
  const Facts facts = facts_of(
      "def test_a(self):  # noqa\n    # Checks this\n    ## and that.\n    x = 1\n    # no\n"
      "def test_b(self):\n    \"\"\"Doc.\"\"\"\n    # After it.\n    pass\n    # no\n"
      "def test_c(self):\n    pass  # no\n"
      "def helper():\n    # no\n    pass\n");
  EXPECT_EQ(find(facts, "test_a").comment, "Checks this and that.");
  EXPECT_EQ(find(facts, "test_b").comment, "After it.");
  EXPECT_EQ(find(facts, "test_c").comment, "");
  EXPECT_EQ(find(facts, "helper").comment, "");
}

TEST(Extract, KindsSpansAndNames) {
  const Facts facts = facts_of(R"(import torch

LIMIT = 3

@slow
class TestA(TestCase):
    x = 1

    def setUp(self):
        pass

    @onlyCUDA
    @dtypes(torch.float32,
            torch.float64)
    def test_one(self):
        def test_inner():
            pass
        return 1  # why

    class Inner:
        def test_two(self): pass

if LIMIT:
    def test_free():
        pass
else:
    async def helper():
        pass
)");
  std::vector<std::string> seen;
  for (const Definition& d : facts.definitions)
    seen.push_back(std::string{to_string(d.kind)} + " " + qualified_name(d) + " " +
                   std::to_string(d.first_line) + " " + std::to_string(d.line) + " " +
                   std::to_string(d.last_line));
  EXPECT_THAT(seen,
              ElementsAre("value LIMIT 3 3 3", "class TestA 5 6 21", "helper TestA::setUp 9 9 10",
                          "test TestA::test_one 12 15 18", "class TestA::Inner 20 20 21",
                          "test TestA.Inner::test_two 21 21 21", "test test_free 24 24 25",
                          "helper helper 27 27 28"));
  EXPECT_THAT(find(facts, "TestA::test_one").decorators,
              ElementsAre("onlyCUDA", "dtypes(torch.float32, torch.float64)"));
  EXPECT_THAT(find(facts, "TestA").decorators, ElementsAre("slow"));
  EXPECT_EQ(facts.problem, "");
}

TEST(Extract, ImportsAreResolvedToTorchNamesAndUses) {
  const Facts facts = facts_of(R"(import torch
import torch.nn.functional as F
from torch import nn as layers
import common_nn
import pkg.deep
from .near import thing as other
from stars import *

def local(): pass

class TestA(common_nn.Base):
    def test_one(self):
        from inside import late
        torch.add(1, out=local)
        F.relu(layers.Linear(1, 2).weight)
        common_nn.check(pkg.deep.go(late()))
        other.run()
        self.helper(cls.field)
        super(TestA, self).test_one()
        super().setUp()
        getattr(torch, "logaddexp")
        unknown()
)");
  const Definition& test = find(facts, "TestA::test_one");
  EXPECT_THAT(test.apis, ElementsAre("torch.add", "torch.nn.Linear", "torch.nn.functional.relu"));
  EXPECT_THAT(test.uses, ElementsAre("*getattr", "*unknown", ".field", ".helper", ".near:thing.run",
                                     "TestA", "^setUp", "^test_one", "common_nn:check",
                                     "inside:late", "local", "pkg.deep:go"));
  EXPECT_THAT(test.symbols, Contains("logaddexp"));
  EXPECT_THAT(find(facts, "TestA").bases, ElementsAre("common_nn:Base"));
  EXPECT_THAT(facts.stars, ElementsAre("stars"));
  EXPECT_THAT(facts.imports, Contains("torch.nn.functional"));
  EXPECT_THAT(facts.imports, Contains(".near"));
}

TEST(Extract, TheBodyIsWhatTheTestDoes) {
  const std::string plain = "def test_a(x):\n    y = x + 1\n    return y\n";
  const auto body = [](const std::string& text) { return facts_of(text).definitions.at(0).body; };
  const std::string same = body(plain);
  // Neither the name nor comments, layout, the docstring or decorators count.
  EXPECT_EQ(body("def test_b(x):\n    y = x + 1\n    return y\n"), same);
  EXPECT_EQ(body("def test_a(x):\n  # why\n  y = (x +\n       1)\n  return y\n"),
            body("def test_a(x):\n    y = (x + 1)\n    return y\n"));
  EXPECT_EQ(body("def test_a(x):\n    '''Says.'''\n    y = x + 1\n    return y\n"), same);
  EXPECT_EQ(body("@slow\ndef test_a(x):\n    y = x + 1\n    return y\n"), same);
  for (const char* other :
       {"def test_a(x, z):\n    y = x + 1\n    return y\n",
        "def test_a(x):\n    y = x + 2\n    return y\n", "def test_a(x):\n    y = x + 1\n",
        "def test_a(x):\n    if x:\n        y = x + 1\n    return y\n"})
    EXPECT_NE(body(other), same) << other;
  // Where a block ends says what is in it.
  EXPECT_NE(body("def t():\n  if a:\n    b()\n    c()\n"),
            body("def t():\n  if a:\n    b()\n  c()\n"));
}

TEST(Extract, AClassIsItsOwnTextWithoutItsMethods) {
  const auto body = [](const std::string& text) { return facts_of(text).definitions.at(0).body; };
  const std::string same = body("class A(B):\n    x = 1\n    def f(self): return 1\n");
  EXPECT_EQ(body("class A(B):\n    x = 1\n    def f(self): return 2\n"), same);
  EXPECT_NE(body("class A(B):\n    x = 2\n    def f(self): return 1\n"), same);
  EXPECT_NE(body("class A(C):\n    x = 1\n    def f(self): return 1\n"), same);
}

TEST(Extract, DocstringsAndInstantiations) {
  const Facts facts = facts_of(
      "class TestA:\n    \"\"\"Checks\n    a thing.\"\"\"\n    def test_x(self): pass\n"
      "instantiate_device_type_tests(TestA, globals(),\n    only_for='cuda')\n");
  EXPECT_EQ(find(facts, "TestA").doc, "Checks a thing.");
  EXPECT_THAT(find(facts, "TestA").instantiated,
              ElementsAre("instantiate_device_type_tests(TestA, globals(), only_for='cuda')"));
}

TEST(Extract, SyntaxErrorsAreNamedAndTheRestIsRead) {
  const Facts facts = facts_of("def test_a():\n    pass\n\ndef (:\n\ndef test_b():\n    pass\n");
  EXPECT_THAT(facts.problem, HasSubstr("syntax error at 4:"));
  EXPECT_EQ(find(facts, "test_a").line, 1);
  EXPECT_EQ(find(facts, "test_b").line, 6);
}

TEST(Extract, AnyBytesAreTaken) {
  for (const std::string& text :
       {std::string{}, std::string(1, '\0'), std::string("\xff\xfe\x00x", 4),
        std::string(10'000, '('), std::string(10'000, '[') + std::string(10'000, ']'),
        std::string{"\xef\xbb\xbf"} + "def test_a(): pass", std::string{"class"}, std::string{"@"},
        std::string{"import"}, std::string{"from . import"}, std::string{"super().\n."},
        std::string{"def f(): super(). \\\n x"}})
    facts_of(text);
  std::string nested;
  for (int depth = 0; depth < 200; ++depth)
    nested += std::string(static_cast<std::size_t>(depth), ' ') + "if x:\n";
  nested += std::string(200, ' ') + "def test_deep(): pass\n";
  EXPECT_THAT(facts_of(nested).problem, HasSubstr("nested more than"));
}

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Extract, ErrorsBeyondTheParsersMeansAreRefusedAndTheNextFileIsRead) {
  auto extractor = Extractor::make();
  for (const std::string& text :
       {repeated("(", 70'000), repeated("not ", 70'000), repeated("x=", 70'000)}) {
    const auto facts = extractor->extract(text);
    ASSERT_FALSE(facts);
    EXPECT_EQ(facts.error().fault, base::Fault::too_large);
    EXPECT_EQ(extractor->extract("def test_a(): pass\n").value().definitions.at(0).name, "test_a");
  }
  for (const std::string& text :
       {"x = [" + repeated("-1,", 100'000) + "]\n", repeated("x = 1\n", 100'000)})
    EXPECT_EQ(extractor->extract(text).value().problem, "");
}

TEST(Extract, LikenessIsThatOfTheTokens) {
  const auto shape = [](const std::string& text) { return facts_of(text).definitions.at(0).shape; };
  std::string body;
  for (int i = 0; i < 40; ++i) body += "    x = torch.add(x, " + std::to_string(i) + ")\n";
  const auto one = shape("def test_a(x):\n" + body);
  EXPECT_DOUBLE_EQ(likeness(one, shape("def test_b(x):\n" + body)), 1);
  EXPECT_GT(likeness(one, shape("def test_b(x):\n" + body + "    self.done()\n")), 0.8);
  EXPECT_LT(likeness(one, shape("def test_c(self):\n    self.assertEqual(len([]), 0)\n")), 0.1);
  EXPECT_EQ(likeness({}, {}), 0);
}

TEST(Grammar, AnotherAbiNamesBothVersionsAndTheRemedy) {
  EXPECT_TRUE(check_grammar(14, 13, 14));
  EXPECT_TRUE(check_grammar(13, 13, 14));
  for (const std::uint32_t abi : {12U, 15U}) {
    const auto checked = check_grammar(abi, 13, 14);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().fault, base::Fault::environment);
    EXPECT_THAT(checked.error().message, HasSubstr("ABI " + std::to_string(abi)));
    EXPECT_THAT(checked.error().message, HasSubstr("13 to 14"));
    EXPECT_THAT(checked.error().remedy, Not(IsEmpty()));
  }
}

TEST(Kinds, NamesAreApi) {
  for (const Kind kind : {Kind::test, Kind::klass, Kind::helper, Kind::value})
    EXPECT_EQ(parse_kind(to_string(kind)), kind);
  EXPECT_FALSE(parse_kind("method"));
}

}  // namespace
}  // namespace crosscheck::memory
