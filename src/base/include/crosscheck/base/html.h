#pragma once

#include <string>
#include <string_view>

namespace crosscheck::base {

// `text` as it stands in an element or a quoted attribute of HTML.
[[nodiscard]] std::string escape_html(std::string_view text);

}  // namespace crosscheck::base
