#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "crosscheck/base/temporary_folder.h"
#include "crosscheck/ops/trace.h"

namespace crosscheck::ops {

inline TraceHeader make_header() {
  TraceHeader header;
  header.build = {"2.13.0+cpu", "abc", "cpu", "sha256:1"};
  header.python = "3.11.7";
  header.observer = "record-function";
  header.composites = {"aten::linear"};
  header.aliases = {{"aten::special_expit", "aten::sigmoid"}};
  header.delegates = {{"aten::add.Tensor", "aten::add.out"}};
  return header;
}

inline base::OperatorCounts& in(base::Operators& operators, base::Phase phase) {
  return operators.phases[static_cast<std::size_t>(phase)];
}

// Uses `operators` once each in its forward phase; they must be in order of name.
inline TracedTest make_test(const std::string& method, const std::vector<std::string>& operators,
                            const std::string& dtype = "float32") {
  TracedTest test;
  test.id = {"test_a.py", "TestA", method, R"({"dtype":")" + dtype + R"("})"};
  test.node_id = "test_a.py::TestACPU::" + method + "_cpu_" + dtype;
  test.outcome = base::Outcome::passed;
  test.operators.emplace();
  for (const auto& name : operators)
    in(*test.operators, base::Phase::forward).emplace_back(name, 1);
  return test;
}

inline std::string to_text(const TraceHeader& header, const std::vector<TracedTest>& tests) {
  std::string text = header_line(header) + "\n";
  for (const auto& test : tests) text += test_line(test) + "\n";
  return text + end_line(tests.size()) + "\n";
}

inline std::string write_file(const std::string& path, const std::string& text) {
  std::ofstream{path, std::ios::binary} << text;
  return path;
}

inline std::string write_trace(const std::string& path, const std::vector<TracedTest>& tests,
                               const TraceHeader& header = make_header()) {
  return write_file(path, to_text(header, tests));
}

}  // namespace crosscheck::ops
