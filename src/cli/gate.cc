#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "actor.h"
#include "command.h"
#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/gate/bundle.h"
#include "crosscheck/gate/decision.h"
#include "crosscheck/gate/environment.h"
#include "crosscheck/gate/manifest.h"
#include "crosscheck/gate/matrix.h"
#include "crosscheck/gate/privacy.h"
#include "crosscheck/gate/process_launcher.h"
#include "crosscheck/gate/report.h"
#include "crosscheck/gate/verify.h"
#include "crosscheck/runner/probe.h"
#include "crosscheck/store/store.h"
#include "crosscheck/store/upgrades.h"
#include "gate_progress.h"
#include "probe_options.h"

namespace crosscheck::cli {
namespace {

using base::ExitCode;
using base::fail;
using base::Fault;
namespace json = base::json;
namespace fs = std::filesystem;

struct GateOptions {
  std::string manifest = "gate.yaml";
  std::string output;
  std::vector<std::string> cells;
  std::string cell;
  std::string format = "text";
  std::string file;
  std::string baseline;
  std::string candidate;
  std::string matrix;
  std::string key;
  std::string python;
  std::string privacy = "standard";
  std::vector<std::string> folders;
  bool dry_run = false;
  bool accept_load = false;
};

base::Time now() { return base::SystemClock{}.now(); }

base::Result<gate::Manifest> read_manifest(const GateOptions& options) {
  const auto text = base::read_file(options.manifest);
  if (!text) return tl::unexpected(text.error());
  auto manifest = gate::parse_manifest(*text, options.manifest);
  if (!manifest) return manifest;
  if (auto done = gate::hash_locks(*manifest, fs::path{options.manifest}.parent_path()); !done) {
    return tl::unexpected(done.error());
  }
  return manifest;
}

fs::path folder_of(const GateOptions& options, const gate::Manifest& manifest) {
  return options.output.empty() ? fs::path{".crosscheck/gate"} / manifest.name
                                : fs::path{options.output};
}

// A matrix to be read, with the manifest that it was frozen by.
struct Opened {
  gate::Manifest manifest;
  gate::Matrix matrix;
};
base::Result<Opened> open_matrix(const GateOptions& options) {
  auto manifest = read_manifest(options);
  if (!manifest) return tl::unexpected(manifest.error());
  auto matrix = gate::Matrix::open(folder_of(options, *manifest), *manifest);
  if (!matrix) return tl::unexpected(matrix.error());
  return Opened{std::move(*manifest), std::move(*matrix)};
}

// What its launches say now.
struct Judged {
  std::vector<gate::CellResult> results;
  gate::Outcome outcome;
};
Judged judge_now(const gate::Manifest& manifest, const gate::Matrix& matrix,
                 base::Time at = now()) {
  auto results = gate::judge(manifest, matrix);
  auto outcome = gate::decide(manifest, results, at);
  return {std::move(results), std::move(outcome)};
}

std::string lines_of(const std::vector<gate::Finding>& findings) {
  std::string text;
  for (const auto& finding : findings) {
    text += fmt::format("{}: {}: {}\n", finding.refused ? "refused" : "note", finding.where,
                        finding.message);
    if (!finding.remedy.empty()) text += fmt::format("  remedy: {}\n", finding.remedy);
  }
  return text;
}

// What the method refuses stops everything that measures.
base::Result<void> require_sound(const gate::Manifest& manifest, const std::string& source) {
  std::vector<gate::Finding> refused;
  for (auto& finding : gate::check(manifest, now())) {
    if (finding.refused) refused.push_back(std::move(finding));
  }
  if (refused.empty()) return {};
  return fail(Fault::invalid_input, fmt::format("{}:\n{}", source, lines_of(refused)));
}

base::Result<ExitCode> run_check(const Globals& globals, const GateOptions& options) {
  const auto manifest = read_manifest(options);
  if (!manifest) return tl::unexpected(manifest.error());
  const auto findings = gate::check(*manifest, now());
  bool refused = false;
  json::array found;
  for (const auto& finding : findings) {
    refused = refused || finding.refused;
    found.emplace_back(json::object{{"refused", finding.refused},
                                    {"where", finding.where},
                                    {"message", finding.message},
                                    {"remedy", finding.remedy}});
  }
  if (globals.json) {
    std::printf("%s\n", base::pretty_json(json::object{{"digest", gate::digest(*manifest)},
                                                       {"findings", std::move(found)}})
                            .c_str());
  } else {
    std::fputs(lines_of(findings).c_str(), stdout);
    if (!refused) {
      std::printf("%zu cells, digest %s\n", gate::cells(*manifest).size(),
                  gate::digest(*manifest).substr(0, 12).c_str());
    }
  }
  return refused ? ExitCode::bad_input : ExitCode::ok;
}

base::Result<ExitCode> run_freeze(const Globals& globals, const GateOptions& options) {
  const auto manifest = read_manifest(options);
  if (!manifest) return tl::unexpected(manifest.error());
  if (auto sound = require_sound(*manifest, options.manifest); !sound) {
    return tl::unexpected(sound.error());
  }
  const auto matrix = gate::Matrix::freeze(folder_of(options, *manifest), *manifest, now());
  if (!matrix) return tl::unexpected(matrix.error());
  if (globals.json) {
    std::printf("%s\n", base::pretty_json(
                            json::object{{"folder", matrix->folder().string()},
                                         {"digest", matrix->digest()},
                                         {"frozen_at", base::to_rfc3339(matrix->frozen_at())}})
                            .c_str());
  } else {
    std::printf("%s: frozen on %s, digest %s\n", matrix->folder().c_str(),
                base::to_rfc3339(matrix->frozen_at()).c_str(),
                matrix->digest().substr(0, 12).c_str());
  }
  return ExitCode::ok;
}

base::Result<std::vector<gate::CellId>> chosen_cells(const gate::Manifest& manifest,
                                                     const std::vector<std::string>& wanted) {
  auto all = gate::cells(manifest);
  if (wanted.empty()) return all;
  std::vector<gate::CellId> chosen;
  for (const auto& name : wanted) {
    const auto before = chosen.size();
    for (const auto& id : all) {
      const auto full = gate::to_string(id);
      if (full == name || full.starts_with(name + "/")) chosen.push_back(id);
    }
    if (chosen.size() == before) {
      return fail(Fault::usage, fmt::format("the manifest has no cell '{}'", name),
                  fmt::format("its first is {}", gate::to_string(all.front())));
    }
  }
  return chosen;
}

base::Result<gate::Interpreters> interpreters_of(const gate::Manifest& manifest,
                                                 const fs::path& folder) {
  auto probe = runner::default_probe_path(runner::current_surroundings());
  if (!probe) return tl::unexpected(probe.error());
  gate::Interpreters found{{}, {}, *probe};
  for (const auto side : {gate::Side::baseline, gate::Side::candidate}) {
    auto python = gate::prepare_interpreter(manifest.environment(side), folder);
    if (!python) return tl::unexpected(python.error());
    (side == gate::Side::baseline ? found.baseline : found.candidate) = std::move(*python);
  }
  return found;
}

base::Result<ExitCode> print_outcome(const Globals& globals, const gate::Manifest& manifest,
                                     const gate::Matrix& matrix, const std::string& format) {
  const auto [results, outcome] = judge_now(manifest, matrix);
  const gate::ReportInput input{manifest, matrix, results, outcome};
  const auto kind = globals.json ? std::string{"json"} : format;
  const auto text = kind == "json"       ? base::pretty_json(gate::report_json(input)) + "\n"
                    : kind == "markdown" ? gate::report_markdown(input)
                    : kind == "html"     ? gate::report_html(gate::report_json(input))
                                         : gate::report_text(input);
  std::fputs(text.c_str(), stdout);
  return outcome.decision == gate::Decision::adopt ? ExitCode::ok : ExitCode::no;
}

base::Result<ExitCode> run_run(const Globals& globals, const GateOptions& options) {
  const auto manifest = read_manifest(options);
  if (!manifest) return tl::unexpected(manifest.error());
  if (auto sound = require_sound(*manifest, options.manifest); !sound) {
    return tl::unexpected(sound.error());
  }
  const auto chosen = chosen_cells(*manifest, options.cells);
  if (!chosen) return tl::unexpected(chosen.error());
  if (options.dry_run) {
    const auto planned = gate::Matrix::planned(folder_of(options, *manifest), *manifest);
    if (!planned) return tl::unexpected(planned.error());
    std::fputs(gate_plan(*manifest, *planned, *chosen).c_str(), stdout);
    return ExitCode::ok;
  }
  auto matrix = gate::Matrix::freeze(folder_of(options, *manifest), *manifest, now());
  if (!matrix) return tl::unexpected(matrix.error());
  const auto interpreters = interpreters_of(*manifest, matrix->folder());
  if (!interpreters) return tl::unexpected(interpreters.error());
  json::object sides;
  for (const auto side : {gate::Side::baseline, gate::Side::candidate}) {
    auto facts = gate::preflight(interpreters->of(side), interpreters->probe_path,
                                 std::string{to_string(side)});
    if (!facts) return tl::unexpected(facts.error());
    const auto reason = gate::unfit_reason(*facts);
    if (!reason.empty() && !options.accept_load) {
      return fail(Fault::environment, "this machine is unfit to measure on: " + reason,
                  "wait until it is idle; with --accept-load cells that suffer are UNFIT");
    }
    sides[to_string(side)] = std::move(*facts);
  }
  if (auto kept = matrix->keep_environments(std::move(sides), now()); !kept) {
    return tl::unexpected(kept.error());
  }
  auto interrupts = Interrupts::watch();
  if (!interrupts) return tl::unexpected(interrupts.error());
  const auto folder = fs::absolute(matrix->folder());
  gate::ProcessLauncher launcher{*manifest, *interpreters, (folder / "scratch").string(),
                                 interrupts->fd()};
  {
    GateProgress progress{*manifest, *matrix, *chosen};
    for (const auto& id : *chosen) {
      while (const auto request =
                 gate::next_launch(*manifest, id, matrix->launches(id), matrix->seed(),
                                   (folder / "checkpoints").string())) {
        progress.about(*request);
        const auto started = now();
        const auto answer = launcher.launch(*request);
        if (!answer) return tl::unexpected(answer.error());
        const auto took = now() - started;
        progress.done(id, took);
        const gate::LaunchRecord record{*request, launcher.command(*request), started, took,
                                        answer->text};
        if (auto kept = matrix->add(record, answer->result); !kept) {
          return tl::unexpected(kept.error());
        }
      }
      progress.ended(id,
                     gate::judge_cell(*manifest, id, matrix->launches(id), matrix->rehearsal()));
    }
  }
  return print_outcome(globals, *manifest, *matrix, "text");
}

base::Result<ExitCode> run_report(const Globals& globals, const GateOptions& options) {
  const auto opened = open_matrix(options);
  if (!opened) return tl::unexpected(opened.error());
  const auto& [manifest, matrix] = *opened;
  return print_outcome(globals, manifest, matrix, options.format);
}

base::Result<ExitCode> run_explain(const Globals&, const GateOptions& options) {
  const auto opened = open_matrix(options);
  if (!opened) return tl::unexpected(opened.error());
  const auto& [manifest, matrix] = *opened;
  const auto chosen = chosen_cells(manifest, {options.cell});
  if (!chosen) return tl::unexpected(chosen.error());
  const auto [results, outcome] = judge_now(manifest, matrix);
  const gate::ReportInput input{manifest, matrix, results, outcome};
  for (const auto& id : *chosen) {
    std::fputs(gate::explain_text(input, id).c_str(), stdout);
  }
  return ExitCode::ok;
}

// The values that two answers to one request are compared by.
std::vector<std::pair<std::string, std::string>> values_of(const gate::LaunchResult& result) {
  std::vector<std::pair<std::string, std::string>> values;
  const auto add = [&](std::string name, const std::optional<double>& value) {
    if (value) values.emplace_back(std::move(name), fmt::format("{:.6g}", *value));
  };
  if (result.status != gate::LaunchStatus::ok) values.emplace_back("reason", result.reason);
  add("p50_wall_s", result.p50_wall_s);
  add("p95_wall_s", result.p95_wall_s);
  add("peak_memory_bytes", result.peak_memory_bytes);
  for (const auto& [name, output] :
       {std::pair{"output", &result.output}, {"gradients", &result.gradients}}) {
    if (!*output) continue;
    values.emplace_back(fmt::format("{}.digest", name), (*output)->digest);
    add(fmt::format("{}.rmse", name), (*output)->rmse);
  }
  return values;
}

base::Result<ExitCode> run_reproduce(const Globals&, const GateOptions& options) {
  const auto opened = open_matrix(options);
  if (!opened) return tl::unexpected(opened.error());
  const auto& [manifest, matrix] = *opened;
  const auto chosen = chosen_cells(manifest, {options.cell});
  if (!chosen) return tl::unexpected(chosen.error());
  const auto interpreters = interpreters_of(manifest, matrix.folder());
  if (!interpreters) return tl::unexpected(interpreters.error());
  auto interrupts = Interrupts::watch();
  if (!interrupts) return tl::unexpected(interrupts.error());
  const auto folder = fs::absolute(matrix.folder());
  gate::ProcessLauncher launcher{manifest, *interpreters, (folder / "reproduced").string(),
                                 interrupts->fd()};
  const auto& id = chosen->front();
  bool any = false;
  bool same = true;
  for (const auto side : {gate::Side::baseline, gate::Side::candidate}) {
    const auto file = matrix.file_of(id, side, options.key);
    if (file.empty()) continue;
    any = true;
    const auto record = matrix.record(file);
    if (!record) return tl::unexpected(record.error());
    const auto before = gate::read_launch_result(record->text);
    if (!before) return tl::unexpected(before.error());
    auto request = record->request;
    // Not over the checkpoint that is evidence.
    if (request.purpose == gate::Purpose::exact) {
      request.checkpoint = (folder / "reproduced" / "checkpoint").string();
    }
    std::printf("%s (%s)\n%s\n", std::string{to_string(side)}.c_str(), file.c_str(),
                record->command.c_str());
    const auto answer = launcher.launch(request);
    if (!answer) return tl::unexpected(answer.error());
    const auto was = values_of(*before);
    for (const auto& [name, value] : values_of(answer->result)) {
      const auto old = std::find_if(was.begin(), was.end(),
                                    [&](const auto& entry) { return entry.first == name; });
      const auto text = old == was.end() ? std::string{"not there"} : old->second;
      std::printf("  %-20s %s, now %s\n", name.c_str(), text.c_str(), value.c_str());
      if (name.ends_with(".digest")) same = same && text == value;
    }
    same = same && before->status == answer->result.status;
  }
  if (!any) {
    return fail(Fault::not_found,
                fmt::format("{} has no launch '{}'", gate::to_string(id), options.key),
                fmt::format("crosscheck gate explain {} names its launches", gate::to_string(id)));
  }
  return same ? ExitCode::ok : ExitCode::no;
}

// Made once a matrix, and never part of a bundle: its placeholders stay the same.
base::Result<std::string> salt_of(const fs::path& folder) {
  const auto path = folder / ".salt";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    if (auto done = base::write_file_atomically(path, base::random_hex(32), 0600); !done) {
      return tl::unexpected(done.error());
    }
  }
  return base::read_file(path);
}

base::Result<gate::Surroundings> surroundings_of(const fs::path& folder) {
  auto salt = salt_of(folder);
  if (!salt) return tl::unexpected(salt.error());
  const auto actor = command_line_actor();
  const char* home = std::getenv("HOME");
  return gate::Surroundings{
      .home = home ? home : "", .user = actor.login, .host = actor.host, .salt = std::move(*salt)};
}

// The bundle of a matrix as it is now, and what its launches say.
struct Bundled {
  std::string bytes;
  gate::Judgement judgement;
};
base::Result<Bundled> bundle_of(const GateOptions& options) {
  const auto opened = open_matrix(options);
  if (!opened) return tl::unexpected(opened.error());
  auto text = base::read_file(options.manifest);
  if (!text) return tl::unexpected(text.error());
  auto files = gate::records_of(opened->matrix.folder());
  if (!files) return tl::unexpected(files.error());
  files->emplace("manifest.yaml", std::move(*text));
  const auto level = gate::parse_privacy(options.privacy).value_or(gate::Privacy::strict);
  if (level != gate::Privacy::off) {
    const auto surroundings = surroundings_of(opened->matrix.folder());
    if (!surroundings) return tl::unexpected(surroundings.error());
    files = gate::redact(std::move(*files), level, *surroundings);
    if (!files) return tl::unexpected(files.error());
  }
  auto judged = gate::judge_files(*files, options.manifest, now());
  if (!judged) return tl::unexpected(judged.error());
  files->emplace("report.json", base::pretty_json(judged->report));
  return Bundled{gate::make_bundle(std::move(*files)), std::move(*judged)};
}

base::Result<ExitCode> run_privacy(const Globals& globals) {
  json::array rules;
  for (const auto& rule : gate::privacy_rules()) {
    rules.emplace_back(
        json::object{{"name", rule.name}, {"from", to_string(rule.from)}, {"finds", rule.finds}});
    if (!globals.json) {
      std::fputs(
          fmt::format("{:<10} {:<10} {}\n", rule.name, to_string(rule.from), rule.finds).c_str(),
          stdout);
    }
  }
  if (globals.json) std::printf("%s\n", base::pretty_json(rules).c_str());
  return ExitCode::ok;
}

base::Result<ExitCode> run_bundle(const Globals&, const GateOptions& options) {
  const auto bundled = bundle_of(options);
  if (!bundled) return tl::unexpected(bundled.error());
  if (auto done = base::write_file_atomically(options.file, bundled->bytes); !done) {
    return tl::unexpected(done.error());
  }
  std::printf("%s: %s, SHA-256 %s\n", options.file.c_str(),
              std::string{to_string(bundled->judgement.decision)}.c_str(),
              base::sha256_hex(bundled->bytes).c_str());
  return ExitCode::ok;
}

// A bundle that is whole, and whose launches say what its report does.
base::Result<Bundled> read_bundle(const GateOptions& options) {
  auto bytes = base::read_file(options.file);
  if (!bytes) return tl::unexpected(bytes.error());
  const auto files = gate::open_bundle(*bytes, options.file);
  if (!files) return tl::unexpected(files.error());
  auto judged = gate::verify(*files, options.file);
  if (!judged) return tl::unexpected(judged.error());
  return Bundled{std::move(*bytes), std::move(*judged)};
}

base::Result<ExitCode> run_verify(const Globals&, const GateOptions& options) {
  const auto bundled = read_bundle(options);
  if (!bundled) return tl::unexpected(bundled.error());
  std::printf("%s: whole; its launches say %s, as its report does; SHA-256 %s\n",
              options.file.c_str(), std::string{to_string(bundled->judgement.decision)}.c_str(),
              base::sha256_hex(bundled->bytes).c_str());
  return ExitCode::ok;
}

base::Result<ExitCode> run_publish(const Globals& globals, const GateOptions& options) {
  const auto bundled = options.file.empty() ? bundle_of(options) : read_bundle(options);
  if (!bundled) return tl::unexpected(bundled.error());
  const auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  const auto opened = store::open(*url);
  if (!opened) return tl::unexpected(opened.error());
  const auto& [report, decision, matrix] = bundled->judgement;
  const json::value root(report);
  const auto name = base::require_string(root, "matrix");
  const auto at = base::require_string(root, "decided_at");
  const auto decided = base::parse_rfc3339(at ? *at : std::string{});
  if (!name) return tl::unexpected(name.error());
  if (!decided) return tl::unexpected(decided.error());
  const auto published = (*opened)->write_value([&](store::Tx& tx) {
    return store::publish_upgrade(tx,
                                  {.matrix = matrix,
                                   .name = *name,
                                   .decision = std::string{to_string(decision)},
                                   .decided_at = *decided,
                                   .bundle = base::sha256_hex(bundled->bytes),
                                   .report = base::canonical_json(root)},
                                  now());
  });
  if (!published) return tl::unexpected(published.error());
  if (globals.json) {
    std::printf("%s\n",
                base::pretty_json(json::object{{"page", fmt::format("/upgrade/{}", published->id)},
                                               {"decision", to_string(decision)},
                                               {"changed", published->changed}})
                    .c_str());
  } else {
    std::printf("/upgrade/%lld: %s%s\n", static_cast<long long>(published->id),
                std::string{to_string(decision)}.c_str(),
                published->changed ? "" : " (it was there already)");
  }
  return ExitCode::ok;
}

base::Result<ExitCode> run_merge(const Globals& globals, const GateOptions& options) {
  const auto manifest = read_manifest(options);
  if (!manifest) return tl::unexpected(manifest.error());
  auto merged = gate::Matrix::freeze(folder_of(options, *manifest), *manifest, now());
  if (!merged) return tl::unexpected(merged.error());
  for (const auto& folder : options.folders) {
    const auto shard = gate::Matrix::open(folder, *manifest);
    if (!shard) return tl::unexpected(shard.error());
    if (auto done = gate::merge_into(*merged, *shard, *manifest, now()); !done) {
      return tl::unexpected(done.error());
    }
  }
  return print_outcome(globals, *manifest, *merged, "text");
}

// The library of the probe, as `options.python` lists it: without importing torch.
base::Result<ExitCode> run_workloads(const Globals& globals, const GateOptions& options) {
  const auto surroundings = runner::current_surroundings();
  const auto probe = runner::default_probe_path(surroundings);
  if (!probe) return tl::unexpected(probe.error());
  const auto python =
      options.python.empty() ? runner::default_python(surroundings) : options.python;
  const auto listed =
      base::run_captured({.arguments = {python, "-m", "crosscheck_probe.workload", "--list"},
                          .environment = {{"PYTHONPATH", *probe}}},
                         std::chrono::minutes{1});
  if (!listed) return tl::unexpected(listed.error());
  if (!listed->status.ok()) {
    return fail(Fault::environment,
                fmt::format("{} lists no workloads: {}", python, base::to_utf8(listed->err, 500)),
                "give --python of an interpreter, 3.10 or newer");
  }
  json::array cases;
  std::string_view rest = listed->out;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\n'), rest.size());
    auto one = base::parse_json(rest.substr(0, end), "the library's list");
    if (!one) return tl::unexpected(one.error());
    cases.push_back(std::move(*one));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (globals.json) {
    std::printf("%s\n", base::pretty_json(cases).c_str());
    return ExitCode::ok;
  }
  const auto joined = [](const json::value& root, std::string_view key) {
    std::string text;
    if (const auto* list = base::find(root, key); list && list->is_array()) {
      for (const auto& item : list->as_array()) {
        text += fmt::format("{}{}", text.empty() ? "" : ", ",
                            item.is_string() ? std::string{item.as_string()} : std::string{});
      }
    }
    return text;
  };
  for (const auto& one : cases) {
    const auto name = base::require_string(one, "name");
    const auto what = base::require_string(one, "what");
    if (!name || !what) continue;
    std::string sizes;
    if (const auto* shapes = base::find(one, "sizes"); shapes && shapes->is_object()) {
      for (const auto& [size, shape] : shapes->as_object()) {
        sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", std::string_view{size});
      }
    }
    const auto lacks = joined(one, "lacks");
    const auto needs = joined(one, "needs");
    std::printf("%-36s %s\n%36s %s; %s%s\n", name->c_str(), what->c_str(), "",
                joined(one, "phases").c_str(), sizes.c_str(),
                !lacks.empty()  ? ("; not here: it lacks " + lacks).c_str()
                : needs.empty() ? ""
                                : ("; needs " + needs).c_str());
  }
  return ExitCode::ok;
}

base::Result<ExitCode> run_init(const GateOptions& options) {
  std::optional<json::value> matrix;
  if (!options.matrix.empty()) {
    const auto text = base::read_file(options.matrix);
    if (!text) return tl::unexpected(text.error());
    auto parsed = base::parse_json(*text, options.matrix);
    if (!parsed) return tl::unexpected(parsed.error());
    matrix = std::move(*parsed);
  }
  const auto text =
      gate::initial_manifest(options.baseline, options.candidate, matrix, options.matrix);
  if (!text) return tl::unexpected(text.error());
  std::error_code ignored;
  if (fs::exists(options.manifest, ignored)) {
    return fail(Fault::conflict, fmt::format("{} exists", options.manifest),
                "give another --manifest, or remove it");
  }
  if (auto done = base::write_file_atomically(options.manifest, *text); !done) {
    return tl::unexpected(done.error());
  }
  std::printf("%s written; read it, then: crosscheck gate check --manifest %s\n",
              options.manifest.c_str(), options.manifest.c_str());
  return ExitCode::ok;
}

base::Result<ExitCode> run_rehearsal(const Globals&, const GateOptions& options) {
  const auto manifest = read_manifest(options);
  if (!manifest) return tl::unexpected(manifest.error());
  if (manifest->rollback.empty()) {
    return fail(Fault::invalid_input, fmt::format("{} names no rollback steps", options.manifest),
                "give `rollback: [COMMAND, …]`: what switches a workload back");
  }
  auto matrix = gate::Matrix::freeze(folder_of(options, *manifest), *manifest, now());
  if (!matrix) return tl::unexpected(matrix.error());
  gate::Rehearsal rehearsal{.ok = true, .reason = {}, .took = base::Duration{0}};
  const auto began = std::chrono::steady_clock::now();
  for (const auto& step : manifest->rollback) {
    const auto done =
        base::run_captured({.arguments = {"/bin/sh", "-c", step}}, std::chrono::minutes{30});
    const bool ok = done && done->status.ok();
    std::printf("%s  %s\n", ok ? "ok    " : "failed", step.c_str());
    if (ok) continue;
    rehearsal.ok = false;
    rehearsal.reason =
        done ? fmt::format("'{}': {}", step, base::to_string(done->status)) : done.error().message;
    break;
  }
  rehearsal.took =
      std::chrono::duration_cast<base::Duration>(std::chrono::steady_clock::now() - began);
  if (auto kept = matrix->keep(rehearsal, now()); !kept) return tl::unexpected(kept.error());
  std::printf("rehearsed in %s\n", base::to_human(rehearsal.took).c_str());
  return rehearsal.ok ? ExitCode::ok : ExitCode::no;
}

const Registration k_registration{
    "gate", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command = app.add_subcommand(
          "gate",
          "Decide whether workloads may move to another PyTorch: adopt, isolate, defer or "
          "rollback");
      command->footer(
          "The manifest, the method and the decisions: docs/gate.md\n"
          "Example:\n"
          "  crosscheck gate init --baseline .venv/bin/python --candidate next/bin/python\n"
          "  crosscheck gate check\n"
          "  crosscheck gate run");
      command->require_subcommand(1);
      static GateOptions options;
      const auto add_manifest = [](CLI::App* sub) {
        sub->add_option("--manifest", options.manifest, "Default: gate.yaml");
      };
      const auto add_common = [&](CLI::App* sub) {
        add_manifest(sub);
        sub->add_option("-o,--output", options.output,
                        "Folder of the matrix; default: .crosscheck/gate/NAME");
      };

      const auto add_privacy = [](CLI::App* sub) {
        sub->add_option("--privacy", options.privacy,
                        "What is replaced before it leaves: standard, strict or off (gate privacy)")
            ->check(CLI::IsMember({"standard", "strict", "off"}));
      };

      auto* init = command->add_subcommand("init", "Write a manifest to go on from");
      add_manifest(init);
      init->add_option("--baseline", options.baseline, "Interpreter in use today")->required();
      init->add_option("--candidate", options.candidate, "Interpreter that may follow it")
          ->required();
      init->add_option("--matrix", options.matrix,
                       "JSON with matrix, versions, backends, gates and decisions to take over");
      init->footer(
          "Example:\n  crosscheck gate init --baseline .venv/bin/python --candidate "
          "next/bin/python");
      init->callback([&] { action = [] { return run_init(options); }; });

      auto* workloads = command->add_subcommand(
          "workloads", "List the library of workloads: phases, sizes, and what each needs");
      workloads->add_option(
          "--python", options.python,
          "Interpreter that would run them; default: $CROSSCHECK_PYTHON, .venv or python3");
      workloads->footer(
          "Any other workload: python:module:function, or a command (docs/gate-workloads.md).\n"
          "Example:\n  crosscheck gate workloads --json");
      workloads->callback([&] { action = [&] { return run_workloads(globals, options); }; });

      auto* check = command->add_subcommand("check", "Say what the method refuses in a manifest");
      add_manifest(check);
      check->footer("Exits 3 if something is refused.\nExample:\n  crosscheck gate check");
      check->callback([&] { action = [&] { return run_check(globals, options); }; });

      auto* freeze = command->add_subcommand(
          "freeze", "Fix what decides before anything is measured (run does it too)");
      add_common(freeze);
      freeze->footer("Example:\n  crosscheck gate freeze");
      freeze->callback([&] { action = [&] { return run_freeze(globals, options); }; });

      auto* run = command->add_subcommand("run", "Measure what is missing, and decide");
      add_common(run);
      run->add_option("--cells", options.cells,
                      "Only these, by name or its beginning: mlp, mlp/cpu, mlp/cpu/training")
          ->delimiter(',');
      run->add_flag("--dry-run", options.dry_run, "Print what would be launched");
      run->add_flag("--accept-load", options.accept_load,
                    "Measure although other processes keep the processors busy");
      run->footer(
          "Goes on where it was interrupted. Exits 0 if everything may be adopted, else 1.\n"
          "Example:\n  crosscheck gate run --cells mlp/cpu");
      run->callback([&] { action = [&] { return run_run(globals, options); }; });

      auto* report = command->add_subcommand("report", "Show the decisions and what they rest on");
      add_common(report);
      report->add_option("--format", options.format, "text, markdown, json or html")
          ->check(CLI::IsMember({"text", "markdown", "json", "html"}));
      report->footer(
          "html is one page that needs nothing beside itself. Exits as run does.\n"
          "Example:\n  crosscheck gate report --format html >upgrade.html");
      report->callback([&] { action = [&] { return run_report(globals, options); }; });

      auto* explain = command->add_subcommand(
          "explain", "Show a cell's gates with every number and the launches they come from");
      add_common(explain);
      explain->add_option("cell", options.cell, "Its name, or its beginning")->required();
      explain->footer("Example:\n  crosscheck gate explain mlp/cpu/inference");
      explain->callback([&] { action = [&] { return run_explain(globals, options); }; });

      auto* reproduce = command->add_subcommand(
          "reproduce", "Print the command of a cell's launch, run it again, and compare");
      add_common(reproduce);
      reproduce->add_option("cell", options.cell, "Its name, or its beginning")->required();
      reproduce->add_option("--launch", options.key, "Which one: exact/0, 1/3/0, …")
          ->default_val("exact/0");
      reproduce->footer(
          "Exits 1 if outputs differ from what was recorded.\n"
          "Example:\n  crosscheck gate reproduce mlp/cpu/training --launch exact/0");
      reproduce->callback([&] { action = [&] { return run_reproduce(globals, options); }; });

      auto* bundle = command->add_subcommand(
          "bundle", "Write the manifest, every launch and the report as one file");
      add_common(bundle);
      bundle->add_option("file", options.file, "The file, a tar archive")->required();
      add_privacy(bundle);
      bundle->footer("Example:\n  crosscheck gate bundle upgrade.tar --privacy strict");
      bundle->callback([&] { action = [&] { return run_bundle(globals, options); }; });

      auto* schema = command->add_subcommand("schema", "Print the JSON Schema of the manifest");
      schema->footer(
          "In a manifest, for editors: # yaml-language-server: $schema=gate.schema.json\n"
          "Example:\n  crosscheck gate schema >gate.schema.json");
      schema->callback([&] {
        action = []() -> base::Result<ExitCode> {
          std::printf("%s\n", base::pretty_json(gate::manifest_schema()).c_str());
          return ExitCode::ok;
        };
      });

      auto* privacy = command->add_subcommand(
          "privacy", "List what bundles and published reports keep to themselves");
      privacy->footer("Example:\n  crosscheck gate privacy --json");
      privacy->callback([&] { action = [&] { return run_privacy(globals); }; });

      auto* verify = command->add_subcommand(
          "verify", "Check that a bundle is whole, and that its launches say what its report does");
      verify->add_option("file", options.file, "What `gate bundle` wrote")->required();
      verify->footer("Exits 3 if not.\nExample:\n  crosscheck gate verify upgrade.tar");
      verify->callback([&] { action = [&] { return run_verify(globals, options); }; });

      auto* publish = command->add_subcommand(
          "publish", "Put a matrix's report into the store, for the HUD's page /upgrade");
      add_common(publish);
      publish->add_option("file", options.file,
                          "What `gate bundle` wrote; without it, the matrix as it is now");
      add_privacy(publish);
      publish->footer(
          "Once a matrix: a later decision takes the place of an earlier one.\n"
          "Example:\n  crosscheck gate publish upgrade.tar --db postgresql://hud@db.example/relay");
      publish->callback([&] { action = [&] { return run_publish(globals, options); }; });

      auto* merge = command->add_subcommand(
          "merge", "Join matrices of one manifest whose cells were measured apart, and decide");
      add_common(merge);
      merge->add_option("folder", options.folders, "Folders that `gate run --cells` wrote")
          ->required();
      merge->footer(
          "Exits as run does.\nExample:\n  crosscheck gate merge shard-1 shard-2 -o whole");
      merge->callback([&] { action = [&] { return run_merge(globals, options); }; });

      auto* rehearsal = command->add_subcommand("rollback-rehearsal",
                                                "Carry out and time the manifest's rollback steps");
      add_common(rehearsal);
      rehearsal->footer("Exits 1 if a step fails.\nExample:\n  crosscheck gate rollback-rehearsal");
      rehearsal->callback([&] { action = [&] { return run_rehearsal(globals, options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
