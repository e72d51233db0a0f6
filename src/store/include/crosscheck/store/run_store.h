#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "crosscheck/base/run_results.h"
#include "crosscheck/store/store.h"

// Runs, tests and results are written by the runner and by the relay (from uploaded files), and
// read by the HUD: one place knows their tables.
namespace crosscheck::store {

// The process that fills a run, and when it last said that it does. `name` tells whether it lives.
struct Owner {
  std::string name = {};  // empty: nobody's
  base::Time alive_at = {};
  friend bool operator==(const Owner&, const Owner&) = default;
};

// Begins a run that will be filled while it goes on. `conflict` if the run id exists.
[[nodiscard]] base::Result<std::int64_t> begin_run(Tx& tx, const base::RunHeader& header,
                                                   const Owner& owner = {});
// Says that its owner lives: first in every transaction in which that writes the run. `conflict`
// where the run is no longer its: it was silent, and was taken to be dead.
[[nodiscard]] base::Result<void> keep_alive(Tx& tx, std::int64_t run, const Owner& owner);
// Takes an unfinished run over, from the owner that it has: it goes on, and what was not run is no
// longer said to be. False if somebody else was quicker.
[[nodiscard]] base::Result<bool> take_over_run(Tx& tx, std::int64_t run, const Owner& from,
                                               const Owner& to);
// Ends a run whose owner died, at the time when that last said that it lives. Changes nothing where
// the run has another owner by now.
[[nodiscard]] base::Result<void> end_dead_run(Tx& tx, std::int64_t run, const Owner& dead);
// Appends results of a run; the same (test, attempt) again changes nothing.
[[nodiscard]] base::Result<void> add_results(Tx& tx, std::int64_t run,
                                             std::span<const base::TestResult> results);
// Sets the end, as the header has it, and the counts (from what is stored). `conflict` where the
// run is another owner's.
[[nodiscard]] base::Result<void> finish_run(Tx& tx, std::int64_t run, const base::RunHeader& header,
                                            const Owner& owner = {});

// A result file and whose it is. Run ids are the uploader's own: the same id of another repository,
// or of a run made here, is another run.
struct ResultFile {
  std::string_view repo_key;
  std::string_view digest;
};
struct Import {
  std::int64_t run = 0;
  bool complete = false;  // the file was read before
};
// Begins to read a run from a file, or goes on where an earlier attempt was cut off: `add_results`
// follow, in one transaction or in several, then `finish_run`. `conflict` when the uploader stored
// a run of that id from another file.
[[nodiscard]] base::Result<Import> begin_import(Tx& tx, const base::RunHeader& header,
                                                const ResultFile& file);
// All of it in one transaction. Idempotent.
[[nodiscard]] base::Result<std::int64_t> import_run(Tx& tx, const base::RunResults& run,
                                                    const ResultFile& file);

}  // namespace crosscheck::store
