#include "crosscheck/runner/support.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "call.h"
#include "crosscheck/runner/fork_server.h"
#include "worker.h"

namespace crosscheck::runner {
namespace {

using base::Result;
namespace json = base::json;

std::string text_of(const json::object& line, std::string_view key) {
  const json::value* value = line.if_contains(key);
  return value != nullptr && value->is_string() ? std::string{value->get_string()} : "";
}

std::vector<std::string> texts_of(const json::object& line, std::string_view key) {
  std::vector<std::string> all;
  if (const json::value* value = line.if_contains(key); value != nullptr && value->is_array())
    for (const json::value& one : value->get_array())
      if (one.is_string()) all.emplace_back(one.get_string());
  return all;
}

json::array to_json(const std::vector<SampleUnit>& units) {
  json::array all;
  for (const SampleUnit& unit : units)
    all.push_back(json::object{{"unit", unit.unit},
                               {"dtypes", json::array(unit.dtypes.begin(), unit.dtypes.end())}});
  return all;
}

// Without what was done: all before `unit` with `dtype`, and that.
void drop_until(std::vector<SampleUnit>& units, const std::string& unit, const std::string& dtype) {
  const auto at = std::ranges::find(units, unit, &SampleUnit::unit);
  if (at == units.end()) return;
  units.erase(units.begin(), at);
  auto& dtypes = units.front().dtypes;
  const auto done = std::ranges::find(dtypes, dtype);
  if (done != dtypes.end()) dtypes.erase(dtypes.begin(), done + 1);
  if (dtypes.empty()) units.erase(units.begin());
}

}  // namespace

Result<Environment> describe_support(
    const ProbeSetup& setup, const std::vector<std::string>& operators, const CallOptions& options,
    const std::function<void(std::string_view ev, const json::object& line)>& take) {
  json::object request{{"device", to_json(setup.device)}};
  if (!operators.empty()) request["operators"] = json::array(operators.begin(), operators.end());
  std::optional<Environment> environment;
  const auto outcome = call(setup, "support", request, options, [&](Event event) {
    if (auto* found = std::get_if<Environment>(&event)) {
      environment = std::move(*found);
    } else if (const auto* other = std::get_if<Unknown>(&event)) {
      take(other->name, other->line);
    }
  });
  if (!outcome) return tl::unexpected(outcome.error());
  if (!environment || !outcome->complete || outcome->failure)
    return tl::unexpected(failure_of(setup, *outcome, options));
  return std::move(*environment);
}

Result<void> run_samples(const ProbeSetup& given, std::vector<SampleUnit> units, int samples,
                         const CallOptions& options, const std::function<void(Sampled)>& take) {
  ProbeSetup setup = given;
  setup.fork_server = std::make_shared<ForkServer>(setup, options.interrupt_fd);
  std::erase_if(units, [](const SampleUnit& unit) { return unit.dtypes.empty(); });
  while (!units.empty()) {
    const json::object request{
        {"device", runner::to_json(setup.device)}, {"units", to_json(units)}, {"samples", samples}};
    std::optional<Sampled> current;
    bool described = false;
    const auto outcome = call(setup, "samples", request, options, [&](Event event) {
      described = described || std::holds_alternative<Environment>(event);
      const auto* line = std::get_if<Unknown>(&event);
      if (line == nullptr) return;
      if (line->name == "sampling") {
        current = Sampled{.unit = text_of(line->line, "unit"),
                          .dtype = text_of(line->line, "dtype"),
                          .operators = texts_of(line->line, "operators"),
                          .results = {},
                          .died = {}};
      } else if (line->name == "sampled" && current) {
        if (const json::value* results = line->line.if_contains("results");
            results != nullptr && results->is_array())
          current->results = results->get_array();
        drop_until(units, current->unit, current->dtype);
        take(std::move(*current));
        current.reset();
      }
    });
    if (!outcome) return tl::unexpected(outcome.error());
    if (outcome->complete) return {};
    if (!described || outcome->failure || !current)
      return tl::unexpected(failure_of(setup, *outcome, options));
    current->died = how_ended(*outcome, options);
    current->hung = outcome->hung;
    drop_until(units, current->unit, current->dtype);
    take(std::move(*current));
  }
  return {};
}

}  // namespace crosscheck::runner
