#include "crosscheck/relay/answer.h"

#include <boost/json/serialize.hpp>

#include "crosscheck/base/log.h"

namespace crosscheck::relay {

int http_status(base::Fault fault) {
  using enum base::Fault;
  switch (fault) {
    case usage:
    case invalid_input:
      return 400;
    case unauthorized:
      return 401;
    case forbidden:
      return 403;
    case not_found:
      return 404;
    case conflict:
      return 409;
    case too_large:
      return 413;
    case rate_limited:
      return 429;
    case busy:
    case read_only:
    case full:
    case unavailable:
    case environment:
      return 503;
    case internal:
      return 500;
  }
  return 500;
}

net::Response answer_json(int status, const base::json::object& body) {
  return net::Response::json(status, base::json::serialize(body));
}

net::Response refuse(const base::Error& error, std::string_view event) {
  const int status = http_status(error.fault);
  base::json::object body{{"ok", false}, {"error", to_string(error.fault)}};
  if (status < 500) {
    body["detail"] = error.message;
    if (!error.remedy.empty()) body["remedy"] = error.remedy;
    base::log::info(event, {{"status", status}, {"reason", error.message}});
    return answer_json(status, body);
  }
  base::log::error(
      event, {{"status", status}, {"fault", to_string(error.fault)}, {"error", error.message}});
  body["detail"] = "the relay cannot confirm this at the moment";
  // Also when a commit was in doubt: every call may be repeated without harm.
  body["remedy"] = "send it again: a repeat of what was taken changes nothing";
  auto response = answer_json(status, body);
  response.headers.set("Retry-After", "5");
  return response;
}

}  // namespace crosscheck::relay
