#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/config/check.h"

// Other projects' lists, as configurations.
namespace crosscheck::config {

struct Imported {
  std::string text;  // YAML
  std::size_t names = 0;
  std::vector<std::string> unplaced = {};  // of which no file is known
};

// torch_npu's `{"test_x (__main__.TestY)": ["reason", ["chip"]]}`: tests that are skipped, on all
// devices or on those named. The format does not say in which file a test is: `suite`, where given,
// is searched for it (a test of several files goes to each); the rest goes to `path`, or, where
// that is empty, is returned. `name` is the file's, for errors, which name the entry.
[[nodiscard]] base::Result<Imported> import_torch_npu(std::string_view text, std::string_view name,
                                                      const CollectedSuite* suite,
                                                      std::string_view path);

}  // namespace crosscheck::config
