#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/result.h"
#include "crosscheck/gate/manifest.h"

// The two PyTorchs of a manifest: making them, and a first manifest of what there is.
namespace crosscheck::gate {

// Sets `lock_hash` of both sides. Lock files are sought from `folder`, the manifest's.
[[nodiscard]] base::Result<void> hash_locks(Manifest& manifest,
                                            const std::filesystem::path& folder);

// As `frozen` (the whole of frozen.json) has them: where the lock files themselves are elsewhere.
void adopt_locks(Manifest& manifest, const base::json::value& frozen);

// The interpreter of `spec`, absolute: as it is named, or made from its lock file in
// `folder`/environments (once a lock file; some minutes). Imports torch before it says yes. An
// interpreter, torch or package that is missing is an `environment` fault with its remedy.
[[nodiscard]] base::Result<std::string> prepare_interpreter(const EnvironmentSpec& spec,
                                                            const std::filesystem::path& folder);

// What `python`'s side is now: versions, build, devices, threads, load (docs/gate-workloads.md).
[[nodiscard]] base::Result<base::json::value> preflight(const std::string& python,
                                                        const std::string& probe_path,
                                                        const std::string& label);
// Why the machine is unfit to measure on, or empty.
[[nodiscard]] std::string unfit_reason(const base::json::value& preflight);
// What stands between the sides beside what is compared: "build.blas: mkl against openblas".
// `environments` as in Matrix.
[[nodiscard]] std::vector<std::string> differences(const base::json::value& environments);

// A manifest (YAML, commented) that `parse_manifest` takes and `check` does not refuse, for what
// the machine has: the quick workloads of the library on the CPU and on two processes. `matrix`,
// read from `source`, is JSON with matrix, versions, backends, gates and decisions: its names and
// lists are taken over; what is no backend, gate or decision is an error that names it.
[[nodiscard]] base::Result<std::string> initial_manifest(
    const std::string& baseline, const std::string& candidate,
    const std::optional<base::json::value>& matrix, const std::string& source);

}  // namespace crosscheck::gate
