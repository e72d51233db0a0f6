#include "crosscheck/base/result.h"

namespace crosscheck::base {

std::string to_string(const Error& error) {
  if (error.remedy.empty()) return error.message;
  return error.message + "\n  remedy: " + error.remedy;
}

std::string_view to_string(Fault fault) {
  switch (fault) {
    case Fault::usage:
      return "usage";
    case Fault::invalid_input:
      return "invalid_input";
    case Fault::not_found:
      return "not_found";
    case Fault::conflict:
      return "conflict";
    case Fault::unauthorized:
      return "unauthorized";
    case Fault::forbidden:
      return "forbidden";
    case Fault::too_large:
      return "too_large";
    case Fault::rate_limited:
      return "rate_limited";
    case Fault::busy:
      return "busy";
    case Fault::read_only:
      return "read_only";
    case Fault::full:
      return "full";
    case Fault::unavailable:
      return "unavailable";
    case Fault::environment:
      return "environment";
    case Fault::internal:
      return "internal";
  }
  return "internal";
}

bool is_retryable(Fault fault) {
  return fault == Fault::rate_limited || fault == Fault::busy || fault == Fault::unavailable;
}

ExitCode exit_code(Fault fault) {
  switch (fault) {
    case Fault::usage:
      return ExitCode::usage;
    case Fault::invalid_input:
    case Fault::not_found:
    case Fault::conflict:
    case Fault::too_large:
      return ExitCode::bad_input;
    case Fault::unauthorized:
    case Fault::forbidden:
    case Fault::rate_limited:
    case Fault::busy:
    case Fault::read_only:
    case Fault::full:
    case Fault::unavailable:
    case Fault::environment:
      return ExitCode::environment;
    case Fault::internal:
      return ExitCode::internal;
  }
  return ExitCode::internal;
}

}  // namespace crosscheck::base
