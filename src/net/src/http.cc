#include "crosscheck/net/http.h"

#include <arpa/inet.h>

#include <algorithm>

#include "crosscheck/base/digest.h"

namespace crosscheck::net {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

Response with_type(int status, std::string body, std::string type) {
  return Response{status, {{"Content-Type", std::move(type)}}, std::move(body)};
}

}  // namespace

std::optional<std::string_view> Headers::get(std::string_view name) const {
  const auto at = std::ranges::find_if(
      fields_, [&](const auto& field) { return same_name(field.first, name); });
  if (at == fields_.end()) return std::nullopt;
  return at->second;
}

void Headers::add(std::string name, std::string value) {
  fields_.emplace_back(std::move(name), std::move(value));
}

void Headers::set(std::string name, std::string value) {
  std::erase_if(fields_, [&](const auto& field) { return same_name(field.first, name); });
  add(std::move(name), std::move(value));
}

std::optional<std::string> form_value(std::string_view form, std::string_view name) {
  const auto decode = [](std::string_view text) {
    std::string spaced{text};
    std::ranges::replace(spaced, '+', ' ');
    return percent_decode(spaced);
  };
  std::string_view rest = form;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (decode(pair.substr(0, equals)) != name) continue;
    return decode(equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1));
  }
  return std::nullopt;
}

std::optional<std::string> Request::parameter(std::string_view name) const {
  return form_value(query, name);
}

Response Response::text(int status, std::string body) {
  return with_type(status, std::move(body), "text/plain; charset=utf-8");
}

Response Response::html(int status, std::string body) {
  return with_type(status, std::move(body), "text/html; charset=utf-8");
}

Response Response::json(int status, std::string body) {
  return with_type(status, std::move(body), "application/json");
}

std::vector<std::string_view> split_path(std::string_view path) {
  if (path.starts_with('/')) path.remove_prefix(1);
  std::vector<std::string_view> segments;
  while (true) {
    const std::size_t slash = path.find('/');
    segments.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

bool is_loopback_host(std::string_view host) {
  if (host == "localhost" || host.ends_with(".localhost") || host == "[::1]") return true;
  in_addr address{};
  return inet_pton(AF_INET, std::string{host}.c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> 24U == 127;
}

std::string percent_encode(std::string_view text) {
  static constexpr std::string_view k_digits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += k_digits[byte >> 4U];
      out += k_digits[byte & 15U];
    }
  }
  return out;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = base::hex_value(text[i + 1]);
    const int low = base::hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace crosscheck::net
