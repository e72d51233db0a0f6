#pragma once

#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/config/finding.h"
#include "crosscheck/config/model.h"
#include "crosscheck/runner/govern.h"
#include "crosscheck/runner/inventory.h"

// From a test configuration to what the runner takes of it.
namespace crosscheck::cli {

// Of `files`, relative to the suite's root, those that the configuration has. None is
// `invalid_input`, with what it has.
[[nodiscard]] base::Result<std::vector<std::string>> governed_files(
    const config::Config& config, const std::vector<std::string>& files);

struct Governed {
  runner::Governing governing;
  std::vector<config::Finding> findings;  // of what it lists and the suite does not have
};
// Rules over the inventory's tests. Errors of files that the configuration does not have are taken
// out of it. `partial`: the inventory has only some of the suite's files, so that others are not
// missed. Entries that contradict each other over a test are `invalid_input`.
[[nodiscard]] base::Result<Governed> govern(const config::Config& config,
                                            runner::Inventory& inventory, bool partial);

}  // namespace crosscheck::cli
