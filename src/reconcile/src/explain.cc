#include "crosscheck/reconcile/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "crosscheck/base/json.h"
#include "rationale.h"

namespace crosscheck::reconcile {
namespace {

namespace json = base::json;
using config::Basis;
using config::Candidate;
using config::Mode;
using config::Rationale;

constexpr std::size_t k_headline = 160;

std::string times(std::size_t n) { return n == 1 ? "once" : fmt::format("{} times", n); }

std::string basis_text(const Word& word, const config::CollectedTest& test) {
  const config::Ruling& ruling = word.ruling;
  switch (ruling.basis) {
    case Basis::ungoverned:
      return fmt::format("the configuration does not have the file {}", test.id.file);
    case Basis::unlisted:
      return "no entry names it: unlisted_test_mode decides";
    case Basis::listed:
      return fmt::format("'{}' names it", ruling.name->text());
    case Basis::excluded_op:
      return fmt::format("the entry excludes the operator {}", test.op);
    case Basis::excluded_dtype:
      return fmt::format("the entry excludes the dtype {}", test.dtype);
    case Basis::excluded_module:
      return fmt::format("the entry excludes the module {}", test.module);
    case Basis::unsupported_op:
      return fmt::format("supported_ops does not have {}", test.op);
    case Basis::unsupported_dtype:
      return fmt::format("{} is not supported there", test.dtype);
    case Basis::unsupported_module:
      return fmt::format("supported_modules does not have {}", test.module);
    case Basis::forced_xfail:
      return "force_xfail of its operator, module or dtype";
    case Basis::tied:
      return fmt::format("'{}' and '{}' say different things, and neither is the more specific",
                         ruling.name->text(), ruling.other->text());
  }
  return "";
}

// Where the configuration says it; false: nowhere.
config::Node place_of(const Word& word) {
  const config::Ruling& ruling = word.ruling;
  if (ruling.name) return ruling.name->node;
  if (!ruling.file) return {};
  return ruling.file->unlisted_node ? ruling.file->unlisted_node : ruling.file->path_node;
}

const Rationale* rationale_of(const Word& word) {
  return word.ruling.entry && word.ruling.entry->rationale ? &*word.ruling.entry->rationale
                                                           : nullptr;
}

std::string decision_text(const Rationale& rationale) {
  std::string text{to_string(rationale.reason)};
  for (const auto* list : {&rationale.operators, &rationale.dtypes, &rationale.features})
    if (!list->empty()) text += fmt::format(" ({})", fmt::join(*list, ", "));
  for (const auto& [key, value] : rationale.mismatch) text += fmt::format(", {} {}", key, value);
  if (rationale.decided_by)
    text += fmt::format("; decided by {} {}",
                        rationale.decided_by == config::Decider::agent ? "an" : "a",
                        to_string(*rationale.decided_by));
  if (!rationale.decided_at.empty()) text += fmt::format(" on {}", rationale.decided_at);
  if (!rationale.expires.empty()) text += fmt::format(", until {}", rationale.expires);
  if (!rationale.test_sources.empty())
    text += fmt::format(", of the test as {}", fmt::join(rationale.test_sources, " or "));
  if (!rationale.text.empty()) text += fmt::format(": {}", headline(rationale.text, 300));
  return text;
}

std::string fate_text(Candidate::Fate fate) {
  switch (fate) {
    case Candidate::Fate::decides:
      return "agrees";
    case Candidate::Fate::does_not_hold:
      return "its condition does not hold here";
    case Candidate::Fate::name_outdone:
      return "a more specific name goes over it";
    case Candidate::Fate::condition_outdone:
      return "an entry with a narrower condition goes over it";
  }
  return "";
}

std::string attempt_text(const base::TestResult& attempt) {
  std::string text{base::to_string(observed(attempt))};
  if (observed(attempt) != attempt.outcome)
    text += fmt::format(" (as {}: {})", to_string(attempt.governed->mode),
                        base::to_string(attempt.outcome));
  if (attempt.kind != base::FailureKind::none)
    text += fmt::format(", {}", base::to_string(attempt.kind));
  if (!attempt.fingerprint.empty()) text += fmt::format(", fingerprint {}", attempt.fingerprint);
  if (!attempt.message.empty()) text += fmt::format(": {}", headline(attempt.message, k_headline));
  return text;
}

bool same_subject(const Run& a, const Run& b) {
  return a.combination.backend == b.combination.backend &&
         a.combination.device == b.combination.device;
}

// By what runs saw, of a test whose mode they may change.
std::string by_evidence(const Word& word, const Standing& stands, const Options& options) {
  const Mode mode = word.ruling.mode;
  const bool steady = stands.passes >= options.passes;
  if (mode == Mode::mandatory_success) {
    if (stands.fails > 0 || (stands.flaky && !steady))
      return fmt::format("it {}: `reconcile` proposes xfail",
                         stands.flaky ? "is flaky" : "fails now");
    return "a run in which it fails lets `reconcile` propose xfail";
  }
  if (steady && !stands.flaky) return "it passes: `reconcile` proposes mandatory_success";
  if (stands.flaky)
    return fmt::format(
        "it is flaky: {} passes in a row promote it, once the newest {} sightings do not change "
        "back "
        "and forth",
        options.passes, options.window);
  return fmt::format(
      "{} more {} in a row {} it (it passed {} in a row)", options.passes - stands.passes,
      options.passes - stands.passes == 1 ? "pass" : "passes",
      options.passes - stands.passes == 1 ? "promotes" : "promote", times(stands.passes));
}

}  // namespace

std::vector<std::string> outlook(const Word& word, const config::CollectedTest& test,
                                 const std::vector<RunOfTest>& runs, const Options& options,
                                 std::string_view today) {
  std::vector<std::string> sentences;
  History history;
  for (const RunOfTest& one : runs) {
    if (!same_subject(one.run, runs.front().run)) continue;
    base::RunHeader header;
    header.run_id = one.run.id;
    header.combination = one.run.combination;
    header.started_at = one.run.started_at;
    history.add(header, one.attempts);
  }
  const std::vector<Sighting> sightings = history.of(test.id);
  const Standing stands = standing(sightings, std::max(options.window, options.passes));
  switch (word.ruling.basis) {
    case Basis::ungoverned:
      return {fmt::format("an entry for the file {} would govern it", test.id.file)};
    case Basis::tied:
      return {"name the test in the entry that is meant: `config check` shows both places"};
    case Basis::excluded_op:
    case Basis::excluded_dtype:
    case Basis::excluded_module:
      return {"only a change of the entry's `edits` lets it run"};
    case Basis::unsupported_op:
    case Basis::unsupported_dtype:
    case Basis::unsupported_module:
      return {"adding it to what is supported, or to the entry's `edits`, lets it run"};
    case Basis::forced_xfail:
      return {"only taking force_xfail away makes it a test that must pass"};
    case Basis::unlisted:
      if (word.ruling.mode == Mode::skip) {
        sentences.emplace_back("`reconcile` proposes to list it");
        return sentences;
      }
      break;
    case Basis::listed:
      break;
  }
  const Rationale* rationale = rationale_of(word);
  if (rationale) {
    const bool over = is_expired(*rationale, today);
    if (over)
      return {
          fmt::format("the reason expired on {}: `reconcile` decides anew", rationale->expires)};
    if (config::has_changed(test, *rationale))
      return {"it changed since that was decided: `reconcile` decides anew"};
    if (is_persons(*rationale)) {
      sentences.push_back(
          fmt::format("a person decided{}{}: only a person changes it{}",
                      rationale->decided_at.empty() ? "" : " on " + rationale->decided_at,
                      rationale->expires.empty() ? "" : ", until " + rationale->expires,
                      rationale->expires.empty() ? "" : ", or what runs see after that day"));
      if (rationale->test_sources.empty() && !test.source.empty())
        sentences.push_back(fmt::format(
            "`test_source: {}` in the rationale lets it end when the test changes", test.source));
      return sentences;
    }
    if (word.ruling.mode == Mode::skip && is_about_scope(rationale->reason))
      return {fmt::format("no run changes it: {} is about scope, not about outcomes",
                          to_string(rationale->reason))};
  }
  sentences.push_back(by_evidence(word, stands, options));
  if (word.ruling.mode == Mode::skip && stands.passes < options.passes)
    sentences.emplace_back("it is not run: `run --observe` runs it");
  return sentences;
}

std::string to_text(const Explanation& explanation) {
  std::string text = to_string(explanation.test.id) + "\n";
  bool first = true;
  std::string_view title;
  const auto section = [&](std::string_view name) {
    title = name;
    first = true;
  };
  const auto line = [&](const std::string& words) {
    text += fmt::format("  {:<11} {}\n", first ? title : "", base::to_utf8(words));
    first = false;
  };
  section("collected");
  const config::CollectedTest& test = explanation.test;
  const Origin origin = explanation.origin.value_or(Origin{});
  line(fmt::format("{}{}{}", test.id.file, origin.line > 0 ? fmt::format(":{}", origin.line) : "",
                   explanation.node.empty() ? "" : ", as " + explanation.node));
  for (const auto& [what, value] :
       {std::pair{"operator", &test.op}, std::pair{"dtype", &test.dtype},
        std::pair{"module", &test.module}})
    if (!value->empty()) line(fmt::format("{} {}", what, *value));
  if (!test.source.empty()) line(fmt::format("source {}", test.source));
  if (!origin.markers.empty()) line(fmt::format("markers {}", fmt::join(origin.markers, ", ")));
  if (explanation.origin)
    line(fmt::format("by {}: {}, torch {}, device {}", origin.inventory, origin.suite, origin.torch,
                     origin.device));

  section("configured");
  if (!explanation.word) {
    line("no --config was given");
  } else {
    const Word& word = *explanation.word;
    const config::Node at = place_of(word);
    line(fmt::format("{} ({}): {}{}", to_string(word.ruling.mode), to_string(word.ruling.basis),
                     basis_text(word, test), at ? ", " + to_string(at.place()) : ""));
    if (const Rationale* rationale = rationale_of(word)) {
      line(decision_text(*rationale));
      for (const config::Evidence& one : rationale->evidence)
        line(fmt::format("evidence, {}: {}", one.kind, one.ref));
    } else if (word.ruling.entry) {
      line("without a rationale");
    }
    for (const Candidate& one : word.candidates)
      if (one.name != word.ruling.name)
        line(fmt::format(
            "{}: '{}' says {}{}: {}", to_string(one.name->node.place()), one.name->text(),
            to_string(one.entry->mode),
            one.entry->when.is_always() ? "" : fmt::format(" ({})", to_string(one.entry->when)),
            fate_text(one.fate)));
  }

  section("runs");
  if (explanation.runs.empty()) line("no run has it");
  for (const RunOfTest& one : explanation.runs) {
    const base::Combination& combination = one.run.combination;
    line(fmt::format("{}; {} {} on {}{}", reference(one.run), combination.backend,
                     combination.backend_revision, combination.device,
                     one.link.empty() ? "" : "; " + one.link));
    for (const base::TestResult& attempt : one.attempts)
      line(fmt::format("  {}{}",
                       one.attempts.size() > 1 ? fmt::format("attempt {}: ", attempt.attempt) : "",
                       attempt_text(attempt)));
  }
  section("then");
  for (const std::string& sentence : explanation.outlook) line(sentence);
  return text;
}

std::string to_line(const Explanation& explanation) {
  std::string text = explanation.node.empty() ? to_string(explanation.test.id) : explanation.node;
  if (explanation.word) text += fmt::format(": {}", to_string(explanation.word->ruling.mode));
  if (!explanation.runs.empty())
    text += fmt::format(", last {}",
                        base::to_string(observed(explanation.runs.front().attempts.back())));
  return base::to_utf8(text);
}

json::object to_json(const Explanation& explanation) {
  const config::CollectedTest& test = explanation.test;
  json::object object{{"file", test.id.file},
                      {"class", test.id.class_name},
                      {"method", test.id.method},
                      {"variant", test.id.variant},
                      {"node", base::to_utf8(explanation.node)}};
  if (const auto& origin = explanation.origin) {
    object["collected"] =
        json::object{{"inventory", origin->inventory},
                     {"suite", origin->suite},
                     {"torch", origin->torch},
                     {"device", origin->device},
                     {"line", origin->line},
                     {"source", test.source},
                     {"markers", json::array(origin->markers.begin(), origin->markers.end())}};
  }
  if (explanation.word) {
    const Word& word = *explanation.word;
    json::object configured{{"mode", to_string(word.ruling.mode)},
                            {"basis", to_string(word.ruling.basis)},
                            {"says", base::to_utf8(basis_text(word, test))}};
    if (const config::Node at = place_of(word)) configured["place"] = to_string(at.place());
    if (const Rationale* rationale = rationale_of(word)) {
      json::array evidence;
      for (const config::Evidence& one : rationale->evidence)
        evidence.push_back(
            json::object{{"kind", base::to_utf8(one.kind)}, {"ref", base::to_utf8(one.ref)}});
      configured["rationale"] = json::object{
          {"reason", to_string(rationale->reason)},
          {"text", base::to_utf8(rationale->text)},
          {"evidence", std::move(evidence)},
          {"decided_by", rationale->decided_by ? to_string(*rationale->decided_by) : ""},
          {"decided_at", rationale->decided_at},
          {"expires", rationale->expires},
          {"test_source",
           json::array(rationale->test_sources.begin(), rationale->test_sources.end())}};
    }
    json::array candidates;
    for (const Candidate& one : word.candidates)
      candidates.push_back(json::object{{"place", to_string(one.name->node.place())},
                                        {"name", base::to_utf8(one.name->text())},
                                        {"mode", to_string(one.entry->mode)},
                                        {"when", to_string(one.entry->when)},
                                        {"fate", to_string(one.fate)}});
    configured["candidates"] = std::move(candidates);
    object["configured"] = std::move(configured);
  }
  json::array runs;
  for (const RunOfTest& one : explanation.runs) {
    json::array attempts;
    for (const base::TestResult& attempt : one.attempts) {
      json::object of_attempt{{"attempt", attempt.attempt},
                              {"outcome", base::to_string(attempt.outcome)},
                              {"observed", base::to_string(observed(attempt))},
                              {"kind", base::to_string(attempt.kind)},
                              {"fingerprint", attempt.fingerprint},
                              {"message", base::to_utf8(attempt.message)},
                              {"duration_us", attempt.duration.count()}};
      if (attempt.mismatch) of_attempt["mismatch"] = base::to_json(*attempt.mismatch);
      attempts.push_back(std::move(of_attempt));
    }
    json::object of_run{{"run_id", one.run.id},
                        {"started_at", base::to_rfc3339(one.run.started_at)},
                        {"combination", base::to_json(one.run.combination)},
                        {"attempts", std::move(attempts)}};
    if (!one.link.empty()) of_run["link"] = one.link;
    runs.push_back(std::move(of_run));
  }
  object["runs"] = std::move(runs);
  object["outlook"] = json::array(explanation.outlook.begin(), explanation.outlook.end());
  return object;
}

}  // namespace crosscheck::reconcile
