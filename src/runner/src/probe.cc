#include "crosscheck/runner/probe.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <system_error>

#include "call.h"
#include "worker.h"

namespace crosscheck::runner {
namespace {

namespace fs = std::filesystem;
using base::fail;
using base::Fault;
using base::Result;
namespace json = base::json;

// What one process can import: files of one base name are one module to Python.
std::vector<std::vector<std::string>> batches_of(const std::vector<std::string>& files) {
  std::vector<std::vector<std::string>> batches(1);
  std::set<std::string> seen;
  std::map<std::string, std::size_t> of_name;
  for (const auto& given : files) {
    const auto path = fs::path{given}.lexically_normal();
    if (!seen.insert(path.string()).second) continue;
    const auto batch = of_name[path.filename().string()]++;
    if (batch == batches.size()) batches.emplace_back();
    batches[batch].push_back(path.generic_string());
  }
  return batches;
}

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Adds what `files` hold. A file whose import kills the process costs itself, not the others: tests
// are reported once all files are imported, so the others are collected again without it.
Result<void> collect_into(Inventory& inventory, const ProbeSetup& setup,
                          std::vector<std::string> files, const CallOptions& options) {
  while (true) {
    Suite suite = setup.suite;
    suite.files = files;
    Inventory part;
    bool described = false;
    std::string current;
    const json::object request{{"suite", to_json(suite)}, {"device", to_json(setup.device)}};
    auto outcome = call(setup, "collect", request, options, [&](Event event) {
      if (auto* test = std::get_if<CollectedTest>(&event)) {
        part.tests.push_back(std::move(*test));
      } else if (auto* error = std::get_if<CollectError>(&event)) {
        part.errors.push_back(std::move(*error));
      } else if (auto* skip = std::get_if<CollectSkip>(&event)) {
        part.skips.push_back(std::move(*skip));
      } else if (auto* collecting = std::get_if<Collecting>(&event)) {
        current = std::move(collecting->file);
      } else if (auto* environment = std::get_if<Environment>(&event)) {
        inventory.environment = std::move(*environment);
        described = true;
      }
      if (options.on_progress) options.on_progress(inventory.tests.size() + part.tests.size());
    });
    if (!outcome) return tl::unexpected(outcome.error());
    if (described && outcome->complete) {
      append(inventory.tests, part.tests);
      append(inventory.errors, part.errors);
      append(inventory.skips, part.skips);
      return {};
    }
    const auto at = std::find(files.begin(), files.end(), current);
    if (!described || outcome->failure || at == files.end()) {
      return tl::unexpected(failure_of(setup, *outcome, options));
    }
    const std::string limit = outcome->hung ? ", the limit of a file (--collect-timeout)" : "";
    inventory.errors.push_back({current, "", how_ended(*outcome, options) + limit,
                                base::to_utf8(outcome->ended.err, std::size_t{64} << 10)});
    files.erase(at);
    if (files.empty()) return {};
  }
}

std::optional<fs::path> source_tree(const Surroundings& surroundings) {
  // build/<preset>/bin/crosscheck
  const auto root = fs::path{surroundings.program}.parent_path() / ".." / ".." / "..";
  std::error_code error;
  if (!fs::is_directory(root / "probe" / "src" / "crosscheck_probe", error)) return {};
  return fs::weakly_canonical(root, error);
}

fs::path installed_share(const Surroundings& surroundings) {
  return (fs::path{surroundings.program}.parent_path() / ".." / "share" / "crosscheck")
      .lexically_normal();
}

}  // namespace

Result<Environment> read_environment(const ProbeSetup& setup, const CallOptions& options) {
  std::optional<Environment> environment;
  const json::object request{{"suite", to_json(setup.suite)}, {"device", to_json(setup.device)}};
  auto outcome = call(setup, "environment", request, options, [&](Event event) {
    if (auto* found = std::get_if<Environment>(&event)) environment = std::move(*found);
  });
  if (!outcome) return tl::unexpected(outcome.error());
  if (!environment || outcome->failure || !outcome->ended.status.ok()) {
    return tl::unexpected(failure_of(setup, *outcome, options));
  }
  return std::move(*environment);
}

Result<Inventory> collect(const ProbeSetup& setup, const CallOptions& options) {
  Inventory inventory;
  inventory.suite = setup.suite;
  inventory.device = setup.device.name;
  // All by name, so that collection can go on behind a file that kills its process.
  for (auto& batch : batches_of(suite_files(setup))) {
    if (auto done = collect_into(inventory, setup, std::move(batch), options); !done) {
      return tl::unexpected(done.error());
    }
  }
  drop_unidentifiable(inventory);
  if (auto ordered = put_in_order(inventory); !ordered) return tl::unexpected(ordered.error());
  return inventory;
}

Result<Observer> prepare_observer(const ProbeSetup& setup, const std::string& wanted,
                                  const CallOptions& options) {
  std::optional<Observer> observer;
  const json::object request{{"device", to_json(setup.device)}, {"observer", wanted}};
  auto outcome = call(setup, "observer", request, options, [&](Event event) {
    if (auto* found = std::get_if<Observer>(&event)) observer = std::move(*found);
  });
  if (!outcome) return tl::unexpected(outcome.error());
  if (!observer || outcome->failure || !outcome->ended.status.ok()) {
    return tl::unexpected(failure_of(setup, *outcome, options));
  }
  return std::move(*observer);
}

std::vector<std::string> suite_files(const ProbeSetup& setup) {
  if (!setup.suite.files.empty() || setup.suite.name != "bundled") return setup.suite.files;
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator{fs::path{setup.probe_path} / "crosscheck_probe" / "suite", error}) {
    const auto name = entry.path().filename().string();
    if (name.starts_with("test_") && name.ends_with(".py")) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

Surroundings current_surroundings() {
  Surroundings surroundings;
  const auto variable = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) return {};
    return value;
  };
  surroundings.crosscheck_python = variable("CROSSCHECK_PYTHON");
  surroundings.crosscheck_probe = variable("CROSSCHECK_PROBE");
  std::error_code error;
  surroundings.working_directory = fs::current_path(error).string();
  surroundings.program = fs::read_symlink("/proc/self/exe", error).string();
  return surroundings;
}

std::string default_python(const Surroundings& surroundings) {
  if (surroundings.crosscheck_python) return *surroundings.crosscheck_python;
  std::vector<fs::path> roots{surroundings.working_directory};
  if (const auto tree = source_tree(surroundings)) roots.push_back(*tree);
  for (const auto& root : roots) {
    const auto python = root / ".venv" / "bin" / "python";
    if (::access(python.c_str(), X_OK) == 0) return python.string();
  }
  return "python3";
}

Result<std::string> default_probe_path(const Surroundings& surroundings) {
  std::vector<fs::path> candidates;
  if (surroundings.crosscheck_probe) {
    candidates = {*surroundings.crosscheck_probe};
  } else {
    if (const auto tree = source_tree(surroundings)) candidates.push_back(*tree / "probe" / "src");
    candidates.push_back(installed_share(surroundings) / "probe");
  }
  std::error_code error;
  for (const auto& candidate : candidates) {
    if (fs::is_directory(candidate / "crosscheck_probe", error)) {
      return fs::absolute(candidate, error).string();
    }
  }
  return fail(Fault::environment,
              "the probe is not there: no folder crosscheck_probe in " + candidates.back().string(),
              "set CROSSCHECK_PROBE to the folder that holds crosscheck_probe");
}

Result<Device> resolve_device(const std::string& name, const std::string& module,
                              const std::string& path, const Surroundings& surroundings) {
  Device device{name, module, path};
  if (!path.empty()) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      return fail(Fault::usage, "--device-path: " + path + " is no folder");
    }
    device.path = fs::absolute(path, error).string();
  }
  if (name != "refdev" || !module.empty()) return device;
  device.module = "refdev";
  if (device.path.empty()) {
    std::vector<fs::path> candidates;
    if (const auto tree = source_tree(surroundings)) {
      candidates.push_back(*tree / "build" / "refdev");  // where scripts/setup builds it
    }
    candidates.push_back(installed_share(surroundings) / "refdev");
    std::error_code error;
    for (const auto& candidate : candidates) {
      if (fs::is_directory(candidate, error)) {
        device.path = candidate.string();
        break;
      }
    }
  }
  return device;
}

}  // namespace crosscheck::runner
