#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "crosscheck/base/result.h"
#include "crosscheck/hud/readiness.h"

// One file a subcommand. Each registers itself:
//
//   namespace crosscheck::cli {
//   static const Registration k_registration{"version", [](CLI::App& app, Globals& globals, Action&
//   action) {
//     auto* command = app.add_subcommand("version", "Prints …");
//     command->footer("Example:\n  crosscheck version --json");
//     command->callback([&] { action = [&] { return run_version(globals); }; });
//   }};
//   }
namespace crosscheck::cli {

// What every command takes.
struct Globals {
  bool json = false;          // --json: machine-readable output on stdout
  std::string db;             // --db URL; empty: not given, see store_url
  std::string settings_file;  // --settings FILE; empty: crosscheck.settings.yaml if it exists
  std::string log_level = "info";
};

// What the parsed command line asks for; runs after parsing.
using Action = std::function<base::Result<base::ExitCode>()>;
using AddCommand = void (*)(CLI::App& app, Globals& globals, Action& action);

class Registration {
 public:
  Registration(const char* name, AddCommand add);
};

// The store that a command works on: --db, else $CROSSCHECK_DB, else the settings file's `db`.
[[nodiscard]] base::Result<std::string> store_url(const Globals& globals);

// What the settings ask of a backend.
struct Settings;
[[nodiscard]] hud::ReadinessTargets readiness_targets(const Settings& settings);

// Whether progress may be drawn: stderr is a terminal and CI is not set.
[[nodiscard]] bool is_interactive();

}  // namespace crosscheck::cli
