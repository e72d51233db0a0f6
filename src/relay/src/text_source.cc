#include "crosscheck/relay/text_source.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "crosscheck/base/file.h"

namespace crosscheck::relay {
namespace {

using base::Result;

class FileSource final : public TextSource {
 public:
  FileSource(std::filesystem::path path, std::string what, std::size_t limit)
      : path_{std::move(path)}, name_{path_.string()}, what_{std::move(what)}, limit_{limit} {}

  const std::string& name() const override { return name_; }

  Result<std::optional<std::string>> read() override {
    const std::string seen = std::exchange(stamp_, {});
    // Taken before reading: a change in between is seen at the next look.
    auto stamp = stamp_of();
    if (!stamp) return tl::unexpected(stamp.error());
    std::optional<std::string> text;
    if (*stamp != seen) {
      auto bytes = base::read_file(path_, limit_);
      if (!bytes) return tl::unexpected(bytes.error());
      text = std::move(*bytes);
    }
    stamp_ = std::move(*stamp);
    return text;
  }

 private:
  Result<std::string> stamp_of() const {
    struct stat s{};
    if (::stat(path_.c_str(), &s) != 0)
      return base::fail(base::Fault::invalid_input,
                        name_ + ": " + what_ + " cannot be read: " + std::strerror(errno));
    return std::to_string(s.st_size) + ":" + std::to_string(s.st_ino) + ":" +
           std::to_string(s.st_mtim.tv_sec) + "." + std::to_string(s.st_mtim.tv_nsec) + ":" +
           std::to_string(s.st_ctim.tv_sec) + "." + std::to_string(s.st_ctim.tv_nsec);
  }

  const std::filesystem::path path_;
  const std::string name_;
  const std::string what_;
  const std::size_t limit_;
  std::string stamp_;  // size, inode and times of what was read last
};

}  // namespace

std::unique_ptr<TextSource> file_source(std::filesystem::path path, std::string what,
                                        std::size_t limit) {
  return std::make_unique<FileSource>(std::move(path), std::move(what), limit);
}

}  // namespace crosscheck::relay
