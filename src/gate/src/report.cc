#include "crosscheck/gate/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "crosscheck/gate/environment.h"

namespace crosscheck::gate {
namespace {

namespace json = base::json;

const CellResult* find(const ReportInput& input, const CellId& id) {
  const auto found = std::find_if(input.results.begin(), input.results.end(),
                                  [&](const CellResult& cell) { return cell.id == id; });
  return found == input.results.end() ? nullptr : &*found;
}

// Text between `|`, as Markdown has it.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += ' ';
      continue;
    }
    if (c == '|' || c == '<' || c == '`' || c == '*' || c == '_' || c == '[') out += '\\';
    out += c;
  }
  return out;
}

std::string torch_of(const ReportInput& input, Side side) {
  for (const auto& cell : input.results) {
    for (const auto& launch : input.matrix.launches(cell.id)) {
      if (launch.request.side == side && !launch.result.torch.empty()) return launch.result.torch;
    }
  }
  return "not measured yet";
}

json::value to_json(const std::optional<Interval>& interval) {
  if (!interval) return nullptr;
  return json::object{{"ratio", std::exp(interval->estimate)},
                      {"lower", std::exp(interval->lower)},
                      {"upper", std::exp(interval->upper)},
                      {"pairs", interval->pairs}};
}

json::array texts(const std::vector<std::string>& all) {
  json::array array;
  for (const auto& text : all) array.emplace_back(text);
  return array;
}

json::array numbers(const std::vector<double>& all) {
  json::array array;
  for (const double value : all) array.emplace_back(value);
  return array;
}

std::string_view unit_of(std::string_view quantity) {
  return quantity == "throughput" ? "items/s" : quantity == "peak_memory" ? "bytes" : "s";
}

// What it all comes to, in one sentence.
std::string verdict(const ReportInput& input) {
  std::size_t adopted = 0;
  const Ruling* against = nullptr;
  for (const auto& ruling : input.outcome.rulings) {
    if (ruling.decision == Decision::adopt) ++adopted;
    if (ruling.decision == input.outcome.decision && !against) against = &ruling;
  }
  const auto all = input.outcome.rulings.size();
  const auto sides = fmt::format("{} (torch {}) to {} (torch {})", input.manifest.baseline.label,
                                 torch_of(input, Side::baseline), input.manifest.candidate.label,
                                 torch_of(input, Side::candidate));
  if (input.outcome.decision == Decision::adopt) {
    return fmt::format("adopt: all {} of workload and backend may move from {}", all, sides);
  }
  return fmt::format(
      "{}: {} of {} of workload and backend may move from {}{}", to_string(input.outcome.decision),
      adopted, all, sides,
      against ? fmt::format("; {} on {}: {}", against->workload, against->backend, against->rule)
              : "; the fleet does not agree");
}

// Of the launches that a gate's result rests on.
std::vector<std::string> files_of(const ReportInput& input, const CellId& id,
                                  const GateResult& gate) {
  std::vector<std::string> files;
  for (const auto& key : gate.launches) {
    for (const Side side : {Side::baseline, Side::candidate}) {
      if (auto file = input.matrix.file_of(id, side, key); !file.empty()) {
        files.push_back(std::move(file));
      }
    }
  }
  return files;
}

json::object to_json(const ReportInput& input, const CellId& id, const GateResult& gate) {
  json::array comparisons;
  for (const auto& c : gate.comparisons) {
    comparisons.emplace_back(json::object{
        {"quantity", c.quantity},
        {"better", c.better == Better::lower ? "lower" : "higher"},
        {"margin", c.margin},
        {"status", to_string(c.status)},
        {"unit", unit_of(c.quantity)},
        {"baseline", numbers(c.baseline)},
        {"candidate", numbers(c.candidate)},
        {"interval", to_json(c.interval)},
        {"baseline_against_itself", to_json(c.aa)},
        {"second_session", to_json(c.recurred)},
        {"detectable", c.detectable ? json::value(*c.detectable) : json::value(nullptr)}});
  }
  return {{"gate", to_string(gate.gate)},
          {"status", to_string(gate.status)},
          {"reason", gate.reason},
          {"comparisons", std::move(comparisons)},
          {"launches", texts(files_of(input, id, gate))}};
}

}  // namespace

std::string report_text(const ReportInput& input) {
  std::string text = fmt::format("{}: {} → {} (torch {} → {}), digest {}\n\n", input.manifest.name,
                                 input.manifest.baseline.label, input.manifest.candidate.label,
                                 torch_of(input, Side::baseline), torch_of(input, Side::candidate),
                                 input.matrix.digest().substr(0, 12));
  for (const auto& ruling : input.outcome.rulings) {
    text += fmt::format("{:<9} {} on {}: {}\n", to_string(ruling.decision), ruling.workload,
                        ruling.backend, ruling.rule);
    for (const auto& reason : ruling.reasons) text += fmt::format("          {}\n", reason);
    for (const auto& waived : ruling.waived) text += fmt::format("          {}\n", waived);
  }
  for (const auto& fleet : input.outcome.fleet) {
    text += fmt::format("{:<9} {} on the fleet: {}\n", to_string(fleet.decision), fleet.workload,
                        fleet.reason);
  }
  for (const auto& claim : input.outcome.claims) {
    text += fmt::format("claim {} on {}: {}: {}\n", claim.id, claim.backend,
                        to_string(claim.verdict), claim.reason);
  }
  for (const auto& difference : differences(input.matrix.environments())) {
    text += fmt::format("confounder: {}\n", difference);
  }
  for (const auto& caveat : input.manifest.caveats) text += fmt::format("caveat: {}\n", caveat);
  return text + fmt::format("\n{}\n", to_string(input.outcome.decision));
}

std::string report_markdown(const ReportInput& input) {
  std::string text = fmt::format(
      "# {}: {}\n\ntorch {} → {}; manifest digest `{}`, frozen {}\n\n"
      "| workload | backend | decision | rule |\n|---|---|---|---|\n",
      escaped(input.manifest.name), to_string(input.outcome.decision),
      escaped(torch_of(input, Side::baseline)), escaped(torch_of(input, Side::candidate)),
      input.matrix.digest(), base::to_rfc3339(input.matrix.frozen_at()));
  for (const auto& ruling : input.outcome.rulings) {
    text += fmt::format("| {} | {} | **{}** | {} |\n", escaped(ruling.workload),
                        escaped(ruling.backend), to_string(ruling.decision), escaped(ruling.rule));
  }
  text += "\n| cell | gate | status | numbers |\n|---|---|---|---|\n";
  for (const auto& cell : input.results) {
    for (const auto& gate : cell.gates) {
      text +=
          fmt::format("| {} | {} | {} | {} |\n", escaped(to_string(cell.id)),
                      escaped(to_string(gate.gate)), to_string(gate.status), escaped(gate.reason));
    }
  }
  const auto section = [&](std::string_view title, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    text += fmt::format("\n## {}\n\n", title);
    for (const auto& line : lines) text += fmt::format("- {}\n", escaped(line));
  };
  std::vector<std::string> waived;
  for (const auto& ruling : input.outcome.rulings) {
    waived.insert(waived.end(), ruling.waived.begin(), ruling.waived.end());
  }
  std::vector<std::string> fleet;
  fleet.reserve(input.outcome.fleet.size());
  for (const auto& f : input.outcome.fleet) {
    fleet.push_back(fmt::format("{}: {} ({})", f.workload, to_string(f.decision), f.reason));
  }
  std::vector<std::string> claims;
  claims.reserve(input.outcome.claims.size());
  for (const auto& c : input.outcome.claims) {
    claims.push_back(
        fmt::format("{} on {}: {}: {}", c.id, c.backend, to_string(c.verdict), c.reason));
  }
  section("Waived", waived);
  section("Fleet", fleet);
  section("Claims", claims);
  section("Differences between the sides beside PyTorch's version",
          differences(input.matrix.environments()));
  section("Caveats", input.manifest.caveats);
  section("Plan", input.manifest.plan);
  return text;
}

json::object report_json(const ReportInput& input) {
  json::array rulings;
  for (const auto& r : input.outcome.rulings) {
    rulings.emplace_back(json::object{{"workload", r.workload},
                                      {"backend", r.backend},
                                      {"decision", to_string(r.decision)},
                                      {"rule", r.rule},
                                      {"reasons", texts(r.reasons)},
                                      {"waived", texts(r.waived)}});
  }
  json::array fleet;
  for (const auto& f : input.outcome.fleet) {
    fleet.emplace_back(json::object{
        {"workload", f.workload}, {"decision", to_string(f.decision)}, {"reason", f.reason}});
  }
  json::array claims;
  for (const auto& c : input.outcome.claims) {
    claims.emplace_back(json::object{{"id", c.id},
                                     {"backend", c.backend},
                                     {"verdict", to_string(c.verdict)},
                                     {"reason", c.reason}});
  }
  json::array cells;
  for (const auto& cell : input.results) {
    json::array gates;
    for (const auto& gate : cell.gates) gates.emplace_back(to_json(input, cell.id, gate));
    cells.emplace_back(
        json::object{{"workload", cell.id.workload},
                     {"backend", cell.id.backend},
                     {"phase", to_string(cell.id.phase)},
                     {"reproduce", fmt::format("crosscheck gate reproduce {}", to_string(cell.id))},
                     {"gates", std::move(gates)}});
  }
  json::array waivers;
  for (const auto& w : input.manifest.waivers) {
    waivers.emplace_back(json::object{{"cell", w.cell},
                                      {"owner", w.owner},
                                      {"reason", w.reason},
                                      {"expires", base::to_rfc3339(w.expires)},
                                      {"expired", w.expires <= input.outcome.at}});
  }
  return {{"matrix", input.manifest.name},
          {"decision", to_string(input.outcome.decision)},
          {"verdict", verdict(input)},
          {"labels", json::object{{"baseline", input.manifest.baseline.label},
                                  {"candidate", input.manifest.candidate.label}}},
          {"decided_at", base::to_rfc3339(input.outcome.at)},
          {"digest", input.matrix.digest()},
          {"frozen_at", base::to_rfc3339(input.matrix.frozen_at())},
          {"seed", static_cast<std::int64_t>(input.matrix.seed())},
          {"torch", json::object{{"baseline", torch_of(input, Side::baseline)},
                                 {"candidate", torch_of(input, Side::candidate)}}},
          {"rulings", std::move(rulings)},
          {"fleet", std::move(fleet)},
          {"claims", std::move(claims)},
          {"waivers", std::move(waivers)},
          {"cells", std::move(cells)},
          {"environments", input.matrix.environments()},
          {"confounders", texts(differences(input.matrix.environments()))},
          {"caveats", texts(input.manifest.caveats)},
          {"rollback", texts(input.manifest.rollback)},
          {"plan", texts(input.manifest.plan)}};
}

std::string explain_text(const ReportInput& input, const CellId& id) {
  const CellResult* cell = find(input, id);
  std::string text = fmt::format("{}\n", to_string(id));
  if (!cell) return text + "  nothing is known of it\n";
  for (const auto& ruling : input.outcome.rulings) {
    if (ruling.workload == id.workload && ruling.backend == id.backend) {
      text += fmt::format("  decision: {}: {}\n", to_string(ruling.decision), ruling.rule);
    }
  }
  for (const auto& gate : cell->gates) {
    text += fmt::format("  {}: {}\n    {}\n", to_string(gate.gate), to_string(gate.status),
                        gate.reason);
    for (const auto& c : gate.comparisons) {
      const auto line = [&](std::string_view what, const std::optional<Interval>& interval) {
        if (!interval) return;
        text += fmt::format("      {} {}: ×{:.4f} (×{:.4f} to ×{:.4f}), {} pairs\n", c.quantity,
                            what, std::exp(interval->estimate), std::exp(interval->lower),
                            std::exp(interval->upper), interval->pairs);
      };
      line("baseline against itself", c.aa);
      line("candidate against baseline", c.interval);
      line("second session", c.recurred);
    }
    auto files = files_of(input, id, gate);
    std::sort(files.begin(), files.end());
    files.erase(std::unique(files.begin(), files.end()), files.end());
    if (!files.empty()) {
      text += fmt::format(
          "    evidence in {}: {}{}\n", input.matrix.folder().string(), files.front(),
          files.size() > 1 ? fmt::format(" … {} ({} launches)", files.back(), files.size()) : "");
    }
  }
  return text;
}

}  // namespace crosscheck::gate
