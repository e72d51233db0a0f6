#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "crosscheck/base/result.h"

namespace crosscheck::store {

enum class Replace : std::uint8_t { no, yes };
enum class Force : std::uint8_t { no, yes };  // although a relay is connected to it (PostgreSQL)

// Copies the store at `url`, as it is at one moment, into a new file, which only its owner may
// read, while others go on using it.
// SQLite: a SQLite file, through the online backup interface, checked before it gets its name.
// PostgreSQL: pg_dump's custom format; `environment` with the command to run where pg_dump is not
// installed. `conflict` when the file exists.
[[nodiscard]] base::Result<void> backup(const std::string& url, const std::filesystem::path& file);

// Puts a backup in the place of the store at `url`, and brings its schema forward. Without
// `Replace::yes` the store must be missing or empty. What was there before is kept beside a SQLite
// file as `<file>.replaced`, and is lost from PostgreSQL. `busy` when a program has the store open,
// `invalid_input` when the backup is damaged or not crosscheck's.
[[nodiscard]] base::Result<void> restore(const std::string& url, const std::filesystem::path& file,
                                         Replace replace, Force force = Force::no);

}  // namespace crosscheck::store
