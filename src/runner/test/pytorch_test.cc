// The real probe in the real PyTorch, on the CPU.
#include <gmock/gmock.h>

#include "crosscheck/runner/run.h"
#include "support.h"

namespace crosscheck::runner {
namespace {

using base::Outcome;
using testing::HasSubstr;

constexpr const char* k_tests = R"(
import ctypes
import unittest
import torch
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests


class TestReal(TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_add(self, device, dtype):
        self.assertEqual(torch.ones(2, device=device, dtype=dtype) + 1, torch.full((2,), 2, dtype=dtype))

    def test_crash(self, device):
        ctypes.string_at(0)

    def test_mismatch(self, device):
        self.assertEqual(torch.tensor([1.0, 2.0], device=device), torch.tensor([1.0, 2.5], device=device))

    @unittest.expectedFailure
    def test_strict(self, device):
        pass

    @unittest.skip("not here")
    def test_skip(self, device):
        pass

    def test_zz_last(self, device):
        pass


instantiate_device_type_tests(TestReal, globals(), only_for="cpu")
)";

ProbeSetup real_probe(std::string root, std::vector<std::string> files) {
  Surroundings surroundings = current_surroundings();
  surroundings.working_directory = CROSSCHECK_SOURCE_DIR;
  ProbeSetup setup;
  setup.python = default_python(surroundings);
  setup.probe_path = std::string{CROSSCHECK_SOURCE_DIR} + "/probe/src";
  setup.suite = {"tree", std::move(root), std::move(files)};
  setup.environment.emplace_back("OMP_NUM_THREADS", "1");
  return setup;
}

bool is_absent(const base::Result<Inventory>& inventory) {
  return !inventory && (inventory.error().message.find("No module named") != std::string::npos ||
                        inventory.error().message.find("cannot start") != std::string::npos);
}

// Files of one base name, one of which kills whoever imports it.
TEST(PyTorch, CollectsAroundADeadlyFileAndThroughOneName) {
  TemporaryFolder folder;
  for (const auto* name : {"suite/x", "suite/y"}) {
    std::filesystem::create_directories(folder / name);
  }
  constexpr const char* k_test = "class TestA:\n    def test_a(self): pass\n";
  std::ofstream{folder / "suite/test_a.py"} << k_test;
  std::ofstream{folder / "suite/x/test_a.py"} << k_test;
  std::ofstream{folder / "suite/y/test_dies.py"} << "import ctypes\nctypes.string_at(0)\n";
  std::ofstream{folder / "suite/test_z.py"} << k_test;
  const auto inventory = collect(
      real_probe(folder / "suite", {"test_a.py", "x/test_a.py", "y/test_dies.py", "test_z.py"}),
      {});
  if (is_absent(inventory)) GTEST_SKIP() << "no PyTorch here: " << inventory.error().message;
  ASSERT_TRUE(inventory) << inventory.error().message;
  std::vector<std::string> nodes;
  for (const auto& test : inventory->tests) nodes.push_back(test.node_id);
  EXPECT_THAT(nodes, testing::ElementsAre("test_a.py::TestA::test_a", "test_z.py::TestA::test_a",
                                          "x/test_a.py::TestA::test_a"));
  ASSERT_EQ(inventory->errors.size(), 1U);
  EXPECT_EQ(inventory->errors[0].file, "y/test_dies.py");
  EXPECT_THAT(inventory->errors[0].message, HasSubstr("SIGSEGV"));
}

TEST(PyTorch, CollectsAndRunsOnTheCpu) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "suite");
  std::ofstream{folder / "suite/test_real.py"} << k_tests;
  const auto setup = real_probe(folder / "suite", {"test_real.py"});
  auto inventory = collect(setup, {});
  if (is_absent(inventory)) GTEST_SKIP() << "no PyTorch here: " << inventory.error().message;
  ASSERT_TRUE(inventory) << inventory.error().message;
  ASSERT_EQ(inventory->tests.size(), 7U);
  EXPECT_EQ(inventory->tests[0].id.class_name, "TestReal");
  EXPECT_THAT(inventory->tests[0].id.variant, HasSubstr(R"("dtype":"float32")"));

  RunRequest request;
  request.setup = setup;
  request.environment = inventory->environment;
  request.inventory = std::move(*inventory);
  request.workers = 1;
  const auto report = run(request);
  ASSERT_TRUE(report) << report.error().message;
  std::map<std::string, const base::TestResult*> by_method;
  for (const auto& result : report->results.results) by_method[result.id.method] = &result;
  const auto counts = report->results.counts();
  EXPECT_EQ(counts.total(), 7);
  EXPECT_EQ(counts[Outcome::passed], 3);
  EXPECT_EQ(by_method.at("test_crash")->outcome, Outcome::crashed);
  EXPECT_THAT(by_method.at("test_crash")->detail, HasSubstr("Segmentation fault"));
  EXPECT_EQ(by_method.at("test_mismatch")->outcome, Outcome::failed);
  EXPECT_EQ(by_method.at("test_mismatch")->kind, base::FailureKind::numerical_mismatch);
  ASSERT_TRUE(by_method.at("test_mismatch")->mismatch);
  EXPECT_EQ(by_method.at("test_mismatch")->mismatch->absolute, 0.5);
  EXPECT_EQ(by_method.at("test_strict")->outcome, Outcome::failed);
  EXPECT_THAT(by_method.at("test_strict")->message, HasSubstr("must fail"));
  EXPECT_EQ(by_method.at("test_skip")->outcome, Outcome::skipped);
  EXPECT_EQ(by_method.at("test_skip")->message, "not here");
  EXPECT_EQ(by_method.at("test_zz_last")->outcome, Outcome::passed);
}

}  // namespace
}  // namespace crosscheck::runner
