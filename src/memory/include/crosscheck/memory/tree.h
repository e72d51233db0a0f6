#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/memory/extract.h"

// The Python files of a tree, and what is in them.
namespace crosscheck::memory {

// What cannot be read, or only in part. The rest goes on.
struct Problem {
  std::string path;  // relative to the tree's root
  std::string what;  // "cannot be read: Permission denied", "syntax error at 12:4", "not UTF-8 …"
  friend auto operator<=>(const Problem&, const Problem&) = default;
};

struct TreeFile {
  std::string path;  // relative to the tree's root, "/" separated
  std::uint64_t size = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970; a hint that nothing changed
};

struct Walked {
  std::vector<TreeFile> files;  // sorted by path
  std::vector<Problem> problems;
};

inline constexpr std::uint64_t k_source_limit = std::uint64_t{16} << 20;  // bytes of one file

// All *.py below `root`; hidden folders and __pycache__ are passed over. A folder that several
// links lead to is read once, under its own name where it has one in the tree. A link that leads
// back to where it is reached from, what cannot be read and files over the limit are problems.
// `not_found` or `invalid_input` if `root` itself is no folder.
[[nodiscard]] base::Result<Walked> walk(const std::filesystem::path& root);

// One file, wholly read.
struct Source {
  std::string path;
  std::uint64_t size = 0;
  std::int64_t modified = 0;
  std::string digest;  // sha256 of its bytes
  Facts facts;         // its problem is that of encoding too

  friend bool operator==(const Source&, const Source&) = default;
};

// Bytes to a source. What is not UTF-8 is read with U+FFFD in its place, and said.
[[nodiscard]] Source read_source(Extractor& extractor, std::string path, std::string_view bytes);

// Reads each of `files` with `jobs` threads, and gives the sources in the order of `files` to
// `take`, on the calling thread. Those whose digest `known` says (by index; empty: not known) come
// without facts. A file that cannot be read becomes a problem.
struct ReadOptions {
  unsigned jobs = 1;
  std::function<std::string(std::size_t)> known = {};
  std::function<void(std::size_t)> on_progress = {};  // files read so far
};
[[nodiscard]] base::Result<void> read_tree(
    const std::filesystem::path& root, const std::vector<TreeFile>& files,
    const ReadOptions& options, std::vector<Problem>& problems,
    const std::function<base::Result<void>(std::size_t, Source)>& take);

}  // namespace crosscheck::memory
