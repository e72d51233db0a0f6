#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "crosscheck/base/result.h"

namespace crosscheck::relay {

// Where a text is kept that people change while the server runs. For one thread at a time.
class TextSource {
 public:
  virtual ~TextSource() = default;
  // For errors and pages: a path or an address.
  [[nodiscard]] virtual const std::string& name() const = 0;
  // Whether reading depends on another server: then the last good version is as good a start.
  [[nodiscard]] virtual bool is_remote() const { return false; }
  // The text, or nothing when it is as it was returned last. After an error it is read anew.
  [[nodiscard]] virtual base::Result<std::optional<std::string>> read() = 0;
};

// A file of at most `limit` bytes; `what` it is, for errors.
[[nodiscard]] std::unique_ptr<TextSource> file_source(std::filesystem::path path, std::string what,
                                                      std::size_t limit);

}  // namespace crosscheck::relay
