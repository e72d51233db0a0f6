#pragma once

#include <string>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/gate/bundle.h"
#include "crosscheck/gate/decision.h"

// What a bundle's launches say, whoever says so.
namespace crosscheck::gate {

struct Judgement {
  base::json::object report;  // see report_json
  Decision decision = Decision::defer;
  std::string matrix;  // SHA-256 of frozen.json: the manifest, the seed and when they were fixed
};

// Judges the records in `files` (manifest.yaml, frozen.json, launches, …) at the time `at`, in a
// folder that is gone afterwards. `source` names them in errors.
[[nodiscard]] base::Result<Judgement> judge_files(const BundleFiles& files,
                                                  const std::string& source, base::Time at);

// The same at the time that `files`' report.json names. `invalid_input` where that decides
// otherwise than the launches beside it.
[[nodiscard]] base::Result<Judgement> verify(const BundleFiles& files, const std::string& source);

}  // namespace crosscheck::gate
