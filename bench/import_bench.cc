// How fast a large JUnit file is read, and in how much memory. scripts/bench builds and runs it.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>

#include "crosscheck/base/temporary_folder.h"
#include "crosscheck/runner/import.h"
#include "crosscheck/runner/junit_read.h"
#include "figures.h"

namespace crosscheck::bench {
namespace {

constexpr int k_cases = 100'000;

// What pytest writes of PyTorch's tests: every twentieth failed, every fifth was skipped.
void write_report(const std::string& path) {
  std::ofstream out{path};
  out << R"(<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest">)";
  const std::string mismatch =
      "Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)";
  std::string traceback;
  for (int frame = 0; frame < 8; ++frame) {
    traceback += fmt::format(
        "  File \"/usr/lib/python3/dist-packages/torch/testing/_internal/common_device_type.py\", "
        "line {}, in instantiated_test\n    result = test(self, **param_kwargs)\n",
        400 + frame);
  }
  for (int i = 0; i < k_cases; ++i) {
    out << fmt::format(
        R"(<testcase classname="test.test_{}.TestCommonPRIVATEUSE1" name="test_forward_op{}_npu_float32" time="0.0{:02}">)",
        i / 1000, i, i % 100);
    if (i % 20 == 0) {
      out << "<failure message=\"AssertionError: Tensor-likes are not close!&#10;&#10;" << mismatch
          << "\">" << traceback << "E       AssertionError: Tensor-likes are not close!\nE       \n"
          << "E       " << mismatch << "\n\ntest_ops.py:512: AssertionError</failure>";
    } else if (i % 5 == 1) {
      out << R"(<skipped type="pytest.skip" message="no gradgrad">/x/test_ops.py:12</skipped>)";
    }
    out << "</testcase>";
  }
  out << "</testsuite></testsuites>";
  if (!out.flush()) give_up("cannot write " + path);
}

struct Measured {
  double seconds = 0;  // of processor time
  double megabytes = 0;
};

// In a process of its own, so that its memory is its own.
Measured measure(const std::function<std::size_t()>& work) {
  int pipe[2];
  if (::pipe(pipe) != 0) give_up("no pipe");
  const auto child = ::fork();
  if (child < 0) give_up("no process");
  if (child == 0) {
    rusage before{};
    ::getrusage(RUSAGE_SELF, &before);
    const bool whole = work() == k_cases;
    rusage after{};
    ::getrusage(RUSAGE_SELF, &after);
    const auto spent = [](const rusage& usage) {
      return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
             static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    };
    const double seconds = spent(after) - spent(before);
    const auto written = ::write(pipe[1], &seconds, sizeof seconds);
    ::_exit(whole && written == sizeof seconds ? 0 : 1);
  }
  ::close(pipe[1]);
  Measured measured;
  const auto got = ::read(pipe[0], &measured.seconds, sizeof measured.seconds);
  ::close(pipe[0]);
  int status = 0;
  rusage usage{};
  if (::wait4(child, &status, 0, &usage) != child || status != 0 ||
      got != sizeof measured.seconds) {
    give_up("not all cases were read");
  }
  measured.megabytes = static_cast<double>(usage.ru_maxrss) / 1024;
  return measured;
}

std::size_t parse(const std::string& path) {
  std::size_t cases = 0;
  runner::JunitParser parser{path,
                             {[&](runner::JunitCase&) { ++cases; }, [](runner::JunitSuite&) {}}};
  std::ifstream in{path, std::ios::binary};
  std::string block(std::size_t{256} << 10, '\0');
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    if (!parser.feed({block.data(), static_cast<std::size_t>(in.gcount())})) return 0;
  }
  return parser.finish() ? cases : 0;
}

std::size_t import(const std::string& path) {
  const auto imported = runner::import_runs({path}, {}, base::Time{});
  return imported ? imported->run.results.size() : 0;
}

int run(const std::string& out, bool check) {
  const base::TemporaryFolder folder;
  const std::string path = folder / "junit.xml";
  write_report(path);
  const Measured parsed = measure([&] { return parse(path); });
  const Measured imported = measure([&] { return import(path); });
  Figures figures;
  figures.add({.name = "JUnit of 100,000 cases parsed, processor time",
               .unit = "s",
               .ours = parsed.seconds,
               .wanted = 0.3});
  figures.add(
      {.name = "JUnit of 100,000 cases parsed, memory", .unit = "MB", .ours = parsed.megabytes});
  figures.add({.name = "JUnit of 100,000 cases imported, processor time",
               .unit = "s",
               .ours = imported.seconds});
  figures.add({.name = "JUnit of 100,000 cases imported, memory",
               .unit = "MB",
               .ours = imported.megabytes});
  figures.print();
  if (!out.empty()) figures.save(out, {});
  return check && !figures.hold() ? 1 : 0;
}

}  // namespace
}  // namespace crosscheck::bench

int main(int argc, char** argv) {
  std::string out;
  bool check = false;
  CLI::App app{"Measures imports; scripts/bench runs it"};
  app.add_option("--out", out, "Where the figures go, as JSON");
  app.add_flag("--check", check, "Exit with 1 when a figure is missed");
  CLI11_PARSE(app, argc, argv);
  try {
    return crosscheck::bench::run(out, check);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench: %s\n", error.what());
    return 4;
  }
}
