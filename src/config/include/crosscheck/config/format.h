#pragma once

#include <string>

#include "crosscheck/base/result.h"
#include "crosscheck/config/document.h"

namespace crosscheck::config {

// The document's text in canonical layout: two spaces a level, items of a list one level inside
// their key, two spaces before a comment in a line, no space at the end of a line, at most one
// empty line in a row, `\n`. Order, quotes, comments and what is written in one line stay. What
// comes out says the same as the document, and formatted again it is the same: both are checked,
// and a layout for which they do not hold (keys written as `? key`) is refused.
[[nodiscard]] base::Result<std::string> format(const Document& document);

}  // namespace crosscheck::config
