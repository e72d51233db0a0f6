#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/profile/source.h"

// The extension points of PyTorch that backends use, and what source that uses them looks like
// (data/extension_points.yaml, which explains the words).
namespace crosscheck::profile {

struct Pattern {
  Language in = Language::cpp;
  Mention::Kind kind = Mention::Kind::call;
  std::vector<std::string> chain;  // its last word must be the mention's last, the others before it
  std::vector<std::vector<std::string>> with;  // of each, one must be among the arguments
  std::vector<std::string> without;
  std::size_t device = 0;  // the argument that names the device, from 1; 0: none
};

struct Point {
  std::string name;
  std::string says = {};
  std::vector<Pattern> found_by = {};
  std::string implied_by = {};  // another point, or empty
  std::string because = {};     // of implied_by
};

struct Points {
  std::vector<Point> points;                              // in the table's order
  std::map<std::string, std::string, std::less<>> areas;  // name, what it is
  std::vector<std::string> skip;                          // names of folders

  [[nodiscard]] const Point* find(std::string_view name) const;
  [[nodiscard]] std::vector<std::string_view> names() const;
  [[nodiscard]] std::vector<std::string_view> area_names() const;
};

// The table that crosscheck comes with.
[[nodiscard]] const Points& built_in_points();

// Adds what `text` says to `points`: patterns to a point that is there already, further points,
// areas and folders. Errors begin with `source`:line:column.
[[nodiscard]] base::Result<Points> add_points(Points points, std::string_view text,
                                              std::string_view source);

[[nodiscard]] bool matches(const Pattern& pattern, const Mention& mention);

}  // namespace crosscheck::profile
