#include "crosscheck/base/repo_name.h"

#include <fmt/format.h>

#include <algorithm>

namespace crosscheck::base {
namespace {

constexpr std::size_t k_owner_limit = 39;
constexpr std::size_t k_name_limit = 100;

bool is_owner_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

bool is_name_character(char c) { return is_owner_character(c) || c == '.'; }

}  // namespace

Result<RepoName> RepoName::parse(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return fail(Fault::invalid_input,
                fmt::format("'{}' is not a repository (owner/name): {}", text.substr(0, 160), why));
  };
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return bad("there is no '/'");
  const std::string_view owner = text.substr(0, slash);
  const std::string_view name = text.substr(slash + 1);
  if (owner.empty() || owner.size() > k_owner_limit ||
      !std::ranges::all_of(owner, is_owner_character)) {
    return bad("an owner is 1 to 39 letters, digits, '-' and '_'");
  }
  if (name.empty() || name.size() > k_name_limit || !std::ranges::all_of(name, is_name_character)) {
    return bad("a name is 1 to 100 letters, digits, '-', '_' and '.'");
  }
  if (name == "." || name == "..") return bad("that name is a folder's");
  return RepoName{std::string{text}, to_lower_ascii(text)};
}

std::string_view RepoName::owner() const {
  return std::string_view{full_name_}.substr(0, full_name_.find('/'));
}

std::string_view RepoName::name() const {
  return std::string_view{full_name_}.substr(full_name_.find('/') + 1);
}

std::string to_lower_ascii(std::string_view text) {
  std::string lower{text};
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace crosscheck::base
