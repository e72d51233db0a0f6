#pragma once

#include <string>

namespace crosscheck::cli {

// Who runs this command, for the audit log.
struct Actor {
  std::string name;    // "user:<login>"
  std::string origin;  // "<host> (command line)"
};
[[nodiscard]] Actor command_line_actor();

}  // namespace crosscheck::cli
