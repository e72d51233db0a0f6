#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/memory/memory.h"
#include "crosscheck/memory/tree.h"

// What became of the tests from one version of a tree to another.
namespace crosscheck::memory {

struct TestPlace {
  std::string path;
  std::string name;  // "Class::method"
  int line = 0;
  friend auto operator<=>(const TestPlace&, const TestPlace&) = default;
};

struct Renamed {
  TestPlace from;
  TestPlace to;
  double likeness = 1;     // of the two bodies
  bool same_body = false;  // token for token
  friend bool operator==(const Renamed&, const Renamed&) = default;
};

struct Changed {
  TestPlace test;                       // as it is now
  std::vector<std::string> parts = {};  // "body", "decorators"
  // What it reaches that is not as it was: "common.py::check changed", "… added", "… removed".
  std::vector<std::string> through = {};
  std::size_t variants_added = 0;
  std::size_t variants_removed = 0;
  friend bool operator==(const Changed&, const Changed&) = default;
};

struct TreeDiff {
  std::vector<TestPlace> added;
  std::vector<TestPlace> removed;
  std::vector<Renamed> renamed;            // and moved to another file or class
  std::vector<Changed> changed;            // in body or decorators
  std::vector<Changed> changed_by_helper;  // otherwise as they were
  std::vector<Changed> changed_variants;   // as they were, but collected otherwise
  std::size_t unchanged = 0;
};

// One version: its sources sorted by path, and what was collected of it (none: not known).
struct Version {
  std::vector<Source> sources;
  std::vector<Collected> collected;
};

// All lists are sorted. A test is the same where path, classes and name are; of the others, those
// whose bodies are equal or alike are renamed: one to one, the most alike first, in the order of
// places where several are equally alike. Bodies of a few tokens, which many tests have, must also
// be alike in name or place.
[[nodiscard]] TreeDiff diff(const Version& old_version, const Version& new_version);

// Files of a tar archive (ustar, with the long names of pax and GNU): name and bytes of each
// regular file whose name ends in ".py". `invalid_input` where it is none or cut off.
struct Member {
  std::string name;
  std::string bytes;
};
[[nodiscard]] base::Result<std::vector<Member>> read_tar(std::string_view archive);

}  // namespace crosscheck::memory
