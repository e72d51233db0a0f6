#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "crosscheck/base/operators.h"
#include "crosscheck/base/result.h"
#include "crosscheck/ops/names.h"
#include "crosscheck/ops/trace.h"

// Which tests use an operator: traces of one build, joined. A SQLite file of its own, in which a
// set of tests is a Roaring bitmap.
namespace crosscheck::ops {

// Which phases of a test count.
class Phases {
 public:
  [[nodiscard]] static Phases all() { return Phases{(1U << base::k_phase_count) - 1}; }
  [[nodiscard]] static Phases none() { return Phases{0}; }
  void add(base::Phase phase) { bits_ |= 1U << static_cast<unsigned>(phase); }
  [[nodiscard]] bool has(base::Phase phase) const {
    return (bits_ >> static_cast<unsigned>(phase) & 1U) != 0;
  }
  friend bool operator==(const Phases&, const Phases&) = default;

 private:
  explicit Phases(unsigned bits) : bits_{bits} {}
  unsigned bits_;
};

struct IndexedTest {
  std::uint32_t number = 0;  // in this index
  base::TestId id;
  std::string node_id;
  std::string dtype;  // of its variant; empty: none is said
  base::Outcome outcome = base::Outcome::not_run;
  bool known = false;  // its operators are; else it may use any
};

struct Ingested {
  std::size_t tests = 0;  // of the trace
  std::size_t added = 0;  // not known before
  std::size_t pairs = 0;  // (test, operator), each phase for itself
  std::optional<std::string> cut_off;
};

struct IndexSummary {
  std::optional<Build> build;  // nothing: empty
  std::size_t tests = 0;
  std::size_t unknown = 0;  // of them: no operators are known
  std::size_t operators = 0;
};

// How torch makes operators of others.
struct Making {
  std::set<std::string> composites;  // of others that are recorded as well, on every device
  std::unordered_map<std::string, std::string> delegates;  // add.Tensor to add.out: one kernel
};

// Sets of tests, by number, in order.
using Tests = std::vector<std::uint32_t>;
struct OperatorTests {
  std::string name;
  Tests tests;
};

// What one test uses, and in which compiled graph.
struct TestOperators {
  IndexedTest test;
  base::Operators operators;
};

// Not thread-safe. Several processes may read while one writes.
class Index {
 public:
  enum class Open : std::uint8_t { read, write };  // write makes a file where there is none
  // `not_found` with what to do where there is none to read; an index of another schema, or what is
  // no index, is `invalid_input`.
  [[nodiscard]] static base::Result<Index> open(const std::filesystem::path& path, Open how);
  Index(Index&&) noexcept;
  Index& operator=(Index&&) noexcept;
  ~Index();

  // Joins a trace into it, whole or not at all. In whatever order traces come, and however often,
  // the index says the same: a test's operators are those that any trace saw, the greater count
  // stands, and the outcome that comes first in base::Outcome. A trace of another build is refused.
  [[nodiscard]] base::Result<Ingested> ingest(const std::filesystem::path& trace);

  [[nodiscard]] base::Result<IndexSummary> summary() const;
  [[nodiscard]] base::Result<std::vector<std::string>> operators() const;  // in order of name
  [[nodiscard]] base::Result<Aliases> aliases() const;
  [[nodiscard]] base::Result<Making> making() const;

  // Tests that use any of `operators` in any of `phases`.
  [[nodiscard]] base::Result<Tests> tests_of(const std::vector<std::string>& operators,
                                             Phases phases) const;
  // Of every operator.
  [[nodiscard]] base::Result<std::vector<OperatorTests>> all(Phases phases) const;
  [[nodiscard]] base::Result<Tests> unknown() const;
  // Those of `numbers`, in order of number.
  [[nodiscard]] base::Result<std::vector<IndexedTest>> tests(const Tests& numbers) const;
  // With that node id, or, where there is none, every test whose node id holds `part`.
  [[nodiscard]] base::Result<std::vector<TestOperators>> operators_of(
      const std::string& part) const;

  // Everything it says, in an order that does not depend on how it came about.
  [[nodiscard]] base::Result<std::string> exported() const;

 private:
  struct Impl;
  explicit Index(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace crosscheck::ops
