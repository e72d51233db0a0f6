#include "crosscheck/gate/manifest.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/nearest.h"
#include "crosscheck/base/yaml.h"

namespace crosscheck::gate {
namespace {

namespace json = base::json;
namespace yaml = base::yaml;
using yaml::Node;

constexpr std::array<std::string_view, k_gates> k_gate_names{
    "correctness", "latency",        "throughput", "peak_memory",
    "determinism", "compile_export", "rollback"};
constexpr std::array<std::string_view, 2> k_phase_names{"inference", "training"};
constexpr std::array<std::string_view, 3> k_sizes{"small", "medium", "large"};
constexpr std::array<std::string_view, 4> k_precisions{"float32", "bfloat16", "float16", "float64"};
constexpr std::array<std::string_view, 5> k_backend_names{"cpu", "cuda", "rocm", "mps",
                                                          "distributed"};

// Reads nodes and gathers what is wrong with them, so that a person sees all of it at once.
class Reader {
 public:
  explicit Reader(std::string_view source) : source_{source} {}

  void complain(const Node& at, std::string message, std::string remedy = {}) {
    auto error = yaml::fail_at(source_, at, std::move(message), std::move(remedy));
    errors_.push_back(base::to_string(error.value()));
  }
  [[nodiscard]] const std::vector<std::string>& errors() const { return errors_; }

  // Whether `node` is a mapping; says so if not, and of each key that is none of `keys`.
  bool mapping(const Node& node, std::string_view what, std::span<const std::string_view> keys) {
    if (!expect(node, Node::Kind::mapping, what)) return false;
    for (const auto& entry : node.entries) {
      if (std::find(keys.begin(), keys.end(), entry.key.text) == keys.end()) {
        complain(entry.key, fmt::format("{} has no key '{}'", what, entry.key.text),
                 base::suggest(entry.key.text, keys));
      }
    }
    return true;
  }
  bool expect(const Node& node, Node::Kind kind, std::string_view what) {
    if (node.is(kind)) return true;
    complain(node, fmt::format("{} is {}, not {}", what, to_string(node.kind), to_string(kind)));
    return false;
  }
  const Node* require(const Node& node, std::string_view key, std::string_view what) {
    const Node* found = node.find(key);
    if (!found) complain(node, fmt::format("{} lacks '{}'", what, key));
    return found;
  }

  void text(const Node& node, std::string_view key, std::string& into) {
    const Node* found = node.find(key);
    if (!found || !expect(*found, Node::Kind::text, key)) return;
    into = found->text;
  }
  void word(const Node& node, std::string_view key, std::span<const std::string_view> words,
            std::string& into) {
    const Node* found = node.find(key);
    if (!found || !expect(*found, Node::Kind::text, key)) return;
    if (std::find(words.begin(), words.end(), found->text) == words.end()) {
      complain(*found, fmt::format("'{}' is no {}", found->text, key),
               base::suggest(found->text, words));
      return;
    }
    into = found->text;
  }
  void flag(const Node& node, std::string_view key, bool& into) {
    const Node* found = node.find(key);
    if (!found) return;
    if (found->text != "true" && found->text != "false") {
      complain(*found, fmt::format("{} is neither true nor false", key));
      return;
    }
    into = found->text == "true";
  }
  template <class Integer>
  void number(const Node& node, std::string_view key, Integer least, Integer most, Integer& into) {
    const Node* found = node.find(key);
    if (!found) return;
    if (const auto value = integer<Integer>(*found, key, least, most)) into = *value;
  }
  template <class Integer>
  std::optional<Integer> integer(const Node& node, std::string_view what, Integer least,
                                 Integer most) {
    Integer value{};
    const char* end = node.text.data() + node.text.size();
    const auto [stop, failed] = std::from_chars(node.text.data(), end, value);
    if (!node.is(Node::Kind::text) || failed != std::errc{} || stop != end || value < least ||
        value > most) {
      complain(node, fmt::format("{} is no number from {} to {}", what, least, most));
      return std::nullopt;
    }
    return value;
  }
  // "5 %", "5%" or "0.05".
  void share(const Node& node, std::string_view key, double& into) {
    const Node* found = node.find(key);
    if (!found) return;
    std::string_view rest = found->text;
    double scale = 1;
    if (rest.ends_with('%')) {
      rest.remove_suffix(1);
      while (rest.ends_with(' ')) rest.remove_suffix(1);
      scale = 0.01;
    }
    double value = 0;
    if (!parse_real(rest, value) || value * scale <= 0 || value * scale >= 1) {
      complain(*found, fmt::format("{} is no share between 0 and 1", key), "write 5 % or 0.05");
      return;
    }
    into = value * scale;
  }
  void positive(const Node& node, std::string_view key, double& into) {
    const Node* found = node.find(key);
    if (!found) return;
    double value = 0;
    if (!parse_real(found->text, value) || value <= 0) {
      complain(*found, fmt::format("{} is no number above 0", key));
      return;
    }
    into = value;
  }
  // "90s", "15m", "2h".
  void duration(const Node& node, std::string_view key, base::Duration& into) {
    const Node* found = node.find(key);
    if (!found) return;
    static const RE2 pattern{R"(([0-9]{1,6}) ?(s|m|h))"};
    std::int64_t count = 0;
    std::string unit;
    if (!RE2::FullMatch(found->text, pattern, &count, &unit) || count == 0) {
      complain(*found, fmt::format("{} is no length of time", key), "write 90s, 15m or 2h");
      return;
    }
    into = std::chrono::seconds{count * (unit == "s" ? 1 : unit == "m" ? 60 : 3600)};
  }
  std::vector<std::string> texts(const Node& node, std::string_view key) {
    const Node* found = node.find(key);
    std::vector<std::string> all;
    if (!found || !expect(*found, Node::Kind::sequence, key)) return all;
    for (const Node& item : found->items) {
      if (expect(item, Node::Kind::text, fmt::format("an entry of {}", key))) {
        all.push_back(item.text);
      }
    }
    return all;
  }

 private:
  static bool parse_real(std::string_view text, double& into) {
    const char* begin = text.data();
    const char* end = begin + text.size();
    const auto [stop, failed] = std::from_chars(begin, end, into);
    return failed == std::errc{} && stop == end && std::isfinite(into);
  }

  std::string_view source_;
  std::vector<std::string> errors_;
};

template <std::size_t n>
std::optional<std::size_t> index_of(const std::array<std::string_view, n>& words,
                                    std::string_view word) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return std::nullopt;
  return static_cast<std::size_t>(found - words.begin());
}

constexpr const char* k_name_pattern = "[A-Za-z0-9][A-Za-z0-9._+-]{0,99}";

// A name that is part of cell names and of file names.
bool is_name(std::string_view text) {
  static const RE2 pattern{k_name_pattern};
  return RE2::FullMatch(text, pattern);
}

template <std::size_t n, class Enum>
void read_words(Reader& reader, const Node& node, std::string_view key,
                const std::array<std::string_view, n>& words, std::vector<Enum>& into) {
  const Node* list = node.find(key);
  if (!list || !reader.expect(*list, Node::Kind::sequence, key)) return;
  into.clear();
  for (const Node& item : list->items) {
    const auto found = index_of(words, item.text);
    if (!found) {
      reader.complain(item, fmt::format("'{}' is none of {}", item.text, key),
                      base::suggest(item.text, words));
      continue;
    }
    const auto value = static_cast<Enum>(*found);
    if (std::find(into.begin(), into.end(), value) != into.end()) {
      reader.complain(item, fmt::format("'{}' stands twice in {}", item.text, key));
      continue;
    }
    into.push_back(value);
  }
  if (list->items.empty()) reader.complain(*list, fmt::format("{} is empty", key));
}

// A key of a mapping: how it is read, and how an editor is told of it. One table a mapping, which
// the loader and the schema both follow.
enum class Needed : std::uint8_t { no, yes };
struct Place {
  const Node& object;
  std::string_view key;
  std::string_view what;  // the object is, in words
};
template <class Owner>
struct Field {
  std::string_view key;
  Needed needed = Needed::no;
  std::string_view says;
  void (*read)(Reader&, const Place&, Owner&) = nullptr;
  json::value (*schema)() = nullptr;
};

template <class Owner, class Value>
Owner owner_of(Value Owner::*);
template <auto member>
using OwnerOf = decltype(owner_of(member));
template <auto member>
using ValueOf = std::remove_reference_t<decltype(std::declval<OwnerOf<member>&>().*member)>;

// What people write without quotes may look like a number.
json::object text_schema() { return {{"type", {"string", "number", "boolean"}}}; }
json::object list_schema(json::value items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}
json::object words_schema(std::span<const std::string_view> words) {
  json::array all;
  for (const auto word : words) all.emplace_back(word);
  return {{"enum", std::move(all)}};
}
json::object pattern_schema(std::string_view pattern) {
  return {{"type", "string"}, {"pattern", pattern}};
}

template <auto member>
constexpr Field<OwnerOf<member>> text(std::string_view key, std::string_view says,
                                      Needed needed = Needed::no) {
  return {key, needed, says,
          [](Reader& reader, const Place& at, OwnerOf<member>& owner) {
            reader.text(at.object, at.key, owner.*member);
          },
          [] { return json::value(text_schema()); }};
}
template <auto member>
constexpr Field<OwnerOf<member>> name(std::string_view says) {
  return {"name", Needed::yes, says,
          [](Reader& reader, const Place& at, OwnerOf<member>& owner) {
            const Node& found = *at.object.find(at.key);
            if (!found.is(Node::Kind::text) || !is_name(found.text)) {
              reader.complain(found, fmt::format("the name of {} is none", at.what),
                              "use letters, digits, '.', '_', '+' and '-', 100 at most");
              return;
            }
            owner.*member = found.text;
          },
          [] {
            return json::value(json::object{{"type", {"string", "number"}},
                                            {"pattern", fmt::format("^{}$", k_name_pattern)}});
          }};
}
template <auto member, const auto& words>
constexpr Field<OwnerOf<member>> word(std::string_view key, std::string_view says) {
  return {key, Needed::no, says,
          [](Reader& reader, const Place& at, OwnerOf<member>& owner) {
            reader.word(at.object, at.key, words, owner.*member);
          },
          [] { return json::value(words_schema(words)); }};
}
template <auto member>
constexpr Field<OwnerOf<member>> flag(std::string_view key, std::string_view says) {
  return {key, Needed::no, says,
          [](Reader& reader, const Place& at, OwnerOf<member>& owner) {
            reader.flag(at.object, at.key, owner.*member);
          },
          [] { return json::value(json::object{{"type", "boolean"}}); }};
}
template <auto member, auto least, auto most>
constexpr Field<OwnerOf<member>> number(std::string_view key, std::string_view says) {
  return {key, Needed::no, says,
          [](Reader& reader, const Place& at, OwnerOf<member>& owner) {
            reader.number<ValueOf<member>>(at.object, at.key, least, most, owner.*member);
          },
          [] {
            return json::value(
                json::object{{"type", "integer"}, {"minimum", least}, {"maximum", most}});
          }};
}
template <auto member>
constexpr Field<OwnerOf<member>> share(std::string_view key, std::string_view says,
                                       Needed needed = Needed::no) {
  return {
      key, needed, says,
      [](Reader& reader, const Place& at, OwnerOf<member>& owner) {
        reader.share(at.object, at.key, owner.*member);
      },
      [] {
        return json::value(json::object{
            {"anyOf",
             {json::object{{"type", "number"}, {"exclusiveMinimum", 0}, {"exclusiveMaximum", 1}},
              pattern_schema("^[0-9.eE+-]+ *%?$")}}});
      }};
}
template <auto member>
constexpr Field<OwnerOf<member>> positive(std::string_view key, std::string_view says) {
  return {key, Needed::no, says,
          [](Reader& reader, const Place& at, OwnerOf<member>& owner) {
            reader.positive(at.object, at.key, owner.*member);
          },
          [] { return json::value(json::object{{"type", "number"}, {"exclusiveMinimum", 0}}); }};
}
template <auto member>
constexpr Field<OwnerOf<member>> duration(std::string_view key, std::string_view says) {
  return {key, Needed::no, says,
          [](Reader& reader, const Place& at, OwnerOf<member>& owner) {
            reader.duration(at.object, at.key, owner.*member);
          },
          [] { return json::value(pattern_schema("^[0-9]{1,6} ?[smh]$")); }};
}
template <auto member>
constexpr Field<OwnerOf<member>> texts(std::string_view key, std::string_view says) {
  return {key, Needed::no, says,
          [](Reader& reader, const Place& at, OwnerOf<member>& owner) {
            owner.*member = reader.texts(at.object, at.key);
          },
          [] { return json::value(list_schema(text_schema())); }};
}
template <auto member, const auto& all>
constexpr Field<OwnerOf<member>> words(std::string_view key, std::string_view says,
                                       Needed needed = Needed::no) {
  return {key, needed, says,
          [](Reader& reader, const Place& at, OwnerOf<member>& owner) {
            read_words(reader, at.object, at.key, all, owner.*member);
          },
          [] {
            auto schema = list_schema(words_schema(all));
            schema["minItems"] = 1;
            schema["uniqueItems"] = true;
            return json::value(std::move(schema));
          }};
}

// Says what is unknown and what lacks; whether all that is needed is there.
template <class Owner, std::size_t n>
bool read_object(Reader& reader, const Node& node, std::string_view what,
                 const std::array<Field<Owner>, n>& fields, Owner& owner) {
  std::array<std::string_view, n> keys;
  std::transform(fields.begin(), fields.end(), keys.begin(),
                 [](const Field<Owner>& field) { return field.key; });
  if (!reader.mapping(node, what, keys)) return false;
  bool whole = true;
  for (const auto& field : fields) {
    if (field.needed == Needed::yes && !reader.require(node, field.key, what)) {
      whole = false;
    } else if (node.find(field.key)) {
      field.read(reader, {node, field.key, what}, owner);
    }
  }
  return whole;
}

template <class Owner, std::size_t n>
json::object object_schema(const std::array<Field<Owner>, n>& fields) {
  json::object properties;
  json::array required;
  for (const auto& field : fields) {
    auto schema = field.schema();
    schema.as_object()["description"] = field.says;
    properties[field.key] = std::move(schema);
    if (field.needed == Needed::yes) required.emplace_back(field.key);
  }
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}
json::object one_of(json::object schema, std::string_view how,
                    std::initializer_list<std::string_view> keys) {
  auto& choices = schema[how].emplace_array();
  for (const auto key : keys) choices.emplace_back(json::object{{"required", {key}}});
  return schema;
}

constexpr std::array k_environment_fields{
    text<&EnvironmentSpec::label>("label", "How reports call this side."),
    text<&EnvironmentSpec::python>("python", "Path of an interpreter with a torch."),
    text<&EnvironmentSpec::lock>("lock", "A file for `pip install -r`, made into an environment."),
};
json::value environment_schema() {
  return one_of(object_schema(k_environment_fields), "anyOf", {"python", "lock"});
}

void read_environment(Reader& reader, const Place& at, EnvironmentSpec& spec) {
  spec.label = at.key;
  const Node& node = *at.object.find(at.key);
  if (!node.is(Node::Kind::mapping)) {
    reader.expect(node, Node::Kind::mapping, at.key);
    return;
  }
  read_object(reader, node, at.key, k_environment_fields, spec);
  if (spec.python.empty() && spec.lock.empty()) {
    reader.complain(node, fmt::format("{} names no environment", at.key),
                    "give `python: PATH` of an interpreter, or `lock: FILE` to make one from");
  }
}

constexpr std::array k_backend_fields{
    name<&BackendSpec::name>("Of a PrivateUse1 device."),
    text<&BackendSpec::module>("module", "The Python module that registers it."),
    text<&BackendSpec::path>("path", "A folder where that module is sought."),
};

void read_backends(Reader& reader, const Place& at, Manifest& manifest) {
  const Node& list = *at.object.find(at.key);
  if (!reader.expect(list, Node::Kind::sequence, "backends")) return;
  std::set<std::string> seen;
  for (const Node& item : list.items) {
    BackendSpec backend;
    if (item.is(Node::Kind::text)) {
      backend.name = item.text;
      if (!index_of(k_backend_names, backend.name)) {
        reader.complain(item, fmt::format("'{}' is no backend that PyTorch brings", item.text),
                        base::suggest(item.text, k_backend_names) +
                            "; a PrivateUse1 device is written {name: …, module: …, path: …}");
        continue;
      }
    } else if (!read_object(reader, item, "a backend", k_backend_fields, backend)) {
      continue;
    }
    if (!seen.insert(backend.name).second) {
      reader.complain(item, fmt::format("the backend '{}' stands twice", backend.name));
    }
    manifest.backends.push_back(std::move(backend));
  }
  if (list.items.empty()) reader.complain(list, "backends is empty");
}
json::value backends_schema() {
  auto schema = list_schema(
      json::object{{"anyOf", {words_schema(k_backend_names), object_schema(k_backend_fields)}}});
  schema["minItems"] = 1;
  return schema;
}

void read_fleet(Reader& reader, const Place& at, Manifest& manifest) {
  manifest.fleet = reader.texts(at.object, at.key);
  for (const auto& member : manifest.fleet) {
    if (std::none_of(manifest.backends.begin(), manifest.backends.end(),
                     [&](const BackendSpec& backend) { return backend.name == member; })) {
      reader.complain(*at.object.find(at.key),
                      fmt::format("the fleet's '{}' is no entry of backends", member));
    }
  }
}

constexpr std::array k_class_fields{
    share<&Thresholds::latency>("latency", "Of a launch's median; 5 %."),
    share<&Thresholds::latency_p95>("latency_p95", "Of a launch's 95th percentile; 15 %."),
    share<&Thresholds::throughput>("throughput", "Items a second; 5 %."),
    share<&Thresholds::peak_memory>("peak_memory", "10 %."),
    positive<&Thresholds::drift>(
        "drift", "The candidate's RMSE against float64, as a multiple of the baseline's; 2."),
    positive<&Thresholds::tolerance>("tolerance", "A tenth of it is added to that; 1e-5."),
    number<&Thresholds::determinism_runs, 2, 1000>("determinism_runs", "5."),
    number<&Thresholds::graph_breaks, 0, 1000>("graph_breaks", "More than the baseline's; 0."),
    share<&Thresholds::compile_time>("compile_time", "Reported; 20 %."),
    duration<&Thresholds::rollback>("rollback", "How long switching back may take; 15m."),
};

void read_classes(Reader& reader, const Place& at, Manifest& manifest) {
  const Node& classes = *at.object.find(at.key);
  if (!reader.expect(classes, Node::Kind::mapping, "classes")) return;
  for (const auto& entry : classes.entries) {
    Thresholds thresholds;
    if (read_object(reader, entry.value, fmt::format("the class '{}'", entry.key.text),
                    k_class_fields, thresholds)) {
      manifest.classes.emplace(entry.key.text, thresholds);
    }
  }
}
json::value classes_schema() {
  return json::object{{"type", "object"}, {"additionalProperties", object_schema(k_class_fields)}};
}

void read_shape(Reader& reader, const Place& at, Workload& workload) {
  const Node& shape = *at.object.find(at.key);
  if (!reader.expect(shape, Node::Kind::mapping, "shape")) return;
  for (const auto& entry : shape.entries) {
    const auto value = reader.integer<std::int64_t>(
        entry.value, fmt::format("shape.{}", entry.key.text), 1, std::int64_t{1} << 40);
    if (value) workload.shape.emplace(entry.key.text, *value);
  }
}

void read_frozen(Reader& reader, const Place& at, Workload& workload) {
  const Node& frozen = *at.object.find(at.key);
  if (!reader.expect(frozen, Node::Kind::mapping, "frozen")) return;
  for (const auto& entry : frozen.entries) {
    if (!reader.expect(entry.value, Node::Kind::text, entry.key.text)) continue;
    workload.frozen.emplace(entry.key.text, entry.value.text);
  }
}

json::value map_schema(json::object values) {
  return json::object{{"type", "object"}, {"additionalProperties", std::move(values)}};
}

constexpr std::array k_workload_fields{
    name<&Workload::name>("How cells are called by."),
    text<&Workload::what>("workload",
                          "lane.case of the library (crosscheck gate workloads), or "
                          "python:module:function."),
    texts<&Workload::command>("command", "A program and its arguments, instead of `workload`."),
    text<&Workload::klass>("class", "Whose thresholds count: a key of `classes`.", Needed::yes),
    word<&Workload::size, k_sizes>("size", "Which row of the case's shapes; small."),
    texts<&Workload::backends>("backends", "Of the manifest's; default: all."),
    words<&Workload::phases, k_phase_names>("phases", "Default: inference."),
    words<&Workload::gates, k_gate_names>("gates", "Required for adoption.", Needed::yes),
    word<&Workload::precision, k_precisions>("precision", "Of weights and data; float32."),
    Field<Workload>{"shape", Needed::no, "Numbers that replace some of the size's.", read_shape,
                    [] {
                      return map_schema({{"type", "integer"},
                                         {"minimum", 1},
                                         {"maximum", std::int64_t{1} << 40}});
                    }},
    number<&Workload::production_sequence, 1, (std::int64_t{1} << 40)>(
        "production_sequence", "How long sequences are in production."),
    number<&Workload::seed, 0, (std::int64_t{1} << 62)>("seed", "Of weights and data; 1."),
    number<&Workload::warmup, 0, 100000>("warmup", "Iterations that do not count; 5."),
    number<&Workload::iterations, 1, 1000000>("iterations", "Iterations that do; 59."),
    number<&Workload::threads, 1, 4096>("threads", "1."),
    number<&Workload::ranks, 2, 4096>("ranks", "Processes on the backend `distributed`; 2."),
    duration<&Workload::time_limit>("time_limit", "Of one launch; 5m."),
    Field<Workload>{"frozen", Needed::no,
                    "What makes it the same workload (code, data, tokenizer, …), to its version.",
                    read_frozen, [] { return map_schema(text_schema()); }},
    flag<&Workload::in_use>("in_use", "The candidate serves it already."),
    text<&Workload::isolation_switch>("isolation_switch",
                                      "How the lane is switched off while the rest is kept."),
    text<&Workload::isolation_tested>("isolation_tested", "Where that switch was tried."),
    flag<&Workload::gate_on_cpu_time>("gate_on_cpu_time", "Of one thread's compute only."),
};

void read_workload(Reader& reader, const Node& node, Workload& w) {
  if (!node.is(Node::Kind::mapping)) {
    reader.expect(node, Node::Kind::mapping, "a workload");
    return;
  }
  read_object(reader, node, "a workload", k_workload_fields, w);
  if (w.what.empty() == w.command.empty()) {
    reader.complain(node,
                    fmt::format("the workload '{}' says not exactly one thing to run", w.name),
                    "give `workload: lane.case` (see `crosscheck gate workloads`), `workload: "
                    "python:module:function`, or `command: […]`");
  }
}

void read_workloads(Reader& reader, const Place& at, Manifest& manifest) {
  const Node& list = *at.object.find(at.key);
  if (!reader.expect(list, Node::Kind::sequence, "workloads")) return;
  if (list.items.empty()) reader.complain(list, "workloads is empty");
  std::set<std::string> seen;
  for (const Node& item : list.items) {
    Workload workload;
    read_workload(reader, item, workload);
    if (!workload.name.empty() && !seen.insert(workload.name).second) {
      reader.complain(item, fmt::format("the workload '{}' stands twice", workload.name));
    }
    if (!workload.klass.empty() && !manifest.classes.contains(workload.klass)) {
      std::vector<std::string_view> names;
      names.reserve(manifest.classes.size());
      for (const auto& [name, thresholds] : manifest.classes) names.push_back(name);
      reader.complain(*item.find("class"), fmt::format("there is no class '{}'", workload.klass),
                      base::suggest(workload.klass, names));
    }
    for (const auto& name : workload.backends) {
      const auto known = std::any_of(manifest.backends.begin(), manifest.backends.end(),
                                     [&](const BackendSpec& b) { return b.name == name; });
      if (!known) {
        reader.complain(*item.find("backends"),
                        fmt::format("'{}' is no entry of the manifest's backends", name));
      }
    }
    manifest.workloads.push_back(std::move(workload));
  }
}
json::value workloads_schema() {
  auto schema =
      list_schema(one_of(object_schema(k_workload_fields), "oneOf", {"workload", "command"}));
  schema["minItems"] = 1;
  return schema;
}

constexpr std::array k_claim_fields{
    text<&Claim::id>("id", "How reports call it.", Needed::yes),
    text<&Claim::source>("source", "URL of who says so; one without is refused."),
    text<&Claim::workload>("workload", "By its name in this manifest.", Needed::yes),
    Field<Claim>{"gate", Needed::no, "What is said to be better; latency.",
                 [](Reader& reader, const Place& at, Claim& claim) {
                   std::string gate{to_string(claim.gate)};
                   reader.word(at.object, at.key, k_gate_names, gate);
                   claim.gate = *parse_gate(gate);
                 },
                 [] { return json::value(words_schema(k_gate_names)); }},
    share<&Claim::gain>("gain", "That would justify adoption; 10 %.", Needed::yes),
    text<&Claim::cost>("cost", "Of taking it up."),
};

void read_claims(Reader& reader, const Place& at, Manifest& manifest) {
  const Node& list = *at.object.find(at.key);
  if (!reader.expect(list, Node::Kind::sequence, "claims")) return;
  for (const Node& item : list.items) {
    Claim claim;
    read_object(reader, item, "a claim", k_claim_fields, claim);
    const auto known = std::any_of(manifest.workloads.begin(), manifest.workloads.end(),
                                   [&](const Workload& w) { return w.name == claim.workload; });
    if (!claim.workload.empty() && !known) {
      reader.complain(*item.find("workload"),
                      fmt::format("there is no workload '{}'", claim.workload));
    }
    manifest.claims.push_back(std::move(claim));
  }
}

constexpr std::array k_waiver_fields{
    text<&Waiver::cell>("cell", "workload/backend/phase/gate.", Needed::yes),
    text<&Waiver::owner>("owner", "Who answers for it.", Needed::yes),
    text<&Waiver::reason>("reason", "Why.", Needed::yes),
    Field<Waiver>{"expires", Needed::yes, "A date, 2026-12-31.",
                  [](Reader& reader, const Place& at, Waiver& waiver) {
                    const Node& expires = *at.object.find(at.key);
                    const auto time = base::parse_rfc3339(
                        expires.text.size() == 10 ? expires.text + "T00:00:00Z" : expires.text);
                    if (time) {
                      waiver.expires = *time;
                    } else {
                      reader.complain(expires, "expires is no date", "write 2026-12-31");
                    }
                  },
                  [] { return json::value(pattern_schema("^[0-9]{4}-[0-9]{2}-[0-9]{2}")); }},
};

void read_waivers(Reader& reader, const Place& at, Manifest& manifest) {
  const Node& list = *at.object.find(at.key);
  if (!reader.expect(list, Node::Kind::sequence, "waivers")) return;
  for (const Node& item : list.items) {
    Waiver waiver;
    if (read_object(reader, item, "a waiver", k_waiver_fields, waiver)) {
      manifest.waivers.push_back(std::move(waiver));
    }
  }
}

constexpr std::array k_manifest_fields{
    Field<Manifest>{"format", Needed::yes, "Of this file: 1.",
                    [](Reader& reader, const Place& at, Manifest&) {
                      const Node& format = *at.object.find(at.key);
                      if (format.text == "1") return;
                      reader.complain(format,
                                      fmt::format("format {} is not known here", format.text),
                                      "write `format: 1`");
                    },
                    [] { return json::value(json::object{{"const", 1}}); }},
    name<&Manifest::name>("Of the matrix, and of its folder."),
    Field<Manifest>{"baseline", Needed::yes, "What is in use today.",
                    [](Reader& reader, const Place& at, Manifest& manifest) {
                      read_environment(reader, at, manifest.baseline);
                    },
                    environment_schema},
    Field<Manifest>{"candidate", Needed::yes, "What may follow it.",
                    [](Reader& reader, const Place& at, Manifest& manifest) {
                      read_environment(reader, at, manifest.candidate);
                    },
                    environment_schema},
    Field<Manifest>{"backends", Needed::yes, "Devices to measure on.", read_backends,
                    backends_schema},
    Field<Manifest>{"fleet", Needed::no, "Backends that must agree.", read_fleet,
                    [] { return json::value(list_schema(text_schema())); }},
    Field<Manifest>{"classes", Needed::yes,
                    "Name to thresholds, each a change for the worse that is still accepted.",
                    read_classes, classes_schema},
    Field<Manifest>{"workloads", Needed::yes, "What is measured.", read_workloads,
                    workloads_schema},
    Field<Manifest>{"claims", Needed::no, "Held against what was measured.", read_claims,
                    [] { return json::value(list_schema(object_schema(k_claim_fields))); }},
    texts<&Manifest::caveats>("caveats", "What the matrix will not show."),
    Field<Manifest>{"waivers", Needed::no, "What a person takes upon them.", read_waivers,
                    [] { return json::value(list_schema(object_schema(k_waiver_fields))); }},
    texts<&Manifest::rollback>("rollback", "Shell commands that switch back."),
    texts<&Manifest::plan>("plan", "A checklist, kept and shown."),
};

json::array array_of(const std::vector<std::string>& texts) {
  json::array all;
  for (const auto& text : texts) all.emplace_back(text);
  return all;
}

json::array names_of(const auto& values) {
  json::array names;
  for (const auto& value : values) names.emplace_back(to_string(value));
  return names;
}

json::object to_json(const Workload& w) {
  json::object shape;
  for (const auto& [key, value] : w.shape) shape[key] = value;
  json::object frozen;
  for (const auto& [key, value] : w.frozen) frozen[key] = value;
  json::array command = array_of(w.command);
  return {{"name", w.name},
          {"workload", w.what},
          {"command", std::move(command)},
          {"backends", array_of(w.backends)},
          {"class", w.klass},
          {"size", w.size},
          {"phases", names_of(w.phases)},
          {"gates", names_of(w.gates)},
          {"precision", w.precision},
          {"shape", std::move(shape)},
          {"production_sequence", w.production_sequence},
          {"seed", w.seed},
          {"warmup", w.warmup},
          {"iterations", w.iterations},
          {"threads", w.threads},
          {"ranks", w.ranks},
          {"time_limit_s", static_cast<double>(w.time_limit.count()) / 1e6},
          {"frozen", std::move(frozen)},
          {"in_use", w.in_use},
          {"isolation_switch", w.isolation_switch},
          {"isolation_tested", w.isolation_tested},
          {"gate_on_cpu_time", w.gate_on_cpu_time}};
}

json::object to_json(const Thresholds& t) {
  return {{"latency", t.latency},
          {"latency_p95", t.latency_p95},
          {"throughput", t.throughput},
          {"peak_memory", t.peak_memory},
          {"drift", t.drift},
          {"tolerance", t.tolerance},
          {"determinism_runs", t.determinism_runs},
          {"graph_breaks", t.graph_breaks},
          {"compile_time", t.compile_time},
          {"rollback_s", static_cast<double>(t.rollback.count()) / 1e6}};
}

json::object to_json(const EnvironmentSpec& e) {
  return {{"label", e.label}, {"python", e.python}, {"lock", e.lock}, {"lock_hash", e.lock_hash}};
}

void check_workload(const Workload& w, std::vector<Finding>& found) {
  const auto where = "workloads." + w.name;
  const auto refuse = [&](std::string message, std::string remedy) {
    found.push_back({true, where, std::move(message), std::move(remedy)});
  };
  const auto flag = [&](std::string message, std::string remedy) {
    found.push_back({false, where, std::move(message), std::move(remedy)});
  };
  if (w.warmup == 0) {
    refuse("nothing is set aside as warm-up, so the first iterations would be measured",
           "give `warmup: 5` or more");
  }
  const bool timed = requires_gate(w, Gate::latency) || requires_gate(w, Gate::throughput);
  if (timed && w.iterations < 59) {
    refuse(
        fmt::format("{} iterations have no 95th percentile, and a median without it hides stalls",
                    w.iterations),
        "give `iterations: 59` or more");
  }
  if (timed && !requires_gate(w, Gate::peak_memory)) {
    refuse("speed is judged without peak memory", "add peak_memory to its gates");
  }
  if (timed && !requires_gate(w, Gate::correctness)) {
    refuse("speed is judged without drift", "add correctness to its gates");
  }
  if (!requires_gate(w, Gate::rollback)) {
    refuse("no rollback is rehearsed", "add rollback to its gates");
  }
  if (w.production_sequence > 0) {
    const auto sequence = w.shape.find("sequence");
    if (sequence == w.shape.end() || sequence->second < w.production_sequence) {
      refuse(fmt::format("its sequences are shorter than production's {}", w.production_sequence),
             fmt::format("give `shape: {{sequence: {}}}`", w.production_sequence));
    }
  }
  if (w.gate_on_cpu_time && w.threads != 1) {
    refuse("CPU time stands for latency only where one thread computes", "give `threads: 1`");
  }
  if (!w.isolation_switch.empty() && w.isolation_tested.empty()) {
    flag("its isolation switch was never tried: a failure here cannot be isolated",
         "say in `isolation_tested` where it was");
  }
  for (const std::string_view key : {"code", "data"}) {
    if (!w.frozen.contains(std::string{key})) {
      flag(fmt::format("which {} it runs on is not said", key),
           fmt::format("give `frozen: {{{}: COMMIT_OR_DIGEST}}`", key));
    }
  }
}

}  // namespace

std::string_view to_string(Side side) { return side == Side::baseline ? "baseline" : "candidate"; }
std::string_view to_string(Gate gate) { return k_gate_names[static_cast<std::size_t>(gate)]; }
std::string_view to_string(Phase phase) { return k_phase_names[static_cast<std::size_t>(phase)]; }
std::optional<Gate> parse_gate(std::string_view name) {
  const auto found = index_of(k_gate_names, name);
  if (!found) return std::nullopt;
  return static_cast<Gate>(*found);
}

base::Result<Manifest> parse_manifest(std::string_view text, std::string_view source) {
  const auto root = yaml::parse(text, source);
  if (!root) return tl::unexpected(root.error());
  Reader reader{source};
  Manifest manifest;
  read_object(reader, *root, "the manifest", k_manifest_fields, manifest);
  if (reader.errors().empty()) return manifest;
  return base::fail(base::Fault::invalid_input,
                    fmt::format("{}", fmt::join(reader.errors(), "\n")));
}

json::object manifest_schema() {
  auto schema = object_schema(k_manifest_fields);
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "crosscheck upgrade gate";
  return schema;
}

std::vector<Finding> check(const Manifest& manifest, base::Time now) {
  std::vector<Finding> found;
  if (manifest.baseline.python == manifest.candidate.python &&
      manifest.baseline.lock == manifest.candidate.lock) {
    found.push_back(
        {true, "candidate", "it is the baseline itself", "name another interpreter or lock file"});
  }
  if (manifest.backends.size() == 1 && manifest.backends.front().name == "cuda") {
    found.push_back({false, "backends", "only the CUDA path is tested",
                     "add cpu, and what else your users run"});
  }
  for (const auto& workload : manifest.workloads) check_workload(workload, found);
  for (const auto& claim : manifest.claims) {
    if (claim.source.empty()) {
      found.push_back({true, "claims." + claim.id, "it names no source", "give `source: URL`"});
    }
    if (claim.cost.empty()) {
      found.push_back(
          {false, "claims." + claim.id, "what it costs to take up is not said", "give `cost: …`"});
    }
  }
  for (const auto& waiver : manifest.waivers) {
    if (waiver.expires <= now) {
      found.push_back({false, "waivers." + waiver.cell,
                       fmt::format("it expired on {}", base::to_rfc3339(waiver.expires)),
                       "decide again, or remove it"});
    }
  }
  if (manifest.caveats.empty()) {
    found.push_back(
        {false, "caveats", "none is written down", "say before the run what it will not show"});
  }
  return found;
}

json::object frozen_json(const Manifest& manifest) {
  json::array backends;
  for (const auto& b : manifest.backends) {
    backends.emplace_back(json::object{{"name", b.name}, {"module", b.module}, {"path", b.path}});
  }
  json::object classes;
  for (const auto& [name, thresholds] : manifest.classes) classes[name] = to_json(thresholds);
  json::array workloads;
  for (const auto& workload : manifest.workloads) workloads.emplace_back(to_json(workload));
  json::array claims;
  for (const auto& c : manifest.claims) {
    claims.emplace_back(json::object{{"id", c.id},
                                     {"source", c.source},
                                     {"workload", c.workload},
                                     {"gate", to_string(c.gate)},
                                     {"gain", c.gain},
                                     {"cost", c.cost}});
  }
  json::array fleet = array_of(manifest.fleet);
  json::array caveats = array_of(manifest.caveats);
  json::array rollback = array_of(manifest.rollback);
  return {{"format", 1},
          {"name", manifest.name},
          {"baseline", to_json(manifest.baseline)},
          {"candidate", to_json(manifest.candidate)},
          {"backends", std::move(backends)},
          {"fleet", std::move(fleet)},
          {"classes", std::move(classes)},
          {"workloads", std::move(workloads)},
          {"claims", std::move(claims)},
          {"caveats", std::move(caveats)},
          {"rollback", std::move(rollback)}};
}

json::object manifest_json(const Manifest& manifest) {
  // What only frozen_json has, and what it says otherwise.
  auto root = frozen_json(manifest);
  const auto spelled = [](base::Duration duration) {
    const auto s = std::chrono::duration_cast<std::chrono::seconds>(duration).count();
    return s % 3600 == 0 ? fmt::format("{}h", s / 3600)
           : s % 60 == 0 ? fmt::format("{}m", s / 60)
                         : fmt::format("{}s", s);
  };
  for (const char* side : {"baseline", "candidate"}) {
    root[side].as_object().erase("lock_hash");
  }
  for (auto& backend : root["backends"].as_array()) {
    if (index_of(k_backend_names, std::string_view{backend.at("name").as_string()})) {
      backend = json::value(backend.at("name").as_string());
    }
  }
  for (const auto& [name, thresholds] : manifest.classes) {
    auto& object = root["classes"].as_object()[name].as_object();
    object.erase("rollback_s");
    object["rollback"] = spelled(thresholds.rollback);
  }
  std::size_t i = 0;
  for (const auto& workload : manifest.workloads) {
    auto& object = root["workloads"].as_array()[i++].as_object();
    object.erase("time_limit_s");
    object["time_limit"] = spelled(workload.time_limit);
    if (workload.production_sequence == 0) object.erase("production_sequence");
    if (workload.command.empty()) object.erase("command");
    if (workload.what.empty()) object.erase("workload");
  }
  auto& waivers = root["waivers"].emplace_array();
  for (const auto& w : manifest.waivers) {
    waivers.emplace_back(json::object{{"cell", w.cell},
                                      {"owner", w.owner},
                                      {"reason", w.reason},
                                      {"expires", base::to_rfc3339(w.expires)}});
  }
  root["plan"] = array_of(manifest.plan);
  return root;
}

std::string digest(const Manifest& manifest) {
  return base::sha256_hex(base::canonical_json(frozen_json(manifest)));
}

std::string to_string(const CellId& id) {
  return fmt::format("{}/{}/{}", id.workload, id.backend, to_string(id.phase));
}

std::vector<CellId> cells(const Manifest& manifest) {
  std::vector<CellId> all;
  for (const auto& workload : manifest.workloads) {
    for (const auto& backend : manifest.backends) {
      if (!workload.backends.empty() &&
          std::find(workload.backends.begin(), workload.backends.end(), backend.name) ==
              workload.backends.end()) {
        continue;
      }
      for (const Phase phase : workload.phases) all.push_back({workload.name, backend.name, phase});
    }
  }
  return all;
}

const Workload& workload_of(const Manifest& manifest, const CellId& id) {
  return *std::find_if(manifest.workloads.begin(), manifest.workloads.end(),
                       [&](const Workload& w) { return w.name == id.workload; });
}

bool requires_gate(const Workload& workload, Gate gate) {
  return std::find(workload.gates.begin(), workload.gates.end(), gate) != workload.gates.end();
}

}  // namespace crosscheck::gate
