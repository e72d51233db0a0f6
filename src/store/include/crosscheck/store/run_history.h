#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/run_results.h"
#include "crosscheck/store/run_store.h"
#include "crosscheck/store/store.h"

// Runs and their results, read back as they were written.
namespace crosscheck::store {

struct StoredRun {
  std::int64_t id = 0;
  std::string repo_key = {};  // whose file it was read from; empty: made here
  base::RunHeader header = {};
  bool ended = false;
};

struct RunFilter {
  std::string repo_key = {};              // exactly; empty: runs made here
  std::vector<std::string> run_ids = {};  // of these; empty: of all
  std::string backend = {};               // empty: any
  std::vector<std::string> devices = {};  // each its type or its model; empty: any
  std::size_t most = 20;
};
// Newest first.
[[nodiscard]] base::Result<std::vector<StoredRun>> list_runs(Tx& tx, const RunFilter& filter);

// Runs made here that were interrupted, whose process died, or that still go on (those have an
// owner). Newest first.
struct UnfinishedRun {
  StoredRun run = {};
  Owner owner = {};
};
[[nodiscard]] base::Result<std::vector<UnfinishedRun>> unfinished_runs(
    Tx& tx, const base::Combination& combination);
[[nodiscard]] base::Result<std::optional<UnfinishedRun>> unfinished_run(Tx& tx,
                                                                        std::string_view run_id);
// Those that have an owner, alive or dead; silent for longest first.
[[nodiscard]] base::Result<std::vector<UnfinishedRun>> owned_runs(Tx& tx);

// All attempts of all its tests, in the order of tests. Unless the texts are wanted whole,
// tracebacks are left out, and messages of what did not fail.
enum class Texts : std::uint8_t { whole, of_failures };
[[nodiscard]] base::Result<std::vector<base::TestResult>> read_results(
    Tx& tx, std::int64_t run, Texts texts = Texts::of_failures);

// Tests by a part of their name: "file::Class::method" as written, or pytest's address of it, in
// any case of letters. In order of the name; a whole one that is equal comes alone.
struct StoredTest {
  base::TestId test = {};
  std::string node_id = {};  // as the newest run has it
};
[[nodiscard]] base::Result<std::vector<StoredTest>> find_tests(Tx& tx, std::string_view part,
                                                               std::size_t most);

// What a run has of one test.
struct RunOfTest {
  StoredRun run = {};
  std::vector<base::TestResult> attempts = {};  // in order
  std::string job_url = {};                     // what its uploader says; empty: made here
};
// Of the newest runs that have it and that the filter lets pass, newest first.
[[nodiscard]] base::Result<std::vector<RunOfTest>> runs_of_test(Tx& tx, const base::TestId& test,
                                                                const RunFilter& filter);

}  // namespace crosscheck::store
