#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/result.h"
#include "model.h"
#include "pages.h"

namespace crosscheck::store {
class Tx;
}

// Who is on the allowlist, at which level, and how the list came to be.
namespace crosscheck::hud {

// One version as it was read. Lines are compared without their comments and outer blanks, and
// without regard to order, with those of the version in force before it.
struct AllowlistVersion {
  std::int64_t id = 0;
  std::string digest = {};
  std::string source = {};
  std::string error = {};  // why it was refused; empty: it was in force
  base::Time loaded_at{};
  std::vector<std::string> added = {};
  std::vector<std::string> removed = {};
};
struct AllowlistError {
  std::string source = {};
  std::string error = {};
  base::Time since{};
};
struct AllowlistPage {
  std::vector<Backend> backends = {};
  std::vector<AllowlistError> errors = {};      // of this moment
  std::vector<AllowlistVersion> versions = {};  // newest first, at most k_allowlist_versions
};
inline constexpr std::int64_t k_allowlist_versions = 30;

// What `after` has that `before` has not, line by line.
[[nodiscard]] std::vector<std::string> new_lines(std::string_view before, std::string_view after);

[[nodiscard]] base::Result<AllowlistPage> read_allowlist_page(store::Tx& tx);
[[nodiscard]] Page allowlist_page(const AllowlistPage& allowlist, const PageContext& context);

}  // namespace crosscheck::hud
