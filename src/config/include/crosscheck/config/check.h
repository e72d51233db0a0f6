#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "crosscheck/config/finding.h"
#include "crosscheck/config/govern.h"

// A configuration against what there is: the tests collected, the operators known.
namespace crosscheck::config {

struct CollectedSuite {
  std::string name;  // of the inventory, for messages
  std::vector<CollectedTest> tests = {};
  std::set<std::string> broken_files = {};  // did not collect, or skip themselves
  bool partial = false;                     // only some of the suite's files were collected
};

// A name that no collected test has.
struct Missing {
  const FileEntry* file = nullptr;
  const Entry* entry = nullptr;
  const Name* name = nullptr;
  std::string renamed_to = {};  // Class::method of a test named alike that is not listed, if any
};

struct SuiteReport {
  std::vector<Finding> findings = {};
  std::vector<Missing> missing = {};            // in the order of the configuration
  std::vector<Ruling> rulings = {};             // of the suite's tests, in their order
  std::map<Mode, std::int64_t> by_mode = {};    // governed tests
  std::map<Basis, std::int64_t> by_basis = {};  // all tests
  // Collected, in files that the configuration has, and not listed there: Class::method, by file.
  std::map<std::string, std::vector<std::string>> unlisted = {};
};

// Names that are not collected are errors, `renamed` where a test that is not listed is named
// alike; so are ties that only the tests show. Files that the inventory lacks are errors unless it
// is partial; files that do not collect, unlisted tests and ungoverned ones are notes.
[[nodiscard]] SuiteReport check_against(const Config& config, const CollectedSuite& suite,
                                        const Circumstances& circumstances);

// Operators that the configuration names and the list does not have. A line of the list may be a
// name (add), qualified (aten::add) or an overload (aten::add.Tensor). Included operators that
// bring their own inputs are not asked for.
[[nodiscard]] std::vector<Finding> check_operators(const Config& config, std::string_view list);

}  // namespace crosscheck::config
