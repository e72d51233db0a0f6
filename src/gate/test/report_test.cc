#include "crosscheck/gate/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crosscheck/base/file.h"
#include "crosscheck/base/temporary_folder.h"
#include "support.h"

namespace crosscheck::gate {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

base::Time now() { return *base::parse_rfc3339("2026-12-01T00:00:00Z"); }

// A matrix as `text` has it, every cell measured; `change` as in measure().
base::json::object report_of(
    std::string_view text, const std::function<void(const LaunchRequest&, LaunchResult&)>& change =
                               [](const auto&, auto&) {}) {
  const base::TemporaryFolder folder;
  const auto manifest = manifest_of(text);
  const auto matrix = Matrix::freeze(folder.path() / "m", manifest, now());
  EXPECT_TRUE(matrix) << base::to_string(matrix.error());
  std::vector<CellResult> results;
  for (const auto& id : cells(manifest)) {
    results.push_back(
        {id, judge_cell(manifest, id, measure(manifest, id, change), Rehearsal{true, "", {}})});
  }
  const auto outcome = decide(manifest, results, now());
  return report_json({manifest, *matrix, results, outcome});
}

TEST(Report, NamesEveryNumberOfAComparison) {
  const auto report = report_of(k_manifest, [](const auto& request, auto& result) {
    scale_times(result, request.side == Side::candidate ? 1.2 : 1);
  });
  const base::json::value root(report);
  EXPECT_THAT(base::require_string(root, "verdict").value(),
              HasSubstr("defer: 0 of 1 of workload and backend may move from current"));
  const auto& gates = report.at("cells").at(0).at("gates").as_array();
  const auto& latency = gates.at(1).at("comparisons").at(0);
  EXPECT_EQ(latency.at("quantity").as_string(), "p50");
  EXPECT_EQ(latency.at("baseline").as_array().size(), latency.at("candidate").as_array().size());
  EXPECT_EQ(latency.at("baseline").as_array().size(), 8U);
  EXPECT_DOUBLE_EQ(latency.at("candidate").at(0).as_double(), 0.012);
  EXPECT_NEAR(latency.at("interval").at("ratio").as_double(), 1.2, 1e-9);
}

TEST(ReportPage, HasVerdictChartsAndNumbersWithoutAScript) {
  const auto page = report_html(report_of(k_manifest, [](const auto& request, auto& result) {
    scale_times(result, request.side == Side::candidate ? 1.2 : 1);
  }));
  for (const std::string_view part :
       {"<h1>upgrade</h1>", "verdict st open", "defer: 0 of 1 of workload and backend", "+20.00 %",
        "mlp/cpu/inference", "aria-label=\"p50 candidate against baseline: +20.00 %",
        "aria-label=\"p50 of 8 launches of the baseline and 8 of the candidate\"", "one machine",
        "crosscheck gate reproduce mlp/cpu/inference", "prefers-color-scheme: dark",
        "default-src 'none'"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("href")));
  EXPECT_THAT(page, Not(HasSubstr("http://")));
}

TEST(ReportPage, EscapesWhateverAPersonWrote) {
  constexpr std::string_view k_hostile = "'<script>alert(1)</script>\" onload=x'";
  auto text = with(k_manifest, "label: current", fmt::format("label: {}", k_hostile));
  text =
      with(text, "caveats: [one machine]",
           fmt::format("caveats: [{0}]\nplan: [{0}]\nrollback: [{0}]\nclaims: [{{id: {0}, source: "
                       "x, workload: mlp, gate: latency, gain: 5 %, cost: {0}}}]\nwaivers: "
                       "[{{cell: {0}, owner: {0}, reason: {0}, expires: 2026-11-30}}]\n",
                       k_hostile));
  const auto page = report_html(report_of(text));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("\" onload")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;&quot; onload=x"));
  EXPECT_THAT(page, HasSubstr("<b class=\"bad\">expired</b>"));
}

TEST(ReportPage, TakesAReportThatLacksEverything) {
  EXPECT_THAT(report_html({}), HasSubstr("</html>"));
  EXPECT_THAT(report_html({{"cells", 3}, {"rulings", base::json::array{1, "x"}}}),
              HasSubstr("</html>"));
}

}  // namespace
}  // namespace crosscheck::gate
