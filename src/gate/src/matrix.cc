#include "crosscheck/gate/matrix.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"

namespace crosscheck::gate {
namespace {

namespace json = base::json;
namespace fs = std::filesystem;
using base::fail;
using base::Fault;

constexpr const char* k_frozen = "frozen.json";
constexpr const char* k_rehearsal = "rehearsal.json";
constexpr const char* k_environments = "environments";

// The number that a file is named by.
std::size_t number_of(const fs::path& path) {
  std::size_t number = 0;
  const auto stem = path.stem().string();
  std::from_chars(stem.data(), stem.data() + stem.size(), number);
  return number;
}

base::Result<std::vector<fs::path>> numbered_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{folder, error}) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (error) {
    return fail(Fault::environment, fmt::format("{}: {}", folder.string(), error.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string id_of(const CellId& id, Side side, const std::string& key) {
  return fmt::format("{} {} {}", to_string(id), to_string(side), key);
}

// Where two manifests part, as a path: "classes.nightly.latency is 0.1, was 0.05".
std::string first_difference(const json::value& was, const json::value& is,
                             const std::string& path) {
  if (was == is) return {};
  const auto within = [&](std::string_view key) {
    return path.empty() ? std::string{key} : fmt::format("{}.{}", path, key);
  };
  if (was.is_object() && is.is_object()) {
    for (const auto& [key, value] : was.as_object()) {
      const auto* other = is.as_object().if_contains(key);
      if (!other) return fmt::format("{} is gone", within(key));
      if (auto found = first_difference(value, *other, within(key)); !found.empty()) return found;
    }
    for (const auto& [key, value] : is.as_object()) {
      if (!was.as_object().contains(key)) return fmt::format("{} is new", within(key));
    }
  }
  if (was.is_array() && is.is_array() && was.as_array().size() == is.as_array().size()) {
    for (std::size_t i = 0; i < was.as_array().size(); ++i) {
      const auto* name = base::find(was.as_array()[i], "name");
      const auto key =
          name && name->is_string() ? std::string{name->as_string()} : std::to_string(i);
      if (auto found = first_difference(was.as_array()[i], is.as_array()[i], within(key));
          !found.empty()) {
        return found;
      }
    }
  }
  return fmt::format("{} is {}, was {}", path, base::canonical_json(is), base::canonical_json(was));
}

base::Result<json::value> read_json(const fs::path& path) {
  const auto text = base::read_file(path);
  if (!text) return tl::unexpected(text.error());
  return base::parse_json(*text, path.string());
}

base::Result<base::Fd> lock_folder(const fs::path& folder) {
  const auto path = folder / ".lock";
  base::Fd fd{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
  if (!fd) {
    return fail(errno == EROFS || errno == EACCES ? Fault::read_only : Fault::environment,
                fmt::format("{}: {}", path.string(), std::generic_category().message(errno)));
  }
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(Fault::busy, fmt::format("{}: another gate works in this folder", folder.string()),
                "wait for it, or give another --output");
  }
  return fd;
}

json::object to_json(const LaunchRequest& request) {
  return {{"workload", request.cell.workload},      {"backend", request.cell.backend},
          {"phase", to_string(request.cell.phase)}, {"side", to_string(request.side)},
          {"purpose", to_string(request.purpose)},  {"key", request.key}};
}

base::Result<LaunchRequest> read_request(const json::value& root) {
  LaunchRequest request;
  for (const auto& [path, into] : {std::pair{"request.workload", &request.cell.workload},
                                   {"request.backend", &request.cell.backend},
                                   {"request.key", &request.key}}) {
    auto text = base::require_string(root, path);
    if (!text) return tl::unexpected(text.error());
    *into = std::move(*text);
  }
  const auto phase = base::require_string(root, "request.phase");
  const auto side = base::require_string(root, "request.side");
  const auto purpose = base::require_string(root, "request.purpose");
  for (const auto* word : {&phase, &side, &purpose}) {
    if (!*word) return tl::unexpected(word->error());
  }
  request.cell.phase = *phase == "training" ? Phase::training : Phase::inference;
  request.side = *side == "candidate" ? Side::candidate : Side::baseline;
  request.purpose = *purpose == "exact"     ? Purpose::exact
                    : *purpose == "reading" ? Purpose::reading
                                            : Purpose::timing;
  return request;
}

}  // namespace

base::Result<Matrix> Matrix::read(const fs::path& folder, const Manifest& manifest) {
  const auto path = folder / k_frozen;
  const auto frozen = read_json(path);
  if (!frozen) return tl::unexpected(frozen.error());
  Matrix matrix;
  matrix.folder_ = folder;
  const auto seed = base::require_int(*frozen, "seed");
  const auto digest = base::require_string(*frozen, "digest");
  const auto at = base::require_string(*frozen, "frozen_at");
  const auto* was = base::find(*frozen, "manifest");
  if (!seed || !digest || !at || !was) {
    return fail(Fault::invalid_input, fmt::format("{} is no frozen manifest", path.string()),
                "restore it, or give another --output");
  }
  const auto time = base::parse_rfc3339(*at);
  if (!time) return tl::unexpected(time.error());
  if (base::sha256_hex(base::canonical_json(*was)) != *digest) {
    return fail(
        Fault::conflict,
        fmt::format("{} was changed: its digest is not that of what it holds", path.string()),
        "restore it; a changed manifest makes a new matrix");
  }
  if (gate::digest(manifest) != *digest) {
    // Through text, as numbers come back from the file.
    const auto is = base::parse_json(base::canonical_json(frozen_json(manifest)), "the manifest");
    return fail(Fault::conflict,
                fmt::format("{} was frozen with another manifest: {}", folder.string(),
                            is ? first_difference(*was, *is, {}) : std::string{}),
                "what decides is fixed before the first launch: give another --output for a new "
                "matrix");
  }
  matrix.seed_ = static_cast<std::uint64_t>(*seed);
  matrix.digest_ = *digest;
  matrix.frozen_at_ = *time;
  if (auto done = matrix.read_launches(); !done) return tl::unexpected(done.error());
  if (auto done = matrix.read_rehearsal(); !done) return tl::unexpected(done.error());
  if (auto done = matrix.read_environments(); !done) return tl::unexpected(done.error());
  return matrix;
}

base::Result<Matrix> Matrix::open(const fs::path& folder, const Manifest& manifest) {
  std::error_code ignored;
  if (!fs::exists(folder / k_frozen, ignored)) {
    return fail(Fault::not_found, fmt::format("{} holds no matrix", folder.string()),
                "crosscheck gate run");
  }
  return read(folder, manifest);
}

base::Result<Matrix> Matrix::planned(const fs::path& folder, const Manifest& manifest) {
  std::error_code ignored;
  if (fs::exists(folder / k_frozen, ignored)) return read(folder, manifest);
  Matrix matrix;
  matrix.folder_ = folder;
  matrix.digest_ = gate::digest(manifest);
  return matrix;
}

base::Result<Matrix> Matrix::freeze(const fs::path& folder, const Manifest& manifest,
                                    base::Time now) {
  std::error_code error;
  fs::create_directories(folder / "launches", error);
  if (error) {
    return fail(Fault::environment, fmt::format("{}: {}", folder.string(), error.message()));
  }
  auto lock = lock_folder(folder);
  if (!lock) return tl::unexpected(lock.error());
  if (!fs::exists(folder / k_frozen, error)) {
    std::uint64_t seed = 0;
    // 62 bits: a number that every reader of JSON keeps whole.
    const auto hex = base::random_hex(8);
    std::from_chars(hex.data(), hex.data() + hex.size(), seed, 16);
    const json::object frozen{{"digest", gate::digest(manifest)},
                              {"frozen_at", base::to_rfc3339(now)},
                              {"seed", static_cast<std::int64_t>(seed >> 2)},
                              {"manifest", frozen_json(manifest)}};
    if (auto done = base::write_file_atomically(folder / k_frozen, base::pretty_json(frozen));
        !done) {
      return tl::unexpected(done.error());
    }
  }
  auto matrix = read(folder, manifest);
  if (matrix) matrix->lock_ = std::move(*lock);
  return matrix;
}

base::Result<void> Matrix::read_launches() {
  const auto files = numbered_files(folder_ / "launches");
  if (!files) return tl::unexpected(files.error());
  for (const auto& path : *files) {
    const auto root = read_json(path);
    if (!root) return tl::unexpected(root.error());
    auto request = read_request(*root);
    const auto* answer = base::find(*root, "answer");
    if (!request || !answer) {
      return fail(Fault::invalid_input, fmt::format("{} is no record of a launch", path.string()),
                  "move it away: the launch is made again");
    }
    auto result = read_launch_result(base::canonical_json(*answer));
    if (!result) {
      return fail(Fault::invalid_input,
                  fmt::format("{}: {}", path.string(), result.error().message),
                  "move it away: the launch is made again");
    }
    files_[id_of(request->cell, request->side, request->key)] =
        fmt::format("launches/{}", path.filename().string());
    auto& of_cell = launches_[request->cell];
    const auto took = base::require_int(*root, "took_us");
    of_cell.push_back({std::move(*request), std::move(*result), base::Duration{took ? *took : 0}});
    next_ = std::max(next_, number_of(path) + 1);
  }
  return {};
}

base::Result<LaunchRecord> Matrix::record(const std::string& file) const {
  const auto path = folder_ / file;
  const auto root = read_json(path);
  if (!root) return tl::unexpected(root.error());
  auto request = read_request(*root);
  if (!request) return tl::unexpected(request.error());
  auto command = base::require_string(*root, "command");
  const auto started = base::require_string(*root, "started_at");
  const auto took = base::require_int(*root, "took_us");
  const auto* answer = base::find(*root, "answer");
  const auto time = started ? base::parse_rfc3339(*started) : base::Result<base::Time>{};
  if (!command || !started || !time || !took || !answer) {
    return fail(Fault::invalid_input, fmt::format("{} is no record of a launch", path.string()));
  }
  return LaunchRecord{std::move(*request), std::move(*command), *time, base::Duration{*took},
                      base::canonical_json(*answer)};
}

base::Result<void> Matrix::read_environments() {
  std::error_code ignored;
  if (!fs::exists(folder_ / k_environments, ignored)) return {};
  const auto files = numbered_files(folder_ / k_environments);
  if (!files) return tl::unexpected(files.error());
  if (files->empty()) return {};
  auto root = read_json(files->back());
  if (!root) return tl::unexpected(root.error());
  environments_ = std::move(*root);
  next_environments_ = number_of(files->back()) + 1;
  return {};
}

base::Result<void> Matrix::keep_environments(json::object sides, base::Time now) {
  std::error_code error;
  fs::create_directories(folder_ / k_environments, error);
  sides["at"] = base::to_rfc3339(now);
  environments_ = std::move(sides);
  return base::write_file_atomically(
      folder_ / k_environments / fmt::format("{:03}.json", next_environments_++),
      base::pretty_json(environments_));
}

base::Result<void> Matrix::read_rehearsal() {
  const auto path = folder_ / k_rehearsal;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  const auto root = read_json(path);
  if (!root) return tl::unexpected(root.error());
  const auto took = base::require_int(*root, "took_us");
  const auto* ok = base::find(*root, "ok");
  const auto reason = base::optional_string(*root, "reason");
  if (!took || !ok || !ok->is_bool() || !reason) {
    return fail(Fault::invalid_input, fmt::format("{} is no rehearsal", path.string()),
                "crosscheck gate rollback-rehearsal");
  }
  rehearsal_ = Rehearsal{ok->as_bool(), reason->value_or(""), base::Duration{*took}};
  return {};
}

const std::vector<Logged>& Matrix::launches(const CellId& id) const {
  static const std::vector<Logged> none;
  const auto found = launches_.find(id);
  return found == launches_.end() ? none : found->second;
}

std::string Matrix::file_of(const CellId& id, Side side, const std::string& key) const {
  const auto found = files_.find(id_of(id, side, key));
  return found == files_.end() ? std::string{} : found->second;
}

base::Result<void> Matrix::add(const LaunchRecord& record, const LaunchResult& result) {
  auto answer = base::parse_json(record.text, "the launch's result");
  if (!answer) return tl::unexpected(answer.error());
  const json::object whole{{"request", to_json(record.request)},
                           {"command", record.command},
                           {"started_at", base::to_rfc3339(record.started)},
                           {"took_us", record.took.count()},
                           {"answer", std::move(*answer)}};
  const auto name = fmt::format("launches/{:06}.json", next_);
  if (auto done = base::write_file_atomically(folder_ / name, base::canonical_json(whole)); !done) {
    return done;
  }
  ++next_;
  files_[id_of(record.request.cell, record.request.side, record.request.key)] = name;
  launches_[record.request.cell].push_back({record.request, result, record.took});
  return {};
}

base::Result<void> Matrix::keep(const Rehearsal& rehearsal, base::Time now) {
  rehearsal_ = rehearsal;
  return base::write_file_atomically(
      folder_ / k_rehearsal, base::pretty_json(json::object{{"ok", rehearsal.ok},
                                                            {"reason", rehearsal.reason},
                                                            {"took_us", rehearsal.took.count()},
                                                            {"at", base::to_rfc3339(now)}}));
}

base::Result<void> merge_into(Matrix& merged, const Matrix& shard, const Manifest& manifest,
                              base::Time now) {
  for (const auto& id : cells(manifest)) {
    for (const auto& launch : shard.launches(id)) {
      const auto& request = launch.request;
      const auto record = shard.record(shard.file_of(id, request.side, request.key));
      if (!record) return tl::unexpected(record.error());
      const auto file = merged.file_of(id, request.side, request.key);
      if (file.empty()) {
        if (auto added = merged.add(*record, launch.result); !added) return added;
        continue;
      }
      const auto theirs = merged.record(file);
      if (!theirs) return tl::unexpected(theirs.error());
      if (theirs->text != record->text || theirs->started != record->started) {
        return fail(Fault::conflict,
                    fmt::format("{} {} {} was launched in {} and in another folder", to_string(id),
                                to_string(request.side), request.key, shard.folder().string()),
                    "measure a cell in one place: gate run --cells");
      }
    }
  }
  if (shard.environments().is_object()) {
    if (auto kept = merged.keep_environments(shard.environments().as_object(), now); !kept) {
      return kept;
    }
  }
  if (shard.rehearsal() && !merged.rehearsal()) return merged.keep(*shard.rehearsal(), now);
  return {};
}

std::vector<CellResult> judge(const Manifest& manifest, const Matrix& matrix) {
  std::vector<CellResult> results;
  for (const auto& id : cells(manifest)) {
    results.push_back({id, judge_cell(manifest, id, matrix.launches(id), matrix.rehearsal())});
  }
  return results;
}

}  // namespace crosscheck::gate
