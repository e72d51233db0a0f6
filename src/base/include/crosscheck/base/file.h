#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "crosscheck/base/result.h"

namespace crosscheck::base {

// Errors name the path and the system's reason; over `limit` bytes is `too_large`.
[[nodiscard]] Result<std::string> read_file(const std::filesystem::path& path,
                                            std::size_t limit = std::size_t{1} << 30);

// Written beside, fsynced, renamed over `path`: a reader sees the old or the new bytes, never half.
// `mode` is applied before the first byte is written (0600 for keys). What is there and no regular
// file (/dev/null, /dev/stdout, a pipe) is written to as it is; a folder is refused.
[[nodiscard]] Result<void> write_file_atomically(const std::filesystem::path& path,
                                                 std::string_view bytes, unsigned mode = 0644);

}  // namespace crosscheck::base
