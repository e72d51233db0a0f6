#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"

// What is measured, for people and as JSON: one table and one file for all programs of bench/.
namespace crosscheck::bench {

struct Figure {
  std::string name;
  std::string unit;
  double ours = 0;
  std::optional<double> wanted = {};  // at most, or at least
  bool at_least = false;
  std::string theirs = {};  // PyTorch's relay, as measured on such a machine
  [[nodiscard]] bool holds() const {
    return !wanted || (at_least ? ours >= *wanted : ours <= *wanted);
  }
};

class Figures {
 public:
  // Says it on standard error too: a measurement takes minutes.
  void add(Figure figure);
  void print() const;
  // Into the file, with `facts` beside them; figures of other programs that are there stay. Throws
  // what the file cannot do.
  void save(const std::string& path, const boost::json::object& facts) const;
  [[nodiscard]] bool hold() const;

 private:
  std::vector<Figure> all_;
};

[[noreturn]] inline void give_up(const std::string& what) { throw std::runtime_error{what}; }

template <class T>
T need(base::Result<T> result) {
  if (!result) give_up(base::to_string(result.error()));
  return *std::move(result);
}
inline void need(const base::Result<void>& result) {
  if (!result) give_up(base::to_string(result.error()));
}

// A number behind `name` in /proc/PROCESS/status, such as "VmRSS:", from kB. PROCESS may be "self".
[[nodiscard]] double proc_mb(std::string_view process, std::string_view name);

}  // namespace crosscheck::bench
