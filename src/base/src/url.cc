#include "crosscheck/base/url.h"

#include <algorithm>

#include "crosscheck/base/repo_name.h"

namespace crosscheck::base {

bool is_web_url(std::string_view text) {
  const auto is_plain = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != 0x7f && std::string_view{"\"<>\\"}.find(c) == std::string::npos;
  };
  if (text.size() > 2048 || !std::ranges::all_of(text, is_plain)) return false;
  const std::string start = to_lower_ascii(text.substr(0, 8));
  if (!start.starts_with("https://") && !start.starts_with("http://")) return false;
  const std::string_view rest = text.substr(text.find("//") + 2);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  return !authority.empty() && authority.find('@') == std::string_view::npos;
}

}  // namespace crosscheck::base
