#include "crosscheck/runner/inventory.h"

#include <gmock/gmock.h>

#include "crosscheck/base/json.h"

#include "crosscheck/runner/protocol.h"
#include "support.h"

namespace crosscheck::runner {
namespace {

using testing::HasSubstr;

Inventory sample() {
  Inventory inventory;
  inventory.suite = {"tree", "/src/pytorch/test", {"test_a.py", "test_b.py"}};
  inventory.device = "refdev";
  inventory.environment = {"0.1.0",      "3.11.7",
                           "2.13.0+cpu", "abc",
                           "8.4.1",      {"refdev", 2, "refdev (CPU)"},
                           "sha256:1",   {{"threads", "2"}, {"blas", "mkl"}}};
  CollectedTest test = make_test("test_a.py", "test_x", true);
  test.id.variant = R"({"device":"refdev:0","dtype":"float32","op":"add"})";
  test.line = 41;
  test.source = "5f0c61aa29d3b8e4";
  test.markers = {"skip", "slow"};
  inventory.tests = {test, make_test("test_b.py", "tést \"quoted\"\n")};
  inventory.errors = {{"test_c.py", "SyntaxError", "invalid syntax", "trace\nback"}};
  inventory.skips = {{"test_d.py", "needs 2 devices"}};
  return inventory;
}

TEST(Inventory, ReadsWhatItWrote) {
  const auto text = to_json_lines(sample());
  const auto read = parse_inventory(text, "inv.jsonl");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, sample());
  EXPECT_EQ(to_json_lines(*read), text);
}

// As probes before wrote it.
TEST(Inventory, AnInventoryMayLackTheSources) {
  auto text = to_json_lines(sample());
  const std::string field = R"("source":"5f0c61aa29d3b8e4",)";
  const auto at = text.find(field);
  ASSERT_NE(at, std::string::npos);
  const auto read = parse_inventory(text.erase(at, field.size()), "inv.jsonl");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tests[0].source, "");
}

TEST(Inventory, NoticesEveryCut) {
  const auto text = to_json_lines(sample());
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_FALSE(parse_inventory(std::string_view{text}.substr(0, length), "inv.jsonl")) << length;
  }
  // Only the last line break may be missing.
  EXPECT_TRUE(parse_inventory(std::string_view{text}.substr(0, text.size() - 1), "inv.jsonl"));
}

TEST(Inventory, NamesTheLineOfAnError) {
  auto text = to_json_lines(sample());
  const auto refuses = [](const std::string& bad, const char* why) {
    const auto read = parse_inventory(bad, "inv.jsonl");
    ASSERT_FALSE(read) << why;
    EXPECT_EQ(read.error().fault, base::Fault::invalid_input);
    EXPECT_THAT(read.error().message, HasSubstr(why));
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    auto changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  refuses("", "empty");
  refuses("[]\n", "inv.jsonl:1");
  refuses(with("\"schema\":1", "\"schema\":2"), "inv.jsonl:1: schema 2 is not known");
  refuses(with("\"line\":41", "\"line\":\"x\""), "inv.jsonl:2: ");
  refuses(with("\"ev\":\"test\"", "\"ev\":\"start\""), "inv.jsonl:2: ");
  refuses(with("{\"end\":4}", "{\"end\":5}"),
          "inv.jsonl:6: the file says that it has 5 entries, but 4");
  refuses(text + "{\"end\":4}\n", "inv.jsonl:7: expected nothing");
  refuses(with("::TestX::test_x", "::TestX::\\ud800"), "inv.jsonl:2");
}

TEST(Inventory, PutsFilesInOrderAndKeepsTheOrderInside) {
  Inventory inventory;
  inventory.tests = {make_test("b.py", "z"), make_test("a.py", "y"), make_test("b.py", "a"),
                     make_test("a.py", "x")};
  ASSERT_TRUE(put_in_order(inventory));
  std::vector<std::string> nodes;
  for (const auto& test : inventory.tests) nodes.push_back(test.node_id);
  EXPECT_THAT(nodes, testing::ElementsAre("a.py::TestX::y", "a.py::TestX::x", "b.py::TestX::z",
                                          "b.py::TestX::a"));
}

TEST(Inventory, RefusesTwoTestsThatAreOne) {
  Inventory inventory;
  inventory.tests = {make_test("a.py", "x"), make_test("a.py", "x")};
  EXPECT_FALSE(put_in_order(inventory));
  inventory.tests[1].node_id += "2";
  const auto same_id = put_in_order(inventory);
  ASSERT_FALSE(same_id);
  EXPECT_THAT(same_id.error().message, HasSubstr("say the same of themselves"));
}

TEST(Inventory, TakesOutTheTestWhoseNameNoStoreKeeps) {
  const std::string nul{"a\0b", 3};
  for (const auto change : {+[](CollectedTest& t, const std::string& s) { t.node_id += s; },
                            +[](CollectedTest& t, const std::string& s) { t.id.file += s; },
                            +[](CollectedTest& t, const std::string& s) { t.id.class_name += s; },
                            +[](CollectedTest& t, const std::string& s) { t.id.method += s; }}) {
    Inventory inventory;
    inventory.tests = {make_test("a.py", "x"), make_test("a.py", "y")};
    change(inventory.tests[0], nul);
    EXPECT_FALSE(put_in_order(inventory));
    drop_unidentifiable(inventory);
    ASSERT_EQ(inventory.tests.size(), 1U);
    EXPECT_EQ(inventory.tests[0].id.method, "y");
    ASSERT_EQ(inventory.errors.size(), 1U);
    EXPECT_THAT(inventory.errors[0].message, HasSubstr("has a NUL character in its name"));
    EXPECT_EQ(inventory.errors[0].message.find('\0'), std::string::npos);
  }
}

TEST(Inventory, IsForOneTorchOneSuiteAndOneDevice) {
  const auto inventory = sample();
  EXPECT_TRUE(check_same_subject(inventory, inventory.environment));
  const auto refused = [&](auto change, const char* then, const char* now) {
    auto found = inventory.environment;
    change(found);
    const auto same = check_same_subject(inventory, found);
    ASSERT_FALSE(same);
    EXPECT_EQ(exit_code(same.error().fault), base::ExitCode::environment);
    EXPECT_THAT(same.error().message, HasSubstr(then));
    EXPECT_THAT(same.error().message, HasSubstr(now));
    EXPECT_FALSE(same.error().remedy.empty());
  };
  refused([](Environment& e) { e.torch = "2.14.1"; }, "2.13.0+cpu", "2.14.1");
  refused([](Environment& e) { e.torch_git = "def"; }, "abc", "def");
  refused([](Environment& e) { e.suite = "sha256:2"; }, "sha256:1", "sha256:2");
  refused([](Environment& e) { e.device.type = "cpu"; }, "refdev", "cpu");
}

TEST(Inventory, DigestsTheEnvironmentByItsFacts) {
  Environment a;
  a.facts = {{"x", "1"}, {"y", "2"}};
  auto b = a;
  b.python = "other";
  EXPECT_EQ(environment_digest(a), environment_digest(b));
  b.facts["y"] = "3";
  EXPECT_NE(environment_digest(a), environment_digest(b));
}

TEST(Protocol, ReadsEveryLineOfTheContract) {
  const std::pair<const char*, std::size_t> lines[] = {
      {R"({"ev":"environment","schema":1,"probe":"0","python":"3","torch":"2","device":{"type":"cpu"},"new":1})",
       0},
      {R"({"ev":"test","node":"a.py::t","file":"a.py","class":"","method":"t","variant":{"b":"1","a":"2"}})",
       1},
      {R"({"ev":"collect_error","file":"a.py","type":"E","message":"m","traceback":"t"})", 2},
      {R"({"ev":"collect_skip","file":"a.py","message":"m"})", 3},
      {R"({"ev":"collecting","file":"a.py"})", 4},
      {R"({"ev":"ready","collected":3})", 5},
      {R"({"ev":"missing","node":"n"})", 6},
      {R"({"ev":"start","node":"n"})", 7},
      {R"({"ev":"finish","node":"n","outcome":"passed","seconds":0.5})", 8},
      {R"({"ev":"end"})", 9},
      {R"({"ev":"observer","observer":"dispatch-mode","note":"why","composites":["aten::linear"]})",
       10},
      {R"({"ev":"internal_error","type":"E","message":"m"})", 11},
      {R"({"ev":"of_tomorrow","x":[]})", 12},
  };
  for (const auto& [line, index] : lines) {
    const auto event = parse_event(line);
    ASSERT_TRUE(event) << line << event.error().message;
    EXPECT_EQ(event->index(), index) << line;
  }
  const auto test = parse_event(lines[1].first);
  EXPECT_EQ(std::get<CollectedTest>(*test).id.variant, R"({"a":"2","b":"1"})");
  const auto finish = parse_event(lines[8].first);
  EXPECT_EQ(std::get<Finish>(*finish).duration, std::chrono::milliseconds{500});
}

TEST(Protocol, ShowsTheLineThatItRefuses) {
  const char* lines[] = {
      "",
      "not JSON at all",
      "[]",
      "7",
      R"({"node":"n"})",
      R"({"ev":1})",
      R"({"ev":"start"})",
      R"({"ev":"start","node":7})",
      R"({"ev":"test","node":"","file":"a.py","method":"t"})",
      R"({"ev":"test","node":"n","file":"a.py","method":"t","variant":[]})",
      R"({"ev":"test","node":"n","file":"a.py","method":"t","markers":[1]})",
      R"({"ev":"test","node":"n","file":"a.py","method":"t","quick":1})",
      R"({"ev":"environment","schema":2,"probe":"0","python":"3","torch":"2","device":{"type":"cpu"}})",
      R"({"ev":"environment","schema":1,"probe":"0","python":"3","torch":"2"})",
      R"({"ev":"environment","schema":1,"probe":"0","python":"3","torch":"2","device":{"type":"cpu"},"facts":{"a":1}})",
      R"({"ev":"finish","node":"n","outcome":"exploded","seconds":0})",
      R"({"ev":"finish","node":"n","outcome":"passed"})",
      R"({"ev":"finish","node":"n","outcome":"passed","seconds":-1})",
      R"({"ev":"finish","node":"n","outcome":"passed","seconds":1e300})",
      R"({"ev":"end"} {"ev":"end"})",
      "{\"ev\":\"start\",\"node\":\"\xff\"}",
  };
  for (const auto* line : lines) {
    const auto event = parse_event(line);
    ASSERT_FALSE(event) << line;
    EXPECT_THAT(event.error().message, HasSubstr(base::to_utf8(std::string{line}.substr(0, 100))));
  }
  const auto event = parse_event(std::string(100000, 'x'));
  ASSERT_FALSE(event);
  EXPECT_LT(event.error().message.size(), 1000U);
}

}  // namespace
}  // namespace crosscheck::runner
