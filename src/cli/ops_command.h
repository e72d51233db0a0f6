#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

#include "command.h"
#include "crosscheck/base/result.h"
#include "crosscheck/ops/index.h"

// What the subcommands of `ops` share, whatever files they stand in.
namespace crosscheck::cli {

// `ops` itself: made by whichever of its subcommands registers first.
[[nodiscard]] CLI::App& ops_command(CLI::App& app);

// Where the operator index lies: --index, else beside a SQLite store as <name>.operators.db.
[[nodiscard]] base::Result<std::filesystem::path> index_path(const Globals& globals,
                                                             const std::string& given);
[[nodiscard]] base::Result<ops::Index> open_index(const Globals& globals, const std::string& given,
                                                  ops::Index::Open how);
void add_index_option(CLI::App& command, std::string& index);

}  // namespace crosscheck::cli
