#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/run_results.h"

// What a suite holds for a device, as the probe collected it: the list that `run` selects from.
namespace crosscheck::runner {

struct DeviceInfo {
  std::string type;  // "refdev"
  std::int64_t count = 0;
  std::string name;  // model
  friend bool operator==(const DeviceInfo&, const DeviceInfo&) = default;
};

// What the probe says of the process that tests run in.
struct Environment {
  std::string probe;
  std::string python;
  std::string torch;
  std::string torch_git;
  std::string pytest;
  DeviceInfo device;
  std::string suite;  // revision of the suite
  std::map<std::string, std::string> facts;
  friend bool operator==(const Environment&, const Environment&) = default;
};

// Where tests come from. `root` and `files` are for a tree only, except that `files` may narrow the
// bundled suite too.
struct Suite {
  std::string name = "bundled";  // or "tree"
  std::string root;
  std::vector<std::string> files;
  friend bool operator==(const Suite&, const Suite&) = default;
};

struct CollectedTest {
  base::TestId id;
  std::string node_id;
  std::int64_t line = 0;
  std::string source;  // digest of its definition's text; empty: not known
  std::vector<std::string> markers;
  bool quick = false;
  friend bool operator==(const CollectedTest&, const CollectedTest&) = default;
};

// A file, or a part of one, that does not import or collect.
struct CollectError {
  std::string file;
  std::string type;
  std::string message;
  std::string traceback;
  friend bool operator==(const CollectError&, const CollectError&) = default;
};

// A file that skips itself as a whole.
struct CollectSkip {
  std::string file;
  std::string message;
  friend bool operator==(const CollectSkip&, const CollectSkip&) = default;
};

struct Inventory {
  static constexpr int k_schema = 1;
  Suite suite;
  std::string device;  // the name it was collected for
  Environment environment;
  std::vector<CollectedTest> tests;
  std::vector<CollectError> errors;
  std::vector<CollectSkip> skips;
  friend bool operator==(const Inventory&, const Inventory&) = default;
};

// Takes out tests that results could not be kept of, those that are named or identified as an
// earlier one and those whose TestId is too long, and adds an error that names them to their file.
void drop_unidentifiable(Inventory& inventory);

// Puts files in order of name, keeping the order of collection inside each (a class's tests stay
// together). Fails where two tests have the same node id or the same TestId, or one is too long.
[[nodiscard]] base::Result<void> put_in_order(Inventory& inventory);

// JSON lines: the header, then the probe's own lines (test, collect_error, collect_skip), and last
// {"end": <number of lines between>}, so that a file cut off is noticed.
[[nodiscard]] std::string to_json_lines(const Inventory& inventory);
// `name` is the file's, for errors of the form name:line.
[[nodiscard]] base::Result<Inventory> parse_inventory(std::string_view text, std::string_view name);

// The identity of everything that is neither backend, core, suite nor device.
[[nodiscard]] std::string environment_digest(const Environment& environment);

// Why tests listed in `inventory` may not be run in `found`, with both versions named; nothing if
// they may.
[[nodiscard]] base::Result<void> check_same_subject(const Inventory& inventory,
                                                    const Environment& found);

}  // namespace crosscheck::runner
