#include <gmock/gmock.h>

#include <algorithm>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/gzip.h"
#include "support.h"

namespace crosscheck::ops {
namespace {

using base::Fault;
using base::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

struct Read {
  TraceHeader header;
  std::vector<TracedTest> tests;
  base::Result<TraceRead> result = base::fail(Fault::internal, "");
};

// In pieces of `piece` bytes.
Read read(const std::string& text, std::size_t piece = std::string::npos) {
  Read read;
  TraceReader reader{"t.jsonl",
                     [&](TraceHeader header) -> base::Result<void> {
                       read.header = std::move(header);
                       return {};
                     },
                     [&](TracedTest test) -> base::Result<void> {
                       read.tests.push_back(std::move(test));
                       return {};
                     }};
  for (std::size_t at = 0; at < text.size(); at += std::min(piece, text.size())) {
    if (auto added = reader.add(std::string_view{text}.substr(at, piece)); !added) {
      read.result = tl::unexpected(added.error());
      return read;
    }
  }
  read.result = reader.finish();
  return read;
}

std::vector<TracedTest> some_tests() {
  std::vector<TracedTest> tests{make_test("test_x", {"aten::add.Tensor", "aten::mul.Tensor"}),
                                make_test("test_y", {"aten::relu"}), make_test("test_z", {})};
  in(*tests[0].operators, base::Phase::backward).emplace_back("aten::mul.Tensor", 7);
  tests[1].operators->compiles = true;
  tests[1].operators->graphs = {{"0/0 forward", {{"aten::relu", 1}, {"aten::t", 2}}}};
  in(*tests[1].operators, base::Phase::compiled) = {{"aten::relu", 1}, {"aten::t", 2}};
  tests[2].operators.reset();
  tests[2].outcome = base::Outcome::crashed;
  return tests;
}

TEST(Trace, IsReadAsItWasWrittenInWhateverPieces) {
  const auto tests = some_tests();
  const auto text = to_text(make_header(), tests);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{64}, text.size()}) {
    const auto found = read(text, piece);
    ASSERT_TRUE(found.result) << found.result.error().message;
    EXPECT_FALSE(found.result->cut_off);
    EXPECT_EQ(found.header, make_header());
    EXPECT_EQ(found.tests, tests);
  }
}

TEST(Trace, CutOffAnywhereKeepsTheWholeTests) {
  const auto tests = some_tests();
  const auto text = to_text(make_header(), tests);
  const auto header = header_line(make_header()).size() + 1;
  for (std::size_t length = 0; length < text.size() - 1; ++length) {
    const auto found = read(text.substr(0, length));
    if (length < header) {
      ASSERT_FALSE(found.result);
      EXPECT_THAT(found.result.error().message, HasSubstr("before its header"));
      continue;
    }
    ASSERT_TRUE(found.result) << found.result.error().message;
    ASSERT_TRUE(found.result->cut_off) << length;
    const auto whole =
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length), '\n') - 1;
    EXPECT_EQ(found.tests.size(), static_cast<std::size_t>(whole));
    EXPECT_THAT(*found.result->cut_off, HasSubstr(std::to_string(whole) + " tests are whole"));
  }
}

TEST(Trace, NamesTheLineOfWhatIsWrong) {
  struct Case {
    std::string line;
    std::string says;
  };
  const std::string id = R"("file":"a.py","method":"m","node":"n","outcome":"passed")";
  for (const auto& [line, says] : std::vector<Case>{
           {"{", "t.jsonl:2:"},
           {"[]", "t.jsonl:2: expected an object"},
           {R"({"end":3})", "t.jsonl:2: end: 3 tests are said, 0 are here"},
           {R"({"file":"a.py"})", "method"},
           {R"({"file":"a.py","method":"m","node":"n","outcome":"fine"})", "outcome"},
           {"{" + id + R"(,"variant":"x"})", "variant: expected an object"},
           {"{" + id + R"(,"operators":[]})", "operators: expected an object"},
           {"{" + id + R"(,"operators":{"forward":{"aten::add":0}}})", "at least 1"},
           {"{" + id + R"(,"operators":{"forward":{"":1}}})", "1 to 512 bytes"},
           {"{" + id + R"(,"operators":{},"graphs":[1]})", "graphs"},
           {R"({"file":")" + std::string(5000, 'a') + R"(","method":"m","node":"n"})", "file"},
       }) {
    const auto found = read(header_line(make_header()) + "\n" + line + "\n");
    ASSERT_FALSE(found.result) << line;
    EXPECT_EQ(found.result.error().fault, Fault::invalid_input);
    EXPECT_THAT(found.result.error().message, HasSubstr("t.jsonl:2"));
    EXPECT_THAT(found.result.error().message, HasSubstr(says));
  }
}

TEST(Trace, RefusesWhatIsNoTrace) {
  for (const auto& [text, says] : std::vector<std::pair<std::string, std::string>>{
           {"{}\n", "no trace"},
           {R"({"format":"crosscheck-trace","schema":2})"
            "\n",
            "reads 1, not 2"},
           {R"({"format":"crosscheck-trace","schema":1,"torch":"2"})"
            "\n",
            "torch_git"},
           {to_text(make_header(), {}) + "{}\n", "behind the end"}}) {
    const auto found = read(text);
    ASSERT_FALSE(found.result) << text;
    EXPECT_THAT(found.result.error().message, HasSubstr(says));
  }
  TraceReader reader{"t", [](const TraceHeader&) { return base::Result<void>{}; },
                     [](const TracedTest&) { return base::Result<void>{}; }};
  const auto long_line = reader.add(std::string(TraceReader::k_line_limit + 1, 'x'));
  ASSERT_FALSE(long_line);
  EXPECT_EQ(long_line.error().fault, Fault::too_large);
}

TEST(Trace, PhasesOfANewerProbeArePassedOver) {
  const auto found = read(
      header_line(make_header()) +
      "\n{\"file\":\"a.py\",\"method\":\"m\",\"node\":\"n\",\"outcome\":\"passed\",\"operators\":"
      "{\"later\":{\"x\":1},\"forward\":{\"aten::add\":2}}}\n");
  ASSERT_TRUE(found.result);
  EXPECT_THAT(found.tests.at(0).operators->in(base::Phase::forward),
              ElementsAre(std::pair<const std::string, std::int64_t>{"aten::add", 2}));
}

class TraceFile : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::size_t tests_ = 0;

  base::Result<TraceRead> count(const std::string& path) {
    tests_ = 0;
    return read_trace(
        path, [](const TraceHeader&) { return base::Result<void>{}; },
        [&](const TracedTest&) {
          ++tests_;
          return base::Result<void>{};
        });
  }
};

TEST_F(TraceFile, IsReadGzippedOrNot) {
  const auto text = to_text(make_header(), some_tests());
  for (const auto& bytes : {text, base::gzip(text)}) {
    const auto result = count(write_file(folder_ / "t", bytes));
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_FALSE(result->cut_off);
    EXPECT_EQ(tests_, 3);
  }
}

TEST_F(TraceFile, GzippedAndCutOffKeepsTheWholeTests) {
  std::vector<TracedTest> tests;
  for (int i = 0; i < 3000; ++i) {
    tests.push_back(make_test("test_" + base::sha256_hex(std::to_string(i)), {"aten::add.Tensor"}));
  }
  const auto bytes = base::gzip(to_text(make_header(), tests));
  const auto result = count(write_file(folder_ / "t.gz", bytes.substr(0, bytes.size() / 2)));
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_TRUE(result->cut_off);
  EXPECT_GT(tests_, 100);
  EXPECT_LT(tests_, 3000);
}

TEST_F(TraceFile, WhatIsThereNotIsNamed) {
  const auto missing = count(folder_ / "none.jsonl");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().fault, Fault::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("none.jsonl"));
  EXPECT_EQ(count(folder_ / "").error().fault, Fault::invalid_input);
}

TEST_F(TraceFile, AnUnfinishedOneIsGoneOnWith) {
  const auto path = folder_ / "t.jsonl.gz";
  const auto tests = some_tests();
  {
    auto writer = TraceWriter::begin(path, make_header());
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->add(tests[0]));
    ASSERT_TRUE(writer->add(tests[1]));
  }
  EXPECT_EQ(TraceWriter::begin(path, make_header()).error().fault, Fault::conflict);
  const auto partial = TraceWriter::partial_path(path).string();
  // Half a line, as a kill leaves it.
  write_file(partial, base::read_file(partial)->substr(0, base::read_file(partial)->size() - 9));
  auto other = make_header();
  other.build.torch = "2.14.0";
  const auto refused = TraceWriter::go_on(path, other, [](const TracedTest&) {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("torch is 2.13.0+cpu, not 2.14.0"));
  other = make_header();
  other.shard = "2/2";
  EXPECT_FALSE(TraceWriter::go_on(path, other, [](const TracedTest&) {}));

  std::vector<TracedTest> kept;
  auto writer = TraceWriter::go_on(path, make_header(),
                                   [&](const TracedTest& test) { kept.push_back(test); });
  ASSERT_TRUE(writer) << writer.error().message;
  EXPECT_THAT(kept, ElementsAre(tests[0]));
  ASSERT_TRUE(writer->add(tests[1]));
  ASSERT_TRUE(writer->finish());
  const auto result = count(path);
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->cut_off);
  EXPECT_EQ(tests_, 2);
  EXPECT_FALSE(std::filesystem::exists(partial));
}

TEST(TraceBuild, SaysEverythingThatDiffers) {
  const auto one = make_header().build;
  EXPECT_TRUE(check_same_build(one, "a", one, "b"));
  auto other = one;
  other.device = "refdev";
  other.suite = "";
  const auto refused = check_same_build(other, "a", one, "the index");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "a is of another build than the index: the device is refdev, not cpu; the suite's "
            "revision is unknown, not sha256:1");
}

}  // namespace
}  // namespace crosscheck::ops
