#pragma once

#include <span>
#include <string>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/gate/decision.h"
#include "crosscheck/gate/manifest.h"
#include "crosscheck/gate/matrix.h"

// A matrix for people and programs. Everything it says names the launches that it rests on.
namespace crosscheck::gate {

struct ReportInput {
  const Manifest& manifest;
  const Matrix& matrix;
  const std::vector<CellResult>& results;
  const Outcome& outcome;
};

// A line a workload and backend, what stands against adoption, then fleet, claims and caveats.
[[nodiscard]] std::string report_text(const ReportInput& input);
[[nodiscard]] std::string report_markdown(const ReportInput& input);
// The whole of it: what the other formats show is in it.
[[nodiscard]] base::json::object report_json(const ReportInput& input);
// A page that needs nothing beside itself, from what `report_json` made; without scripts. What it
// does not find in `report` it leaves out.
[[nodiscard]] std::string report_html(const base::json::object& report);

// One cell: each gate with its numbers, the files of its launches and a command that repeats one.
[[nodiscard]] std::string explain_text(const ReportInput& input, const CellId& id);

}  // namespace crosscheck::gate
