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

// How many tests ended how.
class OutcomeCounts {
 public:
  void add(Outcome outcome, std::int64_t n = 1) { counts_[static_cast<std::size_t>(outcome)] += n; }
  [[nodiscard]] std::int64_t operator[](Outcome outcome) const {
    return counts_[static_cast<std::size_t>(outcome)];
  }
  [[nodiscard]] std::int64_t total() const;
  [[nodiscard]] std::int64_t passes() const;    // passed + xfailed + xpassed
  [[nodiscard]] std::int64_t failures() const;  // failed + crashed + timed_out
  [[nodiscard]] std::int64_t faults() const;    // environment_error + harness_error
  friend bool operator==(const OutcomeCounts&, const OutcomeCounts&) = default;

 private:
  std::array<std::int64_t, k_outcome_count> counts_{};
};

}  // namespace crosscheck::base
