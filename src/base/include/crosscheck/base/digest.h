#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace crosscheck::base {

// Lower-case hex, 64 characters.
[[nodiscard]] std::string sha256_hex(std::string_view bytes);
// Whether `text` has that form.
[[nodiscard]] bool is_sha256_hex(std::string_view text);
// The 32 raw bytes of HMAC-SHA256.
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view bytes);
[[nodiscard]] std::string to_hex(std::string_view bytes);
// Accepts both letter cases; nothing if `hex` is not an even number of hex digits.
[[nodiscard]] std::optional<std::string> from_hex(std::string_view hex);
// 0 to 15; -1 for what is no hex digit.
[[nodiscard]] int hex_value(char c);

[[nodiscard]] std::string base64url_encode(std::string_view bytes);  // no padding
[[nodiscard]] std::optional<std::string> base64url_decode(std::string_view text);

// Takes the same time wherever the first difference is; lengths may leak.
[[nodiscard]] bool equal_constant_time(std::string_view a, std::string_view b);

// `bytes` random bytes from the operating system, as hex. For ids and secrets.
[[nodiscard]] std::string random_hex(std::size_t bytes);

}  // namespace crosscheck::base
