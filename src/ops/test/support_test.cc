#include "crosscheck/ops/support.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

namespace crosscheck::ops {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

const Making k_making{{"aten::linear"}, {{"aten::add.Tensor", "aten::add.out"}}};

Support parse(std::string_view text) {
  auto support = Support::parse(text, "support.jsonl");
  if (!support) throw std::runtime_error{support.error().message};
  return std::move(*support);
}

TEST(Support, OfAnswersIsWhatTheyBlame) {
  const auto support = parse(R"({"schema":1,"torch":"2.13.0","device":"refdev"}
{"op":"aten::add.Tensor","answer":"missing","because":"aten::add.out"}
{"op":"aten::relu","answer":"native"}
{"op":"aten::view","answer":"missing","because":"view"}
{"op":"aten::linear","answer":"missing","because":"aten::bilinear"}
)");
  EXPECT_EQ(support.lacks("aten::add.Tensor", k_making), "aten::add.out");
  EXPECT_EQ(support.lacks("aten::relu", k_making), std::nullopt);
  EXPECT_EQ(support.lacks("aten::view", k_making), "aten::view");
  EXPECT_EQ(support.lacks("aten::linear", k_making), std::nullopt) << "its parts are judged";
  EXPECT_EQ(support.lacks("aten::unheard", k_making), std::nullopt);
  EXPECT_FALSE(support.knows("aten::unheard", k_making));
}

TEST(Support, OfAListIsAllElse) {
  const auto support = parse("# ours\naten::add.out  # the kernel\nrelu\r\n\n");
  EXPECT_EQ(support.lacks("aten::add.Tensor", k_making), std::nullopt);
  EXPECT_EQ(support.lacks("aten::relu", k_making), std::nullopt);
  EXPECT_EQ(support.lacks("aten::relu.out", k_making), std::nullopt);
  EXPECT_EQ(support.lacks("aten::linear", k_making), std::nullopt);
  EXPECT_EQ(support.lacks("aten::mul.Tensor", k_making), "aten::mul.Tensor");
  EXPECT_EQ(parse("relu").lacks("aten::add.Tensor", k_making), "aten::add.out");
}

TEST(Support, OfFailuresIsWhatTheyNamed) {
  const auto support = Support::without({"aten::add.out", "aten::mm"});
  EXPECT_EQ(support.lacks("aten::add.Tensor", k_making), "aten::add.out");
  EXPECT_EQ(support.lacks("aten::mm", k_making), "aten::mm");
  EXPECT_EQ(support.lacks("aten::relu", k_making), std::nullopt);
}

TEST(Support, NamesTheLineOfWhatIsWrong) {
  for (const auto& [text, says] : std::vector<std::pair<std::string, std::string>>{
           {"{\"op\":\"a\",\"answer\":\"native\"}\n{\"op\":1}", "support.jsonl:2: field op"},
           {"{\"op\":\"aten::x\",\"answer\":\"perhaps\"}", "support.jsonl:1: answer"},
           {"{\"op\":\"a\",\"answer\":\"native\"}\n{", "support.jsonl:2:"},
           {"{\"schema\":1}\n", "names no operator"},
           {"# nothing\n", "names no operator"}}) {
    const auto refused = Support::parse(text, "support.jsonl");
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(refused.error().message, HasSubstr(says));
  }
}

TEST(Gaps, SayWhatAnOperatorWouldBring) {
  const std::vector<OperatorTests> used{
      {"a", {1, 2, 3, 4}}, {"b", {3, 4, 5}}, {"c", {4}}, {"fine", {1, 5, 6}}};
  const Gaps gaps{used, Support::without({"a", "b", "c"}), {}};
  EXPECT_EQ(gaps.lacking(), 5);
  const auto a = gaps.enable({"a"});
  EXPECT_THAT(a.operators, ElementsAre("a"));
  EXPECT_THAT(a.need, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(a.alone, ElementsAre(1, 2));
  EXPECT_THAT(a.others, ElementsAre(Pair("b", 2), Pair("c", 1)));
  EXPECT_THAT(gaps.enable({"a", "b"}).alone, ElementsAre(1, 2, 3, 5));
  EXPECT_THAT(gaps.enable({"fine"}).operators, IsEmpty());
  const auto gains = gaps.gains();
  ASSERT_EQ(gains.size(), 3);
  EXPECT_EQ(gains[0].name, "a");
  EXPECT_EQ(gains[0].frees, 2);
  EXPECT_EQ(gains[0].need, 4);
  EXPECT_EQ(gains[1].name, "b");
  EXPECT_EQ(gains[2].frees, 0);
}

TEST(Gaps, AStepMayTakeSeveralOperatorsAtOnce) {
  // One frees two tests alone; a pair together frees ten.
  std::vector<OperatorTests> used{{"alone", {0, 1}}, {"left", {}}, {"right", {}}};
  for (std::uint32_t i = 10; i < 20; ++i) {
    used[1].tests.push_back(i);
    used[2].tests.push_back(i);
  }
  const Gaps gaps{used, Support::without({"alone", "left", "right"}), {}};
  const auto steps = gaps.steps(10);
  ASSERT_EQ(steps.size(), 2);
  EXPECT_THAT(steps[0].operators, ElementsAre("left", "right"));
  EXPECT_EQ(steps[0].frees, 10);
  EXPECT_THAT(steps[1].operators, ElementsAre("alone"));
  EXPECT_EQ(steps[1].in_all, 12);
  EXPECT_EQ(gaps.steps(1).size(), 1);
}

// Against counting by hand: every step frees what it says, and in the end all is free.
TEST(Gaps, StepsFreeWhatTheySay) {
  std::mt19937 random{11};
  for (int round = 0; round < 30; ++round) {
    std::vector<OperatorTests> used;
    std::set<std::string> missing;
    for (int op = 0; op < 8; ++op) {
      used.push_back({"op" + std::to_string(op), {}});
      for (std::uint32_t test = 0; test < 60; ++test) {
        if (random() % 4 == 0) used.back().tests.push_back(test);
      }
      if (random() % 3 != 0) missing.insert(used.back().name);
    }
    const Gaps gaps{used, Support::without(missing), {}};
    std::set<std::string> chosen;
    std::size_t in_all = 0;
    for (const auto& step : gaps.steps(100)) {
      chosen.insert(step.operators.begin(), step.operators.end());
      EXPECT_EQ(gaps.enable(chosen).alone.size(), step.in_all);
      EXPECT_EQ(step.in_all - in_all, step.frees);
      EXPECT_GT(step.frees, 0);
      in_all = step.in_all;
    }
    EXPECT_EQ(in_all, gaps.lacking());
  }
}

}  // namespace
}  // namespace crosscheck::ops
