#include "crosscheck/base/operators.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cctype>
#include <iterator>

namespace crosscheck::base {
namespace {

constexpr std::array<std::string_view, k_phase_count> k_phases{"setup", "forward", "backward",
                                                               "comparison", "compiled"};

boost::json::object counts_object(const OperatorCounts& counts) {
  boost::json::object object;
  for (const auto& [name, count] : counts) object[name] = count;
  return object;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= Operators::k_name_limit &&
         name.find('\0') == std::string_view::npos;
}

Result<OperatorCounts> read_counts(const boost::json::value& value, const std::string& where) {
  const auto* object = value.if_object();
  if (object == nullptr) return fail(Fault::invalid_input, where + ": expected an object");
  OperatorCounts counts;
  counts.reserve(object->size());
  for (const auto& [key, number] : *object) {
    const std::string_view name{key.data(), key.size()};
    if (!is_name(name)) {
      return fail(Fault::invalid_input, where + ": expected operators' names of 1 to 512 bytes");
    }
    const auto* count = number.if_int64();
    if (count == nullptr || *count < 1) {
      return fail(Fault::invalid_input,
                  where + "." + std::string{name} + ": expected a number of at least 1");
    }
    counts.emplace_back(name, *count);
  }
  std::sort(counts.begin(), counts.end());
  return counts;
}

Result<std::vector<CompiledGraph>> read_graphs(const boost::json::value& value) {
  const auto* array = value.if_array();
  if (array == nullptr) return fail(Fault::invalid_input, "graphs: expected a list");
  std::vector<CompiledGraph> graphs;
  for (const auto& item : *array) {
    const auto* object = item.if_object();
    const auto* name = object == nullptr ? nullptr : object->if_contains("graph");
    const auto* operators = object == nullptr ? nullptr : object->if_contains("operators");
    if (name == nullptr || !name->is_string() || operators == nullptr ||
        name->get_string().size() > Operators::k_name_limit) {
      return fail(Fault::invalid_input, "graphs: expected objects with graph and operators");
    }
    auto counts = read_counts(*operators, "graphs.operators");
    if (!counts) return tl::unexpected(counts.error());
    graphs.push_back({std::string{name->get_string()}, std::move(*counts)});
  }
  return graphs;
}

// Both sorted by name; of one name the greater count.
void join(OperatorCounts& counts, const OperatorCounts& more) {
  OperatorCounts joined;
  joined.reserve(std::max(counts.size(), more.size()));
  auto left = counts.begin();
  auto right = more.begin();
  while (left != counts.end() || right != more.end()) {
    if (right == more.end() || (left != counts.end() && left->first < right->first)) {
      joined.push_back(std::move(*left++));
    } else if (left == counts.end() || right->first < left->first) {
      joined.push_back(*right++);
    } else {
      joined.emplace_back(std::move(left->first), std::max(left->second, right->second));
      ++left;
      ++right;
    }
  }
  counts = std::move(joined);
}

OperatorCounts& compiled_in(Operators& operators) {
  return operators.phases[static_cast<std::size_t>(Phase::compiled)];
}

}  // namespace

std::string_view to_string(Phase phase) { return k_phases[static_cast<std::size_t>(phase)]; }

std::optional<Phase> parse_phase(std::string_view name) {
  const auto at = std::find(k_phases.begin(), k_phases.end(), name);
  if (at == k_phases.end()) return {};
  return static_cast<Phase>(std::distance(k_phases.begin(), at));
}

bool Operators::empty() const {
  return std::all_of(phases.begin(), phases.end(), [](const auto& phase) { return phase.empty(); });
}

boost::json::object to_json(const Operators& operators) {
  boost::json::object phases;
  for (std::size_t i = 0; i < k_phase_count; ++i) {
    // The graphs say it.
    if (static_cast<Phase>(i) == Phase::compiled) continue;
    if (!operators.phases[i].empty()) phases[k_phases[i]] = counts_object(operators.phases[i]);
  }
  boost::json::object object{{"operators", std::move(phases)}};
  if (!operators.graphs.empty()) {
    boost::json::array graphs;
    for (const auto& graph : operators.graphs) {
      graphs.push_back(boost::json::object{{"graph", graph.name},
                                           {"operators", counts_object(graph.operators)}});
    }
    object["graphs"] = std::move(graphs);
  }
  if (operators.compiles) object["compiles"] = true;
  return object;
}

Result<std::optional<Operators>> read_operators(const boost::json::object& object) {
  const auto* given = object.if_contains("operators");
  if (given == nullptr || given->is_null()) return std::optional<Operators>{};
  const auto* phases = given->if_object();
  if (phases == nullptr) return fail(Fault::invalid_input, "operators: expected an object");
  Operators operators;
  for (const auto& [name, value] : *phases) {
    const auto phase = parse_phase(std::string_view{name.data(), name.size()});
    if (!phase || *phase == Phase::compiled) continue;
    auto counts = read_counts(value, "operators." + std::string{to_string(*phase)});
    if (!counts) return tl::unexpected(counts.error());
    operators.phases[static_cast<std::size_t>(*phase)] = std::move(*counts);
  }
  if (const auto* graphs = object.if_contains("graphs")) {
    auto read = read_graphs(*graphs);
    if (!read) return tl::unexpected(read.error());
    operators.graphs = std::move(*read);
    for (const auto& graph : operators.graphs) join(compiled_in(operators), graph.operators);
  }
  if (const auto* compiles = object.if_contains("compiles")) {
    if (!compiles->is_bool()) {
      return fail(Fault::invalid_input, "compiles: expected true or false");
    }
    operators.compiles = compiles->get_bool();
  }
  return std::optional{std::move(operators)};
}

std::string named_operator(std::string_view message) {
  const auto at = message.find("aten::");
  if (at == std::string_view::npos) return {};
  auto end = at + 6;
  while (end < message.size() && (std::isalnum(static_cast<unsigned char>(message[end])) != 0 ||
                                  message[end] == '_' || message[end] == '.')) {
    ++end;
  }
  std::string_view name = message.substr(at, end - at);
  while (name.ends_with('.')) name.remove_suffix(1);
  return name.size() > 6 ? std::string{name} : std::string{};
}

void join(Operators& operators, const Operators& more) {
  for (std::size_t i = 0; i < k_phase_count; ++i) join(operators.phases[i], more.phases[i]);
  for (const auto& graph : more.graphs) {
    const auto same = std::find_if(operators.graphs.begin(), operators.graphs.end(),
                                   [&](const auto& own) { return own.name == graph.name; });
    if (same == operators.graphs.end()) {
      operators.graphs.push_back(graph);
    } else {
      join(same->operators, graph.operators);
    }
  }
  std::sort(operators.graphs.begin(), operators.graphs.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  operators.compiles = operators.compiles || more.compiles;
}

}  // namespace crosscheck::base
