#include "crosscheck/memory/memory.h"

#include <gmock/gmock.h>
#include <sqlite3.h>

#include <random>

#include "support.h"

namespace crosscheck::memory {
namespace {

namespace fs = std::filesystem;
using test::Folder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class MemoryTest : public testing::Test {
 protected:
  IndexReport index(const IndexOptions& options = {}) { return index_into("m.db", options); }
  IndexReport index_into(const std::string& name, const IndexOptions& options = {}) {
    auto memory = Memory::open(base_ / name);
    EXPECT_TRUE(memory) << memory.error().message;
    auto report = memory->index(tree_.path(), options);
    EXPECT_TRUE(report) << base::to_string(report.error());
    return report.value_or(IndexReport{});
  }
  std::string exported(const std::string& name = "m.db") {
    auto memory = Memory::open_existing(base_ / name);
    EXPECT_TRUE(memory) << memory.error().message;
    return memory->exported().value_or("");
  }
  Answer search(const std::string& text, std::size_t limit = 10, bool dropped = false) {
    auto memory = Memory::open_existing(base_ / "m.db");
    EXPECT_TRUE(memory) << memory.error().message;
    auto query = parse_query(text);
    EXPECT_TRUE(query) << query.error().message;
    query->dropped = dropped;
    const auto answer = memory->search(*query, limit);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer.value_or(Answer{});
  }
  std::vector<std::string> names(const std::string& text, bool dropped = false) {
    std::vector<std::string> all;
    for (const Hit& hit : search(text, 10, dropped).hits) all.push_back(hit.name);
    return all;
  }

  Folder tree_;
  Folder base_;
};

TEST_F(MemoryTest, AnIndexCountsAndSearches) {
  tree_.write(
      "test_ops.py",
      "import torch\nclass TestOps(TestCase):\n    @onlyCUDA\n    def test_logaddexp(self):\n"
      "        '''Numerical accuracy near zero.'''\n        torch.logaddexp(1, 2)\n"
      "    def test_relu(self): torch.nn.functional.relu(1)\n");
  tree_.write("sub/helpers.py", "def make_inputs(): pass\n");
  tree_.write("broken.py", "def (\ndef test_x(): pass\n");
  const IndexReport report = index();
  EXPECT_EQ(report.files, 3U);
  EXPECT_EQ(report.read, 3U);
  EXPECT_EQ(report.kept, 3U);
  EXPECT_THAT(report.problems, ElementsAre(testing::Field(&Problem::path, "broken.py")));
  const Answer answer = search("numerical accuracy of logaddexp");
  ASSERT_EQ(answer.hits.size(), 1U);
  const Hit& hit = answer.hits[0];
  EXPECT_EQ(hit.path + ":" + std::to_string(hit.line), "test_ops.py:4");
  EXPECT_EQ(hit.name, "TestOps::test_logaddexp");
  EXPECT_THAT(hit.matched, UnorderedElementsAre(Pair("name", ElementsAre("logaddexp")),
                                                Pair("doc", ElementsAre("numerical", "accuracy")),
                                                Pair("apis", ElementsAre("logaddexp")),
                                                Pair("symbols", ElementsAre("logaddexp"))));
  EXPECT_THAT(names("ops"), UnorderedElementsAre("TestOps::test_logaddexp", "TestOps::test_relu"));
  EXPECT_THAT(names("make_inputs"), IsEmpty()) << "helpers only where they are asked for";
  EXPECT_THAT(names("inputs kind:helper"), ElementsAre("make_inputs"));
  EXPECT_THAT(names("decorator:onlyCUDA"), ElementsAre("TestOps::test_logaddexp"));
  EXPECT_THAT(names("ops op:nn.functional.relu"), ElementsAre("TestOps::test_relu"));
  EXPECT_THAT(names("op:aten::logaddexp"), ElementsAre("TestOps::test_logaddexp"));
  EXPECT_THAT(names("test file:broken"), ElementsAre("test_x"));
  EXPECT_THAT(names("test file:sub/*"), IsEmpty());
}

TEST_F(MemoryTest, QueriesThatAreNoneAreRefused) {
  EXPECT_THAT(parse_query("fiel:x").error().message, HasSubstr("no filter 'fiel:'"));
  EXPECT_THAT(parse_query("fiel:x").error().remedy, HasSubstr("file"));
  EXPECT_THAT(parse_query("op:").error().message, HasSubstr("op: needs a value"));
  EXPECT_THAT(parse_query("kind:method").error().message, HasSubstr("no kind 'method'"));
  EXPECT_EQ(parse_query("  ").error().fault, base::Fault::usage);
  EXPECT_EQ(parse_query("aten::add :x").value().words, "aten::add :x");
}

TEST_F(MemoryTest, WordsThatManyHaveAreNotLookedForBesideRarerOnes) {
  std::string text = "class TestA:\n";
  for (int i = 0; i < 2000; ++i)
    text += "    def test_common_" + std::to_string(i) + "(self): common()\n";
  tree_.write("test_a.py", text + "    def test_rare(self): common()\n");
  index();
  const Answer both = search("common rare", 3000);
  EXPECT_THAT(both.ignored, ElementsAre("common"));
  ASSERT_EQ(both.hits.size(), 1U);
  EXPECT_EQ(both.hits[0].name, "TestA::test_rare");
  EXPECT_THAT(both.hits[0].matched.at("symbols"), ElementsAre("common")) << "but it is said";
  EXPECT_EQ(search("common", 3000).found, 2001U) << "alone it is";
}

TEST_F(MemoryTest, WordsAndMeaningFindEachAloneAndTogether) {
  tree_.write("test_a.py",
              "import torch\n"
              "class TestStorage:\n"
              "    def test_serialization_roundtrip(self): torch.save(1)\n"
              "    def test_serialize(self): torch.save(2)\n"
              "    def test_view(self):\n        # A comment says what it is for.\n"
              "        torch.view(2)\n");
  index();
  const auto by = [&](By kind, const std::string& text) {
    auto query = parse_query(text).value();
    query.by = kind;
    return Memory::open_existing(base_ / "m.db")->search(query, 10).value();
  };
  // No test has this word, but two have most of its pieces.
  EXPECT_THAT(by(By::words, "serializing").hits, IsEmpty());
  const Answer meant = by(By::meaning, "serializing");
  ASSERT_GE(meant.hits.size(), 2U);
  EXPECT_EQ(meant.hits[0].name, "TestStorage::test_serialize");
  EXPECT_EQ(meant.hits[0].meaning_rank, 1U);
  EXPECT_EQ(meant.hits[0].words_rank, 0U);
  EXPECT_GT(meant.hits[0].likeness, meant.hits[1].likeness);
  EXPECT_EQ(by(By::both, "serializing").hits[0].name, "TestStorage::test_serialize");
  const Answer both = by(By::both, "serialize view");
  ASSERT_GE(both.hits.size(), 2U);
  EXPECT_GT(both.hits[0].words_rank, 0U);
  EXPECT_GT(both.hits[0].meaning_rank, 0U);
  EXPECT_DOUBLE_EQ(both.hits[0].score, 1.0 / (60.0 + double(both.hits[0].words_rank)) +
                                           1.0 / (60.0 + double(both.hits[0].meaning_rank)));
  EXPECT_THAT(by(By::both, "qqqqqq").hits, IsEmpty()) << "what is like nothing finds nothing";
  EXPECT_THAT(by(By::meaning, "serialize kind:class").hits, IsEmpty()) << "vectors are of tests";
  const Answer commented = by(By::words, "comment says");
  ASSERT_EQ(commented.hits.size(), 1U);
  EXPECT_EQ(commented.hits[0].summary, "A comment says what it is for.\nUses torch.view.");
  EXPECT_EQ(both.hits[0].summary.substr(0, 5), "Tests");
}

TEST_F(MemoryTest, AConnectionThatIsOpenSeesWhatAnotherIndexes) {
  tree_.write("test_a.py", "def test_convolution(): pass\n");
  index();
  auto reader = Memory::open_existing(base_ / "m.db");
  const auto query = parse_query("convolutions").value();
  EXPECT_EQ(reader->search(query, 10)->found, 1U);
  tree_.write("test_b.py", "def test_convolution_backward(): pass\n");
  index();
  EXPECT_EQ(reader->search(query, 10)->found, 2U);
}

TEST_F(MemoryTest, AnyWordsMayBeAsked) {
  tree_.write("test_a.py", "def test_a(): pass\n");
  index();
  for (const char* text : {"\"", "' OR 1", "test*", "NEAR(a b)", "(", "a AND", "\xff\xfe",
                           "name : test", "-test", "^a"})
    search(text);
}

TEST_F(MemoryTest, WhatNarrowingDropsIsMarkedAndNotFound) {
  tree_.write(
      "test_a.py",
      "class TestA:\n    @onlyCUDA\n    def test_cuda(self): pass\n    def test_any(self): pass\n");
  index();
  EXPECT_THAT(names("test"), UnorderedElementsAre("TestA::test_cuda", "TestA::test_any"));
  const Narrowing narrowing{built_in_rules(), {"device:cuda"}};
  IndexOptions options;
  options.narrowing = &narrowing;
  options.notes = {{"lacks", "device:cuda"}};
  const IndexReport report = index(options);
  EXPECT_EQ(report.read, 0U);
  EXPECT_EQ(report.kept, 1U);
  EXPECT_THAT(report.dropped, ElementsAre(Pair("only_cuda", 1U)));
  EXPECT_THAT(names("test"), ElementsAre("TestA::test_any"));
  EXPECT_THAT(names("test", true), UnorderedElementsAre("TestA::test_cuda", "TestA::test_any"));
  auto memory = Memory::open_existing(base_ / "m.db");
  EXPECT_EQ(memory->note("lacks"), "device:cuda");
  const auto why = memory->explain("test_a.py::TestA::test_cuda", narrowing);
  ASSERT_TRUE(why);
  EXPECT_EQ(why->rule, "only_cuda");
  EXPECT_EQ(why->because, "decorator onlyCUDA");
  EXPECT_THAT(why->place, HasSubstr("rules.yaml:"));
  EXPECT_EQ(memory->explain("test_a.py::TestA", narrowing)->dropped_tests, 1U);
  EXPECT_EQ(memory->explain("test_a.py", narrowing)->tests, 2U);
  EXPECT_EQ(memory->explain("test_b.py", narrowing).error().fault, base::Fault::not_found);
  EXPECT_EQ(memory->explain("test_a.py::TestA::none", narrowing).error().fault,
            base::Fault::not_found);
  // The same again changes nothing, and without it all is back.
  const std::string before = exported();
  index(options);
  EXPECT_EQ(exported(), before);
  index();
  EXPECT_THAT(names("test"), UnorderedElementsAre("TestA::test_cuda", "TestA::test_any"));
}

// What changes a tree; afterwards update and rebuild must be the same.
class Changes {
 public:
  explicit Changes(unsigned seed) : random_{seed} {}
  std::string text() {
    std::string all =
        pick({"import torch\n", "from common import *\n", "from common import helper\n", ""});
    const int classes = below(3);
    for (int c = 0; c < classes; ++c) {
      all += pick({"@slow\n", "", "@onlyCUDA\n"}) + "class Test" + std::to_string(c) +
             pick({":\n", "(Base):\n", "(helper):\n"});
      const int methods = 1 + below(4);
      for (int m = 0; m < methods; ++m)
        all +=
            pick({"    @onlyCUDA\n", "", ""}) + "    def " + pick({"test_", "help_"}) +
            std::to_string(m) + "(self):\n        " +
            pick({"helper(1)\n", "torch.add(1)\n", "self.help_1()\n", "pass\n", "'''Says.'''\n"});
    }
    return all + pick({"def helper(x): return x\n", "helper = 3\n", "def (\n", "\xff\n",
                       "class Base: pass\n", ""});
  }
  int below(int most) { return std::uniform_int_distribution<int>{0, most - 1}(random_); }

 private:
  std::string pick(std::initializer_list<const char*> from) {
    return *(from.begin() + below(static_cast<int>(from.size())));
  }
  std::mt19937 random_;
};

TEST_F(MemoryTest, AnUpdateEqualsARebuild) {
  Changes changes{7};
  const Narrowing narrowing{built_in_rules(), {"device:cuda"}};
  IndexOptions options;
  options.jobs = 2;
  options.mostly_placed = false;
  std::vector<Collected> collected;
  for (int i = 0; i < 40; ++i)
    collected.push_back({"f" + std::to_string(i % 8) + ".py", "Test" + std::to_string(i % 3),
                         "test_" + std::to_string(i % 4), R"({"op":"add"})", "add", "float32",
                         "cpu", "n" + std::to_string(i), 2 + i % 9});
  for (int round = 0; round < 25; ++round) {
    for (int i = 0; i < 3; ++i) {
      const std::string name =
          i == 0 && round % 5 == 0 ? "common.py" : "f" + std::to_string(changes.below(8)) + ".py";
      if (changes.below(5) == 0) {
        fs::remove(tree_ / name);
      } else {
        tree_.write(name, changes.text());
      }
    }
    options.narrowing = changes.below(2) == 0 ? &narrowing : nullptr;
    options.collected = round == 0 ? std::optional{collected} : std::nullopt;
    index(options);
    options.collected = collected;
    index_into("rebuilt" + std::to_string(round) + ".db", options);
    ASSERT_EQ(exported(), exported("rebuilt" + std::to_string(round) + ".db")) << "round " << round;
    // The full-text index is not in the export: it must find the same.
    auto rebuilt = Memory::open_existing(base_ / ("rebuilt" + std::to_string(round) + ".db"));
    for (const char* word : {"helper", "slow", "torch.add", "says", "test_1", "f3"}) {
      const auto there = rebuilt->search(*parse_query(word), 1000);
      const auto here = search(word, 1000);
      const auto key = [](const Answer& answer) {
        std::vector<std::string> all;
        for (const Hit& hit : answer.hits)
          all.push_back(hit.path + hit.name + std::to_string(hit.line) + std::to_string(hit.score));
        std::ranges::sort(all);
        return all;
      };
      ASSERT_EQ(key(here), key(*there)) << word << " in round " << round;
    }
  }
}

TEST_F(MemoryTest, AnUpdateReadsOnlyWhatChanged) {
  for (int i = 0; i < 10; ++i) tree_.write("f" + std::to_string(i) + ".py", "def test_a(): pass\n");
  index();
  // Old enough that time and size are believed.
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours{1};
  for (int i = 0; i < 10; ++i) fs::last_write_time(tree_ / ("f" + std::to_string(i) + ".py"), old);
  EXPECT_EQ(index().read, 0U) << "other times, the same content";
  tree_.write("f3.py", "def test_b(): pass\n");
  fs::remove(tree_ / "f4.py");
  tree_.write("g.py", "def test_c(): pass\n");
  const IndexReport report = index();
  EXPECT_EQ(report.read, 2U);
  EXPECT_EQ(report.removed, 1U);
  // Time and size are a hint: what they hide is found where it is asked for.
  fs::last_write_time(tree_ / "f5.py", old);
  index();
  tree_.write("f5.py", "def test_z(): pass\n");
  fs::last_write_time(tree_ / "f5.py", old);
  EXPECT_EQ(index().read, 0U);
  IndexOptions options;
  options.every_file = true;
  EXPECT_EQ(index(options).read, 1U);
  EXPECT_EQ(names("test_z").at(0), "test_z");
}

TEST_F(MemoryTest, VariantsHangOnTheirDefinitions) {
  tree_.write("base.py", "class Shared:\n    def test_shared(self):\n        pass\n");
  tree_.write("test_a.py",
              "from base import Shared\nclass TestA(Shared):\n    @ops(op_db)\n    def "
              "test_forward(self):\n        pass\n"
              "class TestB:\n    def test_forward(self):\n        pass\n");
  IndexOptions options;
  options.collected = {{"test_a.py", "TestA", "test_forward", R"({"op":"add","dtype":"float32"})",
                        "add", "float32", "cpu", "a1", 3},
                       {"test_a.py", "TestA", "test_forward", R"({"op":"mul","dtype":"float16"})",
                        "mul", "float16", "cpu", "a2", 3},
                       {"test_a.py", "TestB", "test_forward", "{}", "", "", "", "b", 7},
                       {"test_a.py", "TestA", "test_shared", "{}", "", "", "", "s", 2},
                       {"test_a.py", "TestB", "test_forward", "{}", "", "", "", "elsewhere", 99},
                       {"test_z.py", "TestB", "test_forward", "{}", "", "", "", "z", 7}};
  options.subject = "torch 2";
  const IndexReport report = index(options);
  EXPECT_EQ(report.variants, 6U);
  EXPECT_EQ(report.unplaced, 2U);
  EXPECT_THAT(names("op:add"), ElementsAre("TestA::test_forward"));
  EXPECT_THAT(names("op:add dtype:float32"), ElementsAre("TestA::test_forward"));
  EXPECT_THAT(names("op:add dtype:float16"), IsEmpty()) << "no one variant has both";
  const Answer forward = search("forward file:test_a");
  ASSERT_EQ(forward.hits.size(), 2U);
  EXPECT_EQ(forward.hits[0].variants + forward.hits[1].variants, 3U);
  EXPECT_EQ(search("shared").hits.at(0).variants, 1U) << "through the base class, in its file";
  auto memory = Memory::open_existing(base_ / "m.db");
  EXPECT_EQ(memory->collected().value(), *options.collected);
  // Of another tree: nothing is changed.
  for (Collected& test : *options.collected) test.line += 50;
  const auto refused = Memory::open(base_ / "m.db")->index(tree_.path(), options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, base::Fault::environment);
  EXPECT_THAT(refused.error().message,
              HasSubstr("of 6 tests collected of torch 2, 6 are not where"));
  EXPECT_EQ(memory->collected().value().at(0).line, 3);
}

TEST_F(MemoryTest, TablesOfOthersAreLeftAlone) {
  tree_.write("test_a.py", "def test_a(): pass\n");
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((base_ / "m.db").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(
                db,
                "CREATE TABLE ops_x (a); INSERT INTO ops_x VALUES (1);"
                "CREATE TABLE memory_fact (name TEXT PRIMARY KEY, value TEXT);"
                "INSERT INTO memory_fact VALUES ('schema', '0'); CREATE TABLE memory_source (old);",
                nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_EQ(Memory::open_existing(base_ / "m.db").error().fault, base::Fault::not_found)
      << "an older form";
  EXPECT_EQ(index().kept, 1U);
  ASSERT_EQ(sqlite3_exec(db, "DELETE FROM ops_x", nullptr, nullptr, nullptr), SQLITE_OK);
  EXPECT_EQ(sqlite3_changes(db), 1);
  sqlite3_close(db);
}

TEST_F(MemoryTest, FilesThatAreNoMemoryAreErrors) {
  EXPECT_EQ(Memory::open_existing(base_ / "none.db").error().fault, base::Fault::not_found);
  EXPECT_THAT(Memory::open_existing(base_ / "none.db").error().remedy,
              HasSubstr("crosscheck index TREE"));
  base_.write("text.db", std::string(5000, 'x'));
  auto memory = Memory::open(base_ / "text.db");
  const auto error = memory ? memory->index(tree_.path(), {}).error() : memory.error();
  EXPECT_EQ(error.fault, base::Fault::invalid_input);
  EXPECT_THAT(error.remedy, HasSubstr("--memory"));
}

TEST_F(MemoryTest, AFailedIndexLeavesTheOldOne) {
  tree_.write("test_a.py", "def test_a(): pass\n");
  index();
  const std::string before = exported();
  auto memory = Memory::open(base_ / "m.db");
  EXPECT_EQ(memory->index(tree_ / "none", {}).error().fault, base::Fault::not_found);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((base_ / "m.db").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(
      sqlite3_exec(
          db, "CREATE TRIGGER t BEFORE INSERT ON memory_test BEGIN SELECT RAISE(ABORT, 'no'); END",
          nullptr, nullptr, nullptr),
      SQLITE_OK);
  tree_.write("test_b.py", "def test_b(): pass\n");
  EXPECT_FALSE(memory->index(tree_.path(), {}));
  EXPECT_EQ(exported(), before);
  ASSERT_EQ(sqlite3_exec(db, "DROP TRIGGER t", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  EXPECT_TRUE(memory->index(tree_.path(), {}));
  EXPECT_NE(exported(), before);
}

}  // namespace
}  // namespace crosscheck::memory
