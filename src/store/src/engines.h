#pragma once

#include <memory>
#include <span>
#include <string>

#include "crosscheck/store/store.h"
#include "migrate.h"

namespace crosscheck::store {

[[nodiscard]] base::Result<std::unique_ptr<Store>> open_sqlite(const std::string& path,
                                                               const OpenOptions& options,
                                                               std::span<const Migration> known);
[[nodiscard]] base::Result<std::unique_ptr<Store>> open_postgresql(
    const std::string& url, const OpenOptions& options, std::span<const Migration> known);

}  // namespace crosscheck::store
