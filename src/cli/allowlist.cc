#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "command.h"
#include "crosscheck/base/file.h"
#include "crosscheck/hud/readiness.h"
#include "crosscheck/relay/allowlist.h"
#include "crosscheck/store/store.h"
#include "settings.h"

namespace crosscheck::cli {
namespace {

using base::Result;

Result<base::ExitCode> check(const Globals& globals, const std::string& file) {
  const auto text = base::read_file(file, relay::k_allowlist_limit);
  if (!text) return tl::unexpected(text.error());
  const auto list = relay::parse_allowlist(*text, file);
  if (!list) return tl::unexpected(list.error());
  std::array<int, 4> levels{};
  for (const relay::Backend& backend : list->backends())
    ++levels[static_cast<std::size_t>(backend.level)];
  if (!globals.json) {
    std::printf("%s: ok, %zu repositories (L1 %d, L2 %d, L3 %d, L4 %d)\n", file.c_str(),
                list->backends().size(), levels[0], levels[1], levels[2], levels[3]);
    return base::ExitCode::ok;
  }
  boost::json::array backends;
  for (const relay::Backend& backend : list->backends()) {
    boost::json::array oncalls;
    for (const std::string& name : backend.oncalls) oncalls.emplace_back(name);
    boost::json::object entry{
        {"repo", backend.repo.full_name()}, {"level", relay::to_string(backend.level)},
        {"oncalls", std::move(oncalls)},    {"pull_request", backend.pull_requests},
        {"nightly", backend.nightly},       {"line", backend.line}};
    if (!backend.device.empty()) entry["device"] = backend.device;
    backends.push_back(std::move(entry));
  }
  const boost::json::object result{{"ok", true}, {"backends", std::move(backends)}};
  std::printf("%s\n", boost::json::serialize(result).c_str());
  return base::ExitCode::ok;
}

std::string_view word_of(hud::Readiness readiness) {
  switch (readiness) {
    case hud::Readiness::met:
      return "met";
    case hud::Readiness::not_met:
      return "not met";
    case hud::Readiness::insufficient_data:
      break;
  }
  return "insufficient data";
}

void print(std::string_view what, const hud::Assessment& assessment) {
  const auto days = std::chrono::duration_cast<std::chrono::days>(assessment.window).count();
  fmt::print("  {}, over {} days: {}\n", what, days, word_of(assessment.verdict));
  for (const hud::Criterion& c : assessment.criteria)
    fmt::print("    {:<22} {:>22}  {:>12}  {:>8}  {}\n", c.label, c.measured_text, c.target_text,
               c.samples ? "n=" + std::to_string(*c.samples) : "", word_of(c.verdict));
}

Result<base::ExitCode> health(const Globals& globals) {
  std::vector<Flag> flags;
  if (!globals.db.empty()) flags.push_back({"db", "--db", globals.db});
  const auto settings = load_settings(globals.settings_file, process_environment(), flags);
  if (!settings) return tl::unexpected(settings.error());
  const auto store =
      store::open(settings->values.db, {.create = false, .migrate = false, .read_only = true});
  if (!store) return tl::unexpected(store.error());
  const auto all =
      hud::read_readiness(**store, readiness_targets(settings->values), base::SystemClock{}.now());
  if (!all) return tl::unexpected(all.error());
  bool demoted = false;
  boost::json::array backends;
  for (const hud::BackendReadiness& backend : *all) {
    demoted = demoted || backend.to_be_demoted();
    if (globals.json) {
      backends.push_back(hud::to_json(backend));
      continue;
    }
    fmt::print("{} ({}){}\n", backend.repo, backend.level,
               backend.to_be_demoted() ? ": does not keep up with its level" : "");
    print("promotion", backend.promotion);
    print("its level", backend.stay);
    if (backend.window_cut) fmt::print("  more reports than are read: the newest were counted\n");
  }
  if (globals.json)
    fmt::print("{}\n", boost::json::serialize(boost::json::object{
                           {"ok", !demoted}, {"backends", std::move(backends)}}));
  else if (all->empty())
    fmt::print("no backend from L2 on is listed\n");
  return demoted ? base::ExitCode::no : base::ExitCode::ok;
}

const Registration k_registration{
    "allowlist", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command = app.add_subcommand("allowlist", "The list of backends and their levels");
      command->footer("Example:\n  crosscheck allowlist check allowlist.yaml");
      command->require_subcommand(1);
      auto* checking = command->add_subcommand(
          "check", "Check a file; exit code 3 and file:line:column when it is wrong");
      checking->footer("Example:\n  crosscheck allowlist check allowlist.yaml");
      const auto file = std::make_shared<std::string>();
      checking->add_option("FILE", *file, "The allowlist")->required();
      checking->callback([&globals, &action, file] {
        action = [&globals, file] { return check(globals, *file); };
      });
      auto* judging = command->add_subcommand("health",
                                              "Which backends are ready for L3 and L4, and which "
                                              "do not keep their level (exit code 1)");
      judging->footer(
          "What is asked: `crosscheck settings show`, readiness_…; what the numbers mean: "
          "/help/metrics.\n"
          "Example:\n  crosscheck allowlist health --json");
      judging->callback([&globals, &action] { action = [&globals] { return health(globals); }; });
    }};

}  // namespace

hud::ReadinessTargets readiness_targets(const Settings& s) {
  return {.tenure_days = s.readiness_tenure_days,
          .queue_minutes = s.readiness_queue_minutes,
          .end_to_end_minutes = s.readiness_end_to_end_minutes,
          .time_out_percent = s.readiness_time_out_percent,
          .pass_percent = s.readiness_pass_percent,
          .least_samples = s.readiness_least_samples};
}

}  // namespace crosscheck::cli
