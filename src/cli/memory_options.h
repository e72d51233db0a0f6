#pragma once

#include <filesystem>
#include <string>

#include "command.h"

// Where the repository memory is.
namespace crosscheck::cli {

void add_memory_option(CLI::App& command, std::string& path);
// `given`, else beside the SQLite store as <name>.memory.db; of a PostgreSQL store beside the
// default one.
[[nodiscard]] base::Result<std::filesystem::path> memory_path(const Globals& globals,
                                                              const std::string& given);

}  // namespace crosscheck::cli
