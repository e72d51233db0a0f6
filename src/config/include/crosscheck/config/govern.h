#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/run_results.h"
#include "crosscheck/config/model.h"

// Which mode a configuration gives a collected test, and why.
namespace crosscheck::config {

// A test as collected. What it runs is what it says of itself, never taken from its name.
struct CollectedTest {
  base::TestId id = {};
  // [Class::]method as instantiated: "TestViewOpsPRIVATEUSE1::test_view_refdev_float32".
  std::string collected = {};
  std::string op = {};
  std::string dtype = {};
  std::string module = {};
  std::string source = {};  // digest of its definition's text; empty: not known

  [[nodiscard]] std::string_view collected_class() const;  // empty: of no class
  [[nodiscard]] std::string_view collected_method() const;
};
// `node` is pytest's address of it ("test_x.py::TestX::test_y").
[[nodiscard]] CollectedTest collected_test(base::TestId id, std::string_view node);

// How a ruling came about. The names are API.
enum class Basis : std::uint8_t {
  ungoverned,          // the configuration does not have the file
  unlisted,            // by the file's unlisted_test_mode
  listed,              // by an entry
  excluded_op,         // by the entry's edits
  excluded_dtype,      //
  excluded_module,     //
  unsupported_op,      // not among supported_ops
  unsupported_dtype,   //
  unsupported_module,  //
  forced_xfail,        // force_xfail of the operator, dtype or module turned mandatory_success
  tied,                // entries that say different things, none of them the more specific
};
[[nodiscard]] std::string_view to_string(Basis basis);

struct Ruling {
  Basis basis = Basis::ungoverned;
  Mode mode = Mode::skip;           // of ungoverned and tied: skip
  const FileEntry* file = nullptr;  // null if ungoverned
  const Entry* entry = nullptr;     // null if not listed
  const Name* name = nullptr;       // by which it is listed
  const Name* other = nullptr;      // of tied: one that says otherwise
};

// Whether the name is one of the test's: as written or as instantiated, by text or by pattern.
[[nodiscard]] bool names(const Name& name, const CollectedTest& test);
// Whether the test is another than those that it was decided for, as far as both say what it is.
[[nodiscard]] bool has_changed(const CollectedTest& test, const Rationale& rationale);

// An entry that names a test, and what became of it. The names are API.
struct Candidate {
  enum class Fate : std::uint8_t {
    decides,           // or agrees with the one that does
    does_not_hold,     // its condition
    name_outdone,      // another name is the more specific
    condition_outdone  // another's condition is the narrower
  };
  const Entry* entry = nullptr;
  const Name* name = nullptr;
  Fate fate = Fate::decides;
};
[[nodiscard]] std::string_view to_string(Candidate::Fate fate);

// Rules over tests under given circumstances. Keeps a pointer to the configuration. Of the entries
// that name a test, and whose condition holds, the most specific decides: the collected name before
// Class::method before method before a pattern, and at the same level the one whose condition
// implies the others'.
class Governor {
 public:
  Governor(const Config& config, const Circumstances& circumstances);
  Governor(const Governor&) = delete;
  Governor& operator=(const Governor&) = delete;
  ~Governor();

  [[nodiscard]] Ruling rule(const CollectedTest& test) const;
  // The same for many, in their order.
  [[nodiscard]] std::vector<Ruling> rule(std::span<const CollectedTest> tests) const;
  // All entries that name the test, in their order.
  [[nodiscard]] std::vector<Candidate> candidates(const CollectedTest& test) const;
  // The file entry for a test file of an inventory; null: none.
  [[nodiscard]] const FileEntry* find_file(std::string_view file) const;

 private:
  struct Index;
  std::unique_ptr<const Index> index_;
};

}  // namespace crosscheck::config
