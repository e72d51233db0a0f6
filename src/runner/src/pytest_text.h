#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "crosscheck/base/time.h"

// What a failure's text says as pytest lays it out, in JUnit as on the console.
namespace crosscheck::runner {

struct PytestError {
  std::string type;     // the exception's name; empty if the text does not tell
  std::string message;  // without the type
};

// From the traceback's last "E   " lines and its closing "file.py:7: ValueError"; `summary` is what
// stands where the text has none ("ValueError: fixture broke"). With both, the text is believed:
// old JUnit writers lose a message's line breaks.
[[nodiscard]] PytestError pytest_error(std::string_view text, std::string_view summary);

// "worker 'gw0' crashed while running 'test_x.py::test_y'": the node id.
[[nodiscard]] std::optional<std::string> crashed_node(std::string_view text);

// The limit that pytest-timeout says was exceeded.
[[nodiscard]] std::optional<base::Duration> timeout_limit(std::string_view message);

// Whether pytest says that a test passed although it must fail.
[[nodiscard]] bool is_unexpected_success(std::string_view message);

}  // namespace crosscheck::runner
