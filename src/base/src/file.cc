#include "crosscheck/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <system_error>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/process.h"

namespace crosscheck::base {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

tl::unexpected<Error> read_failure(const std::filesystem::path& path, int error) {
  const bool absent = error == ENOENT || error == ENOTDIR;
  const Fault fault = absent            ? Fault::not_found
                      : error == EISDIR ? Fault::invalid_input
                                        : Fault::environment;
  return fail(fault, fmt::format("cannot read {}: {}", path.string(), reason(error)));
}

tl::unexpected<Error> write_failure(const std::filesystem::path& path, int error) {
  Fault fault = Fault::environment;
  if (error == ENOSPC || error == EDQUOT) fault = Fault::full;
  if (error == EROFS || error == EACCES || error == EPERM) fault = Fault::read_only;
  return fail(fault, fmt::format("cannot write {}: {}", path.string(), reason(error)));
}

// The error number, 0 when all was written.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Where writing cannot mean replacing: a device, a pipe, a stream of this process.
std::optional<Fd> open_in_place(const std::filesystem::path& path) {
  if (path == "/dev/stdout") return Fd{::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)};
  if (path == "/dev/stderr") return Fd{::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)};
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return std::nullopt;
  return Fd{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};  // a folder is refused here
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, std::size_t limit) {
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) return read_failure(path, errno);
  const auto too_large = [&] {
    return fail(Fault::too_large, fmt::format("{} is over {} bytes", path.string(), limit));
  };
  std::string bytes;
  struct stat status{};
  if (::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size > limit) return too_large();
    bytes.reserve(size);
  }
  std::array<char, 64 * 1024> chunk;
  while (true) {
    const ssize_t n = ::read(file.get(), chunk.data(), chunk.size());
    if (n == 0) return bytes;
    if (n < 0) {
      if (errno == EINTR) continue;
      return read_failure(path, errno);
    }
    if (static_cast<std::size_t>(n) > limit - bytes.size()) return too_large();
    bytes.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view bytes,
                                   unsigned mode) {
  if (const auto special = open_in_place(path)) {
    const int error = *special ? write_all(special->get(), bytes) : errno;
    if (error != 0) return write_failure(path, error);
    return {};
  }
  const std::string beside = fmt::format("{}.{}.tmp", path.string(), random_hex(6));
  Fd file{::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode & 0700U)};
  if (!file) return write_failure(path, errno);
  int error = 0;
  if (::fchmod(file.get(), mode) != 0) error = errno;
  if (error == 0) error = write_all(file.get(), bytes);
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  file.reset();
  if (error == 0 && ::rename(beside.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(beside.c_str());
    return write_failure(path, error);
  }
  // The new name is durable once its folder is; a file system that cannot sync folders has no more
  // to give.
  const auto folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path{"."};
  const Fd directory{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory) (void)::fsync(directory.get());
  return {};
}

}  // namespace crosscheck::base
