#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "command.h"
#include "crosscheck/memory/endpoint.h"

// Where the repository memory is.
namespace crosscheck::cli {

void add_memory_option(CLI::App& command, std::string& path);
// `given`, else beside the SQLite store as <name>.memory.db; of a PostgreSQL store beside the
// default one.
[[nodiscard]] base::Result<std::filesystem::path> memory_path(const Globals& globals,
                                                              const std::string& given);

// The endpoint of a model: its address and models from the command line or the environment, its key
// from CROSSCHECK_ENDPOINT_KEY alone.
struct EndpointInput {
  std::string url;
  std::string embedding_model;
  std::string summary_model;
  std::int64_t time_limit_s = 60;  // of one request
};
void add_endpoint_options(CLI::App& command, EndpointInput& input, bool summaries);
// `usage` where the address is none or no model is named.
[[nodiscard]] base::Result<memory::Ask> asker(const EndpointInput& input);

}  // namespace crosscheck::cli
