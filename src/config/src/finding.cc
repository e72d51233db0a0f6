#include "crosscheck/config/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "crosscheck/base/json.h"

namespace crosscheck::config {

std::string to_string(const Place& place) {
  return fmt::format("{}:{}:{}", place.file, place.line, place.column);
}

std::string_view to_string(FindingKind kind) {
  switch (kind) {
    case FindingKind::unreadable:
      return "unreadable";
    case FindingKind::not_yaml:
      return "not_yaml";
    case FindingKind::unknown_key:
      return "unknown_key";
    case FindingKind::missing_key:
      return "missing_key";
    case FindingKind::bad_value:
      return "bad_value";
    case FindingKind::bad_name:
      return "bad_name";
    case FindingKind::duplicate:
      return "duplicate";
    case FindingKind::contradiction:
      return "contradiction";
    case FindingKind::tie:
      return "tie";
    case FindingKind::bad_rationale:
      return "bad_rationale";
    case FindingKind::expired:
      return "expired";
    case FindingKind::missing:
      return "missing";
    case FindingKind::renamed:
      return "renamed";
    case FindingKind::not_collected:
      return "not_collected";
    case FindingKind::unlisted:
      return "unlisted";
    case FindingKind::ungoverned:
      return "ungoverned";
    case FindingKind::unknown_operator:
      return "unknown_operator";
    case FindingKind::collides:
      return "collides";
  }
  return "";
}

std::string to_string(const Finding& finding) {
  std::string text = base::to_utf8(
      fmt::format("{}: {}{}", to_string(finding.place),
                  finding.severity == Finding::Severity::note ? "note: " : "", finding.message));
  for (const Place& other : finding.others)
    text += "\n  and at: " + base::to_utf8(to_string(other));
  if (!finding.remedy.empty()) text += "\n  remedy: " + base::to_utf8(finding.remedy);
  return text;
}

boost::json::object to_json(const Finding& finding) {
  const auto placed = [](const Place& place) {
    return boost::json::object{
        {"file", base::to_utf8(place.file)}, {"line", place.line}, {"column", place.column}};
  };
  boost::json::object object{
      {"kind", to_string(finding.kind)},
      {"severity", finding.severity == Finding::Severity::note ? "note" : "error"}};
  for (auto& [key, value] : placed(finding.place)) object.emplace(key, value);
  object["message"] = base::to_utf8(finding.message);
  if (!finding.remedy.empty()) object["remedy"] = base::to_utf8(finding.remedy);
  if (!finding.others.empty()) {
    boost::json::array others;
    for (const Place& other : finding.others) others.push_back(placed(other));
    object["others"] = std::move(others);
  }
  return object;
}

bool has_errors(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Finding::Severity::error;
  });
}

}  // namespace crosscheck::config
