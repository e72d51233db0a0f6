#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/memory/memory.h"

// From an inventory to what the repository memory takes of it.
namespace crosscheck::cli {

// The tests that `inventory` lists, their files relative to `tree`; `subject` becomes what they
// were collected of. `environment` where the tree says that it is of another version.
[[nodiscard]] base::Result<std::vector<memory::Collected>> collected_tests(
    const std::string& inventory, const std::filesystem::path& tree, std::string& subject);

}  // namespace crosscheck::cli
