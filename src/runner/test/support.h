#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "crosscheck/base/temporary_folder.h"
#include "crosscheck/runner/probe.h"

namespace crosscheck::runner {

using base::TemporaryFolder;

inline std::string read_text(const std::string& path) {
  std::ifstream file{path};
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

inline CollectedTest make_test(const std::string& file, const std::string& method,
                               bool quick = false) {
  CollectedTest test;
  test.id = {file, "TestX", method, "{}"};
  test.node_id = file + "::TestX::" + method;
  test.quick = quick;
  return test;
}

inline ProbeSetup fake_probe(const std::string& log = {}) {
  ProbeSetup setup;
  setup.python = "python3";
  setup.probe_path = std::string{CROSSCHECK_SOURCE_DIR} + "/src/runner/test/fake_probe";
  if (!log.empty()) setup.environment.emplace_back("FAKE_PROBE_LOG", log);
  return setup;
}

}  // namespace crosscheck::runner
