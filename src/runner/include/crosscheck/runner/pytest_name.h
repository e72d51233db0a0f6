#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/run_results.h"
#include "crosscheck/runner/inventory.h"

// From what a report of pytest's calls a test to the test itself.
namespace crosscheck::runner {

// As JUnit has it. pytest joins folders, module and classes by dots, so that alone it does not say
// where the file ends and a class begins.
struct ReportedName {
  std::string file = {};  // where the report has it: JUnit of the family xunit1
  std::string path = {};  // "test.test_ops.TestCommon"
  std::string name = {};  // "test_add[3-float32]"
  friend bool operator==(const ReportedName&, const ReportedName&) = default;
};
// What pytest writes into JUnit for a node id ("test/test_ops.py::TestCommon::test_add").
[[nodiscard]] ReportedName reported_name(std::string_view node_id);

struct Identified {
  enum class How : std::uint8_t {
    collected,  // the inventory's test
    reported,   // as the report has it, which names the file
    inferred,   // as the report has it; the file follows from the dotted path
    unlisted,   // not in the inventory; as the report has it
    ambiguous,  // several tests of the inventory bear the name; as the report has it
  };
  base::TestId id = {};
  std::string node_id = {};
  How how = How::inferred;
  std::vector<std::string> candidates = {};  // of an ambiguous one: node ids
};

// Not thread-safe.
class Identifier {
 public:
  // `inventory` may be null, and must outlive it. A report's folders may begin above or below the
  // suite's root: names are the same where the one ends in the other.
  explicit Identifier(const Inventory* inventory);
  Identifier(const Identifier&) = delete;
  Identifier& operator=(const Identifier&) = delete;
  ~Identifier();

  // Without an inventory the method is the collected name before pytest's own brackets, and the
  // variant {"case": whole name} where there are some: nothing else is read out of a name.
  [[nodiscard]] Identified identify(const ReportedName& reported) const;
  // The suite's file that a dotted module is, by the same rules.
  [[nodiscard]] std::string file_of(const ReportedName& module) const;

 private:
  class Index;
  struct Surroundings;
  [[nodiscard]] static Surroundings surroundings_of(const ReportedName& reported);
  [[nodiscard]] Identified as_reported(const ReportedName& reported) const;

  std::unique_ptr<Index> index_;
  mutable std::unique_ptr<const Surroundings> last_;
};

}  // namespace crosscheck::runner
