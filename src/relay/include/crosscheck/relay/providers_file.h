#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "crosscheck/base/result.h"
#include "crosscheck/relay/providers.h"
#include "crosscheck/relay/text_source.h"

namespace crosscheck::relay {

// The mapping of pipelines in force, read from its source and again when that changes. A version
// that does not parse leaves the one before in force. Thread-safe.
class ProvidersFile {
 public:
  explicit ProvidersFile(std::unique_ptr<TextSource> source);

  // Reads it for the first time; an error when it cannot be used, kept as `poll` keeps it.
  [[nodiscard]] base::Result<void> load() { return poll(); }
  // Looks whether it has changed, and takes it over. The error stays until a good version is there,
  // and is logged once.
  base::Result<void> poll();

  // Never null; empty before `load`.
  [[nodiscard]] std::shared_ptr<const Providers> current() const;
  // Why the source's version is not in force; empty when it is.
  [[nodiscard]] std::string error() const;

 private:
  [[nodiscard]] base::Result<void> refresh();

  const std::unique_ptr<TextSource> source_;
  std::mutex refreshing_;                  // one reader of the source at a time
  std::optional<base::Error> seen_error_;  // what its version was refused for
  mutable std::mutex mutex_;               // guards what follows
  std::shared_ptr<const Providers> current_;
  std::string error_;
};

}  // namespace crosscheck::relay
