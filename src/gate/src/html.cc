#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "crosscheck/base/html.h"
#include "crosscheck/gate/report.h"
#include "crosscheck/gate/statistics.h"

namespace crosscheck::gate {
namespace {

namespace json = base::json;
using base::escape_html;

constexpr std::string_view k_style = R"(
:root { color-scheme: light dark; --page: #fff; --raised: #f6f8fa; --line: #d8dee4; --text: #1f2328; --soft: #57606a;
  --link: #0b5cad; --bad: #b34700; --good: #0072b2; --open: #6639ba; }
@media (prefers-color-scheme: dark) { :root { --page: #0f1318; --raised: #171c23; --line: #2b323b; --text: #e3e8ee;
  --soft: #a0abb8; --link: #79b8ff; --bad: #ff9d57; --good: #6cb8f0; --open: #c3a2f5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1200px; padding: 16px 20px 48px; background: var(--page); color: var(--text);
  font: 14px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums;
  overflow-wrap: break-word; }
h1 { font-size: 21px; margin: 0 0 6px; } h2 { font-size: 16px; margin: 28px 0 8px; } h3 { font-size: 14px; margin: 20px 0 6px; }
.st.verdict { font-size: 16px; white-space: normal; border-left: 4px solid var(--soft); background: var(--raised); padding: 10px 14px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top; padding: 6px 12px 6px 0;
  border-bottom: 1px solid var(--line); } thead th { font-size: 12px; color: var(--soft); } tbody th { font-weight: 500; }
.num { white-space: nowrap; } small, .soft { color: var(--soft); font-size: 12px; }
.st { white-space: nowrap; color: var(--soft); font-weight: 600; } .st i { font-style: normal; display: inline-block; width: 18px;
  height: 18px; line-height: 15px; text-align: center; border: 1.5px solid currentColor; border-radius: 4px; margin-right: 5px; font-size: 11px; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); }
.bad i { background: var(--bad); border-color: var(--bad); color: var(--page); }
.verdict.good { border-color: var(--good); } .verdict.bad { border-color: var(--bad); } .verdict.open { border-color: var(--open); }
code, pre { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre { background: var(--raised); border: 1px solid var(--line); padding: 8px 12px; white-space: pre-wrap; }
svg { display: block; max-width: 100%; } svg text { fill: var(--soft); font: 11px system-ui, "DejaVu Sans", sans-serif; }
.axis { stroke: var(--soft); } .band { fill: var(--line); } .est { fill: currentColor; } .ci { stroke: currentColor; stroke-width: 2; }
.box { fill: var(--raised); stroke: var(--soft); } .mid { stroke: var(--text); stroke-width: 2; } .dot { fill: currentColor; fill-opacity: .55; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 4px 16px; margin: 0; } dt { color: var(--soft); } dd { margin: 0; }
summary { cursor: pointer; color: var(--link); }
)";

// Glyph and colour of a gate's status, a decision or a claim's verdict: what is bad is filled.
struct Look {
  std::string_view word;
  std::string_view glyph;
  std::string_view colour;
};
constexpr std::array<Look, 12> k_looks_of{{
    {"PASS", "✓", "good"},
    {"FAIL", "✕", "bad"},
    {"INCONCLUSIVE", "?", "open"},
    {"UNFIT", "≈", "open"},
    {"NOT_RUN", "–", ""},
    {"adopt", "✓", "good"},
    {"isolate", "◐", "open"},
    {"defer", "◷", "open"},
    {"rollback", "↶", "bad"},
    {"confirmed", "✓", "good"},
    {"not reproduced", "?", ""},
    {"refuted", "✕", "bad"},
}};
Look look_of(std::string_view word) {
  for (const auto& look : k_looks_of) {
    if (look.word == word) return look;
  }
  return {word, "·", ""};
}

std::string text(const json::value& root, std::string_view path) {
  const auto* found = base::find(root, path);
  return found && found->is_string() ? std::string{found->as_string()} : std::string{};
}
std::string safe(const json::value& root, std::string_view path) {
  return escape_html(text(root, path));
}
std::optional<double> number(const json::value& root, std::string_view path) {
  const auto* found = base::find(root, path);
  if (!found || !found->is_number()) return std::nullopt;
  return found->to_number<double>();
}
const json::array& list(const json::value& root, std::string_view path) {
  static const json::array none;
  const auto* found = base::find(root, path);
  return found && found->is_array() ? found->as_array() : none;
}
std::vector<double> numbers(const json::value& root, std::string_view path) {
  std::vector<double> all;
  for (const auto& value : list(root, path)) {
    if (value.is_number()) all.push_back(value.to_number<double>());
  }
  return all;
}

std::string mark(std::string_view word) {
  const auto look = look_of(word);
  return fmt::format("<span class=\"st {}\"><i aria-hidden=\"true\">{}</i>{}</span>", look.colour,
                     look.glyph, escape_html(word));
}

std::string percent(double ratio) { return fmt::format("{:+.2f} %", (ratio - 1) * 100); }

std::string amount(double value, std::string_view unit) {
  if (unit == "bytes") return fmt::format("{:.2f} MB", value / 1e6);
  if (unit == "items/s") return fmt::format("{:.4g} items/s", value);
  return value < 1 ? fmt::format("{:.4g} ms", value * 1e3) : fmt::format("{:.4g} s", value);
}

struct Shown {
  double ratio = 1, lower = 1, upper = 1;
  std::int64_t pairs = 0;
};
std::optional<Shown> interval_of(const json::value& root, std::string_view path) {
  const auto* found = base::find(root, path);
  if (!found || !found->is_object()) return std::nullopt;
  const auto ratio = number(*found, "ratio");
  const auto lower = number(*found, "lower");
  const auto upper = number(*found, "upper");
  if (!ratio || !lower || !upper) return std::nullopt;
  return Shown{*ratio, *lower, *upper,
               static_cast<std::int64_t>(number(*found, "pairs").value_or(0))};
}

// A row of a forest: the margin as a band, the interval as a line, its estimate as a square.
std::string forest(const Shown& shown, double margin, std::string_view status,
                   std::string_view label) {
  constexpr double width = 260;
  const double span =
      std::max({2 * margin, std::abs(shown.lower - 1) * 1.1, std::abs(shown.upper - 1) * 1.1});
  const auto x = [&](double ratio) {
    return std::clamp(width / 2 * (1 + (ratio - 1) / span), 2.0, width - 2);
  };
  return fmt::format(
      "<svg class=\"{}\" viewBox=\"0 0 260 36\" width=\"260\" height=\"36\" role=\"img\" "
      "aria-label=\"{}\"><rect class=\"band\" x=\"{:.1f}\" y=\"2\" width=\"{:.1f}\" "
      "height=\"18\"/><path class=\"axis\" d=\"M130 0v22\"/><path class=\"ci\" d=\"M{:.1f} "
      "11H{:.1f}\"/><rect class=\"est\" x=\"{:.1f}\" y=\"7\" width=\"8\" height=\"8\"/><text "
      "x=\"2\" y=\"33\">{}</text><text x=\"130\" y=\"33\" text-anchor=\"middle\">0</text><text "
      "x=\"258\" y=\"33\" text-anchor=\"end\">{}</text></svg>",
      look_of(status).colour, escape_html(label), x(1 - margin), x(1 + margin) - x(1 - margin),
      x(shown.lower), x(shown.upper), x(shown.ratio) - 4, percent(1 - span), percent(1 + span));
}

// Each side's launches as dots over a box of their quartiles.
std::string strips(const std::vector<double>& baseline, const std::vector<double>& candidate,
                   std::string_view unit, std::string_view label) {
  if (baseline.empty() || candidate.empty()) return {};
  double least = std::min(*std::min_element(baseline.begin(), baseline.end()),
                          *std::min_element(candidate.begin(), candidate.end()));
  double most = std::max(*std::max_element(baseline.begin(), baseline.end()),
                         *std::max_element(candidate.begin(), candidate.end()));
  const double room = std::max((most - least) * 0.05, std::abs(most) * 1e-6);
  least -= room;
  most += room;
  constexpr double left = 76;
  constexpr double width = 420;
  const auto x = [&](double value) { return left + width * (value - least) / (most - least); };
  auto svg = fmt::format(
      "<svg viewBox=\"0 0 500 74\" width=\"500\" height=\"74\" role=\"img\" aria-label=\"{}\">",
      escape_html(label));
  double y = 16;
  for (const auto& [name, values, colour] :
       {std::tuple{"baseline", &baseline, "good"}, {"candidate", &candidate, "open"}}) {
    const auto at = [&](double share) { return x(percentile(*values, share).value_or(least)); };
    svg += fmt::format(
        "<text x=\"0\" y=\"{:.0f}\">{}</text><rect class=\"box\" x=\"{:.1f}\" y=\"{:.0f}\" "
        "width=\"{:.1f}\" height=\"16\"/><path class=\"mid\" d=\"M{:.1f} {:.0f}v16\"/>",
        y + 4, name, at(0.25), y - 8, std::max(at(0.75) - at(0.25), 1.0), at(0.5), y - 8);
    for (const double value : *values) {
      svg += fmt::format("<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.0f}\" r=\"3\"/>", colour,
                         x(value), y);
    }
    y += 26;
  }
  return svg + fmt::format(
                   "<text x=\"{:.0f}\" y=\"70\">{}</text><text x=\"{:.0f}\" y=\"70\" "
                   "text-anchor=\"end\">{}</text></svg>",
                   left, amount(least, unit), left + width, amount(most, unit));
}

std::string table(std::string_view label, std::string_view head, const std::string& rows) {
  return fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"{}\"><table><thead><tr>{}</tr></thead><tbody>{}</tbody>"
      "</table></div>\n",
      escape_html(label), head, rows);
}
std::string heads(std::initializer_list<std::string_view> names) {
  std::string row;
  for (const auto name : names) row += fmt::format("<th scope=\"col\">{}</th>", name);
  return row;
}

std::string bullets(std::string_view title, const json::array& lines) {
  if (lines.empty()) return {};
  std::string html = fmt::format("<h2>{}</h2><ul>", title);
  for (const auto& line : lines) {
    if (line.is_string()) html += "<li>" + escape_html(line.as_string()) + "</li>";
  }
  return html + "</ul>\n";
}

std::string rulings(const json::value& report) {
  std::string rows;
  for (const auto& r : list(report, "rulings")) {
    std::string reasons;
    for (const char* key : {"reasons", "waived"}) {
      for (const auto& line : list(r, key)) {
        if (line.is_string()) reasons += "<br><small>" + escape_html(line.as_string()) + "</small>";
      }
    }
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}{}</td></tr>",
                        safe(r, "workload"), safe(r, "backend"), mark(text(r, "decision")),
                        safe(r, "rule"), reasons);
  }
  auto html = "<h2>Decisions</h2>" +
              table("Decisions",
                    heads({"Workload", "Backend", "Decision", "Rule, and what it rests on"}), rows);
  rows.clear();
  for (const auto& f : list(report, "fleet")) {
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td></tr>",
                        safe(f, "workload"), mark(text(f, "decision")), safe(f, "reason"));
  }
  if (rows.empty()) return html;
  return "<h2>Fleet</h2>" + table("Fleet", heads({"Workload", "Decision", "Members"}), rows) + html;
}

std::string comparison(const json::value& c) {
  const auto quantity = text(c, "quantity");
  const auto margin = number(c, "margin").value_or(0);
  const auto detectable = number(c, "detectable");
  const auto status = text(c, "status");
  std::string rows;
  for (const auto& [key, title] : {std::pair{"baseline_against_itself", "baseline against itself"},
                                   {"interval", "candidate against baseline"},
                                   {"second_session", "second session"}}) {
    const auto shown = interval_of(c, key);
    if (!shown) continue;
    const bool is_aa = key == std::string_view{"baseline_against_itself"};
    const auto numbers = fmt::format("{} ({} to {})", percent(shown->ratio), percent(shown->lower),
                                     percent(shown->upper));
    rows += fmt::format(
        "<tr><th scope=\"row\">{} <small>{}</small></th><td class=\"num\">{}</td><td>{}</td>"
        "<td class=\"num\">{:.4g} %</td><td class=\"num\">{}</td><td>{}</td></tr>",
        escape_html(quantity), title, numbers, shown->pairs, margin * 100,
        detectable && !is_aa ? fmt::format("{:.2f} %", *detectable * 100) : std::string{"–"},
        forest(*shown, margin, is_aa ? "" : status,
               fmt::format("{} {}: {}, margin {:.4g} %", quantity, title, numbers, margin * 100)));
  }
  return rows;
}

std::string cell(const json::value& c) {
  const auto name =
      fmt::format("{}/{}/{}", text(c, "workload"), text(c, "backend"), text(c, "phase"));
  std::string gates;
  std::string intervals;
  std::string charts;
  for (const auto& gate : list(c, "gates")) {
    gates += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}<br><small>{} launches",
                         safe(gate, "gate"), mark(text(gate, "status")), safe(gate, "reason"),
                         list(gate, "launches").size());
    if (!list(gate, "launches").empty()) {
      std::string files;
      for (const auto& file : list(gate, "launches")) {
        if (file.is_string()) files += escape_html(file.as_string()) + " ";
      }
      gates += fmt::format("</small><details><summary>records</summary><code>{}</code></details>",
                           files);
    } else {
      gates += "</small>";
    }
    gates += "</td></tr>";
    for (const auto& one : list(gate, "comparisons")) {
      intervals += comparison(one);
      const auto quantity = text(one, "quantity");
      const auto unit = text(one, "unit");
      const auto baseline = numbers(one, "baseline");
      const auto candidate = numbers(one, "candidate");
      const auto chart =
          strips(baseline, candidate, unit,
                 fmt::format("{} of {} launches of the baseline and {} of the candidate", quantity,
                             baseline.size(), candidate.size()));
      if (!chart.empty()) {
        charts +=
            fmt::format("<p class=\"soft\">{}, a dot a launch</p>{}", escape_html(quantity), chart);
      }
    }
  }
  auto html = fmt::format("<h3 id=\"{0}\">{0}</h3>", escape_html(name)) +
              table("Gates of " + name, heads({"Gate", "Status", "Numbers"}), gates);
  if (!intervals.empty()) {
    html += table(
        "Intervals of " + name,
        heads({"Quantity", "Change (interval)", "Pairs", "Margin",
               "Smallest change found four times in five", "Interval against the margin (shaded)"}),
        intervals);
  }
  return html + charts +
         fmt::format("<p class=\"soft\">Again: <code>{}</code></p>\n", safe(c, "reproduce"));
}

std::string waivers(const json::value& report) {
  std::string rows;
  for (const auto& w : list(report, "waivers")) {
    const auto* expired = base::find(w, "expired");
    rows += fmt::format(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}{}</td></tr>", safe(w, "cell"),
        safe(w, "owner"), safe(w, "reason"), safe(w, "expires"),
        expired && expired->is_bool() && expired->as_bool() ? " <b class=\"bad\">expired</b>" : "");
  }
  if (rows.empty()) return {};
  return "<h2>Waivers</h2>" +
         table("Waivers", heads({"Cell and gate", "Owner", "Reason", "Until"}), rows);
}

std::string claims(const json::value& report) {
  std::string rows;
  for (const auto& c : list(report, "claims")) {
    rows +=
        fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
                    safe(c, "id"), safe(c, "backend"), mark(text(c, "verdict")), safe(c, "reason"));
  }
  if (rows.empty()) return {};
  return "<h2>Claims</h2>" +
         table("Claims", heads({"Claim", "Backend", "Verdict", "Numbers"}), rows);
}

// Each value by its path. A list is one value.
void flatten(const json::value& root, const std::string& path,
             std::map<std::string, std::string>& into) {
  if (!root.is_object()) {
    into[path] = root.is_string() ? std::string{root.as_string()} : base::canonical_json(root);
    return;
  }
  for (const auto& [key, value] : root.as_object()) {
    flatten(value, path.empty() ? std::string{key} : fmt::format("{}.{}", path, std::string{key}),
            into);
  }
}

std::string environments(const json::value& report) {
  auto html = bullets("What differs between the sides beside PyTorch's version",
                      list(report, "confounders"));
  std::map<std::string, std::string> left;
  std::map<std::string, std::string> right;
  const auto* baseline = base::find(report, "environments.baseline");
  const auto* candidate = base::find(report, "environments.candidate");
  if (!baseline || !candidate) return html;
  flatten(*baseline, {}, left);
  flatten(*candidate, {}, right);
  std::set<std::string> names;
  for (const auto* side : {&left, &right}) {
    for (const auto& [name, value] : *side) names.insert(name);
  }
  std::string rows;
  for (const auto& name : names) {
    rows += fmt::format("<tr><th scope=\"row\"{}>{}</th><td>{}</td><td>{}</td></tr>",
                        left[name] == right[name] ? "" : " class=\"open\"", escape_html(name),
                        escape_html(left[name]), escape_html(right[name]));
  }
  return html + "<h2>Environments</h2><details><summary>What both sides were</summary>" +
         table("Environments", heads({"What", "Baseline", "Candidate"}), rows) + "</details>\n";
}

}  // namespace

std::string report_html(const json::object& of) {
  const json::value report(of);
  const auto decision = text(report, "decision");
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>{0}: {1}</title>\n<style>{2}</style></head><body><main>\n"
      "<h1>{0}</h1>\n<p class=\"verdict st {3}\"><i aria-hidden=\"true\">{4}</i>{5}</p>\n",
      safe(report, "matrix"), escape_html(decision), k_style, look_of(decision).colour,
      look_of(decision).glyph, safe(report, "verdict"));
  html += rulings(report) + waivers(report) + claims(report);
  html += "<h2>Gates, cell by cell</h2>";
  for (const auto& c : list(report, "cells")) html += cell(c);
  html += environments(report);
  html += bullets("Caveats", list(report, "caveats"));
  html += bullets("Rollback", list(report, "rollback"));
  html += bullets("Plan", list(report, "plan"));
  const auto* seed = base::find(report, "seed");
  html += fmt::format(
      "<h2>Where this comes from</h2><dl><dt>Manifest, SHA-256</dt><dd><code>{}</code></dd>"
      "<dt>Frozen</dt><dd>{}</dd><dt>Seed of the coins</dt><dd>{}</dd><dt>Decided</dt>"
      "<dd>{}</dd><dt>torch</dt><dd>{} → {}</dd></dl>\n<pre>crosscheck gate run\ncrosscheck gate "
      "report --json\ncrosscheck gate bundle upgrade.tar</pre>\n</main></body></html>\n",
      safe(report, "digest"), safe(report, "frozen_at"),
      seed ? base::canonical_json(*seed) : std::string{}, safe(report, "decided_at"),
      safe(report, "torch.baseline"), safe(report, "torch.candidate"));
  return html;
}

}  // namespace crosscheck::gate
