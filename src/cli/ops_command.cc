#include "ops_command.h"

#include "crosscheck/store/store.h"

namespace crosscheck::cli {

CLI::App& ops_command(CLI::App& app) {
  for (auto* there : app.get_subcommands({})) {
    if (there->get_name() == "ops") return *there;
  }
  auto* command = app.add_subcommand(
      "ops", "Operators: which tests use one, and what a backend lacks for which tests");
  command->require_subcommand(1);
  command->footer("Example:\n  crosscheck ops tests aten::logaddexp");
  return *command;
}

base::Result<std::filesystem::path> index_path(const Globals& globals, const std::string& given) {
  if (!given.empty()) return std::filesystem::path{given};
  const auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  std::string_view file = *url;
  if (file.starts_with("sqlite:")) file.remove_prefix(7);
  if (file.find("://") != std::string_view::npos) {
    return base::fail(base::Fault::usage,
                      "the store " + store::redact(*url) +
                          " is no file, so the operator index does not lie beside it",
                      "name the index's file with --index");
  }
  return std::filesystem::path{file}.replace_extension(".operators.db");
}

base::Result<ops::Index> open_index(const Globals& globals, const std::string& given,
                                    ops::Index::Open how) {
  const auto path = index_path(globals, given);
  if (!path) return tl::unexpected(path.error());
  return ops::Index::open(*path, how);
}

void add_index_option(CLI::App& command, std::string& index) {
  command.add_option("--index", index,
                     "The operator index; default: beside the store, as <name>.operators.db");
}

}  // namespace crosscheck::cli
