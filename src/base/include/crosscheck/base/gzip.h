#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "crosscheck/base/result.h"

namespace crosscheck::base {

// Deterministic: no name and no time in the header, so equal input gives equal bytes.
[[nodiscard]] std::string gzip(std::string_view bytes);

// Fails with `too_large` as soon as the output would pass `limit` bytes (a bomb costs no memory),
// and with `invalid_input` if the data is not gzip, is cut off, or is followed by garbage.
[[nodiscard]] Result<std::string> gunzip(std::string_view bytes, std::size_t limit);

}  // namespace crosscheck::base
