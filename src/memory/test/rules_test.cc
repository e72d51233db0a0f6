#include "crosscheck/memory/rules.h"

#include <gmock/gmock.h>

#include "support.h"

namespace crosscheck::memory {
namespace {

using test::source_of;
using testing::HasSubstr;

const char* const k_rules = R"(rules:
  - id: files
    drop: file
    unless: [compile]
    reason: no compile
    where:
      - path: ["dynamo/*"]
      - import: ["torch._dynamo*"]
        path: ["*special*"]
  - id: classes
    drop: class
    unless: [autograd]
    reason: no autograd
    where:
      - base: [GradBase]
      - instantiated: ["*only_for='cuda'*"]
  - id: tests
    drop: test
    unless: ["device:cuda", "device:hip"]
    reason: other devices
    where:
      - decorator: [onlyCUDA]
        name: ["test_b*"]
      - symbol: [nccl]
      - api: ["torch.cuda.*"]
)";

class Rules : public testing::Test {
 protected:
  std::string dropped(std::string path, const std::string& text, std::string_view name,
                      std::set<std::string> lacks) {
    const auto rules = parse_rules(k_rules, "r.yaml");
    EXPECT_TRUE(rules) << rules.error().message;
    const Narrowing narrowing{*rules, lacks};
    const Source source = source_of(std::move(path), text);
    const Verdict verdict = name.empty()
                                ? narrowing.file(source)
                                : narrowing.definition(source, test::find(source.facts, name));
    return verdict ? verdict.rule->id + ": " + verdict.because : "";
  }
};

TEST_F(Rules, EachDropsWhatItSays) {
  const std::set<std::string> all{"compile", "autograd", "device:cuda", "device:hip"};
  EXPECT_EQ(dropped("dynamo/x.py", "", "", all), "files: path dynamo/x.py");
  EXPECT_EQ(dropped("other/x.py", "import torch._dynamo.x\n", "", all), "");
  EXPECT_EQ(dropped("a_special.py", "import torch._dynamo.x\n", "", all),
            "files: import torch._dynamo.x, path a_special.py");
  EXPECT_EQ(dropped("dynamo/x.py", "def test_a(): pass\n", "test_a", all),
            "files: path dynamo/x.py");
  const std::string grad =
      "from m import GradBase\nclass TestA(GradBase):\n    def test_a(self): pass\n    def "
      "help(self): pass\n";
  EXPECT_EQ(dropped("x.py", grad, "TestA", all), "classes: base GradBase");
  EXPECT_EQ(dropped("x.py", grad, "TestA::test_a", all), "classes: base GradBase");
  EXPECT_EQ(
      dropped("x.py", "class TestA:\n    def test_a(self): pass\nmake(TestA, only_for='cuda')\n",
              "TestA::test_a", all),
      "classes: instantiated make(TestA, only_for='cuda')");
  const std::string cuda =
      "import torch\n@m.onlyCUDA(x)\nclass TestC:\n    def test_b1(self): pass\n    def "
      "test_a(self): pass\n"
      "    def test_n(self): self.nccl()\n    def test_api(self): torch.cuda.sync()\n    def "
      "nccl(self): nccl\n";
  EXPECT_EQ(dropped("x.py", cuda, "TestC::test_b1", all),
            "tests: decorator onlyCUDA, name test_b1");
  EXPECT_EQ(dropped("x.py", cuda, "TestC::test_a", all), "");
  EXPECT_EQ(dropped("x.py", cuda, "TestC::test_n", all), "tests: symbol nccl");
  EXPECT_EQ(dropped("x.py", cuda, "TestC::test_api", all), "tests: api torch.cuda.sync");
  EXPECT_EQ(dropped("x.py", cuda, "TestC::nccl", all), "") << "helpers are nobody's tests";
  EXPECT_EQ(dropped("x.py", cuda, "TestC", all), "");
}

TEST_F(Rules, ApplyOnlyWhereAllOfUnlessIsLacking) {
  const std::string text = "class TestA:\n    @onlyCUDA\n    def test_b(self): pass\n";
  EXPECT_NE(dropped("x.py", text, "TestA::test_b", {"device:cuda", "device:hip"}), "");
  EXPECT_EQ(dropped("x.py", text, "TestA::test_b", {"device:cuda"}), "");
  EXPECT_EQ(dropped("dynamo/x.py", text, "", {"device:cuda"}), "");
  EXPECT_EQ(dropped("dynamo/x.py", text, "", {}), "");
}

TEST_F(Rules, DigestsTellWhetherTheSameIsDropped) {
  const auto rules = *parse_rules(k_rules, "r.yaml");
  EXPECT_EQ(Narrowing(rules, {"compile"}).digest(),
            Narrowing(rules, {"compile", "other"}).digest());
  EXPECT_NE(Narrowing(rules, {"compile"}).digest(), Narrowing(rules, {"autograd"}).digest());
}

TEST(RuleFile, TheBuiltInRulesRead) { EXPECT_FALSE(built_in_rules().empty()); }

TEST(RuleFile, ErrorsNamePlaceAndRemedy) {
  const auto error = [](const std::string& text) {
    const auto rules = parse_rules(text, "r.yaml");
    EXPECT_FALSE(rules) << text;
    return rules ? std::string{} : base::to_string(rules.error());
  };
  const auto rule = [](const std::string& rest) {
    return "rules:\n  - id: a\n    drop: test\n    reason: r\n" + rest;
  };
  EXPECT_THAT(error("x: 1\n"), HasSubstr("r.yaml:1:1: expected `rules:`"));
  EXPECT_THAT(error("rules: 3\n"), HasSubstr("expected `rules:`"));
  EXPECT_THAT(error("rules:\n  - 3\n"), HasSubstr("r.yaml:2:5"));
  EXPECT_THAT(error(rule("")), HasSubstr("needs 'where'"));
  EXPECT_THAT(error(rule("    where: []\n")), HasSubstr("r.yaml:5:12"));
  EXPECT_THAT(error(rule("    where:\n      - names: [x]\n")), HasSubstr("did you mean 'name'?"));
  EXPECT_THAT(error(rule("    where:\n      - name: x\n")), HasSubstr("expected a list of texts"));
  EXPECT_THAT(error(rule("    when: x\n    where:\n      - name: [x]\n")),
              HasSubstr("r.yaml:5:5: 'when' is no key here"));
  EXPECT_THAT(error("rules:\n  - {id: a, drop: tests, reason: r, where: [{name: [x]}]}\n"),
              HasSubstr("did you mean 'test'?"));
  EXPECT_THAT(error("rules:\n  - {id: a, drop: file, reason: r, where: [{name: [x]}]}\n"),
              HasSubstr("says nothing of a file"));
  EXPECT_THAT(error("rules:\n  - &a {id: a, drop: test, reason: r, where: [{name: [x]}]}\n"),
              HasSubstr("r.yaml:2"));
  const std::string twice = "  - {id: a, drop: test, reason: r, where: [{name: [x]}]}\n";
  EXPECT_THAT(error("rules:\n" + twice + twice), HasSubstr("r.yaml:3:5: there are two rules 'a'"));
}

TEST(Pattern, StarsAndMarks) {
  for (const auto& [pattern, text, wanted] :
       std::vector<std::tuple<std::string, std::string, bool>>{{"", "", true},
                                                               {"*", "", true},
                                                               {"*", "a/b", true},
                                                               {"a*", "a", true},
                                                               {"a*b", "ab", true},
                                                               {"a*b", "axxb", true},
                                                               {"a*b", "axxc", false},
                                                               {"*x*y", "axbxy", true},
                                                               {"?", "", false},
                                                               {"?b", "ab", true},
                                                               {"a", "ab", false},
                                                               {"ab", "a", false},
                                                               {"**a", "ba", true}})
    EXPECT_EQ(matches(pattern, text), wanted) << pattern << " on " << text;
}

struct BuiltIn {
  const char* lacks;
  const char* path;
  const char* test;  // in `class TestX`, after `import torch`
  const char* rule;  // empty: kept
};

TEST(BuiltInRules, DropWhatTheyMeanAndNothingElse) {
  const std::vector<BuiltIn> table{
      {"autograd", "x.py", "def test_a(self): torch.ones(1).backward()", "no_autograd"},
      {"autograd", "x.py", "def test_a(self): torch.autograd.grad(1)", "no_autograd"},
      {"autograd", "x.py", "def test_a(self): gradcheck(f, x)", "no_autograd"},
      {"autograd", "x.py", "def test_conv_double_backward_3d(self): pass", "no_autograd"},
      {"autograd", "x.py", "def test_no_grad(self): pass", ""},
      {"autograd", "x.py", "def test_gradient(self): torch.gradient(1)", ""},
      {"autograd", "x.py", "def test_a(self): torch.ones(1, requires_grad=False)", ""},
      {"autograd", "test_autograd.py", "def test_a(self): pass", ""},
      {"compile", "x.py", "def test_a(self): torch.compile(f)", "no_compile_test"},
      {"compile", "dynamo/test_a.py", "def test_a(self): pass", "no_compile"},
      {"compile", "test/dynamo/test_a.py", "def test_a(self): pass", "no_compile"},
      {"compile", "x.py", "@skipIfTorchDynamo('x')\n    def test_a(self): pass", ""},
      {"inductor", "inductor/test_a.py", "def test_a(self): pass", "no_inductor"},
      {"amp", "x.py", "def test_a(self): torch.autocast('cpu')", "no_amp_test"},
      {"distributed", "distributed/test_a.py", "def test_a(self): pass", "no_distributed"},
      {"distributed", "distributions/test_a.py", "def test_a(self): pass", ""},
      {"profiler", "x.py", "def test_a(self): torch.profiler.profile()", "no_profiler_test"},
      {"generator", "x.py", "def test_a(self): torch.Generator(device)", "no_generator"},
      {"generator", "x.py", "def test_a(self): torch.manual_seed(1)", ""},
      {"pinned_memory", "x.py", "def test_pin_memory(self): x.pin_memory()", "no_pinned_memory"},
      {"pinned_memory", "x.py", "def test_a(self): f(pin_memory=None)", ""},
      {"sparse_tensors", "x.py", "def test_a(self): x.to_sparse_csr()", "no_sparse_test"},
      {"quantized_tensors", "x.py", "def test_a(self): torch.quantize_per_tensor(x)",
       "no_quantized_test"},
      {"nested_tensors", "x.py", "def test_a(self): torch.nested.nested_tensor([])",
       "no_nested_test"},
      {"jit", "x.py", "def test_a(self): torch.jit.script(f)", "without_jit_test"},
      {"complex", "x.py", "@dtypes(*complex_types())\n    def test_a(self): pass",
       "without_complex_test"},
      {"complex", "x.py", "@dtypes(torch.float, torch.cfloat)\n    def test_a(self): pass", ""},
      {"float64", "x.py", "@dtypes(torch.double)\n    def test_a(self): pass", "without_float64"},
      {"device:cuda", "x.py", "@onlyCUDA\n    def test_a(self): pass", "only_cuda"},
      {"device:cuda", "x.py", "@onlyCUDAAndPRIVATEUSE1\n    def test_a(self): pass", ""},
      {"device:cuda", "x.py", "@skipCUDAIfRocm\n    def test_a(self): pass", ""},
      {"device:cuda", "x.py", "@unittest.skipIf(not TEST_CUDA, 'x')\n    def test_a(self): pass",
       "only_cuda"},
      {"device:cuda", "x.py", "@unittest.skipIf(TEST_CUDA, 'x')\n    def test_a(self): pass", ""},
      {"device:cuda", "test_cuda.py", "def test_a(self): pass", "only_cuda_file"},
      {"device:cpu", "x.py", "@onlyCPU\n    def test_a(self): pass", "only_cpu"},
      {"device:mps", "test_mps.py", "def test_a(self): pass", "only_mps"},
  };
  for (const BuiltIn& row : table) {
    const std::string text = std::string{"import torch\nclass TestX:\n    "} + row.test + "\n";
    const Source source = source_of(row.path, text);
    const auto test = std::ranges::find(source.facts.definitions, Kind::test, &Definition::kind);
    ASSERT_NE(test, source.facts.definitions.end()) << text;
    const Narrowing narrowing{built_in_rules(), {row.lacks}};
    const Verdict verdict = narrowing.definition(source, *test);
    EXPECT_EQ(verdict ? verdict.rule->id : "", row.rule) << row.lacks << ": " << text;
    EXPECT_FALSE(Narrowing(built_in_rules(), {}).definition(source, *test)) << text;
  }
}

}  // namespace
}  // namespace crosscheck::memory
