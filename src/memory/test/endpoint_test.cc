#include "crosscheck/memory/endpoint.h"

#include <gmock/gmock.h>

#include <deque>

#include "crosscheck/base/json.h"
#include "crosscheck/memory/memory.h"
#include "support.h"

namespace crosscheck::memory {
namespace {

using test::Folder;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ReadEmbeddings, AreGivenInTheOrderOfTheirIndex) {
  EXPECT_EQ(read_embeddings(
                R"({"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,-2.5]}]})", 2)
                .value(),
            (std::vector<std::vector<float>>{{1, -2.5F}, {3, 4}}));
  EXPECT_EQ(read_embeddings(R"({"data":[{"embedding":[1]}]})", 1).value().size(), 1U);
}

TEST(ReadEmbeddings, NonsenseIsRefusedAndNamed) {
  const std::tuple<const char*, std::size_t, const char*> cases[] = {
      {"<html>", 1, "no JSON"},
      {"", 1, "no JSON"},
      {R"({"data":[{"embedding":[NaN]}]})", 1, "no JSON"},
      {R"([])", 1, "no list 'data'"},
      {R"({"data":7})", 1, "no list 'data'"},
      {R"({"data":[{"embedding":[1]}]})", 2, "1 vectors for 2 texts"},
      {R"({"data":[{"embedding":[1]},{"embedding":[1,2]}]})", 2, "different dimensions"},
      {R"({"data":[{"embedding":[]}]})", 1, "without a vector"},
      {R"({"data":["x"]})", 1, "without a vector"},
      {R"({"data":[{"embedding":["1"]}]})", 1, "no finite number"},
      {R"({"data":[{"embedding":[1e300]}]})", 1, "no finite number"},
      {R"({"data":[{"index":1,"embedding":[1]}]})", 1, "of no text"},
      {R"({"data":[{"index":-1,"embedding":[1]}]})", 1, "of no text"},
      {R"({"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]})", 2, "two vectors"},
  };
  for (const auto& [body, texts, what] : cases) {
    const auto read = read_embeddings(body, texts);
    ASSERT_FALSE(read) << body;
    EXPECT_THAT(read.error().message, HasSubstr(what)) << body;
  }
}

TEST(ReadSummary, IsOneLineOrRefused) {
  const auto of = [](const std::string& content) {
    return read_summary(R"({"choices":[{"message":{"content":)" + content + "}}]}");
  };
  EXPECT_EQ(of(R"(" Checks\nthat. ")").value(), "Checks that.");
  EXPECT_EQ(of('"' + std::string(5000, 'x') + '"').value().size(), 400U);
  EXPECT_THAT(of(R"(" \n ")").error().message, HasSubstr("empty"));
  EXPECT_THAT(of("null").error().message, HasSubstr("without content"));
  EXPECT_THAT(read_summary("{}").error().message, HasSubstr("choices"));
  EXPECT_THAT(read_summary("<html>").error().message, HasSubstr("no JSON"));
}

class EndpointTest : public testing::Test {
 protected:
  void SetUp() override {
    tree_.write("test_a.py", "def test_add(): add()\ndef test_view(): view()\n");
    index();
  }
  void index() {
    auto memory = Memory::open(base_ / "m.db");
    ASSERT_TRUE(memory->index(tree_.path(), {}));
  }
  // Answers in turn what `answers_` holds; then as it should.
  EndpointReport ask(EndpointOptions options) {
    options.ask = [&](std::string_view path, const std::string& body) {
      bodies_.push_back(body);
      if (!answers_.empty()) {
        auto answer = std::move(answers_.front());
        answers_.pop_front();
        return answer;
      }
      return base::Result<EndpointAnswer>{EndpointAnswer{200, good(path, body)}};
    };
    options.wait = [&](int seconds) { waits_.push_back(seconds); };
    return Memory::open(base_ / "m.db")->ask_endpoint(options).value();
  }
  // test_add points along the first axis, everything else along the second.
  static std::string good(std::string_view path, const std::string& body) {
    if (path == "/v1/chat/completions")
      return R"({"choices":[{"message":{"content":"By the model."}}]})";
    const auto input = base::parse_json(body, "request")->at("input").as_array();
    std::string data;
    for (const auto& text : input)
      data += std::string{data.empty() ? "" : ","} + R"({"embedding":)" +
              (std::string_view{text.as_string()}.starts_with("test_add") ? "[1,0]}" : "[0,1]}");
    return R"({"data":[)" + data + "]}";
  }
  static EndpointOptions embeddings() {
    EndpointOptions options;
    options.embedding_model = "m";
    return options;
  }
  void will(int status, std::string body = "", std::optional<std::string> after = {}) {
    answers_.push_back(EndpointAnswer{status, std::move(body), std::move(after)});
  }

  Folder tree_;
  Folder base_;
  std::deque<base::Result<EndpointAnswer>> answers_;
  std::vector<std::string> bodies_;
  std::vector<int> waits_;
};

TEST_F(EndpointTest, AnswersAreKeptByTextAndModelAndAskedForOnce) {
  EndpointReport report = ask(embeddings());
  EXPECT_EQ(report.requests, 1U);
  EXPECT_EQ(report.embedded, 2U);
  EXPECT_EQ(report.left, 0U);
  EXPECT_EQ(ask(embeddings()).requests, 0U);
  EXPECT_EQ(ask(embeddings()).kept, 2U);
  // Only what changed is asked for, also in a memory that is made anew in the same file.
  tree_.write("test_a.py", "def test_add(): add()\ndef test_view(): other()\n");
  index();
  report = ask(embeddings());
  EXPECT_EQ(report.embedded, 1U);
  EXPECT_EQ(report.kept, 1U);
  EndpointOptions other = embeddings();
  other.embedding_model = "n";
  EXPECT_EQ(ask(other).embedded, 2U) << "another model knows nothing of it";
}

TEST_F(EndpointTest, ASearchRanksByTheModelToo) {
  ask(embeddings());
  auto query = parse_query("zzzz").value();
  auto memory = Memory::open_existing(base_ / "m.db");
  EXPECT_THAT(memory->search(query, 10)->hits, IsEmpty());
  query.model = "m";
  query.embedding = {1, 0.1F};
  const Answer answer = memory->search(query, 10).value();
  ASSERT_EQ(answer.hits.size(), 1U);
  EXPECT_EQ(answer.hits[0].name, "test_add");
  EXPECT_EQ(answer.hits[0].model_rank, 1U);
  EXPECT_EQ(answer.hits[0].words_rank + answer.hits[0].meaning_rank, 0U);
  query.embedding = {1, 0, 0};
  EXPECT_THAT(memory->search(query, 10)->hits, IsEmpty()) << "of another length";
}

TEST_F(EndpointTest, SummariesComeWithTheirModel) {
  EndpointOptions options;
  options.summary_model = "s";
  EXPECT_EQ(ask(options).summarised, 2U);
  EXPECT_EQ(ask(options).requests, 0U);
  const Answer answer =
      Memory::open_existing(base_ / "m.db")->search(parse_query("add").value(), 1).value();
  EXPECT_EQ(answer.hits.at(0).summary, "By the model.");
  EXPECT_EQ(answer.hits.at(0).summary_model, "s");
}

TEST_F(EndpointTest, ABudgetIsKeptAndTheNextTimeGoesOn) {
  EndpointOptions options;
  options.summary_model = "s";
  options.budget = 1;
  const EndpointReport report = ask(options);
  EXPECT_EQ(report.requests, 1U);
  EXPECT_EQ(report.left, 1U);
  EXPECT_EQ(ask(options).left, 0U);
}

TEST_F(EndpointTest, WhoIsAskedToWaitWaits) {
  will(429, R"({"error":{"message":"too fast"}})", "7");
  will(503);
  const EndpointReport report = ask(embeddings());
  EXPECT_THAT(waits_, ElementsAre(7, 1));
  EXPECT_EQ(report.requests, 3U);
  EXPECT_EQ(report.failed, 2U);
  EXPECT_EQ(report.embedded, 2U);
  EXPECT_THAT(report.problems, Contains("/v1/embeddings: status 429: too fast"));
  waits_.clear();
  EndpointOptions other = embeddings();
  other.embedding_model = "n";
  for (const char* after : {"999999", "Wed, 21 Oct 2015 07:28:00 GMT", "-5"}) will(429, "", after);
  EXPECT_EQ(ask(other).left, 2U);
  EXPECT_THAT(waits_, ElementsAre(60, 1)) << "not after the last try";
}

TEST_F(EndpointTest, NonsenseCostsItsBatchAlone) {
  for (const auto& [status, body, what] : std::vector<std::tuple<int, const char*, const char*>>{
           {200, "<html>", "no JSON"},
           {200, R"({"data":[{"embedding":[1,2]}]})", "1 vectors for 2 texts"},
           {200, R"({"data":[{"embedding":[0,0]},{"embedding":[1,2]}]})", "all zero"},
           {401, R"({"error":{"message":"no such key"}})", "status 401: no such key"},
           {404, "", "status 404"}}) {
    will(status, body);
    const EndpointReport report = ask(embeddings());
    EXPECT_EQ(report.failed, 1U) << body;
    EXPECT_EQ(report.left, 2U) << body;
    EXPECT_THAT(report.problems, ElementsAre(HasSubstr(what)));
  }
  EXPECT_EQ(ask(embeddings()).embedded, 2U);
  tree_.write("test_b.py", "def test_b(): pass\n");
  index();
  will(200, R"({"data":[{"embedding":[1,2,3]}]})");
  EXPECT_THAT(ask(embeddings()).problems,
              ElementsAre(HasSubstr("vectors of 3 dimensions, where this model's had 2 before")));
}

TEST_F(EndpointTest, AnEndpointThatIsDownIsLeftAlone) {
  for (int i = 0; i < 100; ++i) answers_.push_back(base::fail(base::Fault::unavailable, "down"));
  std::string text;
  for (int i = 0; i < 20; ++i) text += "def test_" + std::to_string(i) + "(): pass\n";
  tree_.write("test_a.py", text);
  index();
  EndpointOptions options;
  options.summary_model = "s";
  const EndpointReport report = ask(options);
  EXPECT_EQ(report.requests, 9U) << "three tests, three times each";
  EXPECT_EQ(report.left, 20U);
  EXPECT_THAT(report.problems, ElementsAre("/v1/chat/completions: down", HasSubstr("given up")));
  EXPECT_EQ(Memory::open_existing(base_ / "m.db")->search(parse_query("3").value(), 9)->found, 1U);
}

}  // namespace
}  // namespace crosscheck::memory
