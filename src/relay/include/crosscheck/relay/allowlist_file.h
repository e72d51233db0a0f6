#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/relay/allowlist.h"
#include "crosscheck/relay/text_source.h"
#include "crosscheck/store/store.h"

namespace crosscheck::relay {

// The allowlist in force, read from its source and again when that changes. A version that does not
// parse is recorded with its error, and the one before stays in force. Thread-safe.
class AllowlistFile {
 public:
  AllowlistFile(std::unique_ptr<TextSource> source, store::Store& store, const base::Clock& clock);

  // Puts the store's last good version in force without reading the source, for one that lies on
  // another server; false if there is none.
  [[nodiscard]] bool recall();
  // Reads it for the first time; an error when it cannot be used.
  [[nodiscard]] base::Result<void> load();
  // Looks whether it has changed, and takes it over. The error is of the store or of this
  // version; it stays in `status` until a good version is there.
  base::Result<void> poll();

  // Never null; empty before it is loaded.
  [[nodiscard]] std::shared_ptr<const Allowlist> current() const;
  // Whether a version is in force: before, nobody can be told to be listed or not.
  [[nodiscard]] bool is_loaded() const;

  struct Status {
    bool loaded = false;
    std::string digest = {};  // of the version in force
    base::Time loaded_at{};
    std::optional<base::Time> checked_at = {};  // when it was last read without an error
    std::string error = {};  // of a later version that was refused, or of reading it
  };
  [[nodiscard]] Status status() const;

 private:
  [[nodiscard]] base::Result<void> refresh();
  void keep(const base::Result<void>& done);
  [[nodiscard]] base::Result<void> note(const std::string& error);
  [[nodiscard]] base::Result<void> record(const std::string& text, const std::string& digest,
                                          const base::Result<Allowlist>& parsed);

  const std::unique_ptr<TextSource> source_;
  store::Store& store_;
  const base::Clock& clock_;
  std::mutex refreshing_;               // one reader of the source at a time
  std::optional<std::string> pending_;  // read, and not yet recorded
  std::string seen_digest_;
  std::optional<base::Error> seen_error_;  // what that version was refused for
  std::optional<std::string> noted_;       // the error, or none, that the store shows
  mutable std::mutex mutex_;               // guards what follows
  std::shared_ptr<const Allowlist> current_;
  Status status_;
};

}  // namespace crosscheck::relay
