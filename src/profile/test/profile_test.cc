#include "crosscheck/profile/profile.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "crosscheck/base/temporary_folder.h"
#include "crosscheck/profile/operators.h"

namespace crosscheck::profile {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* k_whole = R"(name: Example backend
device: npu
device_module: torch_npu
extension_points: [dispatcher_kernels, autograd]
scope:
  without: [jit, complex]
  dtypes: [float32, int64]
sources: [src]
documents: [README.md]
operators: [ops.yaml]
tests: [tests]
)";

std::vector<std::string> messages(const Loaded& loaded) {
  std::vector<std::string> all;
  for (const base::Error& finding : loaded.findings)
    all.push_back(finding.message + (finding.remedy.empty() ? "" : " | " + finding.remedy));
  return all;
}

Loaded parse(const std::string& text) { return parse_profile(text, "p.yaml", built_in_points()); }

TEST(Profile, IsReadWhole) {
  const Loaded loaded = parse(k_whole);
  EXPECT_THAT(messages(loaded), IsEmpty());
  ASSERT_TRUE(loaded.profile);
  EXPECT_EQ(loaded.profile->device, "npu");
  EXPECT_TRUE(loaded.profile->uses("autograd"));
  EXPECT_FALSE(loaded.profile->uses("amp"));
  EXPECT_THAT(loaded.profile->without, ElementsAre("complex", "jit"));
  const Loaded again = parse(to_yaml(*loaded.profile));
  EXPECT_THAT(messages(again), IsEmpty());
  EXPECT_EQ(to_json(*again.profile), to_json(*loaded.profile));
}

TEST(Profile, NamesEveryMistakeWithItsPlace) {
  EXPECT_THAT(
      messages(parse(
          "namee: x\ndevice: [a]\nextension_points: [autgrad, amp, amp, [b]]\n"
          "scope: {withot: [], without: [jitt], dtypes: [float33]}\nsources: [/etc, ../x]\n")),
      ElementsAre("p.yaml:1:1: unknown key 'namee' | did you mean 'name'?",
                  "p.yaml:2:9: device: expected text",
                  "p.yaml:3:20: extension_points: there is no 'autgrad' | did you mean 'autograd'?",
                  "p.yaml:3:34: extension_points: 'amp' stands twice",
                  "p.yaml:3:39: extension_points: expected a name",
                  "p.yaml:4:9: scope: unknown key 'withot' | did you mean 'without'?",
                  "p.yaml:4:31: scope.without: there is no 'jitt' | did you mean 'jit'?",
                  "p.yaml:4:47: scope.dtypes: there is no 'float33' | did you mean 'float32'?",
                  HasSubstr("p.yaml:5:11: sources: '/etc' leads out of the profile's folder"),
                  HasSubstr("p.yaml:5:17: sources: '../x' leads out"),
                  HasSubstr("p.yaml:1:1: `name` is missing")));
  EXPECT_THAT(messages(parse("- a\n")), ElementsAre(HasSubstr("p.yaml:1:1: expected a backend's")));
  EXPECT_THAT(messages(parse("a: [\n")), ElementsAre(HasSubstr("p.yaml:")));
  EXPECT_THAT(messages(parse("")), ElementsAre(HasSubstr("expected a backend's profile")));
}

TEST(Profile, WhatItNamesMustBeThere) {
  base::TemporaryFolder folder;
  std::ofstream{folder / "crosscheck.yaml"} << k_whole;
  std::ofstream{folder / "ops.yaml"} << "supported:\n  - add.Tensor(\n  - 'b b'\n";
  fs::create_directory(folder / "src");
  const std::string place = (folder / "crosscheck.yaml").string();
  EXPECT_THAT(messages(check_profile(folder / "crosscheck.yaml", built_in_points())),
              ElementsAre(place + ":9:13: there is no 'README.md' beside the profile",
                          place + ":11:9: there is no 'tests' beside the profile",
                          HasSubstr("ops.yaml:3:5: 'b b' is no operator")));
  EXPECT_THAT(messages(check_profile(folder / "none.yaml", built_in_points())),
              ElementsAre(HasSubstr("none.yaml")));
  const auto refused = load_profile(folder / "crosscheck.yaml", built_in_points());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("README.md"));
  EXPECT_THAT(refused.error().message, HasSubstr("ops.yaml:3:5"));
}

TEST(Profile, OfWhatWasSeenIsOneThatIsRead) {
  Detected found;
  found.device = "npu";
  found.points.push_back({"amp", "", {{"src/a\nb.cc", 3, "x"}, {"c.cc", 4, "y"}}, {}});
  found.points.push_back({"autograd", "", {}, "it follows"});
  found.sources = {"."};
  const std::string text = to_yaml(found, "a \"b\": c");
  const Loaded loaded = parse(text);
  EXPECT_THAT(messages(loaded), IsEmpty()) << text;
  EXPECT_EQ(loaded.profile->name, "a \"b\": c");
  EXPECT_THAT(loaded.profile->extension_points, ElementsAre("amp", "autograd"));
  EXPECT_THAT(text, HasSubstr("  - amp  # src/ab.cc:3 and 1 more\n"));
  EXPECT_THAT(messages(parse(to_yaml(Detected{}, "x"))), IsEmpty());
}

TEST(Profile, IsComparedWithTheSource) {
  Profile profile;
  profile.device = "npu";
  profile.extension_points = {"amp", "hooks"};
  Detected found;
  found.points.push_back({"amp", "", {{"a.cc", 1, "x"}}, {}});
  found.points.push_back({"autograd", "", {}, "it follows"});
  found.points.push_back({"profiler", "", {{"b.cc", 2, "y"}}, {}});
  found.device = "xpu";
  found.device_at = Evidence{"c.py", 3, "z"};
  EXPECT_THAT(compare(profile, "p.yaml", found),
              ElementsAre("b.cc:2: the source uses profiler, which p.yaml does not list: y",
                          "p.yaml: lists hooks, of which the source shows nothing",
                          "c.py:3: the source calls the device xpu, p.yaml calls it npu"));
}

std::vector<std::string> listed(const std::string& text, bool yaml = true) {
  const auto list = parse_operators(text, "o.yaml", yaml);
  if (!list) return {to_string(list.error())};
  std::vector<std::string> all{list->form};
  for (const auto& [op, how] : list->operators) {
    std::string line = op + ":" + std::to_string(how.line) + (how.autograd ? " autograd" : "");
    for (const std::string& dtype : how.dtypes) line += " " + dtype;
    all.push_back(std::move(line));
  }
  return all;
}

TEST(Operators, AreReadInTheFormsThatBackendsKeepThem) {
  EXPECT_THAT(
      listed("backend: NPU\ncpp_namespace: at_npu::native\nsupported:\n  - add.Tensor\n"
             "  - maximum.out:\n    structured: true\n  - func: abs(Tensor self) -> Tensor\n"
             "    op_api: all\nautograd:\n  - max_pool2d\n  - add.Tensor\n"
             "custom:\n  - func: npu::cast(Tensor self) -> Tensor\n"),
      ElementsAre("backend stubs", "aten::abs:7", "aten::add.Tensor:4 autograd",
                  "aten::max_pool2d:10 autograd", "aten::maximum.out:5", "npu::cast:13"));
  EXPECT_THAT(
      listed("- func: add.Tensor(Tensor a) -> Tensor\n  dispatch:\n    CPU, PrivateUse1: k\n"
             "- func: sub.Tensor(Tensor a) -> Tensor\n  dispatch:\n    CPU: k\n"
             "- func: mul(Tensor a) -> Tensor\n  dispatch: {AutogradPrivateUse1: k}\n"
             "- func: t(Tensor a) -> Tensor\n"),
      ElementsAre("native functions", "aten::add.Tensor:1", "aten::mul:7 autograd"));
  EXPECT_THAT(
      listed("- aten.add.Tensor\n- relu.default\n- {op: 'aten::mm', dtypes: [torch.float32]}\n"
             "- operator_name: abs\n  template_name: base\n"),
      ElementsAre("list", "aten::abs:4", "aten::add.Tensor:1", "aten::mm:3 float32",
                  "aten::relu:2"));
  EXPECT_THAT(
      listed("operators:\n  add.Tensor: [float32, bool]\n  mm:\n  abs: {dtypes: [int8]}\n"),
      ElementsAre("list", "aten::abs:4 int8", "aten::add.Tensor:2 float32 bool", "aten::mm:3"));
  EXPECT_THAT(listed("# all\naten::add.Tensor  # one\n\n  mm\r\n", false),
              ElementsAre("lines", "aten::add.Tensor:2", "aten::mm:4"));
  EXPECT_THAT(listed("- a b\n"), ElementsAre(HasSubstr("o.yaml:1:3: 'a b' is no operator")));
  EXPECT_THAT(listed("supported: 3\n"), ElementsAre(HasSubstr("o.yaml:1:12: expected a list")));
  EXPECT_THAT(listed("- {func: a, dispatch: b}\n"), ElementsAre(HasSubstr("dispatch: expected")));
}

}  // namespace
}  // namespace crosscheck::profile
