#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/ops/index.h"

// What a backend lacks for which tests. Pure.
namespace crosscheck::ops {

// Which operators a backend has.
class Support {
 public:
  // What `crosscheck ops support` writes (docs/formats.md), or names of operators it has, one a
  // line, `#` beginning a comment; aten::add means all its overloads. `name` is the file's, for
  // errors.
  [[nodiscard]] static base::Result<Support> parse(std::string_view text, std::string_view name);
  // All but those that failures named.
  [[nodiscard]] static Support without(std::set<std::string> missing);

  // The operator whose kernel the backend would have to get for `overload` to work; nothing where
  // it works, or where nobody said that it does not.
  [[nodiscard]] std::optional<std::string> lacks(const std::string& overload,
                                                 const Making& making) const;
  // Whether anything was said of it.
  [[nodiscard]] bool knows(const std::string& overload, const Making& making) const;

 private:
  enum class Kind : std::uint8_t { answers, list, failures };
  explicit Support(Kind kind) : kind_{kind} {}

  Kind kind_;
  // Of answers, by overload: what is missing, empty where nothing is. Of a list, what is there; of
  // failures, what is not.
  std::map<std::string, std::string, std::less<>> said_;
};

// By test, what it lacks.
class Gaps {
 public:
  Gaps(const std::vector<OperatorTests>& used, const Support& support, const Making& making);

  struct Enabled {
    std::vector<std::string> operators;  // that are missing, of those that were asked for
    Tests need;                          // tests that use it
    Tests alone;                         // of those: they lack nothing else
    // What the others lack besides, the most frequent first; and how many of them do.
    std::vector<std::pair<std::string, std::size_t>> others;
  };
  // What it would bring to add those kernels.
  [[nodiscard]] Enabled enable(const std::set<std::string>& operators) const;

  struct Step {
    std::vector<std::string> operators;  // to be added together
    std::size_t frees = 0;               // tests that then lack nothing
    std::size_t in_all = 0;              // with the steps before
  };
  // What to add first: each step frees the most tests for an operator added, greedily.
  [[nodiscard]] std::vector<Step> steps(std::size_t most) const;

  struct Gain {
    std::string name;
    std::size_t frees = 0;  // tests that lack only this
    std::size_t need = 0;   // tests that lack it
  };
  // Of each missing operator alone, the greatest first.
  [[nodiscard]] std::vector<Gain> gains() const;

  [[nodiscard]] std::size_t lacking() const { return lacks_.size(); }  // tests
  [[nodiscard]] std::size_t unsaid() const { return unsaid_; }  // operators that nobody spoke of

 private:
  std::vector<std::string> names_;  // of what is missing, in order
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> lacks_;  // test to names_
  std::size_t unsaid_ = 0;
};

}  // namespace crosscheck::ops
