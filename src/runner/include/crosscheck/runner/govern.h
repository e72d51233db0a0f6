#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/runner/inventory.h"

// A run on a test configuration. What that says comes as plain values: the runner knows no
// configuration. Pure.
namespace crosscheck::runner {

// What is said of one collected test.
struct Rule {
  base::Governed governed;  // `observed` is filled in once it has run
  std::string reason;       // why it has its mode, for people
};

struct Governing {
  std::vector<base::ConfigFile> files;
  std::vector<Rule> rules;  // of the inventory's tests, in their order; none: no configuration
};

struct GovernOptions {
  bool observe = false;     // run everything, to score the configuration
  bool skip_xfail = false;  // leave out what may fail
};

// What becomes of a selected test.
enum class Fate : std::uint8_t {
  run,
  skipped,  // the configuration says so
  not_run,  // an option says so, or the configuration does not have its file
};
// Of each of `selected`; without rules all are run.
[[nodiscard]] std::vector<Fate> fates(const std::vector<std::size_t>& selected,
                                      const Governing& governing, const GovernOptions& options);

// `invalid_input` that says why, where a configuration lists none of the tests selected, so that
// nothing at all would be run.
[[nodiscard]] base::Result<void> check_lists_any(const std::vector<CollectedTest>& tests,
                                                 const std::vector<std::size_t>& selected,
                                                 const Governing& governing,
                                                 const GovernOptions& options);

// The result of a test that is left out, with the reason.
[[nodiscard]] base::TestResult left_out(const CollectedTest& test, const Rule& rule, Fate fate);

// How the tests of one mode ended.
struct ModeScore {
  std::int64_t total = 0;
  std::int64_t passed = 0;    // by what they did, not by what it means
  std::int64_t failed = 0;    // likewise
  std::int64_t flaky = 0;     // in neither of the two
  std::int64_t faults = 0;    // environment and harness
  std::int64_t not_run = 0;   // left out, or interrupted
  std::int64_t unlisted = 0;  // of `total`: that only unlisted_test_mode governs
  friend bool operator==(const ModeScore&, const ModeScore&) = default;
};
struct Score {
  std::map<base::Mode, ModeScore> modes;
  std::map<std::string, std::int64_t> ungoverned;  // tests by file, in no mode
};
[[nodiscard]] Score score(const base::RunResults& run);
[[nodiscard]] std::string to_text(const Score& score, bool observed);  // lines
[[nodiscard]] base::json::object to_json(const Score& score);

}  // namespace crosscheck::runner
