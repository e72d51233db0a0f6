#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <map>
#include <optional>

#include "command.h"
#include "config_files.h"
#include "crosscheck/base/file.h"
#include "crosscheck/profile/operators.h"
#include "crosscheck/profile/support.h"
#include "crosscheck/runner/support.h"
#include "ops_command.h"
#include "probe_options.h"

namespace crosscheck::cli {
namespace {

using base::ExitCode;
using base::Fault;
using base::Result;
using profile::Answer;
using profile::Support;

struct Options {
  ProbeOptions probe;
  std::vector<std::string> lists;
  std::vector<std::string> operators;
  std::vector<std::string> dtypes;
  std::string output;
  int samples = 4;
  int limit_seconds = 60;
  bool no_samples = false;
};

struct Seen {
  std::string torch;
  std::string device;
  std::vector<std::string> notes;
};

// The samples to run: of those that torch describes, in the data types asked for.
std::vector<runner::SampleUnit> chosen(std::vector<runner::SampleUnit> units,
                                       const std::vector<std::string>& dtypes) {
  if (dtypes.empty()) return units;
  for (runner::SampleUnit& unit : units)
    std::erase_if(unit.dtypes, [&](const std::string& dtype) {
      return std::ranges::find(dtypes, dtype) == dtypes.end();
    });
  return units;
}

Result<Seen> ask_device(const Options& options, const std::vector<std::string>& operators,
                        profile::SupportBook& book) {
  const auto setup = resolve(options.probe);
  if (!setup) return tl::unexpected(setup.error());
  auto interrupts = Interrupts::watch();
  if (!interrupts) return tl::unexpected(interrupts.error());
  runner::CallOptions call;
  call.interrupt_fd = interrupts->fd();
  Seen seen;
  std::vector<runner::SampleUnit> units;
  const auto environment = runner::describe_support(
      *setup, operators, call, [&](std::string_view ev, const base::json::object& line) {
        if (ev == "unit") {
          runner::SampleUnit& unit = units.emplace_back();
          unit.unit = base::optional_string(line, "unit").value_or(std::nullopt).value_or("");
          if (const auto* dtypes = line.if_contains("dtypes"); dtypes != nullptr)
            for (const auto& dtype : dtypes->as_array())
              unit.dtypes.emplace_back(dtype.as_string());
        } else if (ev == "support_note") {
          seen.notes.push_back(
              base::optional_string(line, "message").value_or(std::nullopt).value_or(""));
        } else {
          book.take(ev, line);
        }
      });
  if (!environment) return tl::unexpected(environment.error());
  seen.torch = environment->torch;
  seen.device = environment->device.type;
  if (options.no_samples) return seen;
  units = chosen(std::move(units), options.dtypes);
  std::size_t all = 0;
  for (const auto& unit : units) all += unit.dtypes.size();
  std::size_t done = 0;
  call.start = call.limit;
  call.limit = std::chrono::seconds{options.limit_seconds};
  const bool interactive = is_interactive();
  const auto ran = runner::run_samples(
      *setup, std::move(units), options.samples, call, [&](const runner::Sampled& sampled) {
        ++done;
        if (interactive && done % 20 == 0)
          std::fprintf(stderr, "\r\x1b[2K%zu of %zu samples", done, all);
        for (const auto& result : sampled.results)
          if (result.is_object()) book.take_result(sampled.dtype, result.get_object());
        if (sampled.died.empty()) return;
        book.take_death(sampled.dtype, sampled.operators, sampled.hung, sampled.died);
        std::fprintf(stderr, "%s%s, %s: %s\n", interactive ? "\r\x1b[2K" : "",
                     base::to_utf8(sampled.unit).c_str(), base::to_utf8(sampled.dtype).c_str(),
                     base::to_utf8(sampled.died).c_str());
      });
  if (interactive && done > 0) std::fprintf(stderr, "\r\x1b[2K");
  if (!ran) return tl::unexpected(ran.error());
  return seen;
}

std::string as_lines(const std::vector<Support>& all, const std::optional<Seen>& seen) {
  base::json::object head{{"schema", 1}};
  if (seen) {
    head["torch"] = seen->torch;
    head["device"] = seen->device;
  }
  std::string text = base::json::serialize(head) + "\n";
  for (const Support& support : all) text += base::json::serialize(to_json(support)) + "\n";
  return text + base::json::serialize(base::json::object{{"end", all.size()}}) + "\n";
}

// "float32 float64; bool partly".
std::string dtypes_text(const Support& support) {
  std::map<std::string, std::string> by_outcome;
  for (const auto& [dtype, result] : support.dtypes) {
    std::string& text = by_outcome[result.outcome];
    text += (text.empty() ? "" : " ") + dtype;
  }
  std::string text;
  if (const auto runs = by_outcome.extract("runs"); !runs.empty()) text = runs.mapped();
  for (const auto& [outcome, dtypes] : by_outcome)
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", outcome, dtypes);
  return text;
}

std::string as_table(const std::vector<Support>& all) {
  std::string text;
  for (const Support& support : all) {
    text += fmt::format("{:<18}  {}", to_string(support.answer), support.op);
    if (!support.because.empty()) text += " (" + support.because + ")";
    if (!support.callees_seen) text += " (what it calls was not seen)";
    if (const std::string dtypes = dtypes_text(support); !dtypes.empty()) text += ": " + dtypes;
    text += "\n";
  }
  return text;
}

std::string summary(const std::vector<Support>& all, const std::optional<Seen>& seen) {
  std::map<Answer, std::size_t> counts;
  std::size_t unseen = 0;
  std::size_t sampled = 0;
  for (const Support& support : all) {
    ++counts[support.answer];
    if (!support.callees_seen) ++unseen;
    if (!support.dtypes.empty()) ++sampled;
  }
  std::string text = fmt::format("{} operators", all.size());
  for (const auto& [answer, count] : counts)
    text += fmt::format(", {} {}", count, to_string(answer));
  if (unseen > 0) text += fmt::format("; of {} composites it was not seen what they call", unseen);
  text += fmt::format("; samples of {}", sampled);
  if (seen) text += fmt::format(" ({}, torch {})", seen->device, seen->torch);
  return text + "\n";
}

Result<ExitCode> run_support(const Globals& globals, const Options& options) {
  profile::SupportBook book;
  for (const std::string& path : options.lists) {
    auto list = profile::load_operators(path);
    if (!list) return tl::unexpected(list.error());
    book.take_list(std::move(*list));
  }
  std::vector<std::string> operators;
  for (const std::string& given : options.operators) {
    std::string name = profile::operator_name(given);
    if (name.empty())
      return base::fail(Fault::usage, "--operators: '" + given + "' is no operator",
                        "such as aten::add.Tensor");
    operators.push_back(std::move(name));
  }
  std::optional<Seen> seen;
  if (options.probe.device_given || options.lists.empty()) {
    auto asked = ask_device(options, operators, book);
    if (!asked) return tl::unexpected(asked.error());
    seen = std::move(*asked);
    for (const std::string& note : seen->notes)
      std::fprintf(stderr, "note: %s\n", base::to_utf8(note).c_str());
  }
  std::vector<Support> all = book.decide();
  if (!operators.empty()) {
    for (const std::string& wanted : operators)
      if (std::ranges::find(all, wanted, &Support::op) == all.end())
        return base::fail(Fault::invalid_input, "--operators: there is no " + wanted);
    std::erase_if(all, [&](const Support& support) {
      return std::ranges::find(operators, support.op) == operators.end();
    });
  }
  const std::string lines = as_lines(all, seen);
  if (!options.output.empty()) {
    if (auto written = base::write_file_atomically(options.output, lines); !written)
      return tl::unexpected(written.error());
    if (globals.json) {
      print_json(base::json::object{{"output", options.output}, {"operators", all.size()}});
      return ExitCode::ok;
    }
  } else if (globals.json) {
    print(lines);
    return ExitCode::ok;
  } else {
    print(as_table(all));
  }
  for (const Support& support : all)
    for (const std::string& disagreement : support.disagreements)
      print("disagreement: " + support.op + ": " + base::to_utf8(disagreement) + "\n");
  print(summary(all, seen));
  return ExitCode::ok;
}

const Registration k_registration{
    "ops support", [](CLI::App& app, Globals& globals, Action& action) {
      static Options options;
      auto* command = ops_command(app).add_subcommand(
          "support",
          "What a backend does with each operator: five answers, and how they are known");
      command
          ->add_option("--device", options.probe.device,
                       "cpu, refdev, or the name of a device that torch or --device-module knows; "
                       "with --list and without it, the lists alone are read")
          ->capture_default_str()
          ->each([](const std::string&) { options.probe.device_given = true; });
      command->add_option("--device-module", options.probe.device_module,
                          "Python module that registers the device");
      command->add_option("--device-path", options.probe.device_path,
                          "Folder that holds the module");
      command->add_option("--python", options.probe.python,
                          "Interpreter whose torch is asked; default: $CROSSCHECK_PYTHON, .venv, "
                          "python3");
      command
          ->add_option("--list", options.lists,
                       "File in which the backend lists its operators (docs/profile.md); again: "
                       "another")
          ->allow_extra_args(false);
      command->add_option("--operators", options.operators, "Only these")->delimiter(',');
      command->add_option("--dtypes", options.dtypes, "Samples of these data types only")
          ->delimiter(',');
      command->add_option("--samples", options.samples, "Of each operator and data type")
          ->check(CLI::Range(1, 1000))
          ->capture_default_str();
      command->add_option("--limit", options.limit_seconds, "Seconds that one of them may take")
          ->check(CLI::Range(1, 86400))
          ->capture_default_str();
      command->add_flag("--no-samples", options.no_samples, "Run nothing on the device");
      command->add_option("-o,--output", options.output, "File for the answers (JSON lines)");
      command->footer(
          "A sample that kills or hangs its process costs itself. docs/formats.md has the "
          "answers.\n"
          "Examples:\n  crosscheck ops support --device refdev -o support.jsonl\n"
          "  crosscheck ops support --device npu --device-module torch_npu --list "
          "native_functions.yaml");
      command->callback([&] { action = [&] { return run_support(globals, options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
