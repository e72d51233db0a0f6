#pragma once

#include <string>

namespace crosscheck::cli {

// Who runs this command, for the audit log.
struct Actor {
  [[nodiscard]] std::string name() const { return "user:" + login; }
  [[nodiscard]] std::string origin() const { return host + " (command line)"; }

  std::string login;
  std::string host;
};
[[nodiscard]] Actor command_line_actor();

}  // namespace crosscheck::cli
