#pragma once

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/message.hpp>
#include <cstddef>
#include <string_view>

#include "crosscheck/base/result.h"
#include "crosscheck/net/http.h"

// From bytes to Request, without sockets. What Beast accepts and we do not is refused here.
namespace crosscheck::net {

// Answered with `status` and {"error":"<reason>"}; the connection is closed after it, as where the
// next request begins is unknown.
struct Refusal {
  int status = 400;
  std::string_view reason;
};

struct Head {
  Request request;  // without body and remote; HEAD has become GET
  bool head_only = false;
  bool chunked = false;
  bool expects_continue = false;
};

[[nodiscard]] base::Result<Head, Refusal> read_head(
    const boost::beast::http::request_header<>& header);

// For an error of Beast's parser.
[[nodiscard]] Refusal refusal_of(const boost::beast::error_code& error);

// One whole request, as it would be read from a connection.
[[nodiscard]] base::Result<Request, Refusal> parse_request(std::string_view bytes,
                                                           std::size_t header_limit,
                                                           std::size_t body_limit);

}  // namespace crosscheck::net
