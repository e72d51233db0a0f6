#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/outcome.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"

// What a run of tests found, and the file that carries it from a backend's CI to the relay: JSON
// lines, gzipped for the upload. docs/formats.md describes every field.
namespace crosscheck::base {

// One test, as collected. `variant` is canonical JSON of what the generated test itself says
// ({"device":"refdev:0","dtype":"float32","op":"add"} plus other parameters); never parsed from a
// name. Class and method are the names as written in the file, before instantiation for a device.
struct TestId {
  // In bytes: what a results file and an inventory may hold.
  static constexpr std::size_t k_file_limit = 1024;
  static constexpr std::size_t k_name_limit = 512;  // of a class or a method
  static constexpr std::size_t k_variant_limit = 4096;

  std::string file = {};        // relative to the suite's root, `/` separated
  std::string class_name = {};  // empty for a function outside a class
  std::string method = {};
  std::string variant = {};  // "{}" where there is none

  // sha256 over the four, the test's identity.
  [[nodiscard]] std::string digest() const;
  friend bool operator==(const TestId&, const TestId&) = default;
  friend auto operator<=>(const TestId&, const TestId&) = default;
};
// "file::Class::method{variant}", for people and logs.
[[nodiscard]] std::string to_string(const TestId& id);
// The field that is over its limit ("variant"); nothing if all are within.
[[nodiscard]] std::optional<std::string_view> too_long(const TestId& id);

// The unit that is run, shown and compared: one revision of each axis, a device, an environment.
struct Combination {
  std::string backend = {};           // name of the backend ("refdev")
  std::string backend_revision = {};  // commit or version
  std::string core_revision = {};     // PyTorch: "2.13.0" or a commit
  std::string suite_revision = {};    // commit or digest of the tests
  std::string device = {};            // device type and model
  std::string environment_digest = {};

  // sha256 over the six, the combination's identity.
  [[nodiscard]] std::string digest() const;
  friend bool operator==(const Combination&, const Combination&) = default;
};
// The six by their names, without the digest.
[[nodiscard]] boost::json::object to_json(const Combination& combination);

// The numbers of a mismatch, where the message holds them.
struct Mismatch {
  std::optional<double> absolute = {};  // greatest absolute difference
  std::optional<double> relative = {};
  std::optional<double> absolute_tolerance = {};
  std::optional<double> relative_tolerance = {};
  std::string absolute_index = {};  // where the greatest difference is: "(0, 3)"; empty: not said
  std::string relative_index = {};
  std::string dtype = {};  // that was compared
  friend bool operator==(const Mismatch&, const Mismatch&) = default;
};
// What is not a finite number is the text "nan", "inf" or "-inf". The error names the field.
[[nodiscard]] boost::json::object to_json(const Mismatch& mismatch);
[[nodiscard]] Result<Mismatch> read_mismatch(const boost::json::object& object);

// What a test configuration says of a test, in a run on one.
struct Governed {
  Mode mode = Mode::skip;
  std::string basis = {};  // how that came about, by config::Basis's name: "listed", "unlisted"
  std::string place = {};  // "file:line:column" of what says so; empty: nothing does
  Outcome observed = Outcome::not_run;  // what it did; the result's outcome is what that means
  friend bool operator==(const Governed&, const Governed&) = default;
};

// Bytes by which the process's memory had grown after a test, where that is beyond the run's limit.
struct Leak {
  std::int64_t host = 0;
  std::int64_t device = 0;
  friend bool operator==(const Leak&, const Leak&) = default;
};
[[nodiscard]] boost::json::object to_json(const Leak& leak);

struct TestResult {
  TestId id = {};
  std::string node_id = {};  // the runner's address of it ("test_x.py::TestX::test_y")
  int attempt = 1;           // from 1; every attempt is a TestResult of its own
  Outcome outcome = Outcome::not_run;
  FailureKind kind = FailureKind::none;
  std::string fingerprint = {};  // equal for failures that are alike; empty when it did not fail
  std::string message = {};      // the error itself, first line first; at most 4 KiB
  std::string detail = {};       // traceback; at most 64 KiB
  Duration duration{0};
  std::optional<Mismatch> mismatch = {};
  std::optional<Governed> governed = {};  // nothing in a run without a configuration
  std::optional<Leak> leak = {};
  friend bool operator==(const TestResult&, const TestResult&) = default;
};

// A file of the test configuration that a run was on.
struct ConfigFile {
  std::string path = {};    // as it was given
  std::string digest = {};  // sha256 of its bytes
  friend bool operator==(const ConfigFile&, const ConfigFile&) = default;
};

// A run that is part of a merged one.
struct MergedRun {
  std::string run_id = {};
  std::string shard = {};  // as in its own header
  bool interrupted = false;
  friend auto operator<=>(const MergedRun&, const MergedRun&) = default;
};

// Whether a run cannot be called good because of it: it failed, or met a fault and is not one that
// may fail anyway.
[[nodiscard]] bool breaks(const TestResult& result);

struct RunHeader {
  static constexpr int k_schema = 1;
  std::string run_id = {};
  Combination combination = {};
  std::vector<std::string> command = {};  // argument vector
  std::string selection = {};             // what was selected and how ("bundled suite, quick set")
  Time started_at{};
  Time finished_at{};
  // Name, value: allow-listed facts.
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::vector<ConfigFile> config = {};  // with what they include; none: no configuration
  bool observe = false;                 // run whatever the configuration says, to score it
  std::string shard = {};               // which part of a selection, as the runner writes it
  bool imported = false;                // read from what another runner wrote
  bool interrupted = false;             // ended before all that was selected had been run
  std::vector<MergedRun> merged = {};   // of which it was made; none: it is one run
};

// A test over its attempts.
struct Tested {
  const TestResult* latest = nullptr;
  bool flaky = false;  // it failed before
};

struct RunResults {
  RunHeader header;
  std::vector<TestResult> results;

  // Each test, in the order in which they first come. They point into `results`.
  [[nodiscard]] std::vector<Tested> tested() const;
  [[nodiscard]] OutcomeCounts counts() const;
  // Whether all was run that was to be, and nothing breaks it. Flaky tests do not.
  [[nodiscard]] bool ok() const;
};

// Names to numbers, without those that are 0; "flaky" among them. Other names are passed over.
[[nodiscard]] boost::json::object to_json(const OutcomeCounts& counts);
[[nodiscard]] OutcomeCounts read_counts(const boost::json::object& object);

// First line the header, then a line a result, last line {"end": <number of results>}: a file cut
// off is noticed.
[[nodiscard]] std::string to_json_lines(const RunResults& run);
// The error names line and field. One attempt of one test that comes twice is refused.
[[nodiscard]] Result<RunResults> parse_run_results(std::string_view text);

}  // namespace crosscheck::base
