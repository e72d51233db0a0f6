#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "crosscheck/store/store.h"
#include "migrate.h"

namespace crosscheck::store {

[[nodiscard]] base::Result<std::unique_ptr<Store>> open_sqlite(const std::string& path,
                                                               const OpenOptions& options,
                                                               std::span<const Migration> known);
[[nodiscard]] base::Result<std::unique_ptr<Store>> open_postgresql(
    const std::string& url, const OpenOptions& options, std::span<const Migration> known);

// Whether what stands between the first `:` and the last `@` of `url` holds characters that a URL
// has other uses for: then libpq takes a part of the password for something else.
[[nodiscard]] bool has_unescaped_password(std::string_view url);

}  // namespace crosscheck::store
