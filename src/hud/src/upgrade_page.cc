#include "upgrade_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "crosscheck/base/json.h"
#include "state.h"
#include "text.h"

namespace crosscheck::hud {
namespace {

namespace json = boost::json;

constexpr std::size_t k_text_limit = 2048;
constexpr std::size_t k_rows_shown = 600;  // of a table; the twin has all

std::string text(const json::value& root, std::string_view path) {
  const auto* found = base::find(root, path);
  return found && found->is_string() ? base::to_utf8(found->get_string(), k_text_limit)
                                     : std::string{};
}
const json::array& list(const json::value& root, std::string_view path) {
  static const json::array none;
  const auto* found = base::find(root, path);
  return found && found->is_array() ? found->get_array() : none;
}
std::optional<double> number(const json::value& root, std::string_view path) {
  const auto* found = base::find(root, path);
  if (!found || !found->is_number()) return std::nullopt;
  return found->to_number<double>();
}
json::object when(base::Time time, base::Time now) {
  return {{"iso", base::to_rfc3339(time)}, {"text", clock_text(time)}, {"age", age(time, now)}};
}

// Glyph and colour of a status or a decision, beside `label`.
json::object mark(std::string_view word, std::string_view label) {
  const auto& state = info(upgrade_state(word));
  return {{"name", state.name}, {"label", label}, {"glyph", state.glyph}};
}
json::object mark(std::string_view word) { return mark(word, word); }

json::array lines(const json::value& root, std::string_view path) {
  json::array all;
  for (const auto& line : list(root, path)) {
    if (line.is_string() && all.size() < k_rows_shown)
      all.push_back(json::object{{"text", base::to_utf8(line.get_string(), k_text_limit)}});
  }
  return all;
}

json::value report_of(const store::StoredUpgrade& upgrade) {
  auto report = base::parse_json(upgrade.upgrade.report, "an upgrade's report");
  return report && report->is_object() ? std::move(*report) : json::value(json::object{});
}

// With what has expired by now, whatever it was when the report was made.
json::array waivers_of(const json::value& report, base::Time now) {
  json::array all;
  for (const auto& waiver : list(report, "waivers")) {
    const auto expires = base::parse_rfc3339(text(waiver, "expires"));
    all.push_back(json::object{{"cell", text(waiver, "cell")},
                               {"owner", text(waiver, "owner")},
                               {"reason", text(waiver, "reason")},
                               {"expires", text(waiver, "expires")},
                               {"expired", !expires || *expires <= now}});
  }
  return all;
}

std::string versions(const json::value& report) {
  return fmt::format("{} (torch {}) → {} (torch {})", text(report, "labels.baseline"),
                     text(report, "torch.baseline"), text(report, "labels.candidate"),
                     text(report, "torch.candidate"));
}

// Of a workload and a backend: each of its gates, in each phase.
json::array gates_of(const json::value& report, std::string_view workload,
                     std::string_view backend) {
  json::array all;
  for (const auto& cell : list(report, "cells")) {
    if (text(cell, "workload") != workload || text(cell, "backend") != backend) continue;
    for (const auto& gate : list(cell, "gates")) {
      all.push_back(json::object{{"phase", text(cell, "phase")},
                                 {"gate", text(gate, "gate")},
                                 {"status", text(gate, "status")}});
    }
  }
  return all;
}

std::string change(const json::value& interval) {
  const auto ratio = number(interval, "ratio");
  const auto lower = number(interval, "lower");
  const auto upper = number(interval, "upper");
  if (!ratio || !lower || !upper) return {};
  return fmt::format("{:+.2f} % ({:+.2f} to {:+.2f})", (*ratio - 1) * 100, (*lower - 1) * 100,
                     (*upper - 1) * 100);
}

json::array comparisons_of(const json::value& gate) {
  json::array all;
  for (const auto& one : list(gate, "comparisons")) {
    const auto* interval = base::find(one, "interval");
    const auto measured = interval ? change(*interval) : std::string{};
    const auto margin = number(one, "margin");
    if (measured.empty() || !margin) continue;
    const auto detectable = number(one, "detectable");
    all.push_back(json::object{
        {"quantity", text(one, "quantity")},
        {"change", measured},
        {"margin", fmt::format("{:.4g} %", *margin * 100)},
        {"detectable", detectable ? json::value(fmt::format("{:.2f} %", *detectable * 100))
                                  : json::value(false)}});
  }
  return all;
}

void add_list(json::object& context, const std::string& key, json::array values) {
  context["has_" + key] = !values.empty();
  context[key] = std::move(values);
}

json::array rulings_of(const json::value& report, bool with_gates) {
  json::array all;
  for (const auto& ruling : list(report, "rulings")) {
    if (all.size() == k_rows_shown) break;
    json::object row{
        {"workload", text(ruling, "workload")},    {"backend", text(ruling, "backend")},
        {"state", mark(text(ruling, "decision"))}, {"rule", text(ruling, "rule")},
        {"reasons", lines(ruling, "reasons")},     {"waived", lines(ruling, "waived")}};
    if (with_gates) {
      json::array gates;
      for (const auto& gate : gates_of(report, text(ruling, "workload"), text(ruling, "backend"))) {
        const auto status = text(gate, "status");
        gates.push_back(
            json::object{{"state", mark(status, fmt::format("{} {}: {}", text(gate, "phase"),
                                                            text(gate, "gate"), status))}});
      }
      row["gates"] = std::move(gates);
    }
    all.push_back(std::move(row));
  }
  return all;
}

}  // namespace

Page upgrades_page(const std::vector<store::StoredUpgrade>& upgrades, std::int64_t number,
                   const PageContext& context) {
  Page page{.title = "Upgrades", .name = "upgrades"};
  json::array rows;
  json::array twins;
  for (std::size_t i = 0; i < std::min(upgrades.size(), k_upgrades_a_page); ++i) {
    const auto& stored = upgrades[i];
    const auto& upgrade = stored.upgrade;
    const auto report = report_of(stored);
    page.newest_at = std::max(page.newest_at.value_or(base::Time{}), upgrade.decided_at);
    json::array rulings;
    for (const auto& ruling : list(report, "rulings")) {
      const auto workload = text(ruling, "workload");
      const auto backend = text(ruling, "backend");
      rulings.push_back(json::object{{"workload", workload},
                                     {"backend", backend},
                                     {"decision", text(ruling, "decision")},
                                     {"rule", text(ruling, "rule")},
                                     {"gates", gates_of(report, workload, backend)}});
    }
    auto waivers = waivers_of(report, context.now);
    const auto expired = std::count_if(waivers.begin(), waivers.end(), [](const auto& waiver) {
      return waiver.at("expired").as_bool();
    });
    rows.push_back(json::object{
        {"id", stored.id},
        {"name", base::to_utf8(upgrade.name, k_text_limit)},
        {"state", mark(upgrade.decision)},
        {"versions", versions(report)},
        {"decided", when(upgrade.decided_at, context.now)},
        {"waivers", waivers.empty() ? json::value(false)
                                    : json::value(count_of(std::ssize(waivers), "waiver"))},
        {"expired",
         expired == 0 ? json::value(false) : json::value(fmt::format("{} expired", expired))},
        {"rulings", rulings_of(report, true)}});
    twins.push_back(json::object{{"id", stored.id},
                                 {"page", fmt::format("/upgrade/{}", stored.id)},
                                 {"matrix", upgrade.matrix},
                                 {"name", upgrade.name},
                                 {"decision", upgrade.decision},
                                 {"verdict", text(report, "verdict")},
                                 {"versions", versions(report)},
                                 {"decided_at", base::to_rfc3339(upgrade.decided_at)},
                                 {"published_at", base::to_rfc3339(stored.published_at)},
                                 {"rulings", std::move(rulings)},
                                 {"waivers", std::move(waivers)}});
  }
  const bool more = upgrades.size() > k_upgrades_a_page;
  page.twin = {{"upgrades", std::move(twins)},
               {"page", number},
               {"next", more ? json::value(fmt::format("/upgrade?page={}", number + 1))
                             : json::value(nullptr)}};
  page.context = {{"next", more ? json::value(number + 1) : json::value(false)},
                  {"previous", number > 1 ? json::value(number - 1) : json::value(false)}};
  add_list(page.context, "upgrades", std::move(rows));
  return page;
}

Page upgrade_page(const store::StoredUpgrade& stored, const PageContext& context) {
  const auto& upgrade = stored.upgrade;
  const auto report = report_of(stored);
  Page page{
      .title = fmt::format("Upgrade {}: {}", stored.id, base::to_utf8(upgrade.name, k_text_limit)),
      .name = "upgrade"};
  page.newest_at = upgrade.decided_at;
  auto waivers = waivers_of(report, context.now);
  page.twin = {{"id", stored.id},
               {"page", fmt::format("/upgrade/{}", stored.id)},
               {"matrix", upgrade.matrix},
               {"bundle", upgrade.bundle},
               {"published_at", base::to_rfc3339(stored.published_at)},
               {"waivers", waivers},
               {"report", report}};
  json::array fleet;
  for (const auto& member : list(report, "fleet")) {
    fleet.push_back(json::object{{"workload", text(member, "workload")},
                                 {"state", mark(text(member, "decision"))},
                                 {"reason", text(member, "reason")}});
  }
  json::array claims;
  for (const auto& claim : list(report, "claims")) {
    claims.push_back(json::object{{"id", text(claim, "id")},
                                  {"backend", text(claim, "backend")},
                                  {"state", mark(text(claim, "verdict"))},
                                  {"reason", text(claim, "reason")}});
  }
  json::array gates;
  std::size_t left_out = 0;
  for (const auto& cell : list(report, "cells")) {
    const auto name =
        fmt::format("{}/{}/{}", text(cell, "workload"), text(cell, "backend"), text(cell, "phase"));
    for (const auto& gate : list(cell, "gates")) {
      if (gates.size() == k_rows_shown) {
        ++left_out;
        continue;
      }
      gates.push_back(json::object{
          {"cell", name},
          {"gate", text(gate, "gate")},
          {"state", mark(text(gate, "status"))},
          {"reason", text(gate, "reason")},
          {"launches", list(gate, "launches").size() == 1
                           ? std::string{"1 launch"}
                           : fmt::format("{} launches", list(gate, "launches").size())},
          {"records", lines(gate, "launches")},
          {"comparisons", comparisons_of(gate)},
          {"reproduce", text(cell, "reproduce")}});
    }
  }
  const auto& state = info(upgrade_state(upgrade.decision));
  const auto verdict = text(report, "verdict");
  page.context = {{"name", base::to_utf8(upgrade.name, k_text_limit)},
                  {"versions", versions(report)},
                  {"state_name", state.name},
                  {"glyph", state.glyph},
                  {"verdict", verdict.empty() ? upgrade.decision : verdict},
                  {"decided", when(upgrade.decided_at, context.now)},
                  {"published", when(stored.published_at, context.now)},
                  {"rulings", rulings_of(report, false)},
                  {"left_out", left_out == 0 ? json::value(false) : json::value(left_out)},
                  {"manifest", text(report, "digest")},
                  {"matrix", upgrade.matrix},
                  {"bundle", upgrade.bundle}};
  for (auto& waiver : waivers) {
    const auto expires = base::parse_rfc3339(text(waiver, "expires"));
    waiver.as_object()["until"] = expires ? clock_text(*expires) : text(waiver, "expires");
  }
  add_list(page.context, "fleet", std::move(fleet));
  add_list(page.context, "claims", std::move(claims));
  add_list(page.context, "waivers", std::move(waivers));
  add_list(page.context, "gates", std::move(gates));
  add_list(page.context, "caveats", lines(report, "caveats"));
  add_list(page.context, "confounders", lines(report, "confounders"));
  return page;
}

}  // namespace crosscheck::hud
