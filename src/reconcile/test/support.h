#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "crosscheck/config/load.h"
#include "crosscheck/reconcile/reconcile.h"

namespace crosscheck::reconcile {

inline config::Loaded load_text(const std::map<std::string, std::string>& files) {
  return config::load("t.yaml", [&](const std::string& path) -> base::Result<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return base::fail(base::Fault::not_found, "no file " + path);
    return found->second;
  });
}

// One file entry with these lines as its tests.
inline std::string suite_text(const std::string& tests, const std::string& unlisted = "skip") {
  return "test_suite_config:\n  files:\n  - path: ${TORCH_ROOT}/test/test_x.py\n"
         "    unlisted_test_mode: " +
         unlisted + "\n" + (tests.empty() ? "" : "    tests:\n" + tests);
}

// As the device's instantiation names it: TestADEV::test_m_dev_float32.
inline config::CollectedTest collected(const std::string& class_name, const std::string& method,
                                       const std::string& dtype = {},
                                       const std::string& file = "test_x.py") {
  base::TestId id{file, class_name, method,
                  dtype.empty() ? "{}" : fmt::format(R"({{"dtype":"{}"}})", dtype)};
  const std::string node =
      dtype.empty() ? fmt::format("{}::{}::{}", file, class_name, method)
                    : fmt::format("{}::{}DEV::{}_dev_{}", file, class_name, method, dtype);
  return config::collected_test(std::move(id), node);
}

inline base::TestResult result(const config::CollectedTest& test, base::Outcome outcome,
                               int attempt = 1) {
  base::TestResult made;
  made.id = test.id;
  made.node_id = test.id.file + "::" + test.collected;
  made.attempt = attempt;
  made.outcome = outcome;
  if (base::is_failure(outcome)) {
    made.kind = base::FailureKind::device_error;
    made.message = "RuntimeError: no";
    made.fingerprint = "f00d";
  }
  return made;
}

// The nth run, a minute after the one before.
inline base::RunHeader header(int number, const std::string& torch = "2.13.0 (abc)",
                              const std::string& backend_revision = "1") {
  base::RunHeader made;
  made.run_id = fmt::format("run{}", number);
  made.combination = {"dev", backend_revision, torch, "suite", "dev", "environment"};
  made.started_at = base::from_micros(1'700'000'000'000'000) + std::chrono::minutes{number};
  return made;
}

// "kind way name before -> after" of every change; "!" before those that are held.
inline std::vector<std::string> brief(const Proposals& proposals) {
  std::vector<std::string> all;
  for (const Change& change : proposals.changes) {
    std::string text = fmt::format("{}{} {} {}: {}", change.held ? "!" : "", to_string(change.kind),
                                   to_string(change.way), change.name, to_string(change.before));
    if (change.decision) {
      text += fmt::format(" -> {}", to_string(change.decision->mode));
      if (change.decision->rationale)
        text += fmt::format(" ({})", to_string(change.decision->rationale->reason));
    }
    all.push_back(std::move(text));
  }
  return all;
}

}  // namespace crosscheck::reconcile
