#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosscheck/memory/memory.h"
#include "crosscheck/store/sqlite_error.h"
#include "meaning.h"

namespace crosscheck::memory {

// The connection, and what its users share.
class Memory::Impl {
 public:
  // Throws SQLite::Exception.
  Impl(std::filesystem::path path, int flags)
      : path_{std::move(path)}, db_{path_.string(), flags | SQLITE_OPEN_NOMUTEX, 5000} {}

  [[nodiscard]] SQLite::Database& db() { return db_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // The vectors of all tests by this model (empty: the built-in ones), read once and again when
  // another connection has changed the file.
  const Vectors& vectors(const std::string& model);
  // This connection's own changes have no new version.
  void forget_vectors() { vectors_version_.reset(); }

  // Runs `body`, which returns a Result and may throw SQLite::Exception.
  template <class F>
  auto guard(F&& body) -> decltype(body()) {
    try {
      return body();
    } catch (const SQLite::Exception& exception) {
      return tl::unexpected(error_of(exception, path_));
    }
  }

  static base::Error error_of(const SQLite::Exception& exception,
                              const std::filesystem::path& path) {
    base::Error error =
        store::sqlite_error(exception.getErrorCode() & 0xff, exception.getExtendedErrorCode(),
                            exception.what(), 0, path.string(), "", "--memory");
    if ((exception.getErrorCode() & 0xff) == SQLITE_CORRUPT)
      error.remedy = "remove it and make it anew: crosscheck index TREE";
    return error;
  }

 private:
  std::filesystem::path path_;
  SQLite::Database db_;
  std::optional<std::int64_t> vectors_version_;
  std::map<std::string, Vectors> vectors_;  // by model
};

// Lists are kept as lines.
[[nodiscard]] std::string join(const std::vector<std::string>& items);
[[nodiscard]] std::vector<std::string> split(std::string_view text);
[[nodiscard]] inline std::string_view text_of(SQLite::Statement& row, int column) {
  const SQLite::Column value = row.getColumn(column);
  return {value.getText(), static_cast<std::size_t>(value.getBytes())};
}
[[nodiscard]] inline std::string_view blob_of(SQLite::Statement& row, int column) {
  const SQLite::Column value = row.getColumn(column);
  const int size = value.getBytes();
  return {static_cast<const char*>(value.getBlob()), static_cast<std::size_t>(size)};
}
[[nodiscard]] inline Kind kind_of(std::int64_t id) { return static_cast<Kind>(id & 3); }

// Of IndexedText, in its order.
inline constexpr std::string_view k_fields[] = {"name", "path",    "decorators",
                                                "apis", "symbols", "doc"};
// One or two lines on what a test does, from what its author wrote about it and what it uses.
[[nodiscard]] std::string summary_of(const Definition& definition);
[[nodiscard]] IndexedText indexed_text(std::string_view path, const Definition& definition);

}  // namespace crosscheck::memory
