#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "crosscheck/base/result.h"

namespace crosscheck::base {

// A repository on GitHub, `owner/name`. Spelling is kept for showing; comparison ignores ASCII
// case, as GitHub's does. `key()` is the lower-case form that stores and maps use.
class RepoName {
 public:
  // Owner: letters, digits, `-`, `_`; name: those and `.`; at most 39+100 characters.
  [[nodiscard]] static Result<RepoName> parse(std::string_view text);

  [[nodiscard]] const std::string& full_name() const { return full_name_; }
  [[nodiscard]] std::string_view owner() const;
  [[nodiscard]] std::string_view name() const;
  [[nodiscard]] const std::string& key() const { return key_; }

  friend bool operator==(const RepoName& a, const RepoName& b) { return a.key_ == b.key_; }
  friend auto operator<=>(const RepoName& a, const RepoName& b) { return a.key_ <=> b.key_; }

 private:
  RepoName(std::string full_name, std::string key)
      : full_name_{std::move(full_name)}, key_{std::move(key)} {}
  std::string full_name_;
  std::string key_;
};

[[nodiscard]] std::string to_lower_ascii(std::string_view text);

}  // namespace crosscheck::base
