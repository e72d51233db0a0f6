#pragma once

#include <string>
#include <string_view>

namespace crosscheck::store {

// SQLite's spelling of a statement: every `$` that begins a numbered placeholder becomes `?`,
// outside of quotes and comments. (SQLite numbers `$n` by first appearance, `?n` by its
// number.) Same length.
[[nodiscard]] std::string to_sqlite_placeholders(std::string_view sql);

// Whether something other than blanks and comments follows a `;`.
[[nodiscard]] bool has_second_statement(std::string_view sql);

}  // namespace crosscheck::store
