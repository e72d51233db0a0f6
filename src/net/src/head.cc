#include "head.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>
#include <optional>

#include "crosscheck/base/json.h"

namespace crosscheck::net {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

tl::unexpected<Refusal> refuse(int status, std::string_view reason) {
  return tl::unexpected<Refusal>{Refusal{status, reason}};
}

std::string to_std(beast::string_view text) { return {text.data(), text.size()}; }

// Text that a store takes: percent-decoded, UTF-8 and without NUL.
std::optional<std::string> decode_text(std::string_view encoded) {
  std::optional<std::string> text = percent_decode(encoded);
  if (!text || text->find('\0') != std::string::npos || !base::is_utf8(*text)) return std::nullopt;
  return text;
}

// "/path?query" of origin form; absolute form, which proxies send, is cut down to it.
std::string_view origin_form(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    target.remove_prefix(std::min(target.size(), target.find_first_of("/?")));
    return target.empty() ? "/" : target;
  }
  return target;
}

}  // namespace

base::Result<Head, Refusal> read_head(const http::request_header<>& header) {
  Head head;
  Request& request = head.request;
  int hosts = 0;
  int lengths = 0;
  int encodings = 0;
  for (const auto& field : header) {
    const std::string value = to_std(field.value());
    if (!base::is_utf8(value)) return refuse(400, "header_not_utf8");
    if (field.name() == http::field::host) {
      ++hosts;
    } else if (field.name() == http::field::content_length) {
      ++lengths;
      if (!std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; })) {
        return refuse(400, "bad_content_length");
      }
    } else if (field.name() == http::field::transfer_encoding) {
      ++encodings;
      if (!beast::iequals(value, "chunked")) return refuse(501, "unsupported_transfer_encoding");
    } else if (field.name() == http::field::expect) {
      if (!beast::iequals(value, "100-continue")) return refuse(417, "unsupported_expectation");
      head.expects_continue = header.version() >= 11;
    }
    request.headers.add(to_std(field.name_string()), value);
  }
  // Whoever reads these otherwise than we do sees another request in the same bytes.
  if (lengths + encodings > 1) return refuse(400, "ambiguous_body_length");
  if (hosts > 1 || (hosts == 0 && header.version() >= 11)) return refuse(400, "bad_host");
  if (encodings > 0 && header.version() < 11) return refuse(400, "chunked_in_http_1_0");
  head.chunked = encodings > 0;

  request.method = to_std(header.method_string());
  if (!std::ranges::all_of(request.method,
                           [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; })) {
    return refuse(501, "unknown_method");
  }
  head.head_only = request.method == "HEAD";
  if (head.head_only) request.method = "GET";

  const std::string whole = to_std(header.target());
  std::string_view target = origin_form(whole);
  target = target.substr(0, target.find('#'));
  const std::size_t mark = target.find('?');
  std::optional<std::string> path = decode_text(target.substr(0, mark));
  if (path && path->empty() && target.starts_with('?')) path = "/";
  if (!path || !path->starts_with('/')) return refuse(400, "bad_path");
  request.path = *std::move(path);
  if (mark != std::string_view::npos) request.query = target.substr(mark + 1);
  if (!decode_text(request.query)) return refuse(400, "bad_query");
  return head;
}

Refusal refusal_of(const beast::error_code& error) {
  if (error == http::error::header_limit) return {431, "headers_too_large"};
  if (error == http::error::body_limit) return {413, "body_too_large"};
  return {400, "malformed_request"};
}

base::Result<Request, Refusal> parse_request(std::string_view bytes, std::size_t header_limit,
                                             std::size_t body_limit) {
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<std::uint32_t>(
      std::min<std::size_t>(header_limit, std::numeric_limits<std::uint32_t>::max())));
  parser.body_limit(boost::none);
  beast::error_code error;
  const auto put = [&] {
    bytes.remove_prefix(parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error));
    return !error;
  };
  if (!put()) return tl::unexpected<Refusal>{refusal_of(error)};
  base::Result<Head, Refusal> head = read_head(parser.get());
  if (!head) return tl::unexpected<Refusal>{head.error()};
  if (!head->chunked && parser.content_length().value_or(0) > body_limit) {
    return refuse(413, "body_too_large");
  }
  parser.body_limit(body_limit);
  while (!parser.is_done()) {
    if (bytes.empty()) return refuse(400, "malformed_request");
    if (!put()) return tl::unexpected<Refusal>{refusal_of(error)};
  }
  head->request.body = std::move(parser.get().body());
  return std::move(head->request);
}

}  // namespace crosscheck::net
