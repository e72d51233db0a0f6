#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include "collected_tests.h"
#include "command.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/memory/memory.h"
#include "crosscheck/profile/points.h"
#include "crosscheck/profile/profile.h"
#include "memory_options.h"

namespace crosscheck::cli {
namespace {

using base::fail;
using base::Fault;
namespace json = base::json;

// Problems that a person is shown; all are counted, and in --json.
constexpr std::size_t k_shown = 20;

struct Options {
  std::string tree;
  std::string memory;
  unsigned jobs = 0;
  bool strict = false;
  bool every_file = false;
  std::vector<std::string> without;
  std::string profile;
  std::string inventory;
  std::string python;
  std::string rules;
  std::string explain;
  std::string export_to;
  EndpointInput endpoint;
  std::size_t budget = 0;
};

struct NarrowingInput {
  std::vector<memory::Rule> rules;
  std::set<std::string> lacks;
  bool narrows = false;                      // otherwise everything is kept
  std::map<std::string, std::string> notes;  // of which it is made again
};

std::string join(const std::set<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ",") + item;
  return text;
}

std::set<std::string> split(std::string_view text) {
  std::set<std::string> items;
  while (!text.empty()) {
    const auto stop = text.find(',');
    if (stop != 0) items.emplace(text.substr(0, stop));
    text.remove_prefix(stop == std::string_view::npos ? text.size() : stop + 1);
  }
  return items;
}

// What rules know and a backend of this profile does not have: extension points that it does not
// use, areas that it leaves out, devices that it is not.
base::Result<std::set<std::string>> lacks_of(const profile::Profile& backend,
                                             const std::vector<memory::Rule>& rules) {
  const profile::Points& points = profile::built_in_points();
  constexpr std::string_view k_device = "device:";
  std::set<std::string> lacks;
  for (const memory::Rule& rule : rules) {
    for (const std::string& name : rule.unless) {
      bool lacked = false;
      if (name.starts_with(k_device)) {
        lacked = std::string_view{name}.substr(k_device.size()) != backend.device;
      } else if (points.find(name) != nullptr) {
        lacked = !backend.uses(name);
      } else if (points.areas.contains(name)) {
        lacked = backend.without.contains(name);
      } else {
        return fail(Fault::invalid_input,
                    rule.place +
                        ": unless: a profile knows neither an extension point nor an area '" +
                        name + "'");
      }
      if (lacked) lacks.insert(name);
    }
  }
  return lacks;
}

// The built-in rules and those of `text`; one of the same name takes the place of the built-in one.
base::Result<std::vector<memory::Rule>> rules_with(const std::string& text,
                                                   const std::string& name) {
  std::vector<memory::Rule> rules = memory::built_in_rules();
  if (text.empty()) return rules;
  auto more = memory::parse_rules(text, name);
  if (!more) return tl::unexpected(more.error());
  for (memory::Rule& rule : *more) {
    std::erase_if(rules, [&](const memory::Rule& old) { return old.id == rule.id; });
    rules.push_back(std::move(rule));
  }
  return rules;
}

base::Result<NarrowingInput> narrowing_of(const Options& options) {
  NarrowingInput input;
  std::string text;
  if (!options.rules.empty()) {
    auto read = base::read_file(options.rules, std::size_t{1} << 20);
    if (!read) return tl::unexpected(read.error());
    text = std::move(*read);
  }
  auto rules = rules_with(text, options.rules);
  if (!rules) return tl::unexpected(rules.error());
  input.rules = std::move(*rules);
  std::set<std::string> known;
  for (const memory::Rule& rule : input.rules) known.insert(rule.unless.begin(), rule.unless.end());
  for (const std::string& one : options.without) {
    if (!known.contains(one))
      return fail(Fault::usage, "--without: no rule depends on '" + one + "'",
                  "use some of " + join(known));
    input.lacks.insert(one);
  }
  if (!options.profile.empty()) {
    const auto backend = profile::load_profile(options.profile, profile::built_in_points());
    if (!backend) return tl::unexpected(backend.error());
    auto more = lacks_of(*backend, input.rules);
    if (!more) return tl::unexpected(more.error());
    input.lacks.merge(*more);
  }
  input.narrows = !options.profile.empty() || !options.without.empty() || !options.rules.empty();
  input.notes = {{"narrows", input.narrows ? "yes" : ""},
                 {"lacks", join(input.lacks)},
                 {"rules", std::move(text)},
                 {"rules_name", options.rules}};
  return input;
}

// As the last `index` was told.
base::Result<NarrowingInput> narrowing_of(memory::Memory& memory) {
  const auto narrows = memory.note("narrows");
  const auto lacks = memory.note("lacks");
  const auto text = memory.note("rules");
  const auto name = memory.note("rules_name");
  for (const auto* note : {&narrows, &lacks, &text, &name})
    if (!*note) return tl::unexpected(note->error());
  auto rules = rules_with(*text, *name);
  if (!rules) return tl::unexpected(rules.error());
  return NarrowingInput{std::move(*rules), split(*lacks), !narrows->empty(), {}};
}

memory::Narrowing narrowing(const NarrowingInput& input) {
  return input.narrows ? memory::Narrowing{input.rules, input.lacks} : memory::Narrowing{};
}

json::object to_json(const memory::IndexReport& report) {
  json::object definitions;
  for (const auto& [kind, count] : report.definitions) definitions[memory::to_string(kind)] = count;
  json::object dropped;
  for (const auto& [rule, count] : report.dropped) dropped[rule] = count;
  json::array problems;
  for (const auto& problem : report.problems)
    problems.push_back(json::object{{"file", problem.path}, {"problem", problem.what}});
  return {
      {"files", report.files},
      {"read", report.read},
      {"removed", report.removed},
      {"definitions", std::move(definitions)},
      {"kept", report.kept},
      {"dropped", std::move(dropped)},
      {"variants", report.variants},
      {"unplaced", report.unplaced},
      {"vectors", json::object{{"provider", "built-in"}, {"parameters", memory::sketch_digest()}}},
      {"problems", std::move(problems)}};
}

void print(const memory::IndexReport& report, const std::string& path) {
  const auto count = [&](memory::Kind kind) {
    const auto found = report.definitions.find(kind);
    return found == report.definitions.end() ? std::size_t{0} : found->second;
  };
  std::printf("%zu files (%zu read, %zu removed): %zu tests, %zu classes, %zu helpers, in %s\n",
              report.files, report.read, report.removed, count(memory::Kind::test),
              count(memory::Kind::klass), count(memory::Kind::helper), path.c_str());
  if (!report.dropped.empty()) {
    std::printf("%zu tests are kept, others dropped:\n", report.kept);
    for (const auto& [rule, number] : report.dropped)
      std::printf("  %6zu  %s\n", number, rule.c_str());
  }
  if (report.variants > 0)
    std::printf("%zu collected tests, %zu of them without a definition here\n", report.variants,
                report.unplaced);
}

void print_problems(const memory::IndexReport& report) {
  for (std::size_t i = 0; i < report.problems.size() && i < k_shown; ++i)
    std::fprintf(stderr, "%s: %s\n", base::to_utf8(report.problems[i].path).c_str(),
                 base::to_utf8(report.problems[i].what).c_str());
  if (report.problems.size() > k_shown)
    std::fprintf(stderr, "… and %zu more: --json lists all\n", report.problems.size() - k_shown);
  if (!report.problems.empty())
    std::fprintf(stderr, "%zu problems; everything else is indexed\n", report.problems.size());
}

json::object to_json(const memory::EndpointReport& report) {
  return {{"requests", report.requests},
          {"embedded", report.embedded},
          {"summarised", report.summarised},
          {"kept", report.kept},
          {"left", report.left},
          {"failed", report.failed},
          {"problems", json::array(report.problems.begin(), report.problems.end())}};
}

void print(const memory::EndpointReport& report) {
  std::printf(
      "endpoint: %zu requests, %zu of them failed; %zu tests embedded, %zu summarised; %zu "
      "answers known before, %zu left\n",
      report.requests, report.failed, report.embedded, report.summarised, report.kept, report.left);
}

void print_problems(const memory::EndpointReport& report) {
  for (const std::string& problem : report.problems)
    std::fprintf(stderr, "endpoint: %s\n", base::to_utf8(problem).c_str());
  if (report.left > 0)
    std::fprintf(stderr, "%zu answers are left: the same command again goes on with them\n",
                 report.left);
}

base::Result<base::ExitCode> explain(const Globals& globals, memory::Memory& memory,
                                     const NarrowingInput& input, const std::string& what) {
  const auto found = memory.explain(what, narrowing(input));
  if (!found) return tl::unexpected(found.error());
  if (globals.json) {
    json::object object{{"path", found->path},   {"name", found->name},
                        {"line", found->line},   {"kept", found->rule.empty()},
                        {"tests", found->tests}, {"dropped_tests", found->dropped_tests}};
    if (!found->rule.empty()) {
      object["rule"] = found->rule;
      object["reason"] = found->reason;
      object["because"] = found->because;
      object["place"] = found->place;
    }
    std::printf("%s\n", base::pretty_json(object).c_str());
    return base::ExitCode::ok;
  }
  const std::string name = found->path + (found->name.empty() ? "" : "::" + found->name);
  if (found->rule.empty()) {
    std::printf("%s is kept: no rule drops it\n", name.c_str());
  } else {
    std::printf("%s is dropped: %s\n  rule:  %s (%s)\n  found: %s\n", name.c_str(),
                found->reason.c_str(), found->rule.c_str(), found->place.c_str(),
                found->because.c_str());
  }
  if (found->name.empty() || found->kind == memory::Kind::klass)
    std::printf("  tests: %zu, %zu of them dropped\n", found->tests, found->dropped_tests);
  return base::ExitCode::ok;
}

base::Result<void> write_export(memory::Memory& memory, const std::string& file) {
  if (file.empty()) return {};
  const auto text = memory.exported();
  if (!text) return tl::unexpected(text.error());
  return base::write_file_atomically(file, *text);
}

// Asks what is there, without a tree.
base::Result<base::ExitCode> ask(const Globals& globals, const Options& options,
                                 const std::filesystem::path& path) {
  if (options.explain.empty() && options.export_to.empty())
    return fail(Fault::usage, "which tree?", "crosscheck index TREE");
  auto memory = memory::Memory::open_existing(path);
  if (!memory) return tl::unexpected(memory.error());
  if (auto written = write_export(*memory, options.export_to); !written)
    return tl::unexpected(written.error());
  if (options.explain.empty()) return base::ExitCode::ok;
  const auto input = narrowing_of(*memory);
  if (!input) return tl::unexpected(input.error());
  return explain(globals, *memory, *input, options.explain);
}

base::Result<base::ExitCode> run_index(const Globals& globals, const Options& options) {
  const auto path = memory_path(globals, options.memory);
  if (!path) return tl::unexpected(path.error());
  if (options.tree.empty()) return ask(globals, options, *path);
  const auto input = narrowing_of(options);
  if (!input) return tl::unexpected(input.error());
  std::optional<memory::Ask> ask;
  if (!options.endpoint.url.empty()) {
    auto made = asker(options.endpoint);
    if (!made) return tl::unexpected(made.error());
    ask = std::move(*made);
  }
  const memory::Narrowing rules = narrowing(*input);
  memory::IndexOptions indexing;
  if (!options.inventory.empty()) {
    auto tests = collected_tests(options.inventory, options.tree, indexing.subject);
    if (!tests) return tl::unexpected(tests.error());
    indexing.collected = std::move(*tests);
  }
  if (!options.python.empty()) {
    const auto note = version_note(options.tree, options.python);
    if (!note) return tl::unexpected(note.error());
    if (!note->empty()) std::fprintf(stderr, "note: %s\n", note->c_str());
  }
  auto memory = memory::Memory::open(*path);
  if (!memory) return tl::unexpected(memory.error());
  indexing.jobs =
      options.jobs == 0 ? std::max(1U, std::thread::hardware_concurrency()) : options.jobs;
  indexing.narrowing = &rules;
  indexing.notes = input->notes;
  indexing.every_file = options.every_file;
  bool shown = false;
  if (is_interactive())
    indexing.on_progress = [&](std::size_t done, std::size_t of) {
      if (done % 50 != 0 && done != of) return;
      shown = true;
      std::fprintf(stderr, "\r\x1b[2K%zu of %zu files", done, of);
    };
  const auto report = memory->index(options.tree, indexing);
  if (shown) std::fprintf(stderr, "\r\x1b[2K");
  if (!report) return tl::unexpected(report.error());
  std::optional<memory::EndpointReport> asked;
  if (ask) {
    auto answered = memory->ask_endpoint(
        {.ask = std::move(*ask),
         .embedding_model = options.endpoint.embedding_model,
         .summary_model = options.endpoint.summary_model,
         .budget = options.budget,
         .wait = [](int seconds) { std::this_thread::sleep_for(std::chrono::seconds{seconds}); }});
    if (!answered) return tl::unexpected(answered.error());
    asked = std::move(*answered);
  }
  if (auto written = write_export(*memory, options.export_to); !written)
    return tl::unexpected(written.error());
  if (!options.explain.empty()) return explain(globals, *memory, *input, options.explain);
  if (globals.json) {
    json::object object = to_json(*report);
    object["memory"] = path->string();
    if (asked) object["endpoint"] = to_json(*asked);
    std::printf("%s\n", base::pretty_json(object).c_str());
  } else {
    print(*report, path->string());
    if (asked) print(*asked);
  }
  print_problems(*report);
  if (asked) print_problems(*asked);
  return options.strict && !report->problems.empty() ? base::ExitCode::bad_input
                                                     : base::ExitCode::ok;
}

const Registration k_registration{
    "index", [](CLI::App& app, Globals& globals, Action& action) {
      static Options options;
      auto* command = app.add_subcommand(
          "index",
          "Read a tree of PyTorch's tests into the repository memory, or bring it up to date");
      command->add_option("TREE", options.tree, "A checkout of PyTorch, or its test folder");
      add_memory_option(*command, options.memory);
      command->add_option("-j,--jobs", options.jobs, "Threads that parse (default: all cores)");
      command->add_flag("--strict", options.strict, "Exit 3 if a file cannot be read wholly");
      command->add_flag("--every-file", options.every_file,
                        "Read also files whose time and size are as they were");
      command
          ->add_option("--without", options.without,
                       "What the backend does not have, such as compile, autograd or device:cuda: "
                       "tests that need it are dropped")
          ->delimiter(',');
      command->add_option("--profile", options.profile,
                          "The backend's profile: what it does not use or promise is dropped");
      command->add_option("--inventory", options.inventory,
                          "What `crosscheck collect` listed of this tree: collected tests hang on "
                          "their definitions");
      command->add_option(
          "--python", options.python,
          "Note where the torch of this Python is of another version than the tree");
      command->add_option("--rules", options.rules, "More rules of what is dropped (YAML)");
      command->add_option("--explain", options.explain,
                          "Say why FILE, FILE::Class or FILE::Class::method is kept or dropped");
      command->add_option("--export", options.export_to,
                          "Write all that is known to a file (JSON lines)");
      add_endpoint_options(*command, options.endpoint, true);
      command->add_option("--budget", options.budget,
                          "Requests that the endpoint may be sent (default: as many as it takes)");
      command->footer(
          "Files that cannot be read wholly are named and counted; the rest is indexed.\n"
          "Examples:\n  crosscheck index ~/pytorch/test --without compile,device:cuda\n"
          "  crosscheck index ~/pytorch/test --profile crosscheck.yaml --inventory "
          "inventory.jsonl\n"
          "  crosscheck index --explain test_ops.py::TestCommon::test_out");
      command->callback([&] { action = [&] { return run_index(globals, options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
