#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/process.h"
#include "crosscheck/base/result.h"
#include "crosscheck/gate/cell.h"
#include "crosscheck/gate/decision.h"

// A matrix in a folder: the frozen manifest, and one file a finished launch.
//   frozen.json         what was decided before the first launch, and the seed of the coins
//   launches/000012.json  request, command, times and answer of the twelfth launch
//   environments/000.json  what both sides and the machine were when a run began
//   rehearsal.json      the last rehearsal of the rollback
// A launch's file appears whole or not at all, so that a gate that was killed repeats only the
// launch that it died in.
namespace crosscheck::gate {

struct LaunchRecord {
  LaunchRequest request;
  std::string command;  // for a shell, to repeat it
  base::Time started;
  base::Duration took{0};
  std::string text;  // the launch's answer, JSON
};

class Matrix {
 public:
  // Makes the folder, or opens it and takes up what it holds. `conflict`: it was frozen with
  // another manifest, which is named by its first difference. `busy`: another process works in it.
  [[nodiscard]] static base::Result<Matrix> freeze(const std::filesystem::path& folder,
                                                   const Manifest& manifest, base::Time now);
  // As `freeze` would give it; writes nothing.
  [[nodiscard]] static base::Result<Matrix> planned(const std::filesystem::path& folder,
                                                    const Manifest& manifest);
  // Opens it to read, whatever else is going on there. `manifest` as above.
  [[nodiscard]] static base::Result<Matrix> open(const std::filesystem::path& folder,
                                                 const Manifest& manifest);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  [[nodiscard]] const std::string& digest() const { return digest_; }
  [[nodiscard]] base::Time frozen_at() const { return frozen_at_; }
  // Empty where nothing was launched yet.
  [[nodiscard]] const std::vector<Logged>& launches(const CellId& id) const;
  [[nodiscard]] const std::optional<Rehearsal>& rehearsal() const { return rehearsal_; }

  // What `launch` of `id` was: the record's file, from the folder.
  [[nodiscard]] std::string file_of(const CellId& id, Side side, const std::string& key) const;

  // A record's file, read.
  [[nodiscard]] base::Result<LaunchRecord> record(const std::string& file) const;
  // {"baseline": …, "candidate": …} of the last run; null before the first.
  [[nodiscard]] const base::json::value& environments() const { return environments_; }

  // Durable when it returns.
  [[nodiscard]] base::Result<void> add(const LaunchRecord& record, const LaunchResult& result);
  [[nodiscard]] base::Result<void> keep(const Rehearsal& rehearsal, base::Time now);
  // What the sides are now; kept beside what they were in earlier runs.
  [[nodiscard]] base::Result<void> keep_environments(base::json::object sides, base::Time now);

 private:
  Matrix() = default;
  [[nodiscard]] base::Result<void> read_launches();
  [[nodiscard]] base::Result<void> read_rehearsal();
  [[nodiscard]] base::Result<void> read_environments();
  [[nodiscard]] static base::Result<Matrix> read(const std::filesystem::path& folder,
                                                 const Manifest& manifest);

  std::filesystem::path folder_;
  base::Fd lock_;
  std::uint64_t seed_ = 0;
  std::string digest_;
  base::Time frozen_at_;
  std::size_t next_ = 0;
  std::map<CellId, std::vector<Logged>> launches_;
  std::map<std::string, std::string> files_;
  std::optional<Rehearsal> rehearsal_;
  base::json::value environments_;
  std::size_t next_environments_ = 0;
};

// Takes the launches, the environments and the rehearsal of `shard`, a matrix of the same manifest.
// `conflict`: both made a launch, with other answers.
[[nodiscard]] base::Result<void> merge_into(Matrix& merged, const Matrix& shard,
                                            const Manifest& manifest, base::Time now);

// Every cell's gates as they stand, in the manifest's order.
[[nodiscard]] std::vector<CellResult> judge(const Manifest& manifest, const Matrix& matrix);

}  // namespace crosscheck::gate
