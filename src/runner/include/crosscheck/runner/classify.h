#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/outcome.h"
#include "crosscheck/base/process.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/runner/protocol.h"

// From what a process said to what it means. Pure.
namespace crosscheck::runner {

struct Verdict {
  base::Outcome outcome = base::Outcome::not_run;
  base::FailureKind kind = base::FailureKind::none;
  std::string message;  // UTF-8, at most 4 KiB
  std::string detail;   // UTF-8, at most 64 KiB
  std::string fingerprint;
  std::optional<base::Mismatch> mismatch;
  std::optional<base::Leak> leak;
};

[[nodiscard]] Verdict classify(const Finish& finish);

// What a verdict means for a test that a configuration governs: `governed.observed` becomes what
// the test did, the outcome what the mode makes of that.
void judge(Verdict& verdict, base::Governed& governed);

// The process died in a test. `output` is the end of what it wrote to standard error.
[[nodiscard]] Verdict classify_crash(const base::ExitStatus& status, std::string_view output);
// A test did not end within `limit`, its own or (`whose`) that of its file.
enum class Limited : std::uint8_t { test, file };
[[nodiscard]] Verdict classify_timeout(base::Duration limit, std::string_view output,
                                       Limited whose = Limited::test);
// The process was killed in a test since it took more memory than it may: so many bytes.
[[nodiscard]] Verdict classify_out_of_memory(std::int64_t limit, std::string_view output);
// The tests of a file cannot be run because it does not import or collect.
[[nodiscard]] Verdict classify_collect_error(const CollectError& error);
// A worker could not run its tests: `why` says what was seen. The machine's fault where `why` or
// `output` show one, else the harness's.
[[nodiscard]] Verdict classify_harness(std::string_view why, std::string_view output);

// The numbers of torch.testing's messages. Values that are not finite are left out.
[[nodiscard]] std::optional<base::Mismatch> parse_mismatch(std::string_view message);

// `text` without what differs between failures that are alike: addresses, numbers, device indices,
// temporary and absolute paths. Idempotent.
[[nodiscard]] std::string normalise(std::string_view text);

}  // namespace crosscheck::runner
