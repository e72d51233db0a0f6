#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/config/check.h"
#include "crosscheck/config/load.h"
#include "crosscheck/runner/inventory.h"

// Test configurations and inventories as files, for the commands that take them.
namespace crosscheck::cli {

// The circumstances that entries with `when:` are read for.
struct Where {
  std::string platform;
  std::string torch;
  std::vector<std::string> devices;
};
void add_where(CLI::App& command, Where& where);
// What the command line says; a version that is none is `usage`.
[[nodiscard]] base::Result<config::Circumstances> circumstances(const Where& where);

[[nodiscard]] std::string today();  // YYYY-MM-DD, UTC

// As it is, with whatever was found.
[[nodiscard]] config::Loaded read_config(const std::string& path);
// Without errors. Several are one configuration, and must agree.
[[nodiscard]] base::Result<config::Config> load_config(const std::string& path);
[[nodiscard]] base::Result<config::Config> load_configs(const std::vector<std::string>& paths);
[[nodiscard]] base::Result<config::Config> load_configs(const std::vector<std::string>& paths,
                                                        const config::ReadFile& read);
// The errors among the findings as one.
[[nodiscard]] tl::unexpected<base::Error> fail_with(const std::vector<config::Finding>& findings);

struct Suite {
  config::CollectedSuite collected;
  config::Circumstances circumstances;
};
// Of an inventory. What it says of where its tests run stands where the command line says nothing.
[[nodiscard]] base::Result<Suite> suite_of(const runner::Inventory& inventory,
                                           const std::string& path, const Where& where);
[[nodiscard]] base::Result<Suite> read_suite(const std::string& path, const Where& where);

// The file itself, also behind a link, with the permissions it has. `read` is what it held when it
// was read: what somebody else has changed since is not written over.
[[nodiscard]] base::Result<void> replace_file(const std::string& path, std::string_view read,
                                              const std::string& text);

void print(const std::string& text);
void print_json(const base::json::value& value);

}  // namespace crosscheck::cli
