#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "crosscheck/config/govern.h"
#include "crosscheck/config/model.h"

// What two configurations say differently: test by test, and what they support.
namespace crosscheck::config {

// What a configuration says of a test.
struct Saying {
  Basis basis = Basis::ungoverned;
  Mode mode = Mode::skip;
  std::optional<Reason> reason = {};
  friend bool operator==(const Saying&, const Saying&) = default;
};
[[nodiscard]] std::string to_string(const Saying& saying);  // "xfail (crash)", "skip (unlisted)"

struct Change {
  enum class What : std::uint8_t { test, unlisted, edits, operators, dtypes, modules };
  What what = What::test;
  std::string file = {};  // of a test; empty for what is supported
  std::string name = {};  // of the test, operator, dtype or module
  std::string when = {};  // of a test's entry; empty: always
  std::string before = {};
  std::string after = {};
  friend bool operator==(const Change&, const Change&) = default;
};
[[nodiscard]] std::string_view to_string(Change::What what);

// By the names that the two list: order, layout and what is listed as it would be unlisted do not
// count.
[[nodiscard]] std::vector<Change> diff(const Config& before, const Config& after);
// By what they say of collected tests, and by what is supported.
[[nodiscard]] std::vector<Change> diff(const Config& before, const Config& after,
                                       std::span<const CollectedTest> tests,
                                       const Circumstances& circumstances);

}  // namespace crosscheck::config
