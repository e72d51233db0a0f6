#include "crosscheck/runner/protocol.h"

#include <cmath>
#include <utility>

#include "crosscheck/base/json.h"

namespace crosscheck::runner {
namespace {

using base::Fault;
using base::Result;
namespace json = base::json;

constexpr std::size_t k_shown = 200;

// Reads fields and keeps the first error, so that a record reads as a list of its fields.
class Reader {
 public:
  explicit Reader(const json::value& root) : root_{root} {}

  std::string text(std::string_view key) { return take(base::require_string(root_, key)); }
  std::string optional_text(std::string_view key) {
    return take(base::optional_string(root_, key)).value_or("");
  }
  std::int64_t integer(std::string_view key) { return take(base::require_int(root_, key)); }
  std::int64_t optional_integer(std::string_view key) {
    return take(base::optional_int(root_, key)).value_or(0);
  }
  bool optional_bool(std::string_view key) {
    const auto* value = field(key);
    if (value == nullptr || value->is_null()) return false;
    if (!value->is_bool()) return wrong(key, "true or false"), false;
    return value->get_bool();
  }
  base::Duration seconds(std::string_view key) {
    const auto* value = field(key);
    if (value == nullptr || !value->is_number()) return wrong(key, "a number"), base::Duration{0};
    const auto number = value->to_number<double>();
    constexpr double k_year = 366.0 * 24 * 3600;
    if (!std::isfinite(number) || number < 0 || number > k_year) {
      return wrong(key, "seconds from 0 to a year"), base::Duration{0};
    }
    return base::Duration{std::llround(number * 1e6)};
  }
  const json::object* optional_object(std::string_view key) {
    const auto* value = field(key);
    if (value == nullptr || value->is_null()) return nullptr;
    if (!value->is_object()) return wrong(key, "an object"), nullptr;
    return &value->get_object();
  }
  std::vector<std::string> optional_texts(std::string_view key) {
    std::vector<std::string> texts;
    const auto* value = field(key);
    if (value == nullptr || value->is_null()) return texts;
    if (!value->is_array()) return wrong(key, "a list of texts"), texts;
    for (const auto& item : value->get_array()) {
      if (!item.is_string()) return wrong(key, "a list of texts"), texts;
      texts.emplace_back(item.get_string());
    }
    return texts;
  }
  void wrong(std::string_view key, std::string_view expected) {
    note({Fault::invalid_input, std::string{key} + ": expected " + std::string{expected}});
  }

  template <class T>
  Result<Event> done(T&& record) {
    if (error_) return tl::unexpected(*error_);
    return Event{std::forward<T>(record)};
  }

 private:
  const json::value* field(std::string_view key) const {
    const auto* object = root_.if_object();
    return object == nullptr ? nullptr : object->if_contains(key);
  }
  template <class T>
  T take(Result<T> result) {
    if (result) return std::move(*result);
    note(result.error());
    return {};
  }
  void note(base::Error error) {
    if (!error_) error_ = std::move(error);
  }

  const json::value& root_;
  std::optional<base::Error> error_;
};

Result<Event> read_environment(const json::value& root) {
  Reader reader{root};
  if (const auto schema = reader.integer("schema"); schema != 1) {
    reader.wrong("schema", "1, not " + std::to_string(schema));
  }
  Environment environment;
  environment.probe = reader.text("probe");
  environment.python = reader.text("python");
  environment.torch = reader.text("torch");
  environment.torch_git = reader.optional_text("torch_git");
  environment.pytest = reader.optional_text("pytest");
  environment.suite = reader.optional_text("suite");
  environment.device.type = reader.text("device.type");
  environment.device.count = reader.optional_integer("device.count");
  environment.device.name = reader.optional_text("device.name");
  if (const auto* facts = reader.optional_object("facts")) {
    for (const auto& [name, value] : *facts) {
      if (!value.is_string()) {
        reader.wrong("facts", "text for every name");
        break;
      }
      environment.facts.emplace(name, value.get_string());
    }
  }
  return reader.done(std::move(environment));
}

Result<Event> read_test(const json::value& root) {
  Reader reader{root};
  CollectedTest test;
  test.node_id = reader.text("node");
  test.id.file = reader.text("file");
  test.id.class_name = reader.optional_text("class");
  test.id.method = reader.text("method");
  const auto* variant = reader.optional_object("variant");
  test.id.variant = variant == nullptr ? "{}" : base::canonical_json(*variant);
  test.line = reader.optional_integer("line");
  test.source = reader.optional_text("source");
  test.markers = reader.optional_texts("markers");
  test.quick = reader.optional_bool("quick");
  if (test.node_id.empty()) reader.wrong("node", "a node id");
  if (test.id.file.empty()) reader.wrong("file", "a path");
  return reader.done(std::move(test));
}

Result<Event> read_collect_error(const json::value& root) {
  Reader reader{root};
  CollectError error;
  error.file = reader.text("file");
  error.type = reader.optional_text("type");
  error.message = reader.optional_text("message");
  error.traceback = reader.optional_text("traceback");
  return reader.done(std::move(error));
}

std::optional<Reported> parse_reported(std::string_view name) {
  if (name == "passed") return Reported::passed;
  if (name == "failed") return Reported::failed;
  if (name == "skipped") return Reported::skipped;
  if (name == "xfailed") return Reported::xfailed;
  if (name == "xpassed") return Reported::xpassed;
  if (name == "error") return Reported::error;
  return {};
}

Result<Event> read_finish(const json::value& root) {
  Reader reader{root};
  Finish finish;
  finish.node_id = reader.text("node");
  const auto outcome = reader.text("outcome");
  if (const auto reported = parse_reported(outcome)) {
    finish.outcome = *reported;
  } else {
    reader.wrong("outcome", "passed, failed, skipped, xfailed, xpassed or error, not '" +
                                base::to_utf8(outcome, k_shown) + "'");
  }
  finish.strict = reader.optional_bool("strict");
  finish.phase = reader.optional_text("phase");
  finish.type = reader.optional_text("type");
  finish.message = reader.optional_text("message");
  finish.traceback = reader.optional_text("traceback");
  finish.duration = reader.seconds("seconds");
  finish.grown = {reader.optional_integer("host_grown"), reader.optional_integer("device_grown")};
  if (const auto* object = root.if_object()) {
    auto operators = base::read_operators(*object);
    if (!operators) return tl::unexpected(operators.error());
    finish.operators = std::move(*operators);
  }
  return reader.done(std::move(finish));
}

Result<Event> read_observer(const json::value& root) {
  Reader reader{root};
  Observer observer;
  observer.observer = reader.text("observer");
  observer.library = reader.optional_text("library");
  observer.note = reader.optional_text("note");
  observer.composites = reader.optional_texts("composites");
  for (const auto& [key, to] :
       {std::pair{"aliases", &observer.aliases}, {"delegates", &observer.delegates}}) {
    const auto* pairs = reader.optional_object(key);
    if (pairs == nullptr) continue;
    for (const auto& [name, of] : *pairs) {
      if (!of.is_string()) {
        reader.wrong(key, "an operator for every name");
        break;
      }
      to->emplace_back(name, of.get_string());
    }
  }
  return reader.done(std::move(observer));
}

template <class T>
Result<Event> read_node(const json::value& root) {
  Reader reader{root};
  T record{reader.text("node")};
  return reader.done(std::move(record));
}

Result<Event> read_event(const json::value& root) {
  const auto ev = base::require_string(root, "ev");
  if (!ev) return tl::unexpected(ev.error());
  if (*ev == "start") return read_node<Start>(root);
  if (*ev == "finish") return read_finish(root);
  if (*ev == "test") return read_test(root);
  if (*ev == "collect_error") return read_collect_error(root);
  if (*ev == "environment") return read_environment(root);
  if (*ev == "missing") return read_node<Missing>(root);
  if (*ev == "end") return Event{End{}};
  if (*ev == "collecting") {
    Reader reader{root};
    Collecting collecting{reader.text("file")};
    return reader.done(std::move(collecting));
  }
  if (*ev == "collect_skip") {
    Reader reader{root};
    CollectSkip skip{reader.text("file"), reader.optional_text("message")};
    return reader.done(std::move(skip));
  }
  if (*ev == "observer") return read_observer(root);
  if (*ev == "environment_error" || *ev == "request_error" || *ev == "internal_error") {
    Reader reader{root};
    ProbeFailure failure{*ev, reader.optional_text("what"), reader.optional_text("type"),
                         reader.optional_text("message")};
    return reader.done(std::move(failure));
  }
  if (*ev == "ready") {
    Reader reader{root};
    const Ready ready{reader.optional_integer("collected")};
    return reader.done(ready);
  }
  return Event{Unknown{*ev, root.get_object()}};
}

}  // namespace

Result<Event> parse_event(std::string_view line) {
  const auto root = base::parse_json(line, "probe's line");
  auto event = root ? read_event(*root) : Result<Event>{tl::unexpected(root.error())};
  if (event) return event;
  const auto shown = base::to_utf8(line, k_shown);
  return base::fail(Fault::invalid_input, "not a line of the probe (" + event.error().message +
                                              "): " + shown + (line.size() > k_shown ? "…" : ""));
}

}  // namespace crosscheck::runner
