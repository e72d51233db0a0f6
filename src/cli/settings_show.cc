#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>

#include "command.h"
#include "settings.h"

namespace crosscheck::cli {
namespace {

base::Result<base::ExitCode> show_settings(const Globals& globals) {
  std::vector<Flag> flags;
  if (!globals.db.empty()) flags.push_back({"db", "--db", globals.db});
  const auto loaded = load_settings(globals.settings_file, process_environment(), flags);
  if (!loaded) return tl::unexpected(loaded.error());
  if (globals.json) {
    boost::json::array list;
    for (const ShownSetting& s : loaded->shown)
      list.push_back(
          boost::json::object{{"name", s.name}, {"value", s.value}, {"origin", s.origin}});
    std::printf("%s\n", boost::json::serialize(list).c_str());
    return base::ExitCode::ok;
  }
  for (const ShownSetting& s : loaded->shown)
    std::printf("%-28s %s  [%s]\n", s.name.c_str(), s.value.empty() ? "-" : s.value.c_str(),
                s.origin.c_str());
  return base::ExitCode::ok;
}

const Registration k_registration{
    "settings", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command = app.add_subcommand("settings", "The program's own settings");
      command->footer("Example:\n  crosscheck settings show");
      command->require_subcommand(1);
      auto* show = command->add_subcommand(
          "show", "Print each setting with where it comes from; secrets are hidden");
      show->footer("Example:\n  crosscheck settings show --settings crosscheck.settings.yaml");
      show->callback([&] { action = [&] { return show_settings(globals); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
