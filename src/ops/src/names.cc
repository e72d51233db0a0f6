#include "crosscheck/ops/names.h"

#include <algorithm>
#include <set>

namespace crosscheck::ops {
namespace {

// In-place forms end in an underscore; __and__ and its like do not mean that.
bool is_in_place(std::string_view name) { return name.ends_with('_') && !name.ends_with("__"); }

// Grows `names` by other names of the same operators until there are no more.
void add_aliases(std::set<std::string>& names, const Aliases& aliases) {
  for (std::size_t before = 0; before != names.size();) {
    before = names.size();
    for (const auto& [alias, of] : aliases) {
      if (names.contains(alias)) names.insert(of);
      if (names.contains(of)) names.insert(alias);
    }
  }
}

}  // namespace

std::string qualified(std::string_view name) {
  if (name.find("::") != std::string_view::npos) return std::string{name};
  return "aten::" + std::string{name};
}

std::string_view operator_of(std::string_view overload) {
  const auto name = overload.find("::");
  const auto from = name == std::string_view::npos ? 0 : name;
  return overload.substr(0, overload.find('.', from));
}

std::vector<std::string> matching(std::string_view name, const std::vector<std::string>& known,
                                  const Aliases& aliases, bool family) {
  const auto wanted = qualified(name);
  std::vector<std::string> found;
  if (operator_of(wanted) != wanted) {
    if (std::find(known.begin(), known.end(), wanted) != known.end()) found.push_back(wanted);
    return found;
  }
  std::set<std::string> names{wanted};
  if (family) {
    if (is_in_place(wanted)) names.insert(wanted.substr(0, wanted.size() - 1));
    add_aliases(names, aliases);
    for (const auto& one : std::vector<std::string>(names.begin(), names.end())) {
      if (!is_in_place(one)) names.insert(one + "_");
    }
  }
  for (const auto& overload : known) {
    if (names.contains(std::string{operator_of(overload)})) found.push_back(overload);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> with_delegating(
    std::vector<std::string> overloads, const std::string& name,
    const std::vector<std::string>& known,
    const std::unordered_map<std::string, std::string>& delegates) {
  std::set<std::string> found(overloads.begin(), overloads.end());
  found.insert(name);
  const auto kernels = found;
  for (const auto& overload : known) {
    const auto delegate = delegates.find(overload);
    if (delegate != delegates.end() && kernels.contains(delegate->second)) found.insert(overload);
  }
  std::erase_if(
      found, [&](const auto& one) { return !std::binary_search(known.begin(), known.end(), one); });
  return {found.begin(), found.end()};
}

}  // namespace crosscheck::ops
