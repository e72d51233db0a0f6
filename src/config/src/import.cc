#include "crosscheck/config/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "crosscheck/base/json.h"
#include "crosscheck/config/write.h"

namespace crosscheck::config {
namespace {

using base::Fault;
using base::Result;

// What tests have in common that share an entry.
struct Skip {
  std::string reason;
  std::vector<std::string> chips;
  friend auto operator<=>(const Skip&, const Skip&) = default;
};
using Skips = std::map<std::string, std::map<Skip, std::vector<std::string>>>;  // by file

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           static_cast<signed char>(c) < 0;
  }) && !(text[0] >= '0' && text[0] <= '9');
}

// "TestY::test_x" of "test_x (__main__.TestY)"; empty: it is none.
std::string qualified_name(std::string_view key) {
  const auto space = key.find(' ');
  if (space == std::string_view::npos || !key.ends_with(')') || key.substr(space, 2) != " (")
    return {};
  const std::string_view method = key.substr(0, space);
  std::string_view class_name = key.substr(space + 2, key.size() - space - 3);
  if (const auto dot = class_name.rfind('.'); dot != std::string_view::npos)
    class_name.remove_prefix(dot + 1);
  if (!is_name(method) || !is_name(class_name)) return {};
  return fmt::format("{}::{}", class_name, method);
}

// The files that have a test of that name, as written or as instantiated.
std::unordered_map<std::string, std::set<std::string>> files_by_name(const CollectedSuite& suite) {
  std::unordered_map<std::string, std::set<std::string>> files;
  for (const CollectedTest& test : suite.tests) {
    for (const std::string_view class_name :
         {std::string_view{test.id.class_name}, test.collected_class()})
      for (const std::string_view method :
           {std::string_view{test.id.method}, test.collected_method()})
        files[fmt::format("{}::{}", class_name, method)].insert(test.id.file);
  }
  return files;
}

// `${TORCH_ROOT}/…` as everybody writes it; any other path so that it survives.
std::string written_path(const std::string& path) {
  const auto close = path.find('}');
  if (!path.starts_with("${") || close == std::string::npos) return plain_or_quoted(path);
  const std::string rest = path.substr(close + 1);
  const std::string token = path.substr(2, close - 2);
  return is_name(token) && plain_or_quoted("x" + rest) == "x" + rest ? path : in_quotes(path);
}

std::string write(const Skips& skips) {
  std::string out =
      skips.empty() ? "test_suite_config:\n  files: []\n" : "test_suite_config:\n  files:\n";
  for (const auto& [file, groups] : skips) {
    out +=
        fmt::format("    - path: {}\n      unlisted_test_mode: mandatory_success\n      tests:\n",
                    written_path(file));
    for (const auto& [skip, names] : groups) {
      out += "        - names:\n";
      for (const std::string& name : names) out += "            - " + plain_or_quoted(name) + "\n";
      out += "          mode: skip\n";
      if (!skip.chips.empty()) {
        std::vector<std::string> chips;
        chips.reserve(skip.chips.size());
        for (const std::string& chip : skip.chips) chips.push_back(in_quotes(chip));
        out += fmt::format("          when:\n            device: [{}]\n", fmt::join(chips, ", "));
      }
      out += "          rationale:\n            reason: person\n";
      if (!skip.reason.empty()) out += "            text: " + in_quotes(skip.reason) + "\n";
      out += "            decided_by: person\n";
    }
  }
  return out;
}

}  // namespace

Result<Imported> import_torch_npu(std::string_view text, std::string_view name,
                                  const CollectedSuite* suite, std::string_view path) {
  const auto parsed = base::parse_json(text, name);
  if (!parsed) return tl::unexpected(parsed.error());
  if (!parsed->is_object())
    return base::fail(
        Fault::invalid_input, fmt::format("{}: an object is expected", name),
        "give a file as torch_npu has it: {\"test_x (__main__.TestY)\": [\"reason\", []]}");
  const auto files = suite ? files_by_name(*suite) : decltype(files_by_name(*suite)){};
  Imported imported;
  Skips skips;
  for (const auto& [key, value] : parsed->as_object()) {
    const auto refuse = [&, &entry = key](std::string_view what) {
      return base::fail(
          Fault::invalid_input,
          fmt::format("{}: \"{}\": {}", name, base::to_utf8(std::string_view{entry}, 200), what),
          "write \"test_x (__main__.TestY)\": [\"reason\", [\"chip\"]]");
    };
    const std::string test = qualified_name(key);
    if (test.empty()) return refuse("no test can be called so");
    if (!value.is_array() || value.as_array().empty() || value.as_array().size() > 2 ||
        !value.as_array()[0].is_string())
      return refuse("a list of a reason and a list of chips is expected");
    Skip skip{std::string{value.as_array()[0].as_string()}, {}};
    if (value.as_array().size() == 2) {
      if (!value.as_array()[1].is_array()) return refuse("the second value is no list of chips");
      for (const auto& chip : value.as_array()[1].as_array()) {
        if (!chip.is_string()) return refuse("a chip is no text");
        if (!chip.as_string().empty()) skip.chips.emplace_back(chip.as_string());
      }
    }
    const auto found = files.find(test);
    if (found != files.end()) {
      for (const std::string& file : found->second)
        skips["${TORCH_ROOT}/test/" + file][skip].push_back(test);
    } else if (!path.empty()) {
      skips[std::string{path}][skip].push_back(test);
    } else {
      imported.unplaced.push_back(test);
      continue;
    }
    ++imported.names;
  }
  imported.text = write(skips);
  return imported;
}

}  // namespace crosscheck::config
