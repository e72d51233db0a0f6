#include "crosscheck/memory/diff.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

#include "support.h"

namespace crosscheck::memory {
namespace {

using test::source_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Files = std::map<std::string, std::string>;

Version version_of(const Files& files, std::vector<Collected> collected = {}) {
  Version version;
  for (const auto& [path, text] : files) version.sources.push_back(source_of(path, text));
  version.collected = std::move(collected);
  return version;
}
TreeDiff diff_of(const Files& before, const Files& after) {
  return diff(version_of(before), version_of(after));
}
std::vector<std::string> names(const std::vector<TestPlace>& places) {
  std::vector<std::string> all;
  for (const TestPlace& place : places) all.push_back(place.path + "::" + place.name);
  return all;
}

const Files k_before{{"common.py", "def check(x):\n    return x\ndef other():\n    return 1\n"},
                     {"test_a.py",
                      "from common import check\n"
                      "class TestA:\n"
                      "    @slow\n"
                      "    def test_one(self):\n        check(1)\n        "
                      "self.assertEqual(torch.add(1, 2), torch.tensor(3))\n"
                      "    def test_two(self):\n        a = torch.zeros(3)\n        for i in "
                      "range(10):\n            a[i] += torch.relu(a)\n"}};

Files changed(std::string_view file, std::string_view from, std::string_view to) {
  Files files = k_before;
  std::string& text = files.at(std::string{file});
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return files;
}

TEST(TreeDiffs, TheSameIsTheSame) {
  const TreeDiff same = diff_of(k_before, k_before);
  EXPECT_EQ(same.unchanged, 2U);
  EXPECT_THAT(same.changed, IsEmpty());
  EXPECT_THAT(same.renamed, IsEmpty());
}

TEST(TreeDiffs, BodiesAndDecorators) {
  const TreeDiff body =
      diff_of(k_before, changed("test_a.py", "torch.tensor(3)", "torch.tensor(4)"));
  ASSERT_EQ(body.changed.size(), 1U);
  EXPECT_EQ(body.changed[0].test, (TestPlace{"test_a.py", "TestA::test_one", 4}));
  EXPECT_THAT(body.changed[0].parts, ElementsAre("body"));
  EXPECT_EQ(body.unchanged, 1U);
  const TreeDiff decorator = diff_of(k_before, changed("test_a.py", "@slow", "@onlyCUDA"));
  ASSERT_EQ(decorator.changed.size(), 1U);
  EXPECT_THAT(decorator.changed[0].parts, ElementsAre("decorators"));
}

TEST(TreeDiffs, HelpersAreNamed) {
  const TreeDiff helper = diff_of(k_before, changed("common.py", "return x", "return x + 1"));
  ASSERT_EQ(helper.changed_by_helper.size(), 1U);
  EXPECT_EQ(helper.changed_by_helper[0].test.name, "TestA::test_one");
  EXPECT_THAT(helper.changed_by_helper[0].through, ElementsAre("common.py::check changed"));
  EXPECT_EQ(helper.unchanged, 1U);
  EXPECT_EQ(diff_of(k_before, changed("common.py", "return 1", "return 2")).unchanged, 2U)
      << "of which no test knows";
  const TreeDiff reaches =
      diff_of(k_before, changed("common.py", "return x\n", "return other()\n"));
  EXPECT_THAT(reaches.changed_by_helper.at(0).through,
              ElementsAre("common.py::check changed", "common.py::other added"));
}

TEST(TreeDiffs, VariantsAlone) {
  const auto collected = [](const std::string& dtype) {
    return Collected{"test_a.py", "TestA", "test_one", "{\"dtype\":\"" + dtype + "\"}", "", dtype,
                     "",          dtype,   4};
  };
  const TreeDiff result =
      diff(version_of(k_before, {collected("a"), collected("b")}),
           version_of(k_before, {collected("b"), collected("c"), collected("d")}));
  ASSERT_EQ(result.changed_variants.size(), 1U);
  EXPECT_EQ(result.changed_variants[0].variants_added, 2U);
  EXPECT_EQ(result.changed_variants[0].variants_removed, 1U);
  EXPECT_EQ(diff(version_of(k_before, {collected("a")}), version_of(k_before)).unchanged, 2U)
      << "of what was collected of the other, nothing is known";
}

TEST(TreeDiffs, AddedAndRemovedAreNotRenamedUnlessAlike) {
  const TreeDiff result = diff_of(
      {{"a.py", "def test_old():\n    x = foo(1, 2, 3)\n    assert bar(x) == baz\n"}},
      {{"a.py",
        "def test_new():\n    with torch.no_grad():\n        y = [i for i in range(3)]\n"}});
  EXPECT_THAT(names(result.removed), ElementsAre("a.py::test_old"));
  EXPECT_THAT(names(result.added), ElementsAre("a.py::test_new"));
  EXPECT_THAT(result.renamed, IsEmpty());
}

TEST(TreeDiffs, ShortBodiesThatManyHaveAreNotRenames) {
  const TreeDiff result =
      diff_of({{"a.py", "class TestA:\n    def test_alpha(self):\n        self._run()\n"}},
              {{"b.py", "class TestB:\n    def test_omega(self):\n        self._run()\n"}});
  EXPECT_THAT(result.renamed, IsEmpty());
  const TreeDiff moved =
      diff_of({{"a.py", "class TestA:\n    def test_alpha(self):\n        self._run()\n"}},
              {{"b.py", "class TestA:\n    def test_alpha(self):\n        self._run()\n"}});
  EXPECT_EQ(moved.renamed.size(), 1U) << "but one of the same name is";
}

// A tree of tests that say different things, as those of PyTorch do.
class Trees {
 public:
  explicit Trees(unsigned seed) : random_{seed} {}

  struct Test {
    std::string file, class_name, name;
    std::vector<std::string> lines;
  };
  std::vector<Test> make(int count) {
    std::vector<Test> tests;
    for (int i = 0; i < count; ++i) {
      Test test{"test_" + std::to_string(i % 9) + ".py",
                "Test" + word(),
                "test_" + word() + "_" + word() + "_" + std::to_string(i),
                {}};
      const int lines = 3 + below(25);
      for (int l = 0; l < lines; ++l) test.lines.push_back(line());
      tests.push_back(std::move(test));
    }
    return tests;
  }
  std::string line() {
    switch (below(4)) {
      case 0:
        return word() + " = torch." + word() + "(" + word() + ", " + std::to_string(below(100)) +
               ")";
      case 1:
        return "self.assertEqual(" + word() + ", " + word() + "." + word() + "())";
      case 2:
        return "with " + word() + "(): " + word() + " += " + std::to_string(below(1000));
      default:
        return word() + "." + word() + "(" + word() + "=" + word() + ")";
    }
  }
  std::string word() {
    static const std::vector<std::string> words{
        "add",  "view",    "grad",   "sparse", "index",  "copy",   "dense", "batch",
        "norm", "conv",    "linear", "mask",   "fill",   "sum",    "mean",  "half",
        "zero", "scatter", "gather", "sort",   "unique", "cumsum", "fft",   "solve",
        "chol", "svd",     "trace",  "diag",   "roll",   "flip"};
    return words[static_cast<std::size_t>(below(static_cast<int>(words.size())))];
  }
  int below(int most) { return std::uniform_int_distribution<int>{0, most - 1}(random_); }
  static Files files(const std::vector<Test>& tests) {
    Files all;
    for (const Test& test : tests) {
      std::string& text = all[test.file];
      text += "class " + test.class_name + ":\n    def " + test.name + "(self):\n";
      for (const std::string& line : test.lines) text += "        " + line + "\n";
    }
    return all;
  }

 private:
  std::mt19937 random_;
};

TEST(TreeDiffs, SyntheticRenamesAreRecognised) {
  std::size_t made = 0;
  std::size_t found = 0;
  std::size_t wrong = 0;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    Trees trees{seed};
    const auto before = trees.make(150);
    auto after = before;
    std::map<std::string, std::string> truth;
    for (auto& test : after) {
      const std::string was = test.file + test.class_name + "::" + test.name;
      switch (trees.below(6)) {
        case 0:
          test.name = "test_" + trees.word() + "_renamed_" + std::to_string(trees.below(1'000'000));
          break;
        case 1:
          test.class_name += "Moved";
          break;
        case 2:
          test.file = "moved_" + test.file;
          break;
        // And changed a little: a line more, a line less.
        case 3:
          test.name += "_v2";
          test.lines.insert(test.lines.begin() + trees.below(static_cast<int>(test.lines.size())),
                            trees.line());
          break;
        case 4:
          test.name = "test_v2_" + test.name;
          if (test.lines.size() > 6)
            test.lines.erase(test.lines.begin() + trees.below(static_cast<int>(test.lines.size())));
          break;
        default:
          continue;
      }
      truth[was] = test.file + test.class_name + "::" + test.name;
    }
    for (int i = 0; i < 40; ++i) after.push_back(trees.make(1).front());
    const TreeDiff result = diff_of(Trees::files(before), Trees::files(after));
    made += truth.size();
    for (const Renamed& one : result.renamed) {
      const auto expected = truth.find(one.from.path + one.from.name);
      if (expected != truth.end() && expected->second == one.to.path + one.to.name) {
        ++found;
      } else {
        ++wrong;
      }
    }
  }
  EXPECT_GE(found * 100, made * 95) << found << " of " << made;
  EXPECT_LE(wrong * 100, made) << wrong << " of " << made;
}

TEST(TreeDiffs, WhatIsSaidDoesNotDependOnOrderAndIsOneToOne) {
  Trees trees{3};
  const auto before = trees.make(60);
  auto after = trees.make(60);
  for (std::size_t i = 0; i < 40; ++i) after[i].lines = before[i % 10].lines;
  const TreeDiff result = diff_of(Trees::files(before), Trees::files(after));
  std::set<TestPlace> from;
  std::set<TestPlace> to;
  for (const Renamed& one : result.renamed) {
    EXPECT_TRUE(from.insert(one.from).second);
    EXPECT_TRUE(to.insert(one.to).second);
  }
  EXPECT_EQ(result.removed.size() + result.renamed.size() + result.changed.size() +
                result.changed_by_helper.size() + result.unchanged,
            60U);
  EXPECT_EQ(result.added.size() + result.renamed.size() + result.changed.size() +
                result.changed_by_helper.size() + result.unchanged,
            60U);
}

std::string header(const std::string& name, std::size_t size, char type,
                   const std::string& prefix = "") {
  std::string block(512, '\0');
  block.replace(0, name.size(), name);
  char octal[13];
  std::snprintf(octal, sizeof octal, "%011zo", size);
  block.replace(124, 11, octal);
  block[156] = type;
  block.replace(257, 5, "ustar");
  block.replace(345, prefix.size(), prefix);
  return block;
}
std::string padded(std::string bytes) {
  bytes.resize((bytes.size() + 511) / 512 * 512);
  return bytes;
}

TEST(Tar, NamesAndBytes) {
  const std::string pax = "26 path=very/long/name.py\n";
  const std::string archive =
      header("a/", 0, '5') + header("x.py", 3, '0') + padded("abc") + header("y.txt", 1, '0') +
      padded("z") + header("in.py", 0, '0', "deep/er") + header("pax", pax.size(), 'x') +
      padded(pax) + header("short.py", 1, '0') + padded("p") + header("././@LongLink", 9, 'L') +
      padded(std::string("long1.py\0", 9)) + header("l", 1, '0') + padded("q") +
      header("link.py", 0, '2') + std::string(1024, '\0');
  const auto members = read_tar(archive);
  ASSERT_TRUE(members) << members.error().message;
  std::vector<std::string> all;
  for (const Member& member : *members) all.push_back(member.name + "=" + member.bytes);
  EXPECT_THAT(all, ElementsAre("x.py=abc", "deep/er/in.py=", "very/long/name.py=p", "long1.py=q"));
}

TEST(Tar, WhatIsNoneOrCutOffIsRefused) {
  EXPECT_THAT(read_tar("").error().message, HasSubstr("cut off"));
  EXPECT_THAT(read_tar(header("x.py", 600, '0') + padded("abc")).error().message,
              HasSubstr("cut off"));
  EXPECT_THAT(read_tar(std::string(512, 'x')).error().message, HasSubstr("no tar archive"));
}

}  // namespace
}  // namespace crosscheck::memory
