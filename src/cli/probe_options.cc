#include "probe_options.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "crosscheck/base/nearest.h"
#include "crosscheck/runner/run.h"

namespace crosscheck::cli {
namespace {

namespace fs = std::filesystem;
using base::fail;
using base::Fault;

std::atomic<int> interrupt_pipe{-1};

void on_signal(int) {
  const int saved = errno;
  const char byte = 1;
  [[maybe_unused]] const auto written = ::write(interrupt_pipe.load(), &byte, 1);
  errno = saved;
}

base::Result<std::vector<std::string>> files_of_tree(const fs::path& root) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry{root, error}, end; !error && entry != end;
       entry.increment(error)) {
    const auto name = entry->path().filename().string();
    if (entry->is_directory(error)) {
      if (name.starts_with(".") || name == "__pycache__") entry.disable_recursion_pending();
    } else if (name.starts_with("test_") && name.ends_with(".py")) {
      files.push_back(entry->path().lexically_relative(root).generic_string());
    }
  }
  if (error) {
    return fail(Fault::invalid_input, "--suite: " + root.string() + ": " + error.message());
  }
  if (files.empty()) {
    return fail(Fault::invalid_input, "--suite: no file named test_*.py in " + root.string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

base::Result<runner::Suite> resolve_suite(const ProbeOptions& options) {
  runner::Suite suite;
  suite.files = options.files;
  if (options.suite == "bundled") return suite;
  std::error_code error;
  if (!fs::is_directory(options.suite, error)) {
    return fail(Fault::invalid_input, "--suite: " + options.suite + " is no folder",
                "give 'bundled', or the test folder of a PyTorch checkout");
  }
  suite.name = "tree";
  suite.root = fs::canonical(options.suite, error).string();
  if (!suite.files.empty()) {
    for (auto& file : suite.files) {
      const auto path = fs::path{suite.root} / file;
      if (!fs::is_regular_file(path, error)) {
        return fail(Fault::invalid_input, "--files: there is no " + file + " in " + suite.root);
      }
      // As the suite names it, however it was written; links are followed by nobody but its tests.
      const auto inside = path.lexically_normal().lexically_relative(suite.root);
      if (*inside.begin() == "..") {
        return fail(Fault::invalid_input, "--files: " + file + " does not lie in " + suite.root,
                    "give --suite the folder that holds all the files");
      }
      file = inside.generic_string();
    }
    return suite;
  }
  auto files = files_of_tree(suite.root);
  if (!files) return tl::unexpected(files.error());
  suite.files = std::move(*files);
  return suite;
}

// A tree's have been looked for already.
base::Result<void> check_bundled_files(const runner::ProbeSetup& setup,
                                       const std::vector<std::string>& files) {
  const auto bundled = runner::suite_files(setup);
  for (const auto& file : files) {
    if (std::find(bundled.begin(), bundled.end(), file) != bundled.end()) continue;
    return fail(Fault::invalid_input, "--files: the bundled suite has no " + file,
                base::suggest(file, std::vector<std::string_view>{bundled.begin(), bundled.end()}));
  }
  return {};
}

}  // namespace

void add_probe_options(CLI::App& command, ProbeOptions& options) {
  command
      .add_option("--suite", options.suite, "'bundled', or the test folder of a PyTorch checkout")
      ->capture_default_str()
      ->each([&options](const std::string&) { options.suite_given = true; });
  command.add_option("--files", options.files, "Only these files, relative to the suite's root")
      ->delimiter(',');
  command
      .add_option("--device", options.device,
                  "cpu, refdev, or the name of a device that torch or --device-module knows")
      ->capture_default_str()
      ->each([&options](const std::string&) { options.device_given = true; });
  command.add_option("--device-module", options.device_module,
                     "Python module that registers the device");
  command.add_option("--device-path", options.device_path, "Folder that holds the module");
  command.add_option(
      "--python", options.python,
      "Interpreter whose torch is tested; default: $CROSSCHECK_PYTHON, .venv, python3");
  command
      .add_option("--collect-timeout", options.collect_timeout,
                  "Seconds that importing and collecting one file may take")
      ->check(CLI::Range(0.001, 1e7))
      ->capture_default_str();
}

base::Result<runner::ProbeSetup> resolve(const ProbeOptions& options) {
  const auto surroundings = runner::current_surroundings();
  runner::ProbeSetup setup;
  setup.python = options.python.empty() ? runner::default_python(surroundings) : options.python;
  auto probe = runner::default_probe_path(surroundings);
  if (!probe) return tl::unexpected(probe.error());
  setup.probe_path = std::move(*probe);
  auto device = runner::resolve_device(options.device, options.device_module, options.device_path,
                                       surroundings);
  if (!device) return tl::unexpected(device.error());
  setup.device = std::move(*device);
  auto suite = resolve_suite(options);
  if (!suite) return tl::unexpected(suite.error());
  if (suite->name == "bundled") {
    if (auto there = check_bundled_files(setup, suite->files); !there) {
      return tl::unexpected(there.error());
    }
  }
  setup.suite = std::move(*suite);
  // Threads change what is computed and are a fact of the environment, so they follow from the
  // machine alone, not from --jobs or the memory that is free now.
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    const auto cores = std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
    const auto threads = cores / std::min(cores, runner::k_most_workers);
    setup.environment.emplace_back("OMP_NUM_THREADS", std::to_string(threads));
  }
  return setup;
}

base::Result<Interrupts> Interrupts::watch() {
  auto pipe = base::make_pipe();
  if (!pipe) return tl::unexpected(pipe.error());
  ::fcntl(pipe->write.get(), F_SETFL, O_NONBLOCK);
  return Interrupts{std::move(*pipe)};
}

Interrupts::Interrupts(base::Pipe pipe)
    : read_{std::move(pipe.read)}, write_{std::move(pipe.write)} {
  interrupt_pipe = write_.get();
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

Interrupts::~Interrupts() {
  if (!write_) return;
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  interrupt_pipe = -1;
}

}  // namespace crosscheck::cli
