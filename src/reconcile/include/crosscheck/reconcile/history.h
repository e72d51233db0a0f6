#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "crosscheck/base/run_results.h"
#include "crosscheck/config/when.h"

// What runs saw of tests, as evidence: newest first, whatever order they are given in.
namespace crosscheck::reconcile {

struct Run {
  std::string id = {};
  base::Combination combination = {};
  base::Time started_at{};
  std::string machine = {};  // as uname calls it; empty: not known
  friend bool operator==(const Run&, const Run&) = default;
};
[[nodiscard]] Run run_of(const base::RunHeader& header);
// Older ones first; at one time, by id.
[[nodiscard]] bool before(const Run& a, const Run& b);
// Where its tests ran, for `when:`.
[[nodiscard]] config::Circumstances circumstances(const Run& run);
// torch's version, without the commit: "2.13.0+cpu".
[[nodiscard]] std::string_view torch_version(const base::Combination& combination);
// The revisions by which `after` differs from `before`: "torch 2.13.0 -> 2.14.0, backend 1 -> 2".
[[nodiscard]] std::string difference(const base::Combination& before,
                                     const base::Combination& after);

// What a test did, whatever that means under its mode.
[[nodiscard]] base::Outcome observed(const base::TestResult& result);

// How a test failed.
struct Failure {
  base::Outcome outcome = base::Outcome::failed;
  base::FailureKind kind = base::FailureKind::other;
  std::string fingerprint = {};
  std::string message = {};
  std::optional<base::Mismatch> mismatch = {};
};

// What one run saw of a test. Skipped tests, faults of the environment or of the harness, and
// failures that a test itself expects are no evidence, and no sightings.
struct Sighting {
  enum class Verdict : std::uint8_t {
    passed,
    failed,
    flaky,  // both, in attempts of one run
  };
  const Run* run = nullptr;
  Verdict verdict = Verdict::passed;
  const Failure* failure = nullptr;  // of the latest attempt that failed
};

class History {
 public:
  History() = default;
  History(const History&) = delete;  // sightings point into it
  History& operator=(const History&) = delete;

  // The same run given twice, or in parts, is one run.
  void add(const base::RunHeader& header, std::span<const base::TestResult> results);

  [[nodiscard]] std::vector<const Run*> runs() const;  // newest first
  // Newest first; of runs that `counts` lets pass, where it is given.
  using Counts = std::unordered_map<const Run*, bool>;
  [[nodiscard]] std::vector<Sighting> of(const base::TestId& test,
                                         const Counts* counts = nullptr) const;

  struct Known {
    base::TestId id;
    std::string node;  // pytest's address of it, as the newest run has it
  };
  // All tests that any run has a result of, in order.
  [[nodiscard]] std::vector<Known> tests() const;

 private:
  struct Attempt {
    std::uint32_t run = 0;
    int number = 1;
    bool passed = false;
    std::uint32_t failure = 0;  // in failures_
  };
  struct Seen {
    std::string node;
    std::uint32_t node_run = 0;
    std::vector<Attempt> attempts;
  };
  struct Hash {
    std::size_t operator()(const base::TestId& id) const;
  };

  std::vector<std::unique_ptr<const Run>> runs_;
  std::vector<std::unique_ptr<const Failure>> failures_;
  std::unordered_map<base::TestId, Seen, Hash> tests_;
};

// Where a test stands, by what is known of it.
struct Standing {
  std::size_t passes = 0;               // in a row, up to the newest sighting
  std::size_t fails = 0;                // the same; one of the two is 0
  bool flaky = false;                   // see standing()
  const Sighting* newest = nullptr;     // nothing: never seen
  const Sighting* since = nullptr;      // the first one of the row of failures
  const Sighting* last_good = nullptr;  // the one before that
};
// Flaky: among the newest `window` sightings there is one that is both, or those of one combination
// change from one to the other and back. The result points into `sightings`.
[[nodiscard]] Standing standing(std::span<const Sighting> sightings, std::size_t window);

}  // namespace crosscheck::reconcile
