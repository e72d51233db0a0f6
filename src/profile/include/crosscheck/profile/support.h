#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/profile/operators.h"

// Whether a backend supports an operator: five answers, each with how it was established
// (docs/formats.md, "Operator support").
namespace crosscheck::profile {

enum class Answer : std::uint8_t {
  native,              // it has a kernel
  composite_implicit,  // PyTorch's own decomposition, which it can run
  composite_explicit,  // the same, of the kind that is differentiated as a whole
  cpu_fallback,        // right, but not on the device
  missing,
};
[[nodiscard]] std::string_view to_string(Answer answer);
[[nodiscard]] std::optional<Answer> parse_answer(std::string_view text);

// The dispatcher's kernel for the device.
enum class Kernel : std::uint8_t { none, kernel, math, default_backend, fallback };

struct OperatorFacts {
  Kernel kernel = Kernel::none;
  std::string registered;        // the place in source that the dispatcher names
  std::string cannot_fall_back;  // view, factory or random
  // What PyTorch's composite kernel calls: seen when it ran, or said by native_functions.yaml.
  std::optional<std::vector<std::string>> callees;
  std::string made_as;  // structured_delegate or autogen
  std::vector<std::string> made_of;
};

// What samples of one data type did on the device.
struct DtypeResult {
  std::string outcome;  // runs, partly, missing, unsupported, error, crashed, timed_out
  std::int64_t ran = 0;
  std::int64_t of = 0;
  std::string missing;  // the operator that was
  std::string message;  // of the first that did not run
};

struct Support {
  std::string op;
  Answer answer = Answer::missing;
  std::string because;  // the operator that decides, where it is another; or view, factory, random
  std::vector<std::string> established;  // dispatcher, callees, structured_delegate, autogen, list,
                                         // samples
  bool callees_seen = true;              // false: a composite of which nothing is known
  std::vector<std::string> callees;
  std::string registered;
  std::map<std::string, DtypeResult> dtypes;
  std::vector<std::string> listed;  // file:line
  bool autograd = false;            // listed as differentiated by the backend itself
  std::vector<std::string> disagreements;
};

class SupportBook {
 public:
  // A line of the probe: operator, callees. Others are passed over.
  void take(std::string_view ev, const base::json::object& line);
  // A result of samples, or that their process died or hung in them.
  void take_result(const std::string& dtype, const base::json::object& result);
  void take_death(const std::string& dtype, const std::vector<std::string>& operators, bool hung,
                  const std::string& how);
  void take_list(OperatorList list);

  // What is known of all operators, by name. Pure.
  [[nodiscard]] std::vector<Support> decide() const;

 private:
  std::map<std::string, OperatorFacts, std::less<>> facts_;
  std::map<std::string, std::map<std::string, DtypeResult>, std::less<>> results_;
  std::vector<OperatorList> lists_;
};

[[nodiscard]] base::json::object to_json(const Support& support);

}  // namespace crosscheck::profile
