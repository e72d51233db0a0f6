#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"

// Lists of operators as backends keep them.
namespace crosscheck::profile {

struct ListedOperator {
  int line = 1;                     // of its first mention
  bool autograd = false;            // the backend differentiates it itself
  std::vector<std::string> dtypes;  // that it is said to take; empty: nothing is said
};

struct OperatorList {
  std::string source;
  std::string form;  // "backend stubs", "native functions", "list", "lines"
  // By name with namespace and overload: "aten::add.Tensor".
  std::map<std::string, ListedOperator, std::less<>> operators;
};

// Of YAML: what torchgen makes a backend's stubs from (`backend:`, `supported:`, `autograd:`,
// `custom:`), native_functions.yaml (a list of `func:` with `dispatch:`, of which those count that
// dispatch PrivateUse1), and plain lists of names, or of mappings with `op`, `name` or
// `operator_name`, and a mapping of names to data types. Of other text: a name a line, `#` begins a
// comment. Errors begin with `source`:line:column.
[[nodiscard]] base::Result<OperatorList> parse_operators(std::string_view text,
                                                         std::string_view source, bool yaml);
// A file is YAML when it is called .yaml or .yml.
[[nodiscard]] base::Result<OperatorList> load_operators(const std::filesystem::path& file);

// "add.Tensor(Tensor self, …) -> Tensor", "aten.add.Tensor", "add.Tensor" and "aten::add.Tensor"
// are one operator; empty where it is none.
[[nodiscard]] std::string operator_name(std::string_view text);

}  // namespace crosscheck::profile
