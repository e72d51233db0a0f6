#include "command.h"
#include "settings.h"

namespace crosscheck::cli {

base::Result<std::string> store_url(const Globals& globals) {
  std::vector<Flag> flags;
  if (!globals.db.empty()) flags.push_back({"db", "--db", globals.db});
  auto loaded = load_settings(globals.settings_file, process_environment(), flags);
  if (!loaded) return tl::unexpected(loaded.error());
  return std::move(loaded->values.db);
}

}  // namespace crosscheck::cli
