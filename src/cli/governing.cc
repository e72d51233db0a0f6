#include "governing.h"

#include <fmt/format.h>

#include "config_files.h"
#include "crosscheck/base/digest.h"
#include "crosscheck/config/check.h"

namespace crosscheck::cli {
namespace {

using base::Result;
using config::Basis;
using config::FindingKind;
using config::Ruling;

// What decides: the name by which a test is listed, else its file's mode, else its file.
config::Place place_of(const Ruling& ruling) {
  if (ruling.name != nullptr) return ruling.name->node.place();
  return ruling.file->unlisted_node ? ruling.file->unlisted_node.place()
                                    : ruling.file->path_node.place();
}

// What the entry says, if it says why.
std::string rationale_text(const Ruling& ruling) {
  if (ruling.entry == nullptr || !ruling.entry->rationale) return {};
  const config::Rationale& rationale = *ruling.entry->rationale;
  std::string text{to_string(rationale.reason)};
  if (!rationale.text.empty()) text += ": " + rationale.text;
  return text;
}

std::string reason_of(const Ruling& ruling, const config::CollectedTest& test,
                      const std::string& place) {
  switch (ruling.basis) {
    case Basis::ungoverned:
      return fmt::format("ungoverned: the configuration does not have {}", test.id.file);
    case Basis::unlisted:
      return fmt::format("not listed, and unlisted_test_mode is {}{} ({})", to_string(ruling.mode),
                         ruling.file->unlisted_node ? "" : " where nothing is said", place);
    case Basis::excluded_op:
      return fmt::format("the entry excludes the operator {} ({})", test.op, place);
    case Basis::excluded_dtype:
      return fmt::format("the entry excludes the dtype {} ({})", test.dtype, place);
    case Basis::excluded_module:
      return fmt::format("the entry excludes the module {} ({})", test.module, place);
    case Basis::unsupported_op:
      return fmt::format("the operator {} is not among supported_ops", test.op);
    case Basis::unsupported_dtype:
      return fmt::format("the dtype {} is not among those supported", test.dtype);
    case Basis::unsupported_module:
      return fmt::format("the module {} is not among supported_modules", test.module);
    case Basis::listed:
    case Basis::forced_xfail:
    case Basis::tied:
      break;
  }
  const std::string why = rationale_text(ruling);
  return fmt::format("{}{}{} ({})", to_string(ruling.mode), why.empty() ? "" : ", ", why, place);
}

}  // namespace

Result<std::vector<std::string>> governed_files(const config::Config& config,
                                                const std::vector<std::string>& files) {
  const config::Governor governor{config, {}};
  std::vector<std::string> governed;
  for (const std::string& file : files)
    if (governor.find_file(file) != nullptr) governed.push_back(file);
  if (!governed.empty()) return governed;
  constexpr std::size_t k_named = 3;
  std::string has;
  for (std::size_t i = 0; i < config.files.size() && i < k_named; ++i)
    has += (i > 0 ? ", " : "") + std::string{config.files[i].path};
  if (config.files.size() > k_named)
    has += fmt::format(" and {} more", config.files.size() - k_named);
  return base::fail(base::Fault::invalid_input,
                    fmt::format("the configuration has none of the suite's {} files; it has {}",
                                files.size(), has.empty() ? "no file at all" : has),
                    "name the suite that it is for with --suite");
}

Result<Governed> govern(const config::Config& config, runner::Inventory& inventory, bool partial) {
  auto suite = suite_of(inventory, "the suite", {});
  if (!suite) return tl::unexpected(suite.error());
  suite->collected.partial = partial;
  config::SuiteReport report =
      config::check_against(config, suite->collected, suite->circumstances);
  Governed governed;
  std::vector<config::Finding> ties;
  for (config::Finding& finding : report.findings) {
    if (finding.kind == FindingKind::tie) {
      ties.push_back(std::move(finding));
    } else if (finding.kind != FindingKind::unlisted && finding.kind != FindingKind::ungoverned) {
      governed.findings.push_back(std::move(finding));
    }
  }
  if (!ties.empty()) return fail_with(ties);
  for (const auto& document : config.documents)
    governed.governing.files.push_back({document->name(), base::sha256_hex(document->source())});
  governed.governing.rules.reserve(report.rulings.size());
  for (std::size_t i = 0; i < report.rulings.size(); ++i) {
    const Ruling& ruling = report.rulings[i];
    runner::Rule rule;
    rule.governed.mode = ruling.mode;
    rule.governed.basis = to_string(ruling.basis);
    if (ruling.file != nullptr) rule.governed.place = to_string(place_of(ruling));
    rule.reason = reason_of(ruling, suite->collected.tests[i], rule.governed.place);
    governed.governing.rules.push_back(std::move(rule));
  }
  const config::Governor governor{config, suite->circumstances};
  std::erase_if(inventory.errors, [&](const runner::CollectError& error) {
    return governor.find_file(error.file) == nullptr;
  });
  return governed;
}

}  // namespace crosscheck::cli
