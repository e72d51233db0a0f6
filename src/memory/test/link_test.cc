#include "crosscheck/memory/link.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "support.h"

namespace crosscheck::memory {
namespace {

using test::source_of;
using testing::ElementsAre;
using testing::IsSupersetOf;

class Tree {
 public:
  explicit Tree(std::vector<std::pair<std::string, std::string>> files) {
    std::ranges::sort(files);
    for (auto& [path, text] : files) sources_.push_back(source_of(path, text));
    linked_.emplace(sources_);
  }
  Where where(const std::string& path, const std::string& name) const {
    for (std::uint32_t s = 0; s < sources_.size(); ++s)
      for (std::uint32_t d = 0; d < sources_[s].facts.definitions.size(); ++d)
        if (sources_[s].path == path && qualified_name(sources_[s].facts.definitions[d]) == name)
          return {s, d};
    throw std::runtime_error{"no " + path + "::" + name};
  }
  std::vector<std::string> closure(const std::string& path, const std::string& name) const {
    std::vector<std::string> names;
    for (const Where at : linked_->closure(where(path, name)))
      names.push_back(linked_->path(at) + "::" + qualified_name(linked_->at(at)));
    return names;
  }
  std::string content(const std::string& path, const std::string& name) const {
    return linked_->content(where(path, name));
  }

 private:
  std::vector<Source> sources_;
  std::optional<Linked> linked_;
};

const std::vector<std::pair<std::string, std::string>> k_tree{
    {"common.py",
     "LIMIT = 1\n"
     "def check(x):\n    return deeper(x, LIMIT)\n"
     "def deeper(x, y):\n    return check if x else y\n"
     "def unused(): pass\n"
     "class Base:\n"
     "    def setUp(self):\n        self.x = 1\n"
     "    def shared(self):\n        return 1\n"
     "    def test_inherited(self): pass\n"},
    {"pkg/__init__.py", ""},
    {"pkg/near.py", "def near(): pass\n"},
    {"pkg/test_b.py",
     "from .near import near\nfrom common import Base as Root\nimport pkg.near\n"
     "class TestB(Root):\n"
     "    size = 3\n"
     "    def test_b(self):\n        near()\n        self.shared()\n"
     "    def test_c(self):\n        pkg.near.near()\n"},
    {"test_a.py",
     "from common import *\n"
     "class Helper:\n    def run(self): pass\n    def test_not(self): pass\n"
     "def test_a():\n    check(Helper)\n"
     "def test_none():\n    pass\n"}};

TEST(Linked, FollowsNamesImportsStarsAndBases) {
  const Tree tree{k_tree};
  EXPECT_THAT(tree.closure("test_a.py", "test_a"),
              ElementsAre("common.py::LIMIT", "common.py::check", "common.py::deeper",
                          "test_a.py::Helper", "test_a.py::Helper::run"));
  EXPECT_THAT(tree.closure("test_a.py", "test_none"), ElementsAre());
  EXPECT_THAT(tree.closure("pkg/test_b.py", "TestB::test_b"),
              ElementsAre("common.py::Base", "common.py::Base::setUp", "common.py::Base::shared",
                          "pkg/near.py::near", "pkg/test_b.py::TestB"));
  EXPECT_THAT(tree.closure("pkg/test_b.py", "TestB::test_c"), IsSupersetOf({"pkg/near.py::near"}));
}

TEST(Linked, ContentChangesWithWhatATestReachesAndWithNothingElse) {
  const std::string before = Tree{k_tree}.content("test_a.py", "test_a");
  const auto changed = [](std::string_view from, std::string_view to) {
    auto files = k_tree;
    for (auto& [path, text] : files)
      if (const auto at = text.find(from); at != std::string::npos)
        text.replace(at, from.size(), to);
    return Tree{files}.content("test_a.py", "test_a");
  };
  EXPECT_NE(changed("LIMIT = 1", "LIMIT = 2"), before);
  EXPECT_NE(changed("else y", "else 0"), before);
  EXPECT_NE(changed("def run(self): pass", "def run(self): return 1"), before);
  EXPECT_NE(changed("    check(Helper)", "    check(Helper())"), before);
  EXPECT_EQ(changed("def unused(): pass", "def unused(): return 1"), before);
  EXPECT_EQ(changed("def test_not(self): pass", "def test_not(self): return 1"), before);
  EXPECT_EQ(changed("def near(): pass", "def near(): return 1"), before);
  EXPECT_EQ(changed("def check(x):", "# says nothing\ndef check(x):"), before);
}

TEST(Linked, MethodsAreFoundThroughBases) {
  const std::vector<Source> sources{source_of("base.py", "class A:\n    def test_x(self): pass\n"),
                                    source_of("user.py", "from base import A\nclass B(A): pass\n")};
  const Linked linked{sources};
  EXPECT_EQ(linked.method(1, "B", "test_x"), (Where{0, 1}));
  EXPECT_EQ(linked.method(1, "A", "test_x"),
            std::nullopt);  // it is imported, not a name of the tree's
  EXPECT_EQ(linked.method(1, "B", "test_y"), std::nullopt);
}

TEST(Linked, CyclesOfBasesAndOfCallsEnd) {
  const Tree tree{{{"x.py",
                    "class A(B):\n    def test_a(self): self.none()\nclass B(A): pass\n"
                    "def f(): return g()\ndef g(): return f()\ndef test_f(): f()\n"}}};
  EXPECT_THAT(tree.closure("x.py", "test_f"), ElementsAre("x.py::f", "x.py::g"));
  EXPECT_THAT(tree.closure("x.py", "A::test_a"), ElementsAre("x.py::A", "x.py::B"));
}

}  // namespace
}  // namespace crosscheck::memory
