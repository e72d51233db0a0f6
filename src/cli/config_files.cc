#include "config_files.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "crosscheck/base/file.h"
#include "crosscheck/base/time.h"
#include "results_file.h"

namespace crosscheck::cli {

using base::Fault;
using base::Result;
using config::Finding;

void add_where(CLI::App& command, Where& where) {
  command.add_option("--platform", where.platform, "Machine for `when:`, as uname -m calls it");
  command.add_option("--torch", where.torch, "Version of torch for `when:`");
  command.add_option("--device", where.devices, "Name of the device for `when:`; again: its model")
      ->allow_extra_args(false);
}

Result<config::Circumstances> circumstances(const Where& where) {
  config::Circumstances known;
  if (!where.platform.empty()) known.platform = where.platform;
  known.devices = where.devices;
  if (!where.torch.empty()) {
    auto version = config::parse_version(where.torch);
    if (!version)
      return base::fail(Fault::usage, "--torch: " + version.error().message,
                        version.error().remedy);
    known.torch = *version;
  }
  return known;
}

std::string today() { return base::to_rfc3339(base::SystemClock{}.now()).substr(0, 10); }

namespace {

Result<std::string> read_text(const std::string& path) {
  return base::read_file(path, config::Document::k_size_limit);
}

}  // namespace

config::Loaded read_config(const std::string& path) {
  return config::load(path, read_text, today());
}

tl::unexpected<base::Error> fail_with(const std::vector<Finding>& findings) {
  std::string message;
  std::size_t errors = 0;
  for (const Finding& finding : findings) {
    if (finding.severity == Finding::Severity::note) continue;
    message += (errors++ > 0 ? "\n" : "") + to_string(finding);
  }
  return base::fail(Fault::invalid_input, std::move(message));
}

Result<config::Config> load_config(const std::string& path) { return load_configs({path}); }

Result<config::Config> load_configs(const std::vector<std::string>& paths) {
  return load_configs(paths, read_text);
}

Result<config::Config> load_configs(const std::vector<std::string>& paths,
                                    const config::ReadFile& read) {
  std::vector<config::Config> parts;
  std::vector<Finding> findings;
  for (const std::string& path : paths) {
    config::Loaded loaded = config::load(path, read, today());
    findings.insert(findings.end(), loaded.findings.begin(), loaded.findings.end());
    if (loaded.config) parts.push_back(std::move(*loaded.config));
  }
  if (config::has_errors(findings)) return fail_with(findings);
  if (parts.size() == 1) return std::move(parts.front());
  config::Loaded joined = config::join(std::move(parts), config::Joining::separate);
  if (!joined.ok()) return fail_with(joined.findings);
  return std::move(*joined.config);
}

Result<Suite> suite_of(const runner::Inventory& inventory, const std::string& path,
                       const Where& where) {
  auto known = circumstances(where);
  if (!known) return tl::unexpected(known.error());
  Suite suite;
  suite.circumstances = std::move(*known);
  const runner::Environment& environment = inventory.environment;
  if (!suite.circumstances.torch)
    if (const auto version = config::parse_version(environment.torch))
      suite.circumstances.torch = *version;
  if (suite.circumstances.devices.empty())
    suite.circumstances.devices = {environment.device.type, environment.device.name};
  if (!suite.circumstances.platform)
    if (const auto machine = environment.facts.find("machine"); machine != environment.facts.end())
      suite.circumstances.platform = machine->second;
  suite.collected.name = path;
  suite.collected.partial = !inventory.suite.files.empty();
  suite.collected.tests.reserve(inventory.tests.size());
  for (const auto& test : inventory.tests) {
    suite.collected.tests.push_back(config::collected_test(test.id, test.node_id));
    suite.collected.tests.back().source = test.source;
  }
  for (const auto& error : inventory.errors) suite.collected.broken_files.insert(error.file);
  for (const auto& skip : inventory.skips) suite.collected.broken_files.insert(skip.file);
  return suite;
}

Result<Suite> read_suite(const std::string& path, const Where& where) {
  // A version on the command line that is none is known before a file is read.
  if (auto known = circumstances(where); !known) return tl::unexpected(known.error());
  const auto inventory = load_inventory(path);
  if (!inventory) return tl::unexpected(inventory.error());
  return suite_of(*inventory, path, where);
}

Result<void> replace_file(const std::string& path, std::string_view read, const std::string& text) {
  std::error_code error;
  const auto target = std::filesystem::canonical(path, error);
  if (error) return base::fail(Fault::not_found, fmt::format("{}: {}", path, error.message()));
  const auto now = base::read_file(target, config::Document::k_size_limit);
  if (!now) return tl::unexpected(now.error());
  if (*now != read) {
    return base::fail(Fault::busy, path + " was changed since it was read: it is left as it is",
                      "run the same command again");
  }
  const auto permissions = std::filesystem::status(target, error).permissions();
  return base::write_file_atomically(target, text, static_cast<unsigned>(permissions) & 0777U);
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }
void print_json(const base::json::value& value) { print(base::pretty_json(value) + "\n"); }

}  // namespace crosscheck::cli
