#include "crosscheck/store/sqlite_error.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>

#include "check.h"

namespace crosscheck::store {

using base::Error;
using base::Fault;

Error io_error(Fault fault, const std::string& path, const std::string& reason,
               std::string_view option) {
  if (fault == Fault::full) {
    return {fault, "no space left for the database " + path + ": " + reason,
            "free disk space, then try again; nothing was half-written"};
  }
  if (fault == Fault::read_only) {
    return {fault, "the database " + path + " may not be written: " + reason,
            "make the file and its folder writable, or name another with " + std::string{option}};
  }
  return {fault, "the database " + path + " cannot be used: " + reason, ""};
}

Fault fault_of_errno(int number) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Fault::full;
    case EACCES:
    case EPERM:
    case EROFS:
      return Fault::read_only;
    case EMFILE:
    case ENFILE:
      return Fault::environment;
    default:
      return Fault::unavailable;
  }
}

Error sqlite_error(int code, int extended, const std::string& text, int number,
                   const std::string& path, std::string_view sql, std::string_view option) {
  const std::string reason = number == 0 ? text : text + " (" + std::strerror(number) + ")";
  switch (code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Fault::busy, "the database " + path + " is locked by another process",
              "try again when that process is done (fuser " + path + " names it)"};
    case SQLITE_READONLY:
      if (extended == SQLITE_READONLY_DBMOVED) {
        return {Fault::unavailable, "the database " + path + " was moved or removed while in use",
                "put it back, or start again"};
      }
      return io_error(Fault::read_only, path, reason, option);
    case SQLITE_PERM:
      return io_error(Fault::read_only, path, reason, option);
    case SQLITE_CANTOPEN: {
      const Fault fault = fault_of_errno(number);
      return io_error(fault == Fault::unavailable ? Fault::read_only : fault, path, reason, option);
    }
    case SQLITE_FULL:
      return io_error(Fault::full, path, reason, option);
    case SQLITE_IOERR: {
      const Fault fault = fault_of_errno(number);
      return io_error(fault == Fault::full ? fault : Fault::unavailable, path, reason, option);
    }
    case SQLITE_CORRUPT:
      return {Fault::invalid_input, "the database " + path + " is damaged: " + reason,
              "restore it from a backup, or save what can be read: sqlite3 " + path + " .recover"};
    case SQLITE_NOTADB:
      return {Fault::invalid_input, path + " is not a SQLite database",
              "name another file with " + std::string{option}};
    case SQLITE_CONSTRAINT:
      return {Fault::conflict, text + " (" + summary(sql) + ")", ""};
    case SQLITE_TOOBIG:
      return {Fault::too_large, text + " (" + summary(sql) + ")", ""};
    default:
      return {Fault::internal, "SQLite: " + reason + " (" + summary(sql) + ")", ""};
  }
}

}  // namespace crosscheck::store
