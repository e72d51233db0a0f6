#include "selection_options.h"

#include <algorithm>

#include "crosscheck/base/file.h"
#include "results_file.h"

namespace crosscheck::cli {
namespace {

base::Result<std::vector<std::string>> read_names(const std::string& file) {
  const auto text = base::read_file(file);
  if (!text) return tl::unexpected(text.error());
  std::vector<std::string> names;
  std::size_t begin = 0;
  while (begin < text->size()) {
    const auto end = std::min(text->find('\n', begin), text->size());
    auto line = text->substr(begin, end - begin);
    begin = end + 1;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line.front() != '#') names.push_back(std::move(line));
  }
  return names;
}

}  // namespace

void add_selection_options(CLI::App& command, SelectionOptions& options) {
  command.add_flag("--quick", options.quick, "Only the suite's quick set");
  command.add_option("--select", options.patterns,
                     "Part of a node id, or /regular expression/ (RE2); may be repeated");
  command.add_option("--tests-from", options.tests_from, "File with exact node ids, one a line");
  command.add_option("--inventory", options.inventory,
                     "What `crosscheck collect` wrote; default: collect first");
}

base::Result<runner::Selection> read_selection(const SelectionOptions& options) {
  runner::Selection selection;
  selection.quick = options.quick;
  selection.patterns = options.patterns;
  if (options.tests_from.empty()) return selection;
  auto names = read_names(options.tests_from);
  if (!names) return tl::unexpected(names.error());
  selection.node_ids = std::move(*names);
  return selection;
}

base::Result<runner::Inventory> adopt_inventory(const SelectionOptions& options,
                                                ProbeOptions& probe) {
  auto inventory = load_inventory(options.inventory);
  if (!inventory) return inventory;
  if (!probe.device_given) probe.device = inventory->device;
  if (!probe.suite_given) {
    probe.suite = inventory->suite.name == "bundled" ? "bundled" : inventory->suite.root;
    if (probe.files.empty()) probe.files = inventory->suite.files;
  }
  if (probe.device != inventory->device) {
    return base::fail(base::Fault::environment,
                      "the inventory was collected for device '" + inventory->device +
                          "', but this run is on '" + probe.device + "'",
                      "collect an inventory for this device, or choose the other with --device");
  }
  return inventory;
}

}  // namespace crosscheck::cli
