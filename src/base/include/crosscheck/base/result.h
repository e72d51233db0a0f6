#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace crosscheck::base {

// What kind of thing went wrong. Decides the exit code (`exit_code`) and, in a server, the HTTP
// status.
enum class Fault : std::uint8_t {
  usage,          // the command line is wrong
  invalid_input,  // a file, body or argument is not what it should be
  not_found,      // a named thing does not exist
  conflict,       // contradicts what is stored
  unauthorized,   // who are you?
  forbidden,      // not you
  too_large,      // over a stated limit
  rate_limited,   // later
  busy,           // locked by another process, or a lost race: may succeed when tried again
  read_only,      // the store or disk may not be written
  full,           // no space left
  unavailable,    // another system does not answer
  environment,    // something that must be installed or present is not
  internal,       // a bug here
};

// One failure. `message` is for the person who can act on it and holds no secret; it names the
// place (file:line:column, field, URL). `remedy`, where there is one, is the next thing to do.
struct Error {
  Fault fault = Fault::internal;
  std::string message;
  std::string remedy = {};
};

template <class T, class E = Error>
using Result = tl::expected<T, E>;

[[nodiscard]] inline tl::unexpected<Error> fail(Fault fault, std::string message,
                                                std::string remedy = {}) {
  return tl::unexpected<Error>{Error{fault, std::move(message), std::move(remedy)}};
}

// `message`, and "\n  remedy: …" where there is one.
[[nodiscard]] std::string to_string(const Error& error);
[[nodiscard]] std::string_view to_string(Fault fault);

// Whether the same call may succeed later without anything being changed by a person.
[[nodiscard]] bool is_retryable(Fault fault);

// The documented exit codes of every command: 0 ok, 1 the answer is no, 2 usage, 3 bad input,
// 4 environment, 5 internal.
enum class ExitCode : int {
  ok = 0,
  no = 1,
  usage = 2,
  bad_input = 3,
  environment = 4,
  internal = 5
};
[[nodiscard]] ExitCode exit_code(Fault fault);

}  // namespace crosscheck::base
