#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/config/finding.h"
#include "crosscheck/config/model.h"

namespace crosscheck::config {

// How the text of a file is got: the file itself and what it includes.
using ReadFile = std::function<base::Result<std::string>(const std::string& path)>;

// What the document of a file is called: its path, without detours.
[[nodiscard]] std::string document_name(const std::string& path);

struct Loaded {
  // Nothing where the files could not be read as YAML. With errors among the findings it holds what
  // could be understood, and must not be acted on.
  std::optional<Config> config;
  std::vector<Finding> findings;  // in the order of the files
  [[nodiscard]] bool ok() const { return config && !has_errors(findings); }
};

// The limits of `include:`.
inline constexpr std::size_t k_include_limit = 256;

// Reads a configuration and what it includes, strictly, and checks it against itself: types, words,
// unknown keys, names, duplicates, contradictions, ties, reasons against modes. `today`
// (YYYY-MM-DD) tells which reasons have expired; empty: none.
[[nodiscard]] Loaded load(const std::string& path, const ReadFile& read,
                          std::string_view today = {});

// Whether parts are one configuration (an exact name goes over a pattern of another part) or stand
// for themselves (there, that is a contradiction).
enum class Joining : std::uint8_t { one_configuration, separate };

// Puts configurations into one, in order. What they say of one test, operator or dtype must agree.
[[nodiscard]] Loaded join(std::vector<Config> parts, Joining joining);

}  // namespace crosscheck::config
