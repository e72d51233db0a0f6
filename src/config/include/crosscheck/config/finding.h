#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What is said about a test configuration: each with its place, all of them, not only the first.
namespace crosscheck::config {

// Counted from 1; columns in characters.
struct Place {
  std::string file = {};
  std::size_t line = 1;
  std::size_t column = 1;
  friend bool operator==(const Place&, const Place&) = default;
};
[[nodiscard]] std::string to_string(const Place& place);  // "file:line:column"

// The names are API: in --json.
enum class FindingKind : std::uint8_t {
  unreadable,        // a file cannot be read
  not_yaml,          // syntax, encoding, or what strict reading leaves out (a second document)
  unknown_key,       //
  missing_key,       //
  bad_value,         // of another type, or not among the words allowed
  bad_name,          // no test, file or pattern can have this name
  duplicate,         // said twice
  contradiction,     // said twice, differently
  tie,               // two conditions that may hold at once, neither the more specific
  bad_rationale,     // a reason that does not go with its mode, or lacks what it must name
  expired,           // a reason whose time is over
  missing,           // listed, not collected
  renamed,           // listed, not collected, and a new test is named alike
  not_collected,     // a file that the inventory does not have, or that does not collect
  unlisted,          // collected, governed by unlisted_test_mode alone
  ungoverned,        // collected, and the configuration does not have its file
  unknown_operator,  // not in the operator list
  collides,          // means something else to Torch-Spyre's own loader
};
[[nodiscard]] std::string_view to_string(FindingKind kind);

struct Finding {
  enum class Severity : std::uint8_t { error, note };

  FindingKind kind = FindingKind::not_yaml;
  Place place = {};
  std::string message = {};
  std::string remedy = {};
  std::vector<Place> others = {};  // the other places that it is about
  Severity severity = Severity::error;
  friend bool operator==(const Finding&, const Finding&) = default;
};
// "file:3:7: message", then the remedy and the other places, each on a line of its own.
[[nodiscard]] std::string to_string(const Finding& finding);
[[nodiscard]] boost::json::object to_json(const Finding& finding);

// So many are kept of one configuration: a file of another kind has one a line.
inline constexpr std::size_t k_finding_limit = 1000;

[[nodiscard]] bool has_errors(const std::vector<Finding>& findings);

}  // namespace crosscheck::config
