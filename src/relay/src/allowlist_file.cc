#include "crosscheck/relay/allowlist_file.h"

#include <boost/json/serialize.hpp>
#include <utility>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"

namespace crosscheck::relay {
namespace {

using base::Result;
namespace log = base::log;

// `backends` as the list has it. `since` moves only with the level, or when a backend comes back.
Result<void> write_backends(store::Tx& tx, const Allowlist& list, base::Time now) {
  if (auto done = tx.execute("UPDATE backends SET listed = 2 WHERE listed = 1"); !done)
    return tl::unexpected(done.error());
  for (const Backend& b : list.backends()) {
    base::json::array oncalls;
    for (const std::string& name : b.oncalls) oncalls.emplace_back(name);
    auto done = tx.execute(
        "INSERT INTO backends (repo_key, repo, level, device, oncalls, listed, since) "
        "VALUES ($1, $2, $3, $4, $5, 1, $6) ON CONFLICT (repo_key) DO UPDATE SET "
        "repo = excluded.repo, "
        "since = CASE WHEN backends.level = excluded.level AND backends.listed <> 0 "
        "THEN backends.since ELSE excluded.since END, "
        "level = excluded.level, device = excluded.device, oncalls = excluded.oncalls, listed = 1",
        {b.repo.key(), b.repo.full_name(), to_string(b.level),
         b.device.empty() ? std::nullopt : std::optional{b.device}, base::json::serialize(oncalls),
         now});
    if (!done) return tl::unexpected(done.error());
  }
  if (auto done = tx.execute("UPDATE backends SET listed = 0, since = $1 WHERE listed = 2", {now});
      !done)
    return tl::unexpected(done.error());
  return {};
}

// A file that lost its content is more likely a write that was cut off than the wish to list
// nobody.
Result<Allowlist> parse_next(std::string_view text, const std::string& source,
                             const Allowlist& current) {
  auto parsed = parse_allowlist(text, source);
  const bool blank = text.find_first_not_of(" \t\r\n") == std::string_view::npos;
  if (parsed && blank && !current.backends().empty())
    return base::fail(base::Fault::invalid_input, source + ": there is nothing in it any more",
                      "write what it lists; `L1: []` lists nobody");
  return parsed;
}

}  // namespace

AllowlistFile::AllowlistFile(std::unique_ptr<TextSource> source, store::Store& store,
                             const base::Clock& clock)
    : source_{std::move(source)},
      store_{store},
      clock_{clock},
      current_{std::make_shared<const Allowlist>()} {}

Result<void> AllowlistFile::load() {
  const std::lock_guard one{refreshing_};
  auto done = refresh();
  if (done) keep(done);
  return done;
}

Result<void> AllowlistFile::poll() {
  const std::lock_guard one{refreshing_};
  auto done = refresh();
  keep(done);
  return done;
}

// Puts what came of reading where it is shown.
void AllowlistFile::keep(const Result<void>& done) {
  const std::string error = done ? std::string{} : base::to_string(done.error());
  {
    const std::lock_guard lock{mutex_};
    if (!error.empty() && status_.error != error) log::error("allowlist", {{"error", error}});
    status_.error = error;
    if (done) status_.checked_at = clock_.now();
  }
  // A store that fails now is told next time.
  if (noted_ != error && note(error)) noted_ = error;
}

Result<void> AllowlistFile::note(const std::string& error) {
  return store_.write([&](store::Tx& tx) -> Result<void> {
    auto done = tx.execute("DELETE FROM allowlist_errors");
    if (done && !error.empty())
      done = tx.execute("INSERT INTO allowlist_errors (source, error, since) VALUES ($1, $2, $3)",
                        {source_->name(), base::to_utf8(error), clock_.now()});
    if (!done) return tl::unexpected(done.error());
    return {};
  });
}

bool AllowlistFile::recall() {
  const auto rows = store_.read_value([&](store::Tx& tx) {
    return tx.query(
        "SELECT text, digest, loaded_at FROM allowlist_versions "
        "WHERE source = $1 AND error IS NULL ORDER BY id DESC LIMIT 1",
        {source_->name()});
  });
  if (!rows || rows->empty()) return false;
  const auto& row = rows->front();
  auto parsed = parse_allowlist(row.text(0), source_->name());
  if (!parsed) return false;
  const std::lock_guard lock{mutex_};
  current_ = std::make_shared<const Allowlist>(std::move(*parsed));
  status_ = {.loaded = true, .digest = row.text(1), .loaded_at = row.time(2)};
  return true;
}

Result<void> AllowlistFile::refresh() {
  auto text = source_->read();
  if (!text) return tl::unexpected(text.error());
  if (*text) pending_ = std::move(*text);
  if (!pending_) {
    if (seen_error_) return tl::unexpected(*seen_error_);
    return {};
  }
  const std::string digest = base::sha256_hex(*pending_);
  if (digest != seen_digest_) {
    auto parsed = parse_next(*pending_, source_->name(), *current());
    // Not UTF-8: an engine would refuse the text itself.
    if (auto done = record(base::to_utf8(*pending_), digest, parsed); !done) return done;
    seen_digest_ = digest;
    if (parsed) {
      seen_error_.reset();
      log::info("allowlist.loaded", {{"source", source_->name()},
                                     {"backends", parsed->backends().size()},
                                     {"digest", digest.substr(0, 12)}});
      const std::lock_guard lock{mutex_};
      current_ = std::make_shared<const Allowlist>(std::move(*parsed));
      status_ = {.loaded = true, .digest = digest, .loaded_at = clock_.now()};
    } else {
      seen_error_ = parsed.error();
    }
  }
  pending_.reset();
  if (seen_error_) return tl::unexpected(*seen_error_);
  return {};
}

Result<void> AllowlistFile::record(const std::string& text, const std::string& digest,
                                   const Result<Allowlist>& parsed) {
  const auto now = clock_.now();
  const std::optional<std::string> error =
      parsed ? std::nullopt : std::optional{base::to_utf8(base::to_string(parsed.error()))};
  return store_.write([&](store::Tx& tx) -> Result<void> {
    if (parsed)
      if (auto done = write_backends(tx, *parsed, now); !done) return done;
    auto last = tx.query("SELECT digest FROM allowlist_versions ORDER BY id DESC LIMIT 1");
    if (!last) return tl::unexpected(last.error());
    if (!last->empty() && last->front().text(0) == digest) return {};
    auto done = tx.execute(
        "INSERT INTO allowlist_versions (digest, source, text, error, loaded_at) "
        "VALUES ($1, $2, $3, $4, $5)",
        {digest, source_->name(), text, error, now});
    if (!done) return tl::unexpected(done.error());
    return {};
  });
}

std::shared_ptr<const Allowlist> AllowlistFile::current() const {
  const std::lock_guard lock{mutex_};
  return current_;
}

bool AllowlistFile::is_loaded() const {
  const std::lock_guard lock{mutex_};
  return status_.loaded;
}

AllowlistFile::Status AllowlistFile::status() const {
  const std::lock_guard lock{mutex_};
  return status_;
}

}  // namespace crosscheck::relay
