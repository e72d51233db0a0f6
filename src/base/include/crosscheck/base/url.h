#pragma once

#include <string_view>

namespace crosscheck::base {

// Whether `text` is an address that may become a link or a setting: http or https, a host, no user
// info, at most 2,048 bytes, and no space, control character, quote, angle bracket or backslash.
[[nodiscard]] bool is_web_url(std::string_view text);

}  // namespace crosscheck::base
