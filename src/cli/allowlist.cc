#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <memory>

#include "command.h"
#include "crosscheck/base/file.h"
#include "crosscheck/relay/allowlist.h"

namespace crosscheck::cli {
namespace {

using base::Result;

Result<base::ExitCode> check(const Globals& globals, const std::string& file) {
  const auto text = base::read_file(file, relay::k_allowlist_limit);
  if (!text) return tl::unexpected(text.error());
  const auto list = relay::parse_allowlist(*text, file);
  if (!list) return tl::unexpected(list.error());
  std::array<int, 4> levels{};
  for (const relay::Backend& backend : list->backends())
    ++levels[static_cast<std::size_t>(backend.level)];
  if (!globals.json) {
    std::printf("%s: ok, %zu repositories (L1 %d, L2 %d, L3 %d, L4 %d)\n", file.c_str(),
                list->backends().size(), levels[0], levels[1], levels[2], levels[3]);
    return base::ExitCode::ok;
  }
  boost::json::array backends;
  for (const relay::Backend& backend : list->backends()) {
    boost::json::array oncalls;
    for (const std::string& name : backend.oncalls) oncalls.emplace_back(name);
    boost::json::object entry{
        {"repo", backend.repo.full_name()}, {"level", relay::to_string(backend.level)},
        {"oncalls", std::move(oncalls)},    {"pull_request", backend.pull_requests},
        {"nightly", backend.nightly},       {"line", backend.line}};
    if (!backend.device.empty()) entry["device"] = backend.device;
    backends.push_back(std::move(entry));
  }
  const boost::json::object result{{"ok", true}, {"backends", std::move(backends)}};
  std::printf("%s\n", boost::json::serialize(result).c_str());
  return base::ExitCode::ok;
}

const Registration k_registration{
    "allowlist", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command = app.add_subcommand("allowlist", "The list of backends and their levels");
      command->footer("Example:\n  crosscheck allowlist check allowlist.yaml");
      command->require_subcommand(1);
      auto* checking = command->add_subcommand(
          "check", "Check a file; exit code 3 and file:line:column when it is wrong");
      checking->footer("Example:\n  crosscheck allowlist check allowlist.yaml");
      const auto file = std::make_shared<std::string>();
      checking->add_option("FILE", *file, "The allowlist")->required();
      checking->callback([&globals, &action, file] {
        action = [&globals, file] { return check(globals, *file); };
      });
    }};

}  // namespace
}  // namespace crosscheck::cli
