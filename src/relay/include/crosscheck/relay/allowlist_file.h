#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/relay/allowlist.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

// The allowlist in force, read from a file and again when that changes. A version that does not
// parse is recorded with its error, and the one before stays in force. Thread-safe.
class AllowlistFile {
 public:
  AllowlistFile(std::filesystem::path path, store::Store& store, const base::Clock& clock);

  // Reads the file for the first time; an error when it cannot be used.
  [[nodiscard]] base::Result<void> load();
  // Looks whether the file has changed, and takes it over. The error is of the store or of this
  // version; it stays in `status` until a good version is there.
  base::Result<void> poll();

  // Never null; empty before `load`.
  [[nodiscard]] std::shared_ptr<const Allowlist> current() const;

  struct Status {
    bool loaded = false;
    std::string digest;  // of the version in force
    base::Time loaded_at{};
    std::string error;  // of a later version that was refused, or of reading the file
  };
  [[nodiscard]] Status status() const;

 private:
  [[nodiscard]] base::Result<void> refresh(bool force);
  [[nodiscard]] base::Result<void> record(const std::string& text, const std::string& digest,
                                          const base::Result<Allowlist>& parsed);

  const std::filesystem::path path_;
  store::Store& store_;
  const base::Clock& clock_;
  std::mutex refreshing_;   // one reader of the file at a time
  std::string seen_stamp_;  // size, inode and times of what was read last
  std::string seen_digest_;
  std::optional<base::Error> seen_error_;  // what that version was refused for
  mutable std::mutex mutex_;               // guards what follows
  std::shared_ptr<const Allowlist> current_;
  Status status_;
};

}  // namespace crosscheck::relay
