#include "crosscheck/runner/plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

#include "support.h"

namespace crosscheck::runner {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<CollectedTest> k_tests{
    make_test("a.py", "add_float32", true), make_test("a.py", "add_int8"),
    make_test("b.py", "mul_float32", true), make_test("b.py", "sum")};

TEST(Select, TakesWhatIsAskedFor) {
  EXPECT_THAT(*select(k_tests, {}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(*select(k_tests, {.quick = true}), ElementsAre(0, 2));
  EXPECT_THAT(*select(k_tests, {.patterns = {"add"}}), ElementsAre(0, 1));
  EXPECT_THAT(*select(k_tests, {.patterns = {"sum", "/mul_.*32$/"}}), ElementsAre(2, 3));
  EXPECT_THAT(*select(k_tests, {.quick = true, .patterns = {"/add/"}}), ElementsAre(0));
  // A point is a point, unless between slashes.
  EXPECT_FALSE(select(k_tests, {.patterns = {"a.d"}}));
  EXPECT_THAT(
      *select(k_tests,
              {.node_ids = {{"b.py::TestX::sum", "a.py::TestX::add_int8", "b.py::TestX::sum"}}}),
      ElementsAre(1, 3));
}

TEST(Select, SaysWhyNothingIsSelected) {
  const auto why = [](const std::vector<CollectedTest>& tests, const Selection& selection,
                      const char* text) {
    const auto selected = select(tests, selection);
    ASSERT_FALSE(selected);
    EXPECT_EQ(exit_code(selected.error().fault), base::ExitCode::bad_input);
    EXPECT_THAT(selected.error().message, HasSubstr(text));
    EXPECT_FALSE(selected.error().remedy.empty());
  };
  why({}, {}, "the inventory is empty");
  why({make_test("a.py", "x")}, {.quick = true},
      "none of the 1 collected tests is in the quick set");
  why(k_tests, {.patterns = {"nothing"}}, "none of 4 tests matches nothing");
  why(k_tests, {.quick = true, .patterns = {"sum"}}, "none of 2 tests matches sum");
  why(k_tests, {.node_ids = std::vector<std::string>{}}, "the list of tests is empty");
  why(k_tests, {.quick = true, .node_ids = {{"b.py::TestX::sum"}}}, "no test of the list");
  why(k_tests, {.node_ids = {{"b.py::TestX::gone"}}}, "not in the inventory: b.py::TestX::gone");
}

TEST(Select, RefusesPatternsThatMeanNothing) {
  for (const char* pattern : {"", "//", "/(/", "/(?=add)/", "/(a)\\1/"}) {
    const auto selected = select(k_tests, {.patterns = {"add", pattern}});
    ASSERT_FALSE(selected) << pattern;
    EXPECT_EQ(selected.error().fault, base::Fault::usage) << pattern;
    EXPECT_THAT(selected.error().message, HasSubstr(pattern));
  }
  EXPECT_FALSE(select(k_tests, {.patterns = {"/"}})->empty()) << "a part of a node id, no frame";
}

TEST(Select, TakesLinearTimeForAnyExpression) {
  const std::vector<CollectedTest> tests{make_test("a.py", std::string(200, 'x'))};
  EXPECT_FALSE(select(tests, {.patterns = {"/(x|[a-z]|[a-z_])*!/"}}));
}

TEST(Select, ABrokenFileIsAResult) {
  Inventory inventory;
  inventory.errors = {{"a.py", "SyntaxError", "x", ""}, {"b.py", "SyntaxError", "y", ""}};
  EXPECT_EQ(uncollected(inventory, {}).size(), 2U);
  const auto matching = uncollected(inventory, {.patterns = {"b.py"}});
  ASSERT_EQ(matching.size(), 1U);
  EXPECT_EQ(matching[0].outcome, base::Outcome::harness_error);
  EXPECT_EQ(matching[0].node_id, "b.py");
  EXPECT_TRUE(uncollected(inventory, {.node_ids = {{"a.py::x"}}}).empty());
}

std::vector<std::size_t> all(const std::vector<CollectedTest>& tests) {
  std::vector<std::size_t> indices(tests.size());
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  return indices;
}

TEST(Plan, BeginsWithTheLongest) {
  const KnownTimes times{{k_tests[0].id, seconds{1}},
                         {k_tests[1].id, seconds{1}},
                         {k_tests[2].id, seconds{9}},
                         {k_tests[3].id, seconds{9}}};
  const auto chunks = plan(k_tests, all(k_tests), times, {});
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[0], (Chunk{"b.py", {2, 3}, seconds{18}}));
  EXPECT_EQ(chunks[1], (Chunk{"a.py", {0, 1}, seconds{2}}));
}

TEST(Plan, SplitsAFileOnlyWhereThatPays) {
  std::vector<CollectedTest> tests;
  KnownTimes times;
  for (int i = 0; i < 100; ++i) {
    tests.push_back(make_test("a.py", "t" + std::to_string(i)));
    times[tests.back().id] = seconds{1};
  }
  EXPECT_EQ(plan(tests, all(tests), times, {.workers = 1}).size(), 1U);
  const auto two = plan(tests, all(tests), times, {.workers = 2});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].tests.size(), 50U);
  // 5 s of tests do not pay for a second start of 6 s, but for one of 1 s.
  const std::vector<std::size_t> few{0, 1, 2, 3, 4};
  EXPECT_EQ(plan(tests, few, times, {.workers = 4}).size(), 1U);
  EXPECT_EQ(plan(tests, few, times, {.workers = 2, .start_cost = seconds{1}}).size(), 2U);
}

TEST(Plan, SplitsWhatTheLastWorkerWouldBeAloneWith) {
  std::vector<CollectedTest> tests;
  KnownTimes times;
  for (int file = 0; file < 5; ++file) {
    for (int i = 0; i < 10; ++i) {
      tests.push_back(make_test("f" + std::to_string(file), "t" + std::to_string(i)));
      times[tests.back().id] = seconds{1};
    }
  }
  // Three files against two, unless one is halved.
  const auto two = plan(tests, all(tests), times, {.workers = 2, .start_cost = seconds{1}});
  ASSERT_EQ(two.size(), 6U);
  EXPECT_EQ(two[4].expected, seconds{5});
  EXPECT_EQ(two[5].expected, seconds{5});
  EXPECT_EQ(two[4].file, two[5].file);
  // One that is much longer than the others, whatever its place.
  for (int i = 0; i < 10; ++i) times[tests[static_cast<std::size_t>(20 + i)].id] = seconds{9};
  const auto long_one = plan(tests, all(tests), times, {.workers = 4, .start_cost = seconds{1}});
  EXPECT_EQ(std::ranges::count(long_one, "f2", &Chunk::file), 3);
}

TEST(Plan, HoldsEveryTestOnceInOrderWhateverTheNumbers) {
  std::mt19937 random{11};
  for (int round = 0; round < 300; ++round) {
    std::vector<CollectedTest> tests;
    KnownTimes times;
    const auto files = 1 + random() % 5;
    for (std::size_t f = 0; f < files; ++f) {
      for (auto n = random() % 40; n > 0; --n) {
        tests.push_back(make_test("f" + std::to_string(f), "t" + std::to_string(n)));
        if (random() % 2 == 0) {
          times[tests.back().id] = base::Duration{static_cast<std::int64_t>(random() % 20'000'000)};
        }
      }
    }
    std::vector<std::size_t> selected;
    for (std::size_t i = 0; i < tests.size(); ++i) {
      if (random() % 4 != 0) selected.push_back(i);
    }
    PlanOptions options;
    options.workers = 1 + random() % 6;
    options.start_cost = seconds{random() % 8};
    const auto chunks = plan(tests, selected, times, options);
    EXPECT_EQ(chunks, plan(tests, selected, times, options));
    std::vector<std::size_t> seen;
    std::map<std::string, std::size_t> parts;
    for (const auto& chunk : chunks) {
      EXPECT_FALSE(chunk.tests.empty());
      EXPECT_TRUE(std::is_sorted(chunk.tests.begin(), chunk.tests.end()));
      for (const auto test : chunk.tests) EXPECT_EQ(tests[test].id.file, chunk.file);
      seen.insert(seen.end(), chunk.tests.begin(), chunk.tests.end());
      EXPECT_LE(++parts[chunk.file], options.workers);
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, selected);
    EXPECT_TRUE(std::is_sorted(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) {
      return a.expected > b.expected;
    }));
  }
}

TEST(Selection, TwoListsOfOneLengthAreDescribedApart) {
  const auto described = [](std::vector<std::string> nodes) {
    Selection selection;
    selection.node_ids = std::move(nodes);
    return selection.describe();
  };
  EXPECT_THAT(described({"a", "b"}), testing::StartsWith("all tests, from a list of 2 ("));
  EXPECT_NE(described({"a", "b"}), described({"a", "c"}));
  EXPECT_EQ(described({"a", "b"}), described({"b", "a"}));
}

TEST(Selection, ManyPatternsAreDescribedApart) {
  Selection one;
  for (int i = 0; i < 25; ++i) one.patterns.push_back("p" + std::to_string(i));
  auto other = one;
  other.patterns.back() = "q";
  EXPECT_THAT(one.describe(), HasSubstr("p19 and 5 more ("));
  EXPECT_NE(one.describe(), other.describe());
}

}  // namespace
}  // namespace crosscheck::runner
