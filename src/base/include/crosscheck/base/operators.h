#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosscheck/base/result.h"

// Which operators a test used: what the probe sees, and what a trace and the operator index hold.
namespace crosscheck::base {

// Of a test. The names are API.
enum class Phase : std::uint8_t {
  setup,       // fixtures, setUp, tearDown and the making of inputs
  forward,     // the test's own
  backward,    // while autograd ran
  comparison,  // while a result was compared
  compiled,    // in a graph that was compiled
};
inline constexpr std::size_t k_phase_count = 5;
[[nodiscard]] std::string_view to_string(Phase phase);
[[nodiscard]] std::optional<Phase> parse_phase(std::string_view name);

// An overload as torch's dispatcher names it ("aten::add.Tensor", "aten::relu"), and how often.
using OperatorCounts = std::vector<std::pair<std::string, std::int64_t>>;

struct CompiledGraph {
  std::string name;  // as the compiler numbers it: "0/0 forward"
  OperatorCounts operators;
  friend bool operator==(const CompiledGraph&, const CompiledGraph&) = default;
};

struct Operators {
  static constexpr std::size_t k_name_limit = 512;        // bytes
  std::array<OperatorCounts, k_phase_count> phases = {};  // by Phase; each sorted by name
  std::vector<CompiledGraph> graphs = {};  // phases[compiled] holds what they hold together
  bool compiles = false;                   // the test compiles something
  friend bool operator==(const Operators&, const Operators&) = default;

  [[nodiscard]] const OperatorCounts& in(Phase phase) const {
    return phases[static_cast<std::size_t>(phase)];
  }
  [[nodiscard]] bool empty() const;
};

// Fields "operators", "graphs" and "compiles", those that are not empty.
[[nodiscard]] boost::json::object to_json(const Operators& operators);
// Of an object that may hold more; nothing where it has no "operators". Other phases' names than
// those above are passed over, and what is compiled stands in "graphs". The error names the field.
[[nodiscard]] Result<std::optional<Operators>> read_operators(const boost::json::object& object);

// "aten::mm.out" of "Could not run 'aten::mm.out' with arguments …"; empty: none is named.
[[nodiscard]] std::string named_operator(std::string_view message);

// Adds what another process saw of the same test: the greater count stands.
void join(Operators& operators, const Operators& more);

}  // namespace crosscheck::base
