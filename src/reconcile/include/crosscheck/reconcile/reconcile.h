#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/config/check.h"
#include "crosscheck/config/edit.h"
#include "crosscheck/config/govern.h"
#include "crosscheck/config/model.h"
#include "crosscheck/reconcile/history.h"

// What a configuration should say by what runs saw. Pure and deterministic: docs/reconcile.md has
// the rules.
namespace crosscheck::reconcile {

struct Options {
  std::size_t passes = 3;   // in a row, for a promotion
  std::size_t window = 10;  // sightings that tell whether a test is flaky
  // More must-pass tests than this, and a greater share of those seen, that fail for the first time
  // are held back.
  std::size_t fall_tests = 20;
  double fall_share = 0.05;
  bool confirmed = false;  // a person says that such a fall is the device's
};

enum class Kind : std::uint8_t {
  promote,        // must pass from now on
  demote,         // need not pass any longer
  expire,         // decided anew: the reason's time is over
  added,          // collected, and not listed
  gone,           // listed, and not collected
  contradiction,  // of a person's decision: shown, never written
  inseparable,    // tests that one name stands for differ, and have no names of their own: the same
};
[[nodiscard]] std::string_view to_string(Kind kind);  // the names are API; `added` is "new"

// How the name is written.
enum class Way : std::uint8_t {
  whole,    // where it stands
  split,    // a more specific name, behind the entry that it is taken from
  listed,   // a new one, behind the file's last
  renamed,  // where another stands
  removed,
};
[[nodiscard]] std::string_view to_string(Way way);

// One name.
struct Change {
  // An entry and the name by which it governs. Several that say the same of a name change together.
  struct Use {
    const config::Entry* entry = nullptr;
    const config::Name* name = nullptr;
  };

  Kind kind = Kind::promote;
  Way way = Way::whole;
  bool held = false;  // part of a fall that is not confirmed
  const config::FileEntry* file = nullptr;
  std::vector<Use> uses = {};  // empty: not listed now
  std::string name = {};       // as it stands afterwards; of what is removed, as it stood
  config::Mode before = config::Mode::skip;
  // Nothing: removed, or only renamed, or not to be written.
  std::optional<config::Decision> decision = {};
  std::vector<std::size_t> tests = {};  // that it is about, by their number in the suite
  std::size_t governed = 0;  // tests for which the name, or the one it is split from, stands
  std::string why = {};      // in one line

  [[nodiscard]] bool is_written() const {
    return !held && kind != Kind::contradiction && kind != Kind::inseparable;
  }
};

struct Proposals {
  // Tests that entries tie about. Nothing is proposed before that is mended.
  std::vector<config::Finding> ties = {};
  bool complete = false;  // the suite is all that there is
  // By file, in the configuration's order; there by kind, there by name.
  std::vector<Change> changes = {};
  std::vector<config::Ruling> rulings = {};  // of the suite's tests, as they are now
  std::vector<const Run*> runs = {};         // that count, newest first
  std::size_t runs_elsewhere = 0;            // left out: other entries hold where they ran
  std::int64_t falls = 0;                    // must-pass tests that fail for the first time
  std::int64_t must_pass_seen = 0;           // must-pass tests that were seen at all
  std::int64_t restricted_passes = 0;  // tests that pass, and that lists of what is supported or
                                       // edits leave out
  std::int64_t ungoverned = 0;         // tests whose file the configuration does not have

  [[nodiscard]] bool suspicious() const;  // changes are held back
  // Something is to be written, or to be confirmed.
  [[nodiscard]] bool pending() const;
};

// The tests of the suite: collected, or where there is no inventory (`complete` is false) those
// that runs show; then nothing is said to be gone. `circumstances` say where they run now, `today`
// (YYYY-MM-DD) what has expired. All that is given must outlive the result.
[[nodiscard]] Proposals propose(const config::Config& config, const config::CollectedSuite& suite,
                                bool complete, const History& history,
                                const config::Circumstances& circumstances, const Options& options,
                                std::string_view today);

// The files that change: their new texts, by document.
using NewTexts = std::map<const config::Document*, std::string>;
[[nodiscard]] base::Result<NewTexts> write(const config::Config& config,
                                           const Proposals& proposals);

// Whether `after`, loaded from the new texts, says what was proposed, and of all other tests what
// was said before. An error is a bug here, or two names that only together mean something else.
[[nodiscard]] base::Result<void> verify(const config::Config& after,
                                        const config::CollectedSuite& suite,
                                        const config::Circumstances& circumstances,
                                        const Proposals& proposals);

}  // namespace crosscheck::reconcile
