#include "crosscheck/base/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <system_error>

namespace crosscheck::base {
namespace {

constexpr std::size_t k_sha256_size = 32;
constexpr std::string_view k_hex = "0123456789abcdef";
constexpr std::string_view k_base64url =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const unsigned char* bytes_of(std::string_view text) {
  // OpenSSL takes a null pointer for "no key given", which an empty view may hold.
  return reinterpret_cast<const unsigned char*>(text.empty() ? "" : text.data());
}

constexpr std::array<std::int8_t, 256> base64url_values() {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < k_base64url.size(); ++i) {
    values[static_cast<unsigned char>(k_base64url[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}

}  // namespace

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_sha256_hex(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string sha256_hex(std::string_view bytes) {
  std::array<char, k_sha256_size> digest{};
  unsigned size = 0;
  if (EVP_Digest(bytes_of(bytes), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()),
                 &size, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error{"OpenSSL offers no SHA-256"};
  }
  return to_hex({digest.data(), size});
}

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
  std::string digest(k_sha256_size, '\0');
  unsigned size = 0;
  if (HMAC(EVP_sha256(), bytes_of(key), static_cast<int>(key.size()), bytes_of(bytes), bytes.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &size) == nullptr) {
    throw std::runtime_error{"OpenSSL offers no HMAC-SHA256"};
  }
  return digest;
}

std::string to_hex(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += k_hex[byte >> 4];
    text += k_hex[byte & 15];
  }
  return text;
}

std::optional<std::string> from_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = hex_value(hex[i]);
    const int low = hex_value(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

std::string base64url_encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : bytes) {
    bits = (bits << 8 | static_cast<unsigned char>(c)) & 0xFFFF;
    held += 8;
    while (held >= 6) {
      held -= 6;
      text += k_base64url[bits >> held & 63];
    }
  }
  if (held > 0) text += k_base64url[bits << (6 - held) & 63];
  return text;
}

std::optional<std::string> base64url_decode(std::string_view text) {
  static constexpr auto k_values = base64url_values();
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const int value = k_values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = (bits << 6 | static_cast<std::uint32_t>(value)) & 0xFFFF;
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes += static_cast<char>(bits >> held & 255);
    }
  }
  // Left-over bits must be zero, or two texts would stand for the same bytes.
  if ((bits & ((1U << held) - 1)) != 0) return std::nullopt;
  return bytes;
}

bool equal_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(bytes_of(a), bytes_of(b), a.size()) == 0;
}

std::string random_hex(std::size_t bytes) {
  std::string random(bytes, '\0');
  for (std::size_t filled = 0; filled < bytes;) {
    const ssize_t n = getrandom(random.data() + filled, bytes - filled, 0);
    if (n > 0) {
      filled += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      throw std::system_error{errno, std::generic_category(), "getrandom"};
    }
  }
  return to_hex(random);
}

}  // namespace crosscheck::base
