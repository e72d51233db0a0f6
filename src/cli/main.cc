#include <unistd.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"
#include "crosscheck/base/nearest.h"

namespace crosscheck::cli {
namespace {

// By name, so that --help lists commands in one order whatever the link order.
std::map<std::string, AddCommand>& commands() {
  static std::map<std::string, AddCommand> all;
  return all;
}

void report(const base::Error& error, const Globals& globals) {
  if (globals.json) {
    boost::json::object object{{"error", std::string{to_string(error.fault)}},
                               {"message", error.message}};
    if (!error.remedy.empty()) object["remedy"] = error.remedy;
    std::fprintf(stderr, "%s\n", boost::json::serialize(object).c_str());
  } else {
    // Names of files and tests in it are anybody's.
    std::fprintf(stderr, "crosscheck: %s\n", base::to_utf8(to_string(error)).c_str());
  }
}

// What CLI11 calls a missing subcommand where a word is there that is none.
bool is_unknown_command(const CLI::App& app, const Globals& globals) {
  const std::vector<std::string> words = app.remaining();
  if (!app.get_subcommands().empty() || words.empty() || words.front().starts_with('-'))
    return false;
  const auto known = app.get_subcommands([](const CLI::App*) { return true; });
  std::vector<std::string> texts;
  for (const CLI::App* command : known) texts.push_back(command->get_name());
  const std::vector<std::string_view> names{texts.begin(), texts.end()};
  report({base::Fault::usage, "there is no command '" + words.front() + "'",
          base::suggest(words.front(), names)},
         globals);
  return true;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Tells, with evidence, whether a PyTorch accelerator backend still works.\n"
      "Exit codes: 0 ok; 1 the answer is no; 2 usage; 3 bad input; 4 environment; 5 internal.",
      "crosscheck"};
  app.footer("`crosscheck COMMAND --help` shows a command's options and an example.");
  app.require_subcommand(1);
  app.fallthrough();
  Globals globals;
  app.set_version_flag("--version", "crosscheck " CROSSCHECK_VERSION);
  app.add_flag("--json", globals.json, "Machine-readable output on standard output");
  app.add_option(
      "--db", globals.db,
      "The store: a SQLite file, or postgresql://… (default: $CROSSCHECK_DB, `db` in the "
      "settings file, or .crosscheck/crosscheck.db)");
  app.add_option("--settings", globals.settings_file,
                 "Settings file (YAML; default: crosscheck.settings.yaml, where there is one)")
      ->envname("CROSSCHECK_SETTINGS");
  app.add_option("--log-level", globals.log_level, "debug, info, warning, error or off")
      ->envname("CROSSCHECK_LOG_LEVEL")
      ->capture_default_str();
  Action action;
  for (const auto& [name, add] : commands()) add(app, globals, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has an exit code a kind of error; ours is one: usage.
    if (is_unknown_command(app, globals)) return static_cast<int>(base::ExitCode::usage);
    return app.exit(error) == 0 ? static_cast<int>(base::ExitCode::ok)
                                : static_cast<int>(base::ExitCode::usage);
  }
  base::log::Level level{};
  if (!base::log::parse_level(globals.log_level, level)) {
    report({base::Fault::usage, "--log-level: '" + globals.log_level + "' is not a level",
            "use debug, info, warning, error or off"},
           globals);
    return static_cast<int>(base::ExitCode::usage);
  }
  base::log::set_level(level);
  const auto result = action();
  if (!result) {
    report(result.error(), globals);
    return static_cast<int>(base::exit_code(result.error().fault));
  }
  // A full disk or closed pipe may show only when the last bytes are flushed, or only earlier than
  // that.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    report({base::Fault::environment, "standard output could not be written"}, globals);
    return static_cast<int>(base::ExitCode::environment);
  }
  return static_cast<int>(*result);
}

}  // namespace

Registration::Registration(const char* name, AddCommand add) { commands().emplace(name, add); }

bool is_interactive() { return isatty(STDERR_FILENO) == 1 && std::getenv("CI") == nullptr; }

}  // namespace crosscheck::cli

int main(int argc, char** argv) {
  try {
    return crosscheck::cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "crosscheck: internal error: %s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "crosscheck: internal error\n");
  }
  return static_cast<int>(crosscheck::base::ExitCode::internal);
}
