#include "memory_options.h"

#include "settings.h"

namespace crosscheck::cli {

void add_memory_option(CLI::App& command, std::string& path) {
  command.add_option("--memory", path,
                     "The repository memory, a SQLite file (default: beside the store, "
                     ".crosscheck/crosscheck.memory.db)");
}

base::Result<std::filesystem::path> memory_path(const Globals& globals, const std::string& given) {
  if (!given.empty()) return given;
  auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  if (url->starts_with("sqlite:")) url->erase(0, 7);
  std::filesystem::path path = *url;
  if (url->starts_with("postgresql://") || url->starts_with("postgres://")) path = Settings{}.db;
  return path.replace_extension(".memory.db");
}

}  // namespace crosscheck::cli
