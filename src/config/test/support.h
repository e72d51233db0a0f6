#pragma once

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "crosscheck/base/file.h"
#include "crosscheck/config/load.h"

namespace crosscheck::config {

// Files in memory, by name.
using Files = std::map<std::string, std::string>;
inline ReadFile reader(const Files& files) {
  return [files](const std::string& path) -> base::Result<std::string> {
    const auto found = files.find(std::filesystem::path{path}.lexically_normal().string());
    if (found == files.end())
      return base::fail(base::Fault::not_found, "cannot read " + path + ": no such file");
    return found->second;
  };
}
inline Loaded load_files(const Files& files, const std::string& path = "t.yaml",
                         std::string_view today = {}) {
  return load(path, reader(files), today);
}
inline Loaded load_text(const std::string& text) { return load_files({{"t.yaml", text}}); }

// "kind line:column", then the other places, an entry a finding: short enough for tables.
inline std::vector<std::string> brief(const std::vector<Finding>& findings) {
  std::vector<std::string> all;
  for (const Finding& finding : findings) {
    const auto at = [](const Place& place) {
      return std::to_string(place.line) + ":" + std::to_string(place.column);
    };
    std::string text = std::string{to_string(finding.kind)} + " " + at(finding.place);
    for (const Place& other : finding.others) text += " " + at(other);
    all.push_back(std::move(text));
  }
  return all;
}

// One file entry with these lines as its tests, which begin in line 4.
inline std::string suite(const std::string& tests, const std::string& head = {}) {
  return "test_suite_config:\n" + head +
         "  files:\n  - path: ${TORCH_ROOT}/test/test_x.py\n    tests:\n" + tests;
}

// The real configurations; empty where they are not at hand.
inline std::vector<std::filesystem::path> real_configurations(std::filesystem::path& root) {
  const char* shared = std::getenv("CROSSCHECK_SHARED");
  root = std::filesystem::path{shared ? shared : CROSSCHECK_SOURCE_DIR "/../shared"} /
         "data/spyre-configs";
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (std::filesystem::recursive_directory_iterator at{root, none}, end; at != end; ++at)
    if (at->path().extension() == ".yaml") files.push_back(at->path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace crosscheck::config
