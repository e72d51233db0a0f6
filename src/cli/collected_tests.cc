#include "collected_tests.h"

#include <chrono>
#include <optional>

#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/process.h"
#include "results_file.h"

namespace crosscheck::cli {
namespace {

using base::fail;
using base::Fault;

// "2.6.0" of "2.6.0a0+git1234".
std::string release(std::string_view version) {
  const auto stop = version.find_first_not_of("0123456789.");
  return std::string{version.substr(0, stop)};
}

// "2.6.0" of a tree that says it, in version.txt there or in the folder that it is the test folder
// of; empty: it does not.
std::string version_of(const std::filesystem::path& tree) {
  for (const auto& file : {tree / "version.txt", tree / ".." / "version.txt"})
    if (const auto text = base::read_file(file, 1024)) return release(*text);
  return {};
}

// The inventory's paths are relative to its suite's root, those of the memory to the tree's.
std::string prefix_of(const std::filesystem::path& tree, const std::string& root) {
  std::error_code error;
  if (root.empty()) return {};
  const auto below = std::filesystem::relative(root, tree, error).generic_string();
  return error || below.empty() || below == "." || below.starts_with("..") ? "" : below + "/";
}

}  // namespace

base::Result<std::vector<memory::Collected>> collected_tests(const std::string& file,
                                                             const std::filesystem::path& tree,
                                                             std::string& subject) {
  const auto inventory = load_inventory(file);
  if (!inventory) return tl::unexpected(inventory.error());
  subject = "torch " + inventory->environment.torch;
  const std::string version = version_of(tree);
  if (!version.empty() && version != release(inventory->environment.torch))
    return fail(Fault::environment,
                tree.string() + " is the tree of PyTorch " + version + ", but " + file +
                    " was collected of " + subject,
                "index the tree of that version, or collect with the torch of this one");
  const std::string prefix = prefix_of(tree, inventory->suite.root);
  std::vector<memory::Collected> tests;
  tests.reserve(inventory->tests.size());
  for (const auto& test : inventory->tests) {
    const auto variant = base::parse_json(test.id.variant, "variant");
    const auto text = [&](std::string_view key) {
      const auto found =
          variant ? base::optional_string(*variant, key) : std::optional<std::string>{};
      return found ? found->value_or("") : std::string{};
    };
    tests.push_back({prefix + test.id.file, test.id.class_name, test.id.method, test.id.variant,
                     text("op"), text("dtype"), text("device"), test.node_id, test.line});
  }
  return tests;
}

base::Result<std::string> version_note(const std::filesystem::path& tree,
                                       const std::string& python) {
  base::ProcessSpec spec;
  spec.arguments = {python, "-c",
                    "from importlib import metadata\nprint(metadata.version('torch'))"};
  const auto captured = base::run_captured(spec, std::chrono::seconds{30});
  if (!captured) return tl::unexpected(captured.error());
  if (!captured->status.ok())
    return fail(Fault::environment, python + " has no torch: " + base::to_utf8(captured->err, 500),
                "name the Python that the tests run in");
  const std::string installed = captured->out.substr(0, captured->out.find('\n'));
  const std::string version = version_of(tree);
  if (version.empty() || version == release(installed)) return std::string{};
  return tree.string() + " is the tree of PyTorch " + version + ", but " + python + " has torch " +
         installed + ": tests may be other ones than those that run";
}

}  // namespace crosscheck::cli
