#include "crosscheck/profile/support.h"

#include <gmock/gmock.h>

#include <string>

namespace crosscheck::profile {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace json = base::json;

json::object line(const std::string& text) {
  return base::parse_json(text, "test").value().as_object();
}

const Support& of(const std::vector<Support>& all, std::string_view op) {
  return *std::ranges::find(all, op, &Support::op);
}

SupportBook book() {
  SupportBook book;
  for (const char* text :
       {R"({"op":"aten::add.out","kernel":"kernel","registered":"k.cc:1"})",
        R"({"op":"aten::add.Tensor","kernel":"default","made_as":"structured_delegate",
               "made_of":["aten::add.out","aten::empty_strided"]})",
        R"({"op":"aten::empty_strided","kernel":"kernel"})",
        R"({"op":"aten::dot","kernel":"none"})", R"({"op":"aten::mm","kernel":"kernel"})",
        R"({"op":"aten::matmul","kernel":"math"})", R"({"op":"aten::linear","kernel":"math"})",
        R"({"op":"aten::sort","kernel":"fallback","cannot_fall_back":""})",
        R"({"op":"aten::view","kernel":"fallback","cannot_fall_back":"view"})",
        R"({"op":"aten::msort","kernel":"math"})", R"({"op":"aten::flat","kernel":"math"})",
        R"({"op":"aten::odd","kernel":"math"})", R"({"op":"aten::even","kernel":"math"})",
        R"({"op":"aten::nobody","kernel":"math"})"})
    book.take("operator", line(text));
  book.take("callees", line(R"({"op":"aten::matmul","callees":["aten::mm","aten::dot"]})"));
  book.take("callees", line(R"({"op":"aten::linear","callees":["aten::matmul"]})"));
  book.take("callees", line(R"({"op":"aten::msort","callees":["aten::sort","aten::mm"]})"));
  book.take("callees", line(R"({"op":"aten::flat","callees":["aten::view","prims::x"]})"));
  book.take("callees", line(R"({"op":"aten::odd","callees":["aten::even","aten::mm"]})"));
  book.take("callees", line(R"({"op":"aten::even","callees":["aten::odd"]})"));
  book.take("unit", line(R"({"op":"ignored"})"));
  return book;
}

TEST(Support, HasFiveAnswersOfWhichTheWeakestCalleeDecides) {
  const std::vector<Support> all = book().decide();
  EXPECT_EQ(all.size(), 14U);
  const auto answer = [&](std::string_view op) { return to_string(of(all, op).answer); };
  EXPECT_EQ(answer("aten::add.out"), "native");
  EXPECT_EQ(answer("aten::add.Tensor"), "composite_explicit");
  EXPECT_EQ(answer("aten::dot"), "missing");
  EXPECT_EQ(answer("aten::matmul"), "missing");
  EXPECT_EQ(of(all, "aten::matmul").because, "aten::dot");
  EXPECT_EQ(answer("aten::linear"), "missing");
  EXPECT_EQ(of(all, "aten::linear").because, "aten::dot");
  EXPECT_EQ(answer("aten::sort"), "cpu_fallback");
  EXPECT_EQ(answer("aten::msort"), "cpu_fallback");
  EXPECT_EQ(of(all, "aten::msort").because, "aten::sort");
  EXPECT_EQ(answer("aten::view"), "missing");
  EXPECT_EQ(of(all, "aten::view").because, "view");
  EXPECT_EQ(answer("aten::flat"), "missing");
  EXPECT_EQ(answer("aten::odd"), "composite_implicit");
  EXPECT_EQ(answer("aten::even"), "composite_implicit");
  EXPECT_EQ(answer("aten::nobody"), "composite_implicit");
}

TEST(Support, SaysHowItWasEstablished) {
  const std::vector<Support> all = book().decide();
  EXPECT_THAT(of(all, "aten::add.out").established, ElementsAre("dispatcher"));
  EXPECT_THAT(of(all, "aten::add.Tensor").established,
              ElementsAre("dispatcher", "structured_delegate"));
  EXPECT_THAT(of(all, "aten::matmul").established, ElementsAre("dispatcher", "callees"));
  EXPECT_FALSE(of(all, "aten::nobody").callees_seen);
  EXPECT_EQ(to_json(of(all, "aten::add.out")),
            line(R"({"op":"aten::add.out","answer":"native","established":["dispatcher"],
                     "registered":"k.cc:1"})"));
}

TEST(Support, IsConfirmedByDataType) {
  SupportBook book = profile::book();
  book.take_result("float32", line(R"({"op":"aten::mm","outcome":"runs","ran":4,"of":4})"));
  book.take_result("float32",
                   line(R"({"op":"aten::mm","outcome":"error","ran":1,"of":2,"message":"m"})"));
  book.take_result("bool", line(R"({"op":"aten::mm","outcome":"unsupported","ran":0,"of":2})"));
  book.take_result("int8", line(R"({"op":"","outcome":"runs","ran":1,"of":1})"));
  book.take_death("int8", {"aten::mm", ""}, false, "signal 11");
  book.take_death("int16", {"aten::mm"}, true, "silence");
  book.take_result("float32", line(R"({"op":"aten::matmul","outcome":"runs","ran":4,"of":4})"));
  book.take_result(
      "float32",
      line(R"({"op":"aten::add.Tensor","outcome":"missing","missing":"aten::x","ran":0,"of":4})"));
  const std::vector<Support> all = book.decide();
  const auto& dtypes = of(all, "aten::mm").dtypes;
  EXPECT_EQ(dtypes.at("float32").outcome, "partly");
  EXPECT_EQ(dtypes.at("float32").ran, 5);
  EXPECT_EQ(dtypes.at("float32").of, 6);
  EXPECT_EQ(dtypes.at("bool").outcome, "unsupported");
  EXPECT_EQ(dtypes.at("int8").outcome, "crashed");
  EXPECT_EQ(dtypes.at("int16").outcome, "timed_out");
  EXPECT_THAT(of(all, "aten::mm").disagreements, IsEmpty());
  EXPECT_THAT(of(all, "aten::matmul").disagreements,
              ElementsAre("samples run on the device, none of which needs aten::dot"));
  EXPECT_THAT(of(all, "aten::add.Tensor").disagreements,
              ElementsAre("no sample runs: aten::x is missing"));
}

TEST(Support, OfListsAndOfTheDeviceMayDiffer) {
  SupportBook book = profile::book();
  book.take_result("bool", line(R"({"op":"aten::mm","outcome":"unsupported","ran":0,"of":2})"));
  book.take_result("int8", line(R"({"op":"aten::mm","outcome":"runs","ran":2,"of":2})"));
  book.take_list(
      parse_operators("supported:\n  - {func: mm, dtypes: [bool, int64]}\n  - dot\n  - none\n"
                      "autograd:\n  - add.out\n",
                      "o.yaml", true)
          .value());
  const std::vector<Support> all = book.decide();
  EXPECT_THAT(of(all, "aten::mm").listed, ElementsAre("o.yaml:2"));
  EXPECT_THAT(of(all, "aten::mm").disagreements,
              ElementsAre("o.yaml:2 lists bool, which does not run: unsupported",
                          "o.yaml:2 does not list int8, which runs"));
  EXPECT_THAT(
      of(all, "aten::dot").disagreements,
      ElementsAre("o.yaml:3 lists it, and the dispatcher has no kernel of the device for it"));
  EXPECT_THAT(of(all, "aten::none").disagreements,
              ElementsAre("o.yaml:4 lists it, and torch has no such operator"));
  EXPECT_THAT(of(all, "aten::empty_strided").disagreements,
              ElementsAre("the device has a kernel for it, and no list names it"));
  EXPECT_TRUE(of(all, "aten::add.out").autograd);
  EXPECT_THAT(of(all, "aten::add.out").disagreements, IsEmpty());
}

TEST(Support, OfListsAloneIsWhatTheySay) {
  SupportBook book;
  book.take_list(parse_operators("- add.Tensor\n", "o.yaml", true).value());
  const std::vector<Support> all = book.decide();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(to_json(all.front()),
            line(R"({"op":"aten::add.Tensor","answer":"native","established":["list"],
                     "listed":["o.yaml:1"]})"));
}

TEST(Support, AnswersHaveNames) {
  for (const Answer answer : {Answer::native, Answer::composite_implicit,
                              Answer::composite_explicit, Answer::cpu_fallback, Answer::missing})
    EXPECT_EQ(parse_answer(to_string(answer)), answer);
  EXPECT_EQ(parse_answer("maybe"), std::nullopt);
}

}  // namespace
}  // namespace crosscheck::profile
