#include "crosscheck/runner/classify.h"

#include <gmock/gmock.h>

#include <pugixml.hpp>
#include <random>

namespace crosscheck::runner {
namespace {

using base::FailureKind;
using base::Outcome;
using testing::HasSubstr;

Finish failed(std::string type, std::string message, std::string traceback = {}) {
  Finish finish;
  finish.node_id = "test_x.py::T::t";
  finish.outcome = Reported::failed;
  finish.phase = "call";
  finish.type = std::move(type);
  finish.message = std::move(message);
  finish.traceback = std::move(traceback);
  return finish;
}

struct Case {
  const char* type;
  const char* message;
  Outcome outcome;
  FailureKind kind;
};

const Case k_cases[] = {
    {"NotImplementedError",
     "Could not run 'aten::cumsum' with arguments from the 'SparseCPU' backend. This could be "
     "because the "
     "operator doesn't exist for this backend, or was omitted during the selective/custom build "
     "process.",
     Outcome::failed, FailureKind::unsupported_operator},
    {"NotImplementedError",
     "The operator 'aten::_foo' is not currently implemented for the MPS device.", Outcome::failed,
     FailureKind::unsupported_operator},
    {"NotImplementedError",
     "There were no tensor arguments to this function (e.g., you passed an empty list of Tensors), "
     "but no "
     "fallback function is registered for schema aten::_cat.",
     Outcome::failed, FailureKind::unsupported_operator},
    {"RuntimeError", "\"geqrf_cpu\" not implemented for 'Half'", Outcome::failed,
     FailureKind::unsupported_dtype},
    {"NotImplementedError", "\"geqrf_cpu\" not implemented for 'Half'", Outcome::failed,
     FailureKind::unsupported_dtype},
    {"AssertionError", "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)",
     Outcome::failed, FailureKind::numerical_mismatch},
    {"AssertionError", "Tensor-likes are not equal!\n\nMismatched elements: 1 / 3 (33.3%)",
     Outcome::failed, FailureKind::numerical_mismatch},
    {"AssertionError", "Scalars are not close!\n\nAbsolute difference: 0.1 (up to 1e-05 allowed)",
     Outcome::failed, FailureKind::numerical_mismatch},
    {"AssertionError", "(i=0) Scalars are not equal!\n\nExpected 1 but got 0.", Outcome::failed,
     FailureKind::numerical_mismatch},
    {"AssertionError",
     "The values for attribute 'shape' do not match: torch.Size([2]) != torch.Size([3]).",
     Outcome::failed, FailureKind::assertion},
    {"AssertionError", "False is not true : flag not set", Outcome::failed, FailureKind::assertion},
    {"AssertionError", "", Outcome::failed, FailureKind::assertion},
    {"torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 MiB.", Outcome::failed,
     FailureKind::out_of_memory},
    {"torch.cuda.OutOfMemoryError", "Tried to allocate 20.00 GiB", Outcome::failed,
     FailureKind::out_of_memory},
    {"RuntimeError", "CUDA error: out of memory", Outcome::failed, FailureKind::out_of_memory},
    {"RuntimeError",
     "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you "
     "tried to "
     "allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)",
     Outcome::failed, FailureKind::out_of_memory},
    {"MemoryError", "", Outcome::failed, FailureKind::out_of_memory},
    {"RuntimeError", "CUDA error: an illegal memory access was encountered", Outcome::failed,
     FailureKind::device_error},
    {"torch.AcceleratorError", "device lost", Outcome::failed, FailureKind::device_error},
    {"RuntimeError", "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", Outcome::failed,
     FailureKind::device_error},
    {"ModuleNotFoundError", "No module named 'scipy'", Outcome::environment_error,
     FailureKind::import_error},
    {"ModuleNotFoundError", "No module named 'torch.refdev'", Outcome::failed,
     FailureKind::import_error},
    {"ModuleNotFoundError", "No module named 'torchvision'", Outcome::environment_error,
     FailureKind::import_error},
    {"ImportError", "cannot import name 'x' from 'torch.nn'", Outcome::failed,
     FailureKind::import_error},
    {"torch._inductor.exc.InvalidCxxCompiler", "No working C++ compiler found in ('g++',)",
     Outcome::environment_error, FailureKind::other},
    {"torch._inductor.exc.CppCompileError",
     "C++ compile error\n\nOutput:\nfatal error: Python.h: No such file or directory",
     Outcome::environment_error, FailureKind::other},
    {"RuntimeError", "/bin/sh: 1: g++: not found", Outcome::environment_error, FailureKind::other},
    {"OSError", "[Errno 28] No space left on device: '/tmp/x'", Outcome::environment_error,
     FailureKind::other},
    {"FileNotFoundError", "[Errno 2] No such file or directory: 'g++'", Outcome::environment_error,
     FailureKind::other},
    {"AttributeError", "module 'torch' has no attribute 'no_such_function'", Outcome::failed,
     FailureKind::other},
    {"", "", Outcome::failed, FailureKind::other},
};

TEST(Classify, KnowsFailuresByTheirRealTexts) {
  for (const auto& c : k_cases) {
    const auto verdict = classify(failed(c.type, c.message));
    EXPECT_EQ(verdict.outcome, c.outcome) << c.type << ": " << c.message;
    EXPECT_EQ(to_string(verdict.kind), to_string(c.kind)) << c.type << ": " << c.message;
    EXPECT_EQ(verdict.fingerprint.size(), 16U) << c.type;
  }
}

// What its author declared a failure is none of ours to call a success.
TEST(Classify, AnUnexpectedSuccessFailsWhereItsAuthorIsStrict) {
  for (const auto& [reason, message] :
       {std::pair{"", "passed, but is marked as a test that must fail"},
        {"Unexpected success", "passed, but is marked as a test that must fail"},
        {"bug 7", "passed, but is marked as a test that must fail: bug 7"}}) {
    const auto event = parse_event(
        R"({"ev":"finish","node":"n","outcome":"xpassed","seconds":0,"strict":true,"message":")" +
        std::string{reason} + R"("})");
    ASSERT_TRUE(event);
    const auto verdict = classify(std::get<Finish>(*event));
    EXPECT_EQ(verdict.outcome, Outcome::failed);
    EXPECT_EQ(verdict.kind, FailureKind::assertion);
    EXPECT_EQ(verdict.message, message);
    EXPECT_EQ(verdict.fingerprint.size(), 16U);
  }
}

TEST(Classify, TakesPytestsVerdict) {
  const std::pair<Reported, Outcome> cases[] = {
      {Reported::passed, Outcome::passed},   {Reported::skipped, Outcome::skipped},
      {Reported::xfailed, Outcome::xfailed}, {Reported::xpassed, Outcome::xpassed},
      {Reported::failed, Outcome::failed},   {Reported::error, Outcome::failed},
  };
  for (const auto& [reported, outcome] : cases) {
    auto finish = failed("ValueError", "why");
    finish.outcome = reported;
    const auto verdict = classify(finish);
    EXPECT_EQ(verdict.outcome, outcome);
    EXPECT_EQ(verdict.fingerprint.empty(), outcome != Outcome::failed);
    if (reported == Reported::skipped) {
      EXPECT_EQ(verdict.message, "why");
    }
  }
}

TEST(Classify, SaysInWhichPhaseItFailed) {
  auto finish = failed("RuntimeError", "setUp broke");
  finish.outcome = Reported::error;
  finish.phase = "setup";
  EXPECT_EQ(classify(finish).message, "in setup: RuntimeError: setUp broke");
}

TEST(Classify, ReadsTheNumbersOfAMismatch) {
  const auto verdict = classify(failed(
      "AssertionError",
      "Tensor-likes are not close!\n\nMismatched elements: 2 / 12 (16.7%)\n"
      "Greatest absolute difference: 0.5 at index (1, 2) (up to 1e-05 allowed)\n"
      "Greatest relative difference: 0.07692307692307693 at index (1, 2) (up to 1.3e-06 allowed)"));
  ASSERT_TRUE(verdict.mismatch);
  EXPECT_EQ(verdict.mismatch->absolute, 0.5);
  EXPECT_EQ(verdict.mismatch->relative, 0.07692307692307693);
  EXPECT_EQ(verdict.mismatch->absolute_tolerance, 1e-05);
  EXPECT_EQ(verdict.mismatch->relative_tolerance, 1.3e-06);
}

TEST(Classify, LeavesOutNumbersThatAreNone) {
  const auto mismatch = parse_mismatch(
      "Tensor-likes are not close!\n\nGreatest absolute difference: nan at index (2,) (up to 1e-08 "
      "allowed)\n"
      "Greatest relative difference: inf at index (2,) (up to 1e-05 allowed)");
  ASSERT_TRUE(mismatch);
  EXPECT_FALSE(mismatch->absolute);
  EXPECT_FALSE(mismatch->relative);
  EXPECT_EQ(mismatch->absolute_tolerance, 1e-08);
  EXPECT_FALSE(parse_mismatch("nothing of the kind"));
  // Integers have no tolerance.
  EXPECT_EQ(parse_mismatch("Greatest absolute difference: 1 at index (2,)")->absolute, 1.0);
}

TEST(Classify, LooksThroughTheHarnessesOwnException) {
  const auto verdict = classify(failed(
      "Exception",
      "Scalars are not close!\n\nExpected 1.0 but got 1.1.\n\nCaused by sample input at index 3: "
      "SampleInput(input=Tensor[size=(5,)])\n\nTo execute this test, run the following from the "
      "base repo dir:",
      "Traceback (most recent call last):\nAssertionError: Scalars are not close!\n\nThe above "
      "exception was "
      "the direct cause of the following exception:\n\nException: Scalars are not close!"));
  EXPECT_EQ(verdict.kind, FailureKind::numerical_mismatch);
  EXPECT_THAT(verdict.message, HasSubstr("sample input at index 3"));
  EXPECT_THAT(verdict.message, testing::StartsWith("AssertionError: Scalars"));
}

TEST(Mismatch, SaysWhereTheGreatestDifferencesAre) {
  const auto found = parse_mismatch(
      "Tensor-likes are not close!\n\nMismatched elements: 2 / 12 (16.7%)\n"
      "Greatest absolute difference: 0.5 at index (1, 2) (up to 1e-05 allowed)\n"
      "Greatest relative difference: 0.25 at index (0,) (up to 1.3e-06 allowed)");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->absolute, 0.5);
  EXPECT_EQ(found->absolute_index, "(1, 2)");
  EXPECT_EQ(found->relative_index, "(0,)");
  EXPECT_EQ(found->relative_tolerance, 1.3e-06);
  const auto scalars = parse_mismatch("Absolute difference: 0.5 (up to 1e-05 allowed)");
  ASSERT_TRUE(scalars);
  EXPECT_EQ(scalars->absolute_index, "");
}

TEST(Classify, FingerprintsOfAlikeFailuresAgree) {
  const std::pair<const char*, const char*> alike[] = {
      {"segfault at 0x7f3a12 in /usr/lib/a.so", "segfault at 0xdeadbeef in /opt/x/a.so"},
      {"expected device refdev:0 but got refdev:1", "expected device refdev:3 but got refdev:0"},
      {"cannot open /tmp/tmpab12/x.pt", "cannot open /tmp/tmpzz/deep/er.pt"},
      {"shape [2, 3] is invalid for input of size 5",
       "shape [1, 2, 3] is invalid for input of size 77"},
      {"mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)",
       "mat1 and mat2 shapes cannot be multiplied (4x3 and 12x3)"},
      {"Scalars are not close!\n\nAbsolute difference: 0.1",
       "Scalars are not close!\n\nAbsolute difference: nan"},
      {"value 1e-05 is out of range", "value -3.5 is out of range"},
  };
  for (const auto& [a, b] : alike) {
    EXPECT_EQ(classify(failed("RuntimeError", a)).fingerprint,
              classify(failed("RuntimeError", b)).fingerprint)
        << normalise(a) << "\n"
        << normalise(b);
  }
  const std::pair<const char*, const char*> different[] = {
      {"Could not run 'aten::add' with arguments from the 'CPU' backend",
       "Could not run 'aten::mul' with arguments from the 'CPU' backend"},
      {"expected float32", "expected float16"},
      {"conv2d failed", "conv3d failed"},
  };
  for (const auto& [a, b] : different) {
    EXPECT_NE(classify(failed("RuntimeError", a)).fingerprint,
              classify(failed("RuntimeError", b)).fingerprint)
        << a;
  }
  EXPECT_NE(classify(failed("RuntimeError", "x")).fingerprint,
            classify(failed("ValueError", "x")).fingerprint);
}

TEST(Classify, NormalisingTwiceIsNormalisingOnce) {
  const std::string_view pieces[] = {"/",   "/tmp/", "0x", "1",   "-", "#",    ", ", " ",
                                     "nan", "e5",    ".",  "a",   "_", "'",    "[",  "]",
                                     ":",   "\n",    "9f", "inf", "(", "{tmp}"};
  std::mt19937 random{7};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n) text += pieces[random() % std::size(pieces)];
    const auto once = normalise(text);
    ASSERT_EQ(normalise(once), once) << text;
  }
}

TEST(Classify, KeepsItsLimitsAndUtf8) {
  const auto verdict = classify(failed("RuntimeError", std::string(100000, 'a') + "\xff\x01",
                                       std::string(1000000, 'b') + "\xc3"));
  EXPECT_LE(verdict.message.size(), std::size_t{4} << 10);
  EXPECT_LE(verdict.detail.size(), std::size_t{64} << 10);
  EXPECT_EQ(classify(failed("E", "a\x1b[31m")).message, "E: a\xEF\xBF\xBD[31m");
}

TEST(Classify, TellsHowAProcessDied) {
  const auto killed = classify_crash({std::nullopt, 9}, "");
  EXPECT_EQ(killed.outcome, Outcome::crashed);
  EXPECT_EQ(killed.kind, FailureKind::signal);
  EXPECT_THAT(killed.message, HasSubstr("memory"));
  const auto thrown = classify_crash({std::nullopt, 6},
                                     "terminate called after throwing an instance of "
                                     "'c10::Error'\n  what():  lost device 3\nmore\n");
  EXPECT_THAT(thrown.message, HasSubstr("SIGABRT"));
  EXPECT_THAT(thrown.message, HasSubstr("what():  lost device 3"));
  EXPECT_THAT(thrown.detail, HasSubstr("Last lines of standard error:\nterminate called"));
  EXPECT_EQ(
      thrown.fingerprint,
      classify_crash({std::nullopt, 6},
                     "terminate called after throwing an instance of 'c10::Error'\n  what():  lost "
                     "device 4\n")
          .fingerprint);
  EXPECT_NE(thrown.fingerprint, classify_crash({std::nullopt, 11}, "").fingerprint);
  EXPECT_EQ(classify_crash({7, std::nullopt}, "").kind, FailureKind::other);
}

TEST(Classify, BlamesNeitherDeviceNorTestForFaults) {
  EXPECT_EQ(classify_harness("x", "OSError: No space left on device").outcome,
            Outcome::environment_error);
  EXPECT_EQ(classify_harness("x", "KeyError").outcome, Outcome::harness_error);
  const auto error = classify_collect_error({"test_x.py", "SyntaxError", "invalid syntax", "tb"});
  EXPECT_EQ(error.outcome, Outcome::harness_error);
  EXPECT_EQ(error.message, "test_x.py does not collect: SyntaxError: invalid syntax");
  EXPECT_EQ(error.detail, "tb");
}

// The messages of a real pytest run over every kind of mismatch.
TEST(Classify, AgreesWithARealRun) {
  const std::string path = std::string{CROSSCHECK_SOURCE_DIR} +
                           "/../shared/data/run-logs/torch1.13.1_pytest7.2.1/outcomes.xml";
  pugi::xml_document document;
  if (!document.load_file(path.c_str())) GTEST_SKIP() << path << " is absent";
  const std::map<std::string, FailureKind> expected{
      {"test_attribute_error_cpu", FailureKind::other},
      {"test_bool_mismatch_cpu", FailureKind::assertion},
      {"test_dtype_mismatch_cpu", FailureKind::assertion},
      {"test_dtype_unimplemented_cpu", FailureKind::unsupported_dtype},
      {"test_import_error_cpu", FailureKind::import_error},
      {"test_int_mismatch_cpu", FailureKind::numerical_mismatch},
      {"test_nested_mismatch_cpu", FailureKind::numerical_mismatch},
      {"test_numeric_mismatch_assert_close_cpu", FailureKind::numerical_mismatch},
      {"test_numeric_mismatch_cpu_float32", FailureKind::numerical_mismatch},
      {"test_scalar_mismatch_cpu", FailureKind::numerical_mismatch},
      {"test_shape_mismatch_cpu", FailureKind::assertion},
      {"test_sparse_unimplemented_cpu", FailureKind::unsupported_operator},
  };
  std::size_t seen = 0;
  for (const auto& node : document.select_nodes("//testcase[failure]")) {
    const auto name = expected.find(node.node().attribute("name").value());
    if (name == expected.end()) continue;
    const std::string text = node.node().child("failure").attribute("message").value();
    const auto colon = text.find(": ");
    const auto verdict = classify(failed(text.substr(0, colon), text.substr(colon + 2)));
    EXPECT_EQ(to_string(verdict.kind), to_string(name->second)) << text.substr(0, 200);
    if (name->second == FailureKind::numerical_mismatch) {
      EXPECT_TRUE(verdict.mismatch) << text;
    }
    ++seen;
  }
  EXPECT_EQ(seen, expected.size());
}

}  // namespace
}  // namespace crosscheck::runner
