#include "crosscheck/base/run_results.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "crosscheck/base/json.h"

namespace crosscheck::base {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

RunResults sample() {
  RunResults run;
  run.header = {.run_id = "r1",
                .combination = {"refdev", "abc", "2.13.0", "sha", "refdev (CPU)", "env"},
                .command = {"crosscheck", "run", "--device", "ref dev"},
                .selection = "bundled suite, quick set",
                .started_at = from_micros(1'777'927'708'000'001),
                .finished_at = from_micros(1'777'927'768'000'000),
                .environment = {{"threads", "2"}, {"blas", "mkl"}},
                .config = {{"tests.yaml", "d16e57"}, {"shared/ops.yaml", "0b5"}},
                .observe = true,
                .shard = "2/4:7-9:0f3a",
                .imported = true,
                .interrupted = true,
                .merged = {{"r0", "1/4:0-7:0f3a", true}, {"r9", "", false}}};
  run.results = {
      {.id = {"test_ops.py", "TestOps", "test_forward", R"({"dtype":"float32","op":"add"})"},
       .node_id = "test_ops.py::TestOpsREFDEV::test_forward_add",
       .attempt = 1,
       .outcome = Outcome::failed,
       .kind = FailureKind::numerical_mismatch,
       .fingerprint = "f00",
       .message = "Tensor-likes are not close!\n\xE6\x97\xA5 \x1b[0m",
       .detail = "Traceback",
       .duration = Duration{12'345},
       .mismatch = Mismatch{.absolute = 0.25,
                            .relative = std::numeric_limits<double>::infinity(),
                            .absolute_tolerance = {},
                            .relative_tolerance = 0.5,
                            .absolute_index = "(1, 2)",
                            .relative_index = "(0, 0)",
                            .dtype = "float32"},
       .governed = Governed{.mode = Mode::mandatory_success,
                            .basis = "listed",
                            .place = "tests.yaml:7:9",
                            .observed = Outcome::failed},
       .leak = Leak{.host = 300'000'000, .device = 7}},
      {.id = {"test_ops.py", "TestOps", "test_forward", R"({"dtype":"float32","op":"add"})"},
       .node_id = "test_ops.py::TestOpsREFDEV::test_forward_add",
       .attempt = 2,
       .outcome = Outcome::passed,
       .duration = Duration{9}},
      {.id = {"test_x.py", "", "test_function", "{}"}, .outcome = Outcome::not_run},
  };
  return run;
}

void expect_equal(const RunResults& a, const RunResults& b) {
  EXPECT_EQ(a.header.run_id, b.header.run_id);
  EXPECT_EQ(a.header.combination, b.header.combination);
  EXPECT_EQ(a.header.command, b.header.command);
  EXPECT_EQ(a.header.selection, b.header.selection);
  EXPECT_EQ(a.header.started_at, b.header.started_at);
  EXPECT_EQ(a.header.finished_at, b.header.finished_at);
  EXPECT_EQ(a.header.environment, b.header.environment);
  EXPECT_EQ(a.header.config, b.header.config);
  EXPECT_EQ(a.header.observe, b.header.observe);
  EXPECT_EQ(a.header.shard, b.header.shard);
  EXPECT_EQ(a.header.imported, b.header.imported);
  EXPECT_EQ(a.header.interrupted, b.header.interrupted);
  EXPECT_TRUE(a.header.merged == b.header.merged);
  EXPECT_TRUE(a.results == b.results);
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string error_of(std::string_view text) {
  const auto run = parse_run_results(text);
  if (run) return "no error";
  EXPECT_EQ(run.error().fault, Fault::invalid_input);
  return run.error().message;
}

TEST(RunResults, RoundTrip) {
  const RunResults run = sample();
  const auto again = parse_run_results(to_json_lines(run));
  ASSERT_TRUE(again) << again.error().message;
  expect_equal(run, *again);
}

TEST(RunResults, RoundTripOfRandomRuns) {
  std::mt19937_64 random{11};
  const auto text = [&random] {
    std::string bytes(random() % 12, '\0');
    for (char& c : bytes) c = static_cast<char>(random() & 255);
    return to_utf8(bytes);
  };
  for (int i = 0; i < 300; ++i) {
    RunResults run;
    run.header = {.run_id = text(),
                  .combination = {text(), text(), text(), text(), text(), text()},
                  .command = {text(), text()},
                  .selection = text(),
                  .started_at = from_micros(static_cast<std::int64_t>(random() >> 13)),
                  .finished_at = from_micros(static_cast<std::int64_t>(random() >> 13)),
                  .environment = {{"a" + text(), text()}}};
    for (auto n = random() % 5; n > 0; --n) {
      TestResult result{
          .id = {text(), text(), text(), canonical_json(json::object{{text(), text()}})},
          .node_id = text(),
          .attempt = static_cast<int>(1 + random() % 9),
          .outcome = static_cast<Outcome>(random() % k_outcome_count),
          .kind = static_cast<FailureKind>(random() % 11),
          .fingerprint = text(),
          .message = text(),
          .detail = text(),
          .duration = Duration{static_cast<std::int64_t>(random() >> 20)}};
      if (random() % 2 == 0) {
        result.mismatch = Mismatch{.absolute = static_cast<double>(random() % 1000) / 16};
        result.governed = Governed{.mode = static_cast<Mode>(random() % k_modes.size()),
                                   .basis = text(),
                                   .place = text(),
                                   .observed = static_cast<Outcome>(random() % k_outcome_count)};
      }
      result.id.method += std::to_string(n);  // no two are one
      run.results.push_back(std::move(result));
    }
    const std::string lines = to_json_lines(run);
    const auto again = parse_run_results(lines);
    ASSERT_TRUE(again) << again.error().message << "\n" << lines;
    expect_equal(run, *again);
    EXPECT_EQ(to_json_lines(*again), lines);
  }
}

TEST(RunResults, EveryCutIsNoticed) {
  const std::string lines = to_json_lines(sample());
  // The last newline alone carries nothing.
  for (std::size_t n = 0; n + 1 < lines.size(); ++n) {
    EXPECT_FALSE(parse_run_results(std::string_view{lines}.substr(0, n))) << n;
  }
  EXPECT_THAT(error_of(""), HasSubstr("empty"));
  EXPECT_THAT(error_of(lines.substr(0, lines.rfind("{\"end\""))), HasSubstr("cut off"));
}

TEST(RunResults, ErrorsNameLineAndField) {
  const std::string lines = to_json_lines(sample());
  struct Case {
    std::string_view from, to, says;
  };
  for (const auto& [from, to, says] : {
           Case{R"("run_id":"r1")", R"("run_id":1)",
                "run results:1: field run_id: expected text, found an integer"},
           Case{R"("backend":"refdev",)", "",
                "run results:1: field combination.backend: expected text, found nothing"},
           Case{R"("command":[)", R"("command":[7,)", "run results:1: field command: "},
           Case{"2026-05-04T20", "2026-05-99T20", "run results:1: field started_at: "},
           Case{R"("threads":"2")", R"("threads":2)", "run results:1: field environment.threads: "},
           Case{R"("outcome":"failed")", R"("outcome":"broken")",
                "run results:2: field outcome: 'broken'"},
           Case{R"("kind":"num)", R"("kind":"Num)", "run results:2: field kind: "},
           Case{R"("attempt":2)", R"("attempt":0)",
                "run results:3: field attempt: 0 is not between"},
           Case{R"("attempt":2)", R"("attempt":4294967297)", "run results:3: field attempt: "},
           Case{R"("duration_us":9)", R"("duration_us":-9)", "run results:3: field duration_us: "},
           Case{R"("duration_us":9)", R"("duration_us":9223372036854775807)",
                "run results:3: field duration_us: "},
           Case{R"("attempt":2)", R"("attempt":1)",
                "run results:3: attempt 1 of test_ops.py::TestOps::test_forward"},
           Case{R"("absolute":)", R"("absolute":"x","other":)",
                "run results:2: field mismatch.absolute: "},
           Case{R"x("absolute_index":"(1, 2)")x", R"("absolute_index":3)",
                "run results:2: field mismatch.absolute_index: "},
           Case{R"("mode":"mand)", R"("mode":"Mand)", "run results:2: field governed.mode: "},
           Case{R"("observed":"failed")", R"("observed":null)",
                "run results:2: field governed.observed: "},
           Case{R"("governed":{)", R"("governed":[],"g":{)", "run results:2: field governed: "},
           Case{R"("leak":{"host":3)", R"("leak":{"host":-3)", "run results:2: field leak.host: "},
           Case{R"("config":[{"path")", R"("config":[{"p")", "run results:1: field config: "},
           Case{R"("config":[)", R"("config":7,"c":[)", "run results:1: field config: "},
           Case{R"("observe":true)", R"("observe":1)", "run results:1: field observe: "},
           Case{R"("variant":{)", R"("variant":[],"v":{)", "run results:2: field variant: "},
           Case{R"({"end":3})", R"({"end":2})",
                "run results:5: field end: 2 results are announced, 3 are there"},
           Case{R"({"end":3})", R"({"end":"3"})", "run results:5: field end: "},
           Case{R"({"end":3})", "\n{\"end\":3}", "run results:5:1: "},
           Case{R"({"end":3})", "[]", "run results:5: expected a JSON object"},
           Case{R"({"end":3})", "{\"end\":3}\n{\"end\":3}", "run results:6: something follows"},
           Case{R"("file":"test_x.py")", R"("file" "test_x.py")", "run results:4:"},
       }) {
    EXPECT_THAT(error_of(replaced(lines, from, to)), StartsWith(std::string{says}));
  }
}

TEST(RunResults, NoTextHoldsANul) {
  const std::string lines = to_json_lines(sample());
  for (const auto& [line, field] : {std::pair{1, "run_id"},
                                    {1, "backend"},
                                    {1, "backend_revision"},
                                    {1, "core_revision"},
                                    {1, "suite_revision"},
                                    {1, "device"},
                                    {1, "environment_digest"},
                                    {1, "selection"},
                                    {1, "shard"},
                                    {2, "file"},
                                    {2, "class"},
                                    {2, "method"},
                                    {2, "node"},
                                    {2, "fingerprint"},
                                    {2, "message"},
                                    {2, "detail"}}) {
    const std::string key = fmt::format("\"{}\":\"", field);
    const auto begin = line == 1 ? 0 : lines.find('\n');
    const auto at = lines.find(key, begin);
    ASSERT_NE(at, std::string::npos) << field;
    std::string with = lines;
    with.insert(at + key.size(), "\\u0000");
    EXPECT_THAT(error_of(with), AllOf(StartsWith(fmt::format("run results:{}: field ", line)),
                                      HasSubstr(fmt::format("{}: holds a NUL", field))));
  }
}

TEST(RunResults, NewerSchemaIsRefusedWithBothNumbers) {
  const auto run =
      parse_run_results(replaced(to_json_lines(sample()), R"("schema":1)", R"("schema":2)"));
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message, HasSubstr("schema 2 is newer than 1"));
  EXPECT_FALSE(run.error().remedy.empty());
}

TEST(RunResults, UnknownKeysAreIgnored) {
  const RunResults run = sample();
  std::string lines = replaced(to_json_lines(run), R"({"schema":1)", R"({"later":[1],"schema":1)");
  lines = replaced(lines, R"("attempt":2)", R"("attempt":2,"later":{})");
  expect_equal(parse_run_results(lines).value(), run);
}

TEST(RunResults, LongTextsAreCutAtACharacter) {
  RunResults run = sample();
  run.results[0].message = "x";
  for (int i = 0; i < 3000; ++i) run.results[0].message += "é";
  run.results[0].detail = std::string(100'000, 'd');
  const auto again = parse_run_results(to_json_lines(run));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->results[0].message.size(), 4095U);
  EXPECT_TRUE(is_utf8(again->results[0].message));
  EXPECT_EQ(again->results[0].detail.size(), 65'536U);
  // A writer of somebody else's does not cut: reading does.
  const std::string foreign =
      replaced(to_json_lines(sample()), "Traceback", std::string(70'000, 'd'));
  EXPECT_EQ(parse_run_results(foreign).value().results[0].detail.size(), 65'536U);
}

TEST(RunResults, BytesThatAreNotUtf8StillMakeAFile) {
  RunResults run = sample();
  run.results[0].message = "\xff\xfe";
  run.header.command.emplace_back("\x80");
  EXPECT_TRUE(parse_run_results(to_json_lines(run)));
}

TEST(RunResults, NotANumberSurvives) {
  RunResults run = sample();
  run.results[0].mismatch->absolute = std::nan("");
  const auto again = parse_run_results(to_json_lines(run));
  ASSERT_TRUE(again);
  EXPECT_TRUE(std::isnan(again->results[0].mismatch->absolute.value()));
}

TEST(RunResults, CountsTheLatestAttemptOfEachTest) {
  RunResults run = sample();
  OutcomeCounts expected;
  expected.add_flaky();  // its second attempt passed
  expected.add(Outcome::not_run);
  EXPECT_EQ(run.counts(), expected);
  std::swap(run.results[0], run.results[1]);  // the order of the lines says nothing
  EXPECT_EQ(run.counts(), expected);
  // The node is an address, not an identity.
  run.results.push_back(run.results[1]);
  run.results.back().node_id = "other";
  EXPECT_EQ(run.counts(), expected);
}

TEST(RunResults, FlakyIsWhatEndsWellAfterAFailure) {
  struct Case {
    std::vector<Outcome> attempts;
    bool flaky;
  };
  for (const auto& [attempts, flaky] : {
           Case{{Outcome::failed, Outcome::passed}, true},
           Case{{Outcome::crashed, Outcome::timed_out, Outcome::xfailed}, true},
           Case{{Outcome::failed, Outcome::skipped}, true},
           Case{{Outcome::failed, Outcome::failed}, false},
           Case{{Outcome::failed, Outcome::environment_error}, false},
           Case{{Outcome::environment_error, Outcome::passed}, false},
           Case{{Outcome::passed, Outcome::failed}, false},
           Case{{Outcome::xfailed, Outcome::passed}, false},
           Case{{Outcome::failed, Outcome::not_run}, false},
       }) {
    RunResults run;
    for (std::size_t i = 0; i < attempts.size(); ++i) {
      run.results.push_back({.id = {"test_x.py", "", "test_a", "{}"},
                             .attempt = static_cast<int>(i + 1),
                             .outcome = attempts[i]});
    }
    for (int order = 0; order < 2; ++order) {
      ASSERT_EQ(run.tested().size(), 1U);
      EXPECT_EQ(run.tested()[0].flaky, flaky) << to_string(attempts.back());
      EXPECT_EQ(run.tested()[0].latest->outcome, attempts.back());
      EXPECT_EQ(run.counts().flaky(), flaky ? 1 : 0);
      EXPECT_EQ(run.counts()[attempts.back()], flaky ? 0 : 1);
      EXPECT_EQ(run.counts().total(), 1);
      std::ranges::reverse(run.results);
    }
  }
}

TEST(RunResults, CountsReadBack) {
  OutcomeCounts counts;
  for (std::size_t i = 0; i < k_outcome_count; ++i) {
    counts.add(static_cast<Outcome>(i), static_cast<std::int64_t>(i));
  }
  counts.add_flaky(5);
  const json::object object = to_json(counts);
  EXPECT_FALSE(object.contains("passed"));  // none
  EXPECT_EQ(object.at("flaky"), 5);
  EXPECT_EQ(read_counts(object), counts);
  EXPECT_EQ(read_counts({{"later", 3}, {"failed", "x"}}), OutcomeCounts{});
}

// Identities are looked up by index, and an index has little room for a row.
TEST(RunResults, OverlongIdentitiesAreRefused) {
  struct Case {
    const char* field;
    std::size_t limit;
    std::function<void(RunResults&, std::string)> set;
  };
  for (const auto& [field, limit, set] : {
           Case{"run_id", 256,
                [](RunResults& r, std::string t) { r.header.run_id = std::move(t); }},
           Case{"file", 1024, [](RunResults& r, std::string t) { r.results[0].id.file = t; }},
           Case{"class", 512, [](RunResults& r, std::string t) { r.results[0].id.class_name = t; }},
           Case{"method", 512, [](RunResults& r, std::string t) { r.results[0].id.method = t; }},
           Case{"variant", 4096,
                [](RunResults& r, std::string t) {
                  constexpr std::size_t k_around = 8;  // {"x":""}
                  r.results[0].id.variant = R"({"x":")" + t.substr(k_around) + R"("})";
                }},
           Case{"shard", 128, [](RunResults& r, std::string t) { r.header.shard = t; }},
           Case{"fingerprint", 128,
                [](RunResults& r, std::string t) { r.results[0].fingerprint = t; }},
       }) {
    RunResults run = sample();
    set(run, std::string(limit, 'x'));
    EXPECT_EQ(error_of(to_json_lines(run)), "no error") << field;
    set(run, std::string(limit + 1, 'x'));
    EXPECT_THAT(error_of(to_json_lines(run)), HasSubstr(std::string{"field "} + field + ": "));
  }
}

TEST(RunResults, TheFirstRepetitionIsNamedWithBothLines) {
  RunResults run = sample();
  run.results.push_back(run.results[2]);
  run.results.push_back(run.results[0]);
  run.results.back().node_id = "other";
  EXPECT_EQ(error_of(to_json_lines(run)),
            "run results:5: attempt 1 of test_x.py::test_function stands on line 4 already");
}

TEST(Combination, DigestSeparatesFields) {
  const Combination a{"ab", "c", "d", "e", "f", "g"};
  Combination b = a;
  EXPECT_EQ(a.digest(), b.digest());
  EXPECT_EQ(a.digest().size(), 64U);
  b = {"a", "bc", "d", "e", "f", "g"};
  EXPECT_NE(a.digest(), b.digest());
  b = a;
  b.environment_digest = "h";
  EXPECT_NE(a.digest(), b.digest());
  EXPECT_EQ(a.digest(), "0493e85ba2187bbbb339f89b297cb615ff462086914ea529c517fde7d8a936a8");
}

TEST(TestId, DigestSeparatesFields) {
  EXPECT_EQ((TestId{"a", "b", "c", "{}"}.digest().size()), 64U);
  EXPECT_NE((TestId{"a", "b", "c", "{}"}.digest()), (TestId{"ab", "", "c", "{}"}.digest()));
  EXPECT_NE((TestId{"a", "b", "c", "{}"}.digest()), (TestId{"a", "", "bc", "{}"}.digest()));
}

TEST(TestId, ReadsLikeANodeId) {
  EXPECT_EQ(to_string(TestId{"a/test_x.py", "TestX", "test_y", R"({"op":"add"})"}),
            R"(a/test_x.py::TestX::test_y{"op":"add"})");
  EXPECT_EQ(to_string(TestId{"test_x.py", "", "test_y", "{}"}), "test_x.py::test_y");
}

}  // namespace
}  // namespace crosscheck::base
