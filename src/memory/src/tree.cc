#include "crosscheck/memory/tree.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/file.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/threads.h"

namespace crosscheck::memory {
namespace {

namespace fs = std::filesystem;
using base::fail;
using base::Fault;
using base::Result;

using Identity = std::pair<dev_t, ino_t>;

// "latin-1" of a file that says so in its first two lines (PEP 263).
std::string declared_encoding(std::string_view bytes) {
  for (int line = 0; line < 2 && !bytes.empty(); ++line) {
    const auto stop = std::min(bytes.find('\n'), bytes.size());
    const std::string_view text = bytes.substr(0, stop);
    bytes.remove_prefix(std::min(stop + 1, bytes.size()));
    const auto at = text.find("coding");
    if (!text.starts_with('#') || at == std::string_view::npos || at + 7 > text.size() ||
        (text[at + 6] != ':' && text[at + 6] != '='))
      continue;
    std::string name;
    for (const char c : text.substr(at + 7)) {
      if (c == ' ' && name.empty()) continue;
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.')
        break;
      name += c;
    }
    return name;
  }
  return {};
}

class Walk {
 public:
  explicit Walk(fs::path root) : root_{std::move(root)} {}

  Walked run(const struct stat& root) {
    seen_.emplace(root.st_dev, root.st_ino);
    enter("");
    // Links after all folders, so that what has a name of its own is found by it.
    while (!links_.empty()) {
      const auto link = std::move(*links_.begin());
      links_.erase(links_.begin());
      follow(link);
    }
    std::ranges::sort(walked_.files, {}, &TreeFile::path);
    std::ranges::sort(walked_.problems);
    return std::move(walked_);
  }

 private:
  void enter(std::string first) {
    std::deque<std::string> folders{std::move(first)};
    while (!folders.empty()) {
      const std::string folder = std::move(folders.front());
      folders.pop_front();
      std::error_code error;
      for (fs::directory_iterator it{root_ / folder, error}, end; !error && it != end;
           it.increment(error)) {
        const std::string name = it->path().filename().string();
        const std::string path = folder.empty() ? name : folder + "/" + name;
        if (name.starts_with('.') || name == "__pycache__") continue;
        struct stat found{};
        if (::lstat((root_ / path).c_str(), &found) != 0) {
          problem(path, std::string{"cannot be read: "} + std::strerror(errno));
        } else if (S_ISDIR(found.st_mode)) {
          if (seen_.emplace(found.st_dev, found.st_ino).second) folders.push_back(path);
        } else if (S_ISLNK(found.st_mode)) {
          links_.insert(path);
        } else {
          file(path, found);
        }
      }
      if (error) problem(folder.empty() ? "." : folder, "cannot be read: " + error.message());
    }
  }

  void follow(const std::string& link) {
    struct stat found{};
    if (::stat((root_ / link).c_str(), &found) != 0) {
      if (link.ends_with(".py") || errno == ELOOP)
        problem(link, std::string{"a link that leads nowhere: "} + std::strerror(errno));
      return;
    }
    if (!S_ISDIR(found.st_mode)) return file(link, found);
    if (leads_back(link, {found.st_dev, found.st_ino})) {
      problem(link, "a link to a folder that it lies in: not followed");
    } else if (seen_.emplace(found.st_dev, found.st_ino).second) {
      enter(link);
    }
  }

  bool leads_back(std::string path, const Identity& target) const {
    while (true) {
      const auto slash = path.rfind('/');
      path = slash == std::string::npos ? "" : path.substr(0, slash);
      struct stat found{};
      if (::stat((root_ / path).c_str(), &found) == 0 &&
          Identity{found.st_dev, found.st_ino} == target)
        return true;
      if (path.empty()) return false;
    }
  }

  void file(const std::string& path, const struct stat& found) {
    if (!path.ends_with(".py")) return;
    const auto size = static_cast<std::uint64_t>(found.st_size);
    if (!S_ISREG(found.st_mode)) {
      problem(path, "is no regular file");
    } else if (!base::is_utf8(path)) {
      problem(base::to_utf8(path), "its name is not UTF-8");
    } else if (size > k_source_limit) {
      problem(path, "is larger (" + std::to_string(size >> 20U) + " MB) than the limit of " +
                        std::to_string(k_source_limit >> 20U) + " MB");
    } else {
      walked_.files.push_back(
          {path, size, std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec});
    }
  }

  void problem(std::string path, std::string what) {
    walked_.problems.push_back({std::move(path), std::move(what)});
  }

  fs::path root_;
  Walked walked_;
  std::set<Identity> seen_;
  std::set<std::string> links_;
};

}  // namespace

Result<Walked> walk(const fs::path& root) {
  struct stat found{};
  if (::stat(root.c_str(), &found) != 0)
    return fail(Fault::not_found,
                root.string() + ": there is no such folder (" + std::strerror(errno) + ")",
                "name a checkout of PyTorch, or its test folder");
  if (!S_ISDIR(found.st_mode))
    return fail(Fault::invalid_input, root.string() + ": is no folder",
                "name a checkout of PyTorch, or its test folder");
  return Walk{root}.run(found);
}

Source read_source(Extractor& extractor, std::string path, std::string_view bytes) {
  Source source;
  source.path = std::move(path);
  source.size = bytes.size();
  source.digest = base::sha256_hex(bytes);
  std::string repaired;
  std::string problem;
  if (!base::is_utf8(bytes)) {
    const std::string encoding = declared_encoding(bytes);
    problem = "not UTF-8";
    if (!encoding.empty()) problem += " (it says " + encoding + ")";
    repaired = base::to_utf8(bytes);
    bytes = repaired;
  }
  auto facts = extractor.extract(bytes);
  if (facts) {
    source.facts = std::move(*facts);
  } else {
    source.facts.problem = facts.error().message;
  }
  if (!problem.empty())
    source.facts.problem =
        source.facts.problem.empty() ? problem : problem + ", " + source.facts.problem;
  return source;
}

Result<void> read_tree(const fs::path& root, const std::vector<TreeFile>& files,
                       const ReadOptions& options, std::vector<Problem>& problems,
                       const std::function<Result<void>(std::size_t, Source)>& take) {
  struct Slot {
    std::optional<Source> source;
    std::string problem;
    bool done = false;
  };
  // How far readers may be ahead of the taker: what is read waits in memory.
  constexpr std::size_t k_ahead = 64;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Slot> slots(files.size());
  std::size_t next = 0;
  std::size_t taken = 0;
  bool stopped = false;
  std::optional<base::Error> broken;

  const auto work = [&] {
    auto extractor = Extractor::make();
    std::unique_lock lock{mutex};
    if (!extractor) {
      broken = extractor.error();
      stopped = true;
      changed.notify_all();
      return;
    }
    while (true) {
      changed.wait(lock, [&] { return stopped || next == files.size() || next < taken + k_ahead; });
      if (stopped || next == files.size()) return;
      const std::size_t index = next++;
      lock.unlock();
      const TreeFile& file = files[index];
      Slot slot;
      auto bytes = base::read_file(root / file.path, k_source_limit);
      if (!bytes) {
        slot.problem = bytes.error().message;
      } else {
        const std::string known = options.known ? options.known(index) : std::string{};
        if (!known.empty() && base::sha256_hex(*bytes) == known) {
          slot.source.emplace();
          slot.source->path = file.path;
          slot.source->size = bytes->size();
          slot.source->digest = known;
        } else {
          slot.source = read_source(*extractor, file.path, *bytes);
        }
        slot.source->modified = file.modified;
      }
      slot.done = true;
      lock.lock();
      slots[index] = std::move(slot);
      changed.notify_all();
    }
  };
  std::vector<std::thread> threads;
  const auto jobs =
      std::clamp<std::size_t>(options.jobs, 1, std::max<std::size_t>(1, files.size()));
  for (std::size_t i = 0; i < jobs; ++i) threads.push_back(base::start_thread(work));
  Result<void> result{};
  for (std::size_t index = 0; index < files.size(); ++index) {
    Slot slot;
    {
      std::unique_lock lock{mutex};
      changed.wait(lock, [&] { return broken || slots[index].done; });
      if (broken) break;
      slot = std::move(slots[index]);
      slots[index] = {};
      taken = index + 1;
      changed.notify_all();
    }
    if (options.on_progress) options.on_progress(index + 1);
    if (!slot.source) {
      problems.push_back({files[index].path, slot.problem});
      continue;
    }
    if (auto taken_over = take(index, std::move(*slot.source)); !taken_over) {
      result = tl::unexpected(taken_over.error());
      break;
    }
  }
  {
    const std::lock_guard lock{mutex};
    stopped = true;
    changed.notify_all();
  }
  for (auto& thread : threads) thread.join();
  if (broken) return tl::unexpected(*broken);
  return result;
}

}  // namespace crosscheck::memory
