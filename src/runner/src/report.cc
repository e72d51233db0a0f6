#include "crosscheck/runner/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <pugixml.hpp>
#include <sstream>

#include "crosscheck/base/text.h"
#include "crosscheck/runner/govern.h"
#include "text.h"

namespace crosscheck::runner {
namespace {

using base::Outcome;
namespace json = base::json;

constexpr std::size_t k_failures_shown = 20;

constexpr std::array<Outcome, base::k_outcome_count> k_outcomes{
    Outcome::passed,        Outcome::failed,  Outcome::crashed, Outcome::timed_out,
    Outcome::skipped,       Outcome::xfailed, Outcome::xpassed, Outcome::environment_error,
    Outcome::harness_error, Outcome::not_run,
};

bool needs_a_look(Outcome outcome) { return base::is_failure(outcome) || base::is_fault(outcome); }

// Text that XML 1.0 can hold.
std::string for_xml(std::string_view text) {
  std::string clean = base::to_utf8(text);
  constexpr std::string_view k_replacement = "\xEF\xBF\xBD";
  // U+FFFE and U+FFFF are characters of UTF-8 and none of XML.
  for (const std::string_view forbidden : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (auto at = clean.find(forbidden); at != std::string::npos; at = clean.find(forbidden, at)) {
      clean.replace(at, forbidden.size(), k_replacement);
    }
  }
  return clean;
}

void set(pugi::xml_node node, const char* name, std::string_view value) {
  node.append_attribute(name).set_value(for_xml(value).c_str());
}

void set_seconds(pugi::xml_node node, base::Duration duration) {
  set(node, "time", fmt::format("{:.6f}", static_cast<double>(duration.count()) / 1e6));
}

void set_counts(pugi::xml_node node, const base::OutcomeCounts& counts, base::Duration duration) {
  const auto number = [&](const char* name, std::int64_t value) {
    set(node, name, std::to_string(value));
  };
  number("tests", counts.total());
  number("failures", counts.failures());
  number("errors", counts.faults());
  number("skipped", counts[Outcome::skipped] + counts[Outcome::xfailed] + counts[Outcome::not_run]);
  set_seconds(node, duration);
}

void add_property(pugi::xml_node properties, std::string_view name, std::string_view value) {
  auto property = properties.append_child("property");
  set(property, "name", name);
  set(property, "value", value);
}

std::string name_of(const base::TestId& id) {
  const auto variant = base::parse_json(id.variant, "variant");
  if (!variant || !variant->is_object() || variant->get_object().empty()) return id.method;
  std::string text = id.method + "[";
  bool first = true;
  for (const auto& [key, value] : variant->get_object()) {
    if (!std::exchange(first, false)) text += ',';
    text += std::string{key} + "=";
    text += value.is_string() ? std::string{value.get_string()} : base::canonical_json(value);
  }
  return text + "]";
}

void add_reason(pugi::xml_node node, const char* element, std::string_view type,
                const base::TestResult& result) {
  auto why = node.append_child(element);
  set(why, "type", type);
  set(why, "message", result.message);
  if (!result.detail.empty()) {
    why.append_child(pugi::node_pcdata).set_value(for_xml(result.detail).c_str());
  }
}

// What is known of a test beside its result, as far as it has any of it.
void add_properties(pugi::xml_node node, const base::Tested& test) {
  const auto& result = *test.latest;
  auto properties = node.append_child("properties");
  add_property(properties, "node_id", result.node_id);
  add_property(properties, "outcome", base::to_string(result.outcome));
  if (test.flaky) add_property(properties, "flaky", "true");
  if (result.kind != base::FailureKind::none) {
    add_property(properties, "kind", base::to_string(result.kind));
  }
  if (!result.fingerprint.empty()) add_property(properties, "fingerprint", result.fingerprint);
  if (result.attempt > 1) add_property(properties, "attempt", std::to_string(result.attempt));
  if (result.leak) add_property(properties, "leak", base::canonical_json(to_json(*result.leak)));
  if (!result.governed) return;
  add_property(properties, "mode", base::to_string(result.governed->mode));
  add_property(properties, "basis", result.governed->basis);
  add_property(properties, "observed", base::to_string(result.governed->observed));
  if (!result.governed->place.empty()) add_property(properties, "place", result.governed->place);
}

void add_case(pugi::xml_node suite, const base::Tested& test,
              const std::vector<const base::TestResult*>& earlier) {
  const auto& result = *test.latest;
  auto node = suite.append_child("testcase");
  set(node, "file", result.id.file);
  auto module = result.id.file;
  if (module.ends_with(".py")) module.resize(module.size() - 3);
  std::replace(module.begin(), module.end(), '/', '.');
  set(node, "classname",
      result.id.class_name.empty() ? module : module + "." + result.id.class_name);
  set(node, "name", name_of(result.id));
  set_seconds(node, result.duration);
  add_properties(node, test);
  if (base::is_failure(result.outcome)) {
    add_reason(node, "failure", base::to_string(result.kind), result);
  } else if (base::is_fault(result.outcome)) {
    add_reason(node, "error", base::to_string(result.kind), result);
  } else if (result.outcome == Outcome::skipped || result.outcome == Outcome::xfailed ||
             result.outcome == Outcome::not_run) {
    add_reason(node, "skipped", base::to_string(result.outcome), result);
  }
  // As Maven's Surefire has it, and what reads that.
  for (const auto* attempt : earlier) {
    const bool failed = base::is_failure(attempt->outcome);
    if (!failed && !base::is_fault(attempt->outcome)) continue;
    const char* element = failed ? (test.flaky ? "flakyFailure" : "rerunFailure")
                                 : (test.flaky ? "flakyError" : "rerunError");
    add_reason(node, element, base::to_string(attempt->kind), *attempt);
  }
}

std::string counts_text(const base::OutcomeCounts& counts) {
  std::string text;
  for (const auto outcome : k_outcomes) {
    if (counts[outcome] == 0) continue;
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", counts[outcome], base::to_string(outcome));
  }
  if (counts.flaky() > 0) {
    text += fmt::format("{}{} flaky", text.empty() ? "" : ", ", counts.flaky());
  }
  return text.empty() ? "nothing ran" : text;
}

base::Duration wall(const base::RunHeader& header) {
  return std::max(header.finished_at - header.started_at, base::Duration{0});
}

// At most `width` columns; a character outside ASCII counts as one.
std::string fit(const std::string& text, std::size_t width) {
  std::size_t columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
    if (begins && ++columns > width) return text.substr(0, i);
  }
  return text;
}

}  // namespace

std::string to_junit(const base::RunResults& run) {
  const auto tests = run.tested();
  std::map<std::string_view, std::vector<const base::Tested*>> files;
  for (const auto& test : tests) files[test.latest->id.file].push_back(&test);
  // Few have any.
  std::map<base::TestId, std::vector<const base::TestResult*>> attempts;
  for (const auto& result : run.results) {
    if (result.attempt > 1) attempts[result.id];
  }
  if (!attempts.empty()) {
    for (const auto& result : run.results) {
      if (const auto of = attempts.find(result.id); of != attempts.end()) {
        of->second.push_back(&result);
      }
    }
  }
  const auto earlier_of = [&](const base::TestResult& latest) {
    std::vector<const base::TestResult*> earlier;
    if (const auto of = attempts.find(latest.id); of != attempts.end()) earlier = of->second;
    std::erase_if(earlier, [&](const auto* other) { return other->attempt >= latest.attempt; });
    std::ranges::sort(earlier, {}, &base::TestResult::attempt);
    return earlier;
  };

  pugi::xml_document document;
  auto declaration = document.append_child(pugi::node_declaration);
  set(declaration, "version", "1.0");
  set(declaration, "encoding", "utf-8");
  auto root = document.append_child("testsuites");
  set(root, "name", "crosscheck");
  set_counts(root, run.counts(), wall(run.header));
  for (const auto& [file, cases] : files) {
    auto suite = root.append_child("testsuite");
    set(suite, "name", file);
    base::OutcomeCounts counts;
    base::Duration duration{0};
    for (const auto* test : cases) {
      if (test->flaky) {
        counts.add_flaky();
      } else {
        counts.add(test->latest->outcome);
      }
      duration += test->latest->duration;
    }
    set_counts(suite, counts, duration);
    set(suite, "timestamp", base::to_rfc3339(run.header.started_at));
    auto properties = suite.append_child("properties");
    const auto& combination = run.header.combination;
    add_property(properties, "run_id", run.header.run_id);
    add_property(properties, "backend", combination.backend);
    add_property(properties, "backend_revision", combination.backend_revision);
    add_property(properties, "core_revision", combination.core_revision);
    add_property(properties, "suite_revision", combination.suite_revision);
    add_property(properties, "device", combination.device);
    add_property(properties, "environment_digest", combination.environment_digest);
    for (const auto* test : cases) add_case(suite, *test, earlier_of(*test->latest));
  }
  std::ostringstream out;
  document.save(out, " ", pugi::format_indent, pugi::encoding_utf8);
  return std::move(out).str();
}

std::string failure_line(const base::TestResult& result) {
  auto name = std::string{base::to_string(result.outcome)};
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  constexpr std::size_t k_shown = 160;
  const auto line = first_line(result.message);
  return fmt::format("{} {}: {}{}", name, base::to_utf8(result.node_id),
                     base::to_utf8(line, k_shown), line.size() > k_shown ? "…" : "");
}

std::string flaky_line(const base::Tested& test) {
  return fmt::format("FLAKY {}: {} in attempt {}, after it had failed",
                     base::to_utf8(test.latest->node_id), base::to_string(test.latest->outcome),
                     test.latest->attempt);
}

std::string summary_text(const base::RunResults& run, const Files& files, bool interrupted) {
  std::string text;
  std::size_t shown = 0;
  std::size_t more = 0;
  for (const auto& test : run.tested()) {
    const auto* result = test.latest;
    if (!needs_a_look(result->outcome) && !test.flaky) continue;
    if (shown == k_failures_shown) {
      ++more;
      continue;
    }
    ++shown;
    text += test.flaky ? flaky_line(test) : failure_line(*result);
    text += '\n';
  }
  if (more > 0) text += fmt::format("and {} more\n", more);
  if (shown > 0) text += "\n";
  const auto counts = run.counts();
  text += fmt::format("{} in {}: {}\n", base::count_of(counts.total(), "test"),
                      base::to_human(wall(run.header)), counts_text(counts));
  if (!run.header.config.empty()) text += to_text(score(run), run.header.observe);
  if (interrupted) {
    text += "interrupted: what had ended is kept, the rest is not_run";
    text += files.store.empty() ? "\n" : "; the same command with --resume goes on\n";
  } else if (run.header.interrupted && run.header.imported && run.header.merged.empty()) {
    text += "not the whole run: pytest did not come to its end, or its report is cut off\n";
  } else if (run.header.interrupted && !run.header.merged.empty()) {
    text += "not the whole run: a shard is missing, or did not get to its end\n";
  } else if (run.header.interrupted) {
    text += "a file took longer than --file-timeout allows: the rest of it is not_run\n";
  }
  text += fmt::format("run {}", run.header.run_id);
  if (!files.store.empty()) text += " in " + files.store;
  if (!files.junit.empty()) text += ", JUnit in " + files.junit;
  if (!files.results.empty()) text += ", results in " + files.results;
  return text + "\n";
}

json::object summary_json(const base::RunResults& run, const Files& files, bool interrupted) {
  const auto counts = run.counts();
  json::object numbers;
  for (const auto outcome : k_outcomes) numbers[base::to_string(outcome)] = counts[outcome];
  numbers["flaky"] = counts.flaky();
  json::array failures;
  json::array flaky;
  json::array leaks;
  for (const auto& result : run.results) {
    if (!result.leak) continue;
    leaks.push_back(json::object{
        {"node_id", result.node_id}, {"host", result.leak->host}, {"device", result.leak->device}});
  }
  for (const auto& test : run.tested()) {
    const auto* result = test.latest;
    if (test.flaky) {
      flaky.push_back(json::object{{"node_id", result->node_id}, {"attempts", result->attempt}});
    }
    if (!needs_a_look(result->outcome)) continue;
    failures.push_back(json::object{{"node_id", result->node_id},
                                    {"outcome", base::to_string(result->outcome)},
                                    {"kind", base::to_string(result->kind)},
                                    {"fingerprint", result->fingerprint},
                                    {"message", first_line(result->message)}});
  }
  auto combination = base::to_json(run.header.combination);
  combination["digest"] = run.header.combination.digest();
  json::object places;
  if (!files.junit.empty()) places["junit"] = files.junit;
  if (!files.results.empty()) places["results"] = files.results;
  if (!files.store.empty()) places["store"] = files.store;
  json::value configuration = nullptr;
  if (!run.header.config.empty()) {
    configuration = to_json(score(run));
    json::array names;
    for (const auto& file : run.header.config) names.emplace_back(file.path);
    configuration.as_object()["files"] = std::move(names);
    configuration.as_object()["observe"] = run.header.observe;
  }
  return {
      {"run_id", run.header.run_id},
      {"combination", std::move(combination)},
      {"selection", run.header.selection},
      {"started_at", base::to_rfc3339(run.header.started_at)},
      {"finished_at", base::to_rfc3339(run.header.finished_at)},
      {"seconds", static_cast<double>(wall(run.header).count()) / 1e6},
      {"total", counts.total()},
      {"counts", std::move(numbers)},
      {"ok", run.ok()},
      {"failures", std::move(failures)},
      {"flaky", std::move(flaky)},
      {"leaks", std::move(leaks)},
      {"shard", run.header.shard.empty() ? json::value(nullptr) : json::value(run.header.shard)},
      {"configuration", std::move(configuration)},
      {"interrupted", interrupted},
      {"files", std::move(places)}};
}

std::string progress_line(const Progress& progress, base::Duration elapsed, std::size_t width) {
  std::string text = fmt::format("{}/{}", progress.done, progress.total);
  const auto bad = progress.counts.failures();
  const auto faults = progress.counts.faults();
  if (bad > 0) text += fmt::format(", {} failed", bad);
  if (faults > 0) text += fmt::format(", {} errors", faults);
  text += ", " + base::to_human(elapsed);
  const auto flaky = progress.counts.flaky();
  if (flaky > 0) text += fmt::format(", {} flaky", flaky);
  if (progress.expected_done.count() > 0 && progress.done < progress.total &&
      elapsed > std::chrono::seconds{5}) {
    const auto done = static_cast<double>(progress.expected_done.count());
    const auto all = static_cast<double>(progress.expected_total.count());
    const base::Duration left{
        std::llround(static_cast<double>(elapsed.count()) * std::max(all - done, 0.0) / done)};
    text += ", about " + base::to_human(std::chrono::ceil<std::chrono::seconds>(left)) + " left";
  }
  for (std::size_t i = 0; i < progress.running.size(); ++i) {
    text += (i == 0 ? " · " : ", ") + progress.running[i];
  }
  return fit(base::to_utf8(text), width);
}

}  // namespace crosscheck::runner
