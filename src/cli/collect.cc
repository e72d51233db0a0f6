#include <boost/json/serialize.hpp>
#include <cstdio>
#include <map>

#include "command.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "probe_options.h"

namespace crosscheck::cli {
namespace {

struct Options {
  ProbeOptions probe;
  std::string output;
};

base::json::object summary(const runner::Inventory& inventory, const std::string& output) {
  std::map<std::string, std::int64_t> files;
  std::int64_t quick = 0;
  for (const auto& test : inventory.tests) {
    ++files[test.id.file];
    if (test.quick) ++quick;
  }
  base::json::object counts;
  for (const auto& [file, count] : files) counts[file] = count;
  base::json::array errors;
  for (const auto& error : inventory.errors) {
    errors.push_back(
        base::json::object{{"file", error.file}, {"type", error.type}, {"message", error.message}});
  }
  base::json::array skips;
  for (const auto& skip : inventory.skips) {
    skips.push_back(base::json::object{{"file", skip.file}, {"message", skip.message}});
  }
  return {{"tests", inventory.tests.size()},
          {"quick", quick},
          {"files", std::move(counts)},
          {"errors", std::move(errors)},
          {"skips", std::move(skips)},
          {"torch", inventory.environment.torch},
          {"device", inventory.environment.device.type},
          {"suite_revision", inventory.environment.suite},
          {"output", output}};
}

base::Result<base::ExitCode> run_collect(const Globals& globals, const Options& options) {
  const auto setup = resolve(options.probe);
  if (!setup) return tl::unexpected(setup.error());
  auto interrupts = Interrupts::watch();
  if (!interrupts) return tl::unexpected(interrupts.error());
  runner::CallOptions call;
  call.interrupt_fd = interrupts->fd();
  call.limit = options.probe.collect_limit();
  std::size_t shown = 0;
  const bool interactive = is_interactive();
  call.on_progress = [&](std::size_t tests) {
    if (!interactive || tests < shown + 100) return;
    shown = tests;
    std::fprintf(stderr, "\r\x1b[2K%zu tests", tests);
  };
  const auto inventory = runner::collect(*setup, call);
  if (shown > 0) std::fprintf(stderr, "\r\x1b[2K");
  if (!inventory) return tl::unexpected(inventory.error());
  if (options.output.empty()) {
    const auto text = to_json_lines(*inventory);
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    if (auto written = base::write_file_atomically(options.output, to_json_lines(*inventory));
        !written) {
      return tl::unexpected(written.error());
    }
    const auto result = summary(*inventory, options.output);
    if (globals.json) {
      std::printf("%s\n", base::pretty_json(result).c_str());
    } else {
      std::printf("%zu tests, %lld of them quick, in %s (torch %s, %s)\n", inventory->tests.size(),
                  static_cast<long long>(result.at("quick").as_int64()), options.output.c_str(),
                  inventory->environment.torch.c_str(), inventory->environment.device.type.c_str());
    }
  }
  for (const auto& error : inventory->errors) {
    std::fprintf(stderr, "%s does not collect: %s%s%s\n", base::to_utf8(error.file).c_str(),
                 base::to_utf8(error.type).c_str(), error.type.empty() ? "" : ": ",
                 base::to_utf8(error.message).c_str());
  }
  for (const auto& skip : inventory->skips) {
    std::fprintf(stderr, "%s skips itself: %s\n", base::to_utf8(skip.file).c_str(),
                 base::to_utf8(skip.message).c_str());
  }
  return inventory->errors.empty() ? base::ExitCode::ok : base::ExitCode::no;
}

const Registration k_registration{
    "collect", [](CLI::App& app, Globals& globals, Action& action) {
      static Options options;
      auto* command = app.add_subcommand("collect", "List a suite's tests for a device");
      add_probe_options(*command, options.probe);
      command->add_option("-o,--output", options.output,
                          "File for the inventory (JSON lines); default: standard output");
      command->footer(
          "Exits 1 if a file does not collect; the others are listed all the same.\n"
          "Example:\n  crosscheck collect --device refdev -o inventory.jsonl");
      command->callback([&] { action = [&] { return run_collect(globals, options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
