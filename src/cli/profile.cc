#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "command.h"
#include "config_files.h"
#include "crosscheck/base/file.h"
#include "crosscheck/profile/detect.h"
#include "crosscheck/profile/points.h"
#include "crosscheck/profile/profile.h"

namespace crosscheck::cli {
namespace {

namespace fs = std::filesystem;
using base::ExitCode;
using base::Fault;
using base::Result;

struct DetectOptions {
  std::string folder;
  std::string write;
  std::string patterns;
};

struct FileOptions {
  std::string file;
};

Result<profile::Points> points_with(const std::string& patterns) {
  if (patterns.empty()) return profile::built_in_points();
  const auto text = base::read_file(patterns, profile::k_profile_limit);
  if (!text) return tl::unexpected(text.error());
  return profile::add_points(profile::built_in_points(), *text, patterns);
}

// What people call the backend: the folder, where nothing better is known.
std::string name_of(const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder, error);
  return whole.filename().empty() ? "backend" : whole.filename().string();
}

Result<ExitCode> run_detect(const Globals& globals, const DetectOptions& options) {
  const auto points = points_with(options.patterns);
  if (!points) return tl::unexpected(points.error());
  std::error_code error;
  if (!options.write.empty() && fs::exists(options.write, error))
    return base::fail(Fault::conflict, options.write + " is there already",
                      "`crosscheck profile check` compares it with the source; or name another");
  const auto found = profile::detect(options.folder, *points);
  if (!found) return tl::unexpected(found.error());
  if (globals.json) {
    print_json(to_json(*found));
  } else {
    print(to_text(*found));
  }
  if (!options.write.empty()) {
    const std::string text = to_yaml(*found, name_of(options.folder));
    if (auto written = base::write_file_atomically(options.write, text); !written)
      return tl::unexpected(written.error());
  }
  return found->points.empty() ? ExitCode::no : ExitCode::ok;
}

Result<ExitCode> run_show(const Globals& globals, const FileOptions& options) {
  const auto loaded = profile::load_profile(options.file, profile::built_in_points());
  if (!loaded) return tl::unexpected(loaded.error());
  if (globals.json) {
    print_json(to_json(*loaded));
  } else {
    print(to_yaml(*loaded));
  }
  return ExitCode::ok;
}

// Source folders are read one by one, as their evidence is named relative to the profile.
profile::Detected detect_all(const profile::Profile& profile, const fs::path& folder) {
  profile::Detected all;
  for (const std::string& source : profile.sources) {
    auto found = profile::detect(folder / source, profile::built_in_points());
    if (!found) continue;  // a file, or not there: that is a finding already
    all.files += found->files;
    for (profile::FoundPoint& point : found->points) {
      for (profile::Evidence& one : point.evidence)
        one.file = (fs::path{source} / one.file).lexically_normal().generic_string();
      const auto there = std::ranges::find(all.points, point.point, &profile::FoundPoint::point);
      if (there == all.points.end()) {
        all.points.push_back(std::move(point));
      } else {
        there->evidence.insert(there->evidence.end(), point.evidence.begin(), point.evidence.end());
      }
    }
    if (all.device.empty() && found->device_at) {
      all.device = found->device;
      all.device_at = found->device_at;
      all.device_at->file =
          (fs::path{source} / all.device_at->file).lexically_normal().generic_string();
    }
  }
  return all;
}

Result<ExitCode> run_check(const Globals& globals, const FileOptions& options) {
  const profile::Loaded loaded = profile::check_profile(options.file, profile::built_in_points());
  if (!loaded.profile && loaded.findings.size() == 1 &&
      loaded.findings.front().fault != Fault::invalid_input)
    return tl::unexpected(loaded.findings.front());
  std::vector<std::string> notes;
  if (loaded.profile && !loaded.profile->sources.empty()) {
    const fs::path folder = fs::path{options.file}.parent_path();
    notes = compare(*loaded.profile, options.file, detect_all(*loaded.profile, folder));
  }
  const bool ok = loaded.findings.empty();
  if (globals.json) {
    base::json::array findings;
    for (const base::Error& finding : loaded.findings) {
      base::json::object object{{"message", base::to_utf8(finding.message)}};
      if (!finding.remedy.empty()) object["remedy"] = base::to_utf8(finding.remedy);
      findings.push_back(std::move(object));
    }
    base::json::array said;
    for (const std::string& note : notes) said.push_back(base::json::value(base::to_utf8(note)));
    print_json(base::json::object{
        {"ok", ok}, {"findings", std::move(findings)}, {"notes", std::move(said)}});
  } else {
    for (const base::Error& finding : loaded.findings)
      print(base::to_utf8(to_string(finding)) + "\n");
    for (const std::string& note : notes) print("note: " + base::to_utf8(note) + "\n");
    const std::size_t count = loaded.findings.size();
    print(ok ? fmt::format("{}: ok\n", options.file)
             : fmt::format("{}: {} {}\n", options.file, count, count == 1 ? "error" : "errors"));
  }
  return ok ? ExitCode::ok : ExitCode::bad_input;
}

const Registration k_registration{
    "profile", [](CLI::App& app, Globals& globals, Action& action) {
      static DetectOptions detect_options;
      static FileOptions show_options;
      static FileOptions check_options;
      auto* command =
          app.add_subcommand("profile", "What a backend is: the extension points that it uses");
      command->require_subcommand(1);
      command->footer(
          "Examples:\n  crosscheck profile detect ~/src/backend --write crosscheck.yaml\n"
          "  crosscheck profile check crosscheck.yaml");

      auto* detect = command->add_subcommand(
          "detect", "Infer from C++ and Python source which extension points a backend uses");
      detect->add_option("folder", detect_options.folder, "Folder of the source")->required();
      detect->add_option("--write", detect_options.write,
                         "File to begin a profile in; must not be there yet");
      detect->add_option("--patterns", detect_options.patterns,
                         "File with further patterns to look for (docs/profile.md)");
      detect->footer(
          "Names file and line for each. Tests, builds and third parties' code in it do not "
          "count.\n"
          "Exits 1 where the source shows none.\n"
          "Example:\n  crosscheck profile detect ~/src/backend --write crosscheck.yaml");
      detect->callback([&] { action = [&] { return run_detect(globals, detect_options); }; });

      auto* show = command->add_subcommand("show", "Print a profile as it is understood");
      show->add_option("file", show_options.file, "The profile")->required();
      show->footer("Example:\n  crosscheck profile show crosscheck.yaml --json");
      show->callback([&] { action = [&] { return run_show(globals, show_options); }; });

      auto* check = command->add_subcommand(
          "check", "Check a profile: its words, the paths it names, and against its source");
      check->add_option("file", check_options.file, "The profile")->required();
      check->footer(
          "Exits 3 with findings. What the source shows and the profile does not list, or the "
          "other\n"
          "way about, is a note: it is for people to decide.\n"
          "Example:\n  crosscheck profile check crosscheck.yaml");
      check->callback([&] { action = [&] { return run_check(globals, check_options); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
