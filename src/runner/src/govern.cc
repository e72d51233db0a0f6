#include "crosscheck/runner/govern.h"

#include <fmt/format.h>

#include <algorithm>

namespace crosscheck::runner {
namespace {

using base::Mode;
using base::Outcome;

constexpr std::string_view k_ungoverned = "ungoverned";
constexpr std::string_view k_unlisted = "unlisted";
constexpr std::size_t k_files_named = 3;

Fate fate_of(const Rule& rule, const GovernOptions& options) {
  if (options.observe) return Fate::run;
  if (rule.governed.basis == k_ungoverned) return Fate::not_run;
  switch (rule.governed.mode) {
    case Mode::skip:
      return Fate::skipped;
    case Mode::xfail:
    case Mode::xfail_strict:
      return options.skip_xfail ? Fate::not_run : Fate::run;
    case Mode::mandatory_success:
      return Fate::run;
  }
  return Fate::run;
}

// "a.py (3), b.py (1) and 2 more files"
std::string files_text(const std::map<std::string, std::int64_t>& files) {
  std::string text;
  std::size_t named = 0;
  for (const auto& [file, n] : files) {
    if (named++ == k_files_named) break;
    text += fmt::format("{}{} ({})", named == 1 ? "" : ", ", file, n);
  }
  if (files.size() > k_files_named) {
    text += fmt::format(" and {} more files", files.size() - k_files_named);
  }
  return text;
}

std::string_view asks(Mode mode) {
  switch (mode) {
    case Mode::mandatory_success:
      return "must pass";
    case Mode::xfail:
      return "may fail";
    case Mode::xfail_strict:
      return "must fail";
    case Mode::skip:
      return "to be skipped";
  }
  return "";
}

}  // namespace

std::vector<Fate> fates(const std::vector<std::size_t>& selected, const Governing& governing,
                        const GovernOptions& options) {
  std::vector<Fate> all(selected.size(), Fate::run);
  if (governing.rules.empty()) return all;
  std::transform(selected.begin(), selected.end(), all.begin(),
                 [&](std::size_t i) { return fate_of(governing.rules[i], options); });
  return all;
}

base::Result<void> check_lists_any(const std::vector<CollectedTest>& tests,
                                   const std::vector<std::size_t>& selected,
                                   const Governing& governing, const GovernOptions& options) {
  if (governing.rules.empty()) return {};
  std::map<std::string, std::int64_t> ungoverned;
  std::map<std::string, std::int64_t> unlisted;  // by the place that says what becomes of them
  for (const auto i : selected) {
    const auto& rule = governing.rules[i];
    if (fate_of(rule, options) == Fate::run) return {};
    if (rule.governed.basis == k_ungoverned) {
      ++ungoverned[tests[i].id.file];
    } else if (rule.governed.basis == k_unlisted) {
      ++unlisted[rule.governed.place];
    } else {
      return {};
    }
  }
  std::string why =
      fmt::format("the configuration lists none of the {} tests selected", selected.size());
  if (!unlisted.empty()) {
    why += "; hidden by unlisted_test_mode: " + files_text(unlisted);
  }
  if (!ungoverned.empty()) {
    why += "; in files that it does not have: " + files_text(ungoverned);
  }
  return base::fail(base::Fault::invalid_input, std::move(why),
                    "list tests of these files, or see what it finds: `crosscheck config check "
                    "--inventory`; --observe runs them all");
}

base::TestResult left_out(const CollectedTest& test, const Rule& rule, Fate fate) {
  base::TestResult result;
  result.id = test.id;
  result.node_id = test.node_id;
  result.governed = rule.governed;
  result.outcome = fate == Fate::skipped ? Outcome::skipped : Outcome::not_run;
  result.governed->observed = Outcome::not_run;
  const bool optional = fate == Fate::not_run && rule.governed.basis != k_ungoverned;
  result.message = optional ? "left out by --skip-xfail; " + rule.reason : rule.reason;
  return result;
}

Score score(const base::RunResults& run) {
  Score score;
  for (const auto& test : run.tested()) {
    const auto& governed = test.latest->governed;
    if (!governed) continue;
    if (governed->basis == k_ungoverned) {
      ++score.ungoverned[test.latest->id.file];
      continue;
    }
    auto& mode = score.modes[governed->mode];
    ++mode.total;
    if (governed->basis == k_unlisted) ++mode.unlisted;
    const auto observed = governed->observed;
    if (test.flaky) {
      ++mode.flaky;
    } else if (base::is_failure(observed)) {
      ++mode.failed;
    } else if (observed == Outcome::passed || observed == Outcome::xpassed) {
      ++mode.passed;
    } else if (base::is_fault(observed)) {
      ++mode.faults;
    } else if (observed == Outcome::not_run) {
      ++mode.not_run;
    }
  }
  return score;
}

std::string to_text(const Score& score, bool observed) {
  std::string text;
  for (const auto& [mode, of] : score.modes) {
    text += fmt::format("{} {}", of.total, asks(mode));
    const char* separator = ": ";
    for (const auto& [n, what] : {std::pair{of.passed, "passed"},
                                  {of.failed, "failed"},
                                  {of.flaky, "flaky"},
                                  {of.faults, "met a fault of the environment or the harness"},
                                  {of.not_run, "were not run"},
                                  {of.unlisted, "of them hidden by unlisted_test_mode"}}) {
      if (n == 0) continue;
      text += fmt::format("{}{} {}", separator, n, what);
      separator = ", ";
    }
    text += '\n';
  }
  // What a maintainer would read first: where no test is promised, green means little.
  if (!score.modes.contains(Mode::mandatory_success)) text = "0 must pass\n" + text;
  if (!score.ungoverned.empty()) {
    std::int64_t total = 0;
    for (const auto& [file, n] : score.ungoverned) total += n;
    text += fmt::format("{} ungoverned, in files that the configuration does not have: {}\n", total,
                        files_text(score.ungoverned));
  }
  if (observed) {
    const auto of = [&](Mode mode) {
      const auto found = score.modes.find(mode);
      return found == score.modes.end() ? ModeScore{} : found->second;
    };
    const auto must = of(Mode::mandatory_success);
    const auto skip = of(Mode::skip);
    const auto may = of(Mode::xfail);
    text += fmt::format(
        "the configuration's score: of {} that must pass {} failed; of {} skipped {} pass; of {} "
        "that may fail {} pass\n",
        must.total, must.failed + must.flaky, skip.total, skip.passed, may.total, may.passed);
  }
  return text;
}

base::json::object to_json(const Score& score) {
  base::json::object modes;
  for (const auto& [mode, of] : score.modes) {
    modes[base::to_string(mode)] =
        base::json::object{{"total", of.total},      {"passed", of.passed}, {"failed", of.failed},
                           {"flaky", of.flaky},      {"faults", of.faults}, {"not_run", of.not_run},
                           {"unlisted", of.unlisted}};
  }
  base::json::object ungoverned;
  for (const auto& [file, n] : score.ungoverned) ungoverned[file] = n;
  return {{"modes", std::move(modes)}, {"ungoverned", std::move(ungoverned)}};
}

}  // namespace crosscheck::runner
