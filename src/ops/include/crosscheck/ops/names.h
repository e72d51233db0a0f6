#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

// Operators' names: "aten::add.Tensor" is the overload Tensor of the operator aten::add.
namespace crosscheck::ops {

using Aliases = std::vector<std::pair<std::string, std::string>>;  // name, what it names

// "aten::" where no namespace is given.
[[nodiscard]] std::string qualified(std::string_view name);
// Without the overload.
[[nodiscard]] std::string_view operator_of(std::string_view overload);
// What `name` means among `known` overloads, in order of name: that overload alone where it names
// one, else all overloads of the operator. With `family` also of its in-place form (add_ to add,
// and the other way) and of its aliases.
[[nodiscard]] std::vector<std::string> matching(std::string_view name,
                                                const std::vector<std::string>& known,
                                                const Aliases& aliases, bool family);

// `overloads`, and those of `known` whose kernel is that of one of them, or of `name` itself; in
// order of name.
[[nodiscard]] std::vector<std::string> with_delegating(
    std::vector<std::string> overloads, const std::string& name,
    const std::vector<std::string>& known,
    const std::unordered_map<std::string, std::string>& delegates);

}  // namespace crosscheck::ops
