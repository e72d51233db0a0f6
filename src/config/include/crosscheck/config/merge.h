#pragma once

#include <string>
#include <vector>

#include "crosscheck/config/finding.h"
#include "crosscheck/config/model.h"
#include "crosscheck/config/when.h"

// Configurations written out whole. Comments are not part of what they say, and are left out.
namespace crosscheck::config {

struct Written {
  std::string text = {};  // YAML; empty if there are errors
  std::vector<Finding> findings = {};
};

// Several in one. What they say of one test, operator or dtype must agree, and where one restricts
// dtypes, operators or modules, all must; a note says what becomes supported for all of them.
[[nodiscard]] Written merge(std::vector<Config> parts);

// As Torch-Spyre's loader reads it: without `include` and `when`, for the given circumstances. That
// loader drops the class when it looks a test up: methods of several classes with different modes
// are noted.
[[nodiscard]] Written export_spyre(const Config& config, const Circumstances& circumstances);

// A name that holds under the given circumstances.
struct PlainName {
  std::string_view path;  // of the test file, as written
  std::string_view name;
  Mode mode;
};
// In the order of the files. Errors as for export_spyre.
[[nodiscard]] std::vector<PlainName> export_plain(const Config& config,
                                                  const Circumstances& circumstances,
                                                  std::vector<Finding>& findings);

}  // namespace crosscheck::config
