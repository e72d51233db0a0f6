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

// What to say where the tree is of another version than the torch that `python` has; empty:
// nothing, also where either does not say. PyTorch is not imported.
[[nodiscard]] base::Result<std::string> version_note(const std::filesystem::path& tree,
                                                     const std::string& python);

}  // namespace crosscheck::cli
