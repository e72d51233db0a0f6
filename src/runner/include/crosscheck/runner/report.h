#pragma once

#include <string>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/runner/dispatcher.h"

// What people and machines are shown of a run. Pure.
namespace crosscheck::runner {

// JUnit XML: a testsuite a file, a testcase a test (its latest attempt). failed, crashed and
// timed_out are <failure>, environment and harness errors <error>, skipped, xfailed and not_run
// <skipped>; earlier attempts as Surefire has them. docs/formats.md has the properties.
[[nodiscard]] std::string to_junit(const base::RunResults& run);

struct Files {
  std::string junit;  // empty: not written
  std::string results;
  std::string store;  // without a password
};

// Counts, failures with the first line of their message (at most 20, then how many more), and where
// the files lie.
[[nodiscard]] std::string summary_text(const base::RunResults& run, const Files& files,
                                       bool interrupted);
[[nodiscard]] base::json::object summary_json(const base::RunResults& run, const Files& files,
                                              bool interrupted);

// One line of at most `width` columns: done/total, failures, elapsed, estimate, what runs.
[[nodiscard]] std::string progress_line(const Progress& progress, base::Duration elapsed,
                                        std::size_t width);
// "FAILED test_x.py::… : first line of the message", for a failure or fault.
[[nodiscard]] std::string failure_line(const base::TestResult& result);

}  // namespace crosscheck::runner
