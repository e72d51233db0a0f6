#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/run_results.h"
#include "crosscheck/config/govern.h"
#include "crosscheck/reconcile/history.h"
#include "crosscheck/reconcile/reconcile.h"

// The whole chain about one test: how it was collected, what the configuration says and why, what
// runs saw, and what would change the decision. Pure.
namespace crosscheck::reconcile {

// How a test came out of an inventory.
struct Origin {
  std::string inventory = {};  // the file's name
  std::string suite = {};      // "tree /src/pytorch/test", "bundled"
  std::string torch = {};
  std::string device = {};
  std::int64_t line = 0;  // of the definition; 0: not known
  std::vector<std::string> markers = {};
};

// What one run has of the test.
struct RunOfTest {
  Run run = {};
  std::string link = {};  // where it can be opened; empty: nowhere
  std::vector<base::TestResult> attempts = {};
};

// What the configuration says of it.
struct Word {
  config::Ruling ruling = {};
  std::vector<config::Candidate> candidates = {};
};

struct Explanation {
  config::CollectedTest test = {};
  std::string node = {};
  std::optional<Origin> origin = {};
  std::optional<Word> word = {};          // nothing: no configuration was given
  std::vector<RunOfTest> runs = {};       // newest first
  std::vector<std::string> outlook = {};  // what would change the decision, a sentence each
};

// What would change the decision, by the runs that are of the newest one's backend and device.
[[nodiscard]] std::vector<std::string> outlook(const Word& word, const config::CollectedTest& test,
                                               const std::vector<RunOfTest>& runs,
                                               const Options& options, std::string_view today);

[[nodiscard]] std::string to_text(const Explanation& explanation);
// In a list of several: its address, mode and newest outcome.
[[nodiscard]] std::string to_line(const Explanation& explanation);
[[nodiscard]] boost::json::object to_json(const Explanation& explanation);

}  // namespace crosscheck::reconcile
