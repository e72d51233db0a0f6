#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>

#include "command.h"

namespace crosscheck::cli {
namespace {

base::Result<base::ExitCode> run_version(const Globals& globals) {
  if (globals.json) {
    const boost::json::object object{{"version", CROSSCHECK_VERSION}};
    std::printf("%s\n", boost::json::serialize(object).c_str());
  } else {
    std::printf("crosscheck %s\n", CROSSCHECK_VERSION);
  }
  return base::ExitCode::ok;
}

const Registration k_registration{
    "version", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command = app.add_subcommand("version", "Print the version");
      command->footer("Example:\n  crosscheck version --json");
      command->callback([&] { action = [&] { return run_version(globals); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
