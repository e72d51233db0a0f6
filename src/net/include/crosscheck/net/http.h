#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Plain values: handlers are functions from Request to Response and know no sockets.
namespace crosscheck::net {

// Names compare without case; order is kept; a name may repeat.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<std::pair<std::string, std::string>> fields) : fields_{fields} {}
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const;  // the first
  void add(std::string name, std::string value);
  void set(std::string name, std::string value);  // replaces all of that name
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& fields() const {
    return fields_;
  }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// The first value of `name` in a form or query ("a=1&b=2"), percent- and plus-decoded.
[[nodiscard]] std::optional<std::string> form_value(std::string_view form, std::string_view name);

struct Request {
  std::string method;  // upper case
  std::string path;    // percent-decoded, without the query; begins with '/'
  std::string query;   // raw, without '?'
  Headers headers;
  std::string body;
  std::string remote;           // peer address
  std::string scheme = "http";  // or "https"

  // The first value of a query parameter.
  [[nodiscard]] std::optional<std::string> parameter(std::string_view name) const;
};

struct Response {
  int status = 200;
  Headers headers;
  std::string body;

  [[nodiscard]] static Response text(int status, std::string body);
  [[nodiscard]] static Response html(int status, std::string body);
  [[nodiscard]] static Response json(int status, std::string body);
};

// Path segments between slashes: "/b/org/repo" is {"b","org","repo"}; a trailing slash gives a last
// empty segment.
[[nodiscard]] std::vector<std::string_view> split_path(std::string_view path);
// Whether a URL's host is this machine: 127.0.0.0/8, [::1], localhost and names below it (RFC 6761,
// which libcurl resolves so by itself).
[[nodiscard]] bool is_loopback_host(std::string_view host);
[[nodiscard]] std::string percent_encode(
    std::string_view text);  // everything but unreserved characters
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);

}  // namespace crosscheck::net
