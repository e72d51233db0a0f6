#pragma once

#include <string>
#include <string_view>

#include "crosscheck/base/result.h"

// What SQLite's errors mean to people, for every file of its kind.
namespace crosscheck::store {

// A database that cannot be used as asked. `option` names another: "--db", "--memory".
[[nodiscard]] base::Error io_error(base::Fault fault, const std::string& path,
                                   const std::string& reason, std::string_view option = "--db");
// What a failed system call means for it.
[[nodiscard]] base::Fault fault_of_errno(int number);
// `text` is SQLite's message, `number` the errno of the system call behind it, or 0.
[[nodiscard]] base::Error sqlite_error(int code, int extended, const std::string& text, int number,
                                       const std::string& path, std::string_view sql,
                                       std::string_view option = "--db");

}  // namespace crosscheck::store
