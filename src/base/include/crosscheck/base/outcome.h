#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace crosscheck::base {

// How one attempt of one test ended. The names are API: stored, in files and in JSON.
enum class Outcome : std::uint8_t {
  passed,
  failed,
  skipped,
  xfailed,            // failed as the test itself expects
  xpassed,            // passed against the test's own expectation
  crashed,            // the process died in it
  timed_out,          // did not end within its limit
  environment_error,  // the machine's fault: a compiler missing, no disk, no network
  harness_error,      // the suite's fault: does not import, does not collect
  not_run,            // selected, and no attempt was made
};
inline constexpr std::size_t k_outcome_count = 10;

[[nodiscard]] std::string_view to_string(Outcome outcome);
[[nodiscard]] std::optional<Outcome> parse_outcome(std::string_view name);

// Whether the outcome says that the backend did not do what the test asks.
[[nodiscard]] constexpr bool is_failure(Outcome outcome) {
  return outcome == Outcome::failed || outcome == Outcome::crashed || outcome == Outcome::timed_out;
}
// Faults that are nobody's verdict on the device.
[[nodiscard]] constexpr bool is_fault(Outcome outcome) {
  return outcome == Outcome::environment_error || outcome == Outcome::harness_error;
}
// Whether a test is flaky that failed in an earlier attempt, and in its latest ended so.
[[nodiscard]] constexpr bool is_flaky_after_failure(Outcome latest) {
  return !is_failure(latest) && !is_fault(latest) && latest != Outcome::not_run;
}

// What a test configuration asks of a test.
enum class Mode : std::uint8_t {
  mandatory_success,  // must pass
  xfail,              // may fail
  xfail_strict,       // must fail
  skip,               // is not run
};
inline constexpr std::array<std::string_view, 4> k_modes{"mandatory_success", "xfail",
                                                         "xfail_strict", "skip"};
[[nodiscard]] std::string_view to_string(Mode mode);
[[nodiscard]] std::optional<Mode> parse_mode(std::string_view name);

// What it means under `mode` that a test ended so. A test that is to be skipped and was run all the
// same promises as little as one that may fail. Faults say nothing of the device under any mode.
[[nodiscard]] Outcome judge(Mode mode, Outcome observed);

// Why a test failed, as far as its message tells.
enum class FailureKind : std::uint8_t {
  none,
  unsupported_operator,
  unsupported_dtype,
  numerical_mismatch,
  device_error,
  out_of_memory,
  assertion,
  import_error,
  signal,
  timeout,
  other,
};
[[nodiscard]] std::string_view to_string(FailureKind kind);
[[nodiscard]] std::optional<FailureKind> parse_failure_kind(std::string_view name);

// How many tests ended how. A test that failed before it ended well is flaky, and counts as nothing
// else.
class OutcomeCounts {
 public:
  void add(Outcome outcome, std::int64_t n = 1) { counts_[static_cast<std::size_t>(outcome)] += n; }
  void add_flaky(std::int64_t n = 1) { flaky_ += n; }
  [[nodiscard]] std::int64_t operator[](Outcome outcome) const {
    return counts_[static_cast<std::size_t>(outcome)];
  }
  [[nodiscard]] std::int64_t total() const;
  [[nodiscard]] std::int64_t flaky() const { return flaky_; }
  [[nodiscard]] std::int64_t passes() const;    // passed + xfailed + xpassed + flaky
  [[nodiscard]] std::int64_t failures() const;  // failed + crashed + timed_out
  [[nodiscard]] std::int64_t faults() const;    // environment_error + harness_error
  friend bool operator==(const OutcomeCounts&, const OutcomeCounts&) = default;

 private:
  std::array<std::int64_t, k_outcome_count> counts_{};
  std::int64_t flaky_ = 0;
};

}  // namespace crosscheck::base
