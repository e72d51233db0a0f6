#include "crosscheck/ops/index.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "support.h"

namespace crosscheck::ops {
namespace {

using base::Fault;
using base::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class IndexTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  int files_ = 0;

  Index open(const std::string& name = "i.db") {
    auto index = Index::open(folder_ / name, Index::Open::write);
    if (!index) throw std::runtime_error{index.error().message};
    return std::move(*index);
  }
  Ingested ingest(Index& index, const std::vector<TracedTest>& tests) {
    const auto path = write_trace(folder_ / ("t" + std::to_string(files_++)), tests);
    auto ingested = index.ingest(path);
    if (!ingested) throw std::runtime_error{ingested.error().message};
    return *ingested;
  }
  std::vector<std::string> methods(const Index& index, const std::vector<std::string>& operators,
                                   Phases phases = Phases::all()) {
    std::vector<std::string> found;
    const auto using_them = index.tests(*index.tests_of(operators, phases));
    if (!using_them) throw std::runtime_error{using_them.error().message};
    for (const auto& test : *using_them) found.push_back(test.id.method);
    return found;
  }
};

TEST_F(IndexTest, AnswersBothWays) {
  auto index = open();
  auto tests = std::vector{make_test("test_x", {"aten::add.Tensor"}),
                           make_test("test_y", {"aten::add.Tensor", "aten::mul.Tensor"}, "int64"),
                           make_test("test_dead", {})};
  in(*tests[0].operators, base::Phase::backward).emplace_back("aten::mul.Tensor", 3);
  tests[2].operators.reset();
  tests[2].outcome = base::Outcome::crashed;
  const auto ingested = ingest(index, tests);
  EXPECT_EQ(ingested.tests, 3);
  EXPECT_EQ(ingested.added, 3);
  EXPECT_EQ(ingested.pairs, 4);
  const auto summary = *index.summary();
  EXPECT_EQ(summary.tests, 3);
  EXPECT_EQ(summary.unknown, 1);
  EXPECT_EQ(summary.operators, 2);
  EXPECT_EQ(summary.build, make_header().build);

  EXPECT_THAT(methods(index, {"aten::mul.Tensor"}), ElementsAre("test_x", "test_y"));
  auto backward = Phases::none();
  backward.add(base::Phase::backward);
  EXPECT_THAT(methods(index, {"aten::mul.Tensor"}, backward), ElementsAre("test_x"));
  EXPECT_THAT(methods(index, {"aten::add.Tensor"}, backward), IsEmpty());
  EXPECT_THAT(methods(index, {"aten::none"}), IsEmpty());
  EXPECT_THAT(*index.tests(*index.unknown()), testing::SizeIs(1));

  const auto of = *index.operators_of(tests[0].node_id);
  ASSERT_EQ(of.size(), 1);
  EXPECT_EQ(of[0].operators, *tests[0].operators);
  EXPECT_EQ(of[0].test.dtype, "float32");
  EXPECT_EQ(index.operators_of("test_")->size(), 3);
  EXPECT_THAT(*index.operators_of("nothing"), IsEmpty());
}

TEST_F(IndexTest, KeepsTheGraphsOfATest) {
  auto index = open();
  auto test = make_test("test_x", {});
  test.operators->graphs = {{"0/0 forward", {{"aten::relu", 1}}},
                            {"1/0 backward", {{"aten::t", 2}}}};
  in(*test.operators, base::Phase::compiled) = {{"aten::relu", 1}, {"aten::t", 2}};
  ingest(index, {test});
  EXPECT_EQ(index.operators_of("test_x")->at(0).operators.graphs, test.operators->graphs);
  auto compiled = Phases::none();
  compiled.add(base::Phase::compiled);
  EXPECT_THAT(methods(index, {"aten::t"}, compiled), ElementsAre("test_x"));
}

TEST_F(IndexTest, RefusesATraceOfAnotherBuildAndKeepsWhatItHas) {
  auto index = open();
  ingest(index, {make_test("test_x", {"aten::relu"})});
  const auto before = *index.exported();
  auto header = make_header();
  header.build.torch_git = "def";
  const auto other = write_trace(folder_ / "other", {make_test("test_y", {"aten::t"})}, header);
  const auto refused = index.ingest(other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, Fault::invalid_input);
  EXPECT_THAT(refused.error().message, HasSubstr("torch's revision is def, not abc"));
  EXPECT_EQ(*index.exported(), before);
}

TEST_F(IndexTest, ABrokenTraceChangesNothing) {
  auto index = open();
  ingest(index, {make_test("test_x", {"aten::relu"})});
  const auto before = *index.exported();
  const auto text = to_text(make_header(), {make_test("test_y", {"aten::t"})});
  const auto broken = write_file(folder_ / "broken", text + "more\n");
  EXPECT_FALSE(index.ingest(broken));
  EXPECT_EQ(*index.exported(), before);
}

TEST_F(IndexTest, ACutOffTraceIsSaidAndItsTestsAreKept) {
  auto index = open();
  auto text =
      to_text(make_header(), {make_test("test_x", {"aten::relu"}), make_test("test_y", {})});
  const auto ingested = index.ingest(write_file(folder_ / "cut", text.substr(0, text.size() - 30)));
  ASSERT_TRUE(ingested);
  EXPECT_TRUE(ingested->cut_off);
  EXPECT_EQ(ingested->tests, 1);
  EXPECT_EQ(index.summary()->tests, 1);
}

TEST_F(IndexTest, FilesThatAreNoIndexAreRefused) {
  EXPECT_EQ(Index::open(folder_ / "none.db", Index::Open::read).error().fault, Fault::not_found);
  const auto text = write_file(folder_ / "text.db", std::string(4096, 'x'));
  EXPECT_EQ(Index::open(text, Index::Open::write).error().fault, Fault::invalid_input);
  const auto empty = write_file(folder_ / "empty.db", "");
  EXPECT_EQ(Index::open(empty, Index::Open::read).error().fault, Fault::invalid_input);
  EXPECT_FALSE(Index::open(folder_ / "", Index::Open::write));
}

// However tests are divided among traces, in whatever order those come, and however often.
TEST_F(IndexTest, JoinsShardsExactly) {
  std::mt19937 random{7};
  const auto below = [&](std::size_t n) { return random() % n; };
  for (int round = 0; round < 12; ++round) {
    std::vector<TracedTest> tests;
    for (std::size_t i = 0; i < 40; ++i) {
      auto test = make_test("test_" + std::to_string(below(25)), {});
      test.outcome = static_cast<base::Outcome>(below(base::k_outcome_count));
      if (below(8) == 0) test.operators.reset();
      for (auto* phases = test.operators ? &test.operators->phases : nullptr; phases != nullptr;
           phases = nullptr) {
        for (auto& phase : *phases) {
          for (int op = 0; op < 12; ++op) {
            if (below(4) == 0) {
              phase.emplace_back("aten::op" + std::to_string(10 + op),
                                 static_cast<std::int64_t>(1 + below(9)));
            }
          }
        }
        in(*test.operators, base::Phase::compiled).clear();
        if (below(3) == 0) {
          test.operators->graphs = {{"0/" + std::to_string(below(2)), {{"aten::op10", 2}}}};
          in(*test.operators, base::Phase::compiled) = {{"aten::op10", 2}};
        }
      }
      tests.push_back(std::move(test));
    }
    auto whole = open("whole" + std::to_string(round));
    ingest(whole, tests);
    const auto wanted = *whole.exported();

    auto parts = open("parts" + std::to_string(round));
    std::shuffle(tests.begin(), tests.end(), random);
    std::vector<std::vector<TracedTest>> shards(1 + below(5));
    for (const auto& test : tests) {
      shards[below(shards.size())].push_back(test);
      if (below(4) == 0) shards[below(shards.size())].push_back(test);
    }
    for (const auto& shard : shards) ingest(parts, shard);
    ingest(parts, shards[0]);
    EXPECT_EQ(*parts.exported(), wanted) << "round " << round;
  }
}

TEST(OperatorNames, AreFoundWithTheirFamily) {
  const std::vector<std::string> known{
      "aten::add.Tensor", "aten::add.out",       "aten::add_.Tensor",    "aten::addmm",
      "aten::sigmoid",    "aten::special_expit", "aten::__and__.Tensor", "prims::add"};
  const Aliases aliases{{"aten::special_expit", "aten::sigmoid"}};
  EXPECT_THAT(matching("add", known, aliases, true),
              ElementsAre("aten::add.Tensor", "aten::add.out", "aten::add_.Tensor"));
  EXPECT_THAT(matching("aten::add_", known, aliases, true),
              ElementsAre("aten::add.Tensor", "aten::add.out", "aten::add_.Tensor"));
  EXPECT_THAT(matching("add_", known, aliases, false), ElementsAre("aten::add_.Tensor"));
  EXPECT_THAT(matching("add.out", known, aliases, true), ElementsAre("aten::add.out"));
  EXPECT_THAT(matching("prims::add", known, aliases, true), ElementsAre("prims::add"));
  EXPECT_THAT(matching("special_expit", known, aliases, true),
              ElementsAre("aten::sigmoid", "aten::special_expit"));
  EXPECT_THAT(matching("sigmoid", known, aliases, true),
              ElementsAre("aten::sigmoid", "aten::special_expit"));
  EXPECT_THAT(matching("__and__", known, aliases, true), ElementsAre("aten::__and__.Tensor"));
  const std::vector<std::string> used{"aten::add.Tensor", "aten::add_.Tensor", "aten::mul.out"};
  const std::unordered_map<std::string, std::string> delegates{
      {"aten::add.Tensor", "aten::add.out"}, {"aten::add_.Tensor", "aten::add.out"}};
  EXPECT_THAT(with_delegating({}, "aten::add.out", used, delegates),
              ElementsAre("aten::add.Tensor", "aten::add_.Tensor"));
  EXPECT_THAT(with_delegating({"aten::mul.out"}, "aten::mul", used, delegates),
              ElementsAre("aten::mul.out"));
  EXPECT_THAT(matching("sub", known, aliases, true), IsEmpty());
}

}  // namespace
}  // namespace crosscheck::ops
