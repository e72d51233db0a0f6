#include "crosscheck/base/run_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"

namespace crosscheck::base {
namespace {

constexpr std::size_t k_message_limit = 4 * 1024;
constexpr std::size_t k_detail_limit = 64 * 1024;
constexpr std::size_t k_run_id_limit = 256;
constexpr std::size_t k_fingerprint_limit = 128;
constexpr std::size_t k_shard_limit = 128;
constexpr std::size_t k_basis_limit = 64;
constexpr std::size_t k_place_limit = 4096;
constexpr std::size_t k_index_limit = 256;
constexpr std::int64_t k_year_us = std::int64_t{366} * 24 * 3600 * 1'000'000;
constexpr std::string_view k_what = "run results";
constexpr std::string_view k_flaky = "flaky";

// At a character's edge; `text` is UTF-8.
std::string_view cut(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80) --limit;
  return text.substr(0, limit);
}

json::string utf8(std::string_view text) {
  if (is_utf8(text)) return json::string{text};
  return json::string{to_utf8(text)};
}

json::value variant_value(std::string_view variant) {
  if (variant.empty()) return json::object{};
  auto parsed = parse_json(variant, "variant");
  if (!parsed || !parsed->is_object()) {
    throw std::invalid_argument{fmt::format("variant is not a JSON object: {}", variant)};
  }
  return *std::move(parsed);
}

json::value number_value(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return number;
}

json::array merged_array(const std::vector<MergedRun>& runs) {
  json::array array;
  for (const auto& run : runs) {
    json::object object{{"run_id", utf8(run.run_id)}};
    if (!run.shard.empty()) object["shard"] = utf8(run.shard);
    if (run.interrupted) object["interrupted"] = true;
    array.push_back(std::move(object));
  }
  return array;
}

std::string header_line(const RunHeader& header) {
  json::object environment;
  for (const auto& [name, value] : header.environment) environment[utf8(name)] = utf8(value);
  json::array command;
  for (const std::string& argument : header.command) command.emplace_back(utf8(argument));
  json::object line{{"schema", RunHeader::k_schema},
                    {"run_id", utf8(header.run_id)},
                    {"combination", to_json(header.combination)},
                    {"command", std::move(command)},
                    {"selection", utf8(header.selection)},
                    {"started_at", to_rfc3339(header.started_at)},
                    {"finished_at", to_rfc3339(header.finished_at)},
                    {"environment", std::move(environment)}};
  if (!header.config.empty()) {
    json::array files;
    for (const ConfigFile& file : header.config) {
      files.push_back(json::object{{"path", utf8(file.path)}, {"digest", utf8(file.digest)}});
    }
    line["config"] = std::move(files);
  }
  if (!header.shard.empty()) line["shard"] = utf8(header.shard);
  if (!header.merged.empty()) line["merged"] = merged_array(header.merged);
  for (const auto& [name, set] : {std::pair{"observe", header.observe},
                                  {"imported", header.imported},
                                  {"interrupted", header.interrupted}}) {
    if (set) line[name] = true;
  }
  return json::serialize(line);
}

json::object governed_object(const Governed& governed) {
  json::object object{{"mode", to_string(governed.mode)},
                      {"basis", utf8(governed.basis)},
                      {"observed", to_string(governed.observed)}};
  if (!governed.place.empty()) object["place"] = utf8(governed.place);
  return object;
}

std::string result_line(const TestResult& result) {
  json::object line{
      {"file", utf8(result.id.file)},         {"class", utf8(result.id.class_name)},
      {"method", utf8(result.id.method)},     {"variant", variant_value(result.id.variant)},
      {"node", utf8(result.node_id)},         {"attempt", result.attempt},
      {"outcome", to_string(result.outcome)}, {"duration_us", result.duration.count()}};
  if (result.kind != FailureKind::none) line["kind"] = to_string(result.kind);
  if (!result.fingerprint.empty()) line["fingerprint"] = utf8(result.fingerprint);
  if (!result.message.empty()) line["message"] = cut(utf8(result.message), k_message_limit);
  if (!result.detail.empty()) line["detail"] = cut(utf8(result.detail), k_detail_limit);
  if (result.mismatch) line["mismatch"] = to_json(*result.mismatch);
  if (result.governed) line["governed"] = governed_object(*result.governed);
  if (result.leak) line["leak"] = to_json(*result.leak);
  return json::serialize(line);
}

// Reads the fields of one line and remembers the first that is wrong, so that the reading code is a
// list of fields.
class LineReader {
 public:
  LineReader(const json::value& root, std::size_t line) : root_{root}, line_{line} {}

  std::string text(std::string_view path) { return whole(path, take(require_string(root_, path))); }
  std::string text_or_empty(std::string_view path) {
    return whole(path, take(optional_string(root_, path)).value_or(""));
  }
  // What is looked up by it must be short.
  std::string key(std::string_view path, std::string text, std::size_t limit) {
    if (text.size() > limit) refuse(path, fmt::format("over {} bytes", limit));
    return text;
  }
  std::int64_t integer(std::string_view path, std::int64_t least, std::int64_t most) {
    const std::int64_t value = take(require_int(root_, path));
    if (!error_ && (value < least || value > most)) {
      refuse(path, fmt::format("{} is not between {} and {}", value, least, most));
    }
    return value;
  }
  bool flag(std::string_view path) {
    const json::value* value = find(root_, path);
    if (value == nullptr) return false;
    if (!value->is_bool()) refuse(path, "expected true or false");
    return value->is_bool() && value->get_bool();
  }
  // One of the words that `parse` knows.
  template <class Enum>
  Enum word(std::string_view path, std::optional<Enum> (*parse)(std::string_view),
            std::string_view what) {
    const std::string name = text(path);
    const auto known = parse(name);
    if (!known) refuse(path, fmt::format("'{}' is no {}", cut(name, 64), what));
    return known.value_or(Enum{});
  }
  Time time(std::string_view path) {
    const std::string text = take(require_string(root_, path));
    if (error_) return {};
    auto parsed = parse_rfc3339(text);
    if (!parsed) refuse(path, parsed.error().message);
    return parsed.value_or(Time{});
  }
  const json::object* object(std::string_view path, bool required) {
    const json::value* value = find(root_, path);
    if (value == nullptr && !required) return nullptr;
    const auto* object = value != nullptr ? value->if_object() : nullptr;
    if (object == nullptr) refuse(path, "expected an object");
    return object;
  }
  const json::value& root() const { return root_; }
  void refuse(std::string_view path, std::string_view why) {
    keep({Fault::invalid_input, fmt::format("field {}: {}", path, why)});
  }
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] tl::unexpected<Error> error() const { return tl::unexpected{*error_}; }

 private:
  template <class T>
  T take(Result<T> result) {
    if (result) return *std::move(result);
    keep(std::move(result.error()));
    return T{};
  }
  // No engine keeps a text with a NUL, and what is refused there may be half of a file.
  std::string whole(std::string_view path, std::string text) {
    if (text.find('\0') != std::string::npos) refuse(path, "holds a NUL character");
    return text;
  }
  void keep(Error error) {
    if (error_) return;
    error.message = fmt::format("{}:{}: {}", k_what, line_, error.message);
    error_ = std::move(error);
  }

  const json::value& root_;
  std::size_t line_;
  std::optional<Error> error_;
};

// What only some runs have.
void read_circumstances(LineReader& in, RunHeader& header) {
  if (const json::value* config = find(in.root(), "config")) {
    const auto* files = config->if_array();
    if (files == nullptr) in.refuse("config", "expected an array of {path, digest}");
    for (std::size_t i = 0; files != nullptr && i < files->size(); ++i) {
      const json::value& file = (*files)[i];
      const auto path = require_string(file, "path");
      const auto digest = require_string(file, "digest");
      if (!path || !digest) {
        in.refuse("config", "expected an array of {path, digest}");
        break;
      }
      header.config.push_back({*path, *digest});
    }
  }
  if (const json::value* merged = find(in.root(), "merged")) {
    const auto* runs = merged->if_array();
    if (runs == nullptr) in.refuse("merged", "expected an array of objects");
    for (std::size_t i = 0; runs != nullptr && i < runs->size(); ++i) {
      LineReader run{(*runs)[i], 1};
      header.merged.push_back({run.key("run_id", run.text("run_id"), k_run_id_limit),
                               run.key("shard", run.text_or_empty("shard"), k_shard_limit),
                               run.flag("interrupted")});
      if (run.failed()) in.refuse("merged", run.error().value().message);
    }
  }
  header.shard = in.key("shard", in.text_or_empty("shard"), k_shard_limit);
  header.observe = in.flag("observe");
  header.imported = in.flag("imported");
  header.interrupted = in.flag("interrupted");
}

Result<RunHeader> read_header(const json::value& root) {
  LineReader in{root, 1};
  const std::int64_t schema = in.integer("schema", 1, std::numeric_limits<int>::max());
  if (in.failed()) return in.error();
  if (schema > RunHeader::k_schema) {
    return fail(Fault::invalid_input,
                fmt::format("{}:1: schema {} is newer than {}, the newest this crosscheck reads",
                            k_what, schema, RunHeader::k_schema),
                "use a crosscheck at least as new as the one that wrote it");
  }
  RunHeader header;
  header.run_id = in.key("run_id", in.text("run_id"), k_run_id_limit);
  header.combination = {.backend = in.text("combination.backend"),
                        .backend_revision = in.text("combination.backend_revision"),
                        .core_revision = in.text("combination.core_revision"),
                        .suite_revision = in.text("combination.suite_revision"),
                        .device = in.text("combination.device"),
                        .environment_digest = in.text("combination.environment_digest")};
  const json::value* command = find(root, "command");
  if (command == nullptr || !command->is_array()) {
    in.refuse("command", "expected an array of text");
  } else {
    for (const json::value& argument : command->get_array()) {
      if (const auto* text = argument.if_string()) {
        header.command.emplace_back(*text);
      } else {
        in.refuse("command", "expected an array of text");
      }
    }
  }
  header.selection = in.text("selection");
  header.started_at = in.time("started_at");
  header.finished_at = in.time("finished_at");
  if (const json::object* environment = in.object("environment", true)) {
    for (const auto& [name, value] : *environment) {
      if (const auto* text = value.if_string()) {
        header.environment.emplace_back(name, *text);
      } else {
        in.refuse(fmt::format("environment.{}", std::string_view{name}), "expected text");
      }
    }
  }
  read_circumstances(in, header);
  if (in.failed()) return in.error();
  return header;
}

Result<std::optional<double>> read_number(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_number()) return value->to_number<double>();
  if (const auto* text = value->if_string()) {
    if (*text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (*text == "inf") return std::numeric_limits<double>::infinity();
    if (*text == "-inf") return -std::numeric_limits<double>::infinity();
  }
  return fail(Fault::invalid_input,
              fmt::format(R"({}: expected a number, "nan", "inf" or "-inf")", name));
}

Result<TestResult> read_result(const json::value& root, std::size_t line) {
  LineReader in{root, line};
  TestResult result;
  result.id.file = in.text("file");
  result.id.class_name = in.text_or_empty("class");
  result.id.method = in.text("method");
  const json::object* variant = in.object("variant", false);
  result.id.variant = variant != nullptr ? canonical_json(*variant) : "{}";
  if (const auto field = too_long(result.id)) in.refuse(*field, "too long");
  result.node_id = in.text_or_empty("node");
  result.attempt = static_cast<int>(in.integer("attempt", 1, std::numeric_limits<int>::max()));
  result.outcome = in.word("outcome", parse_outcome, "outcome");
  if (const std::string kind = in.text_or_empty("kind"); !kind.empty()) {
    if (const auto known = parse_failure_kind(kind)) {
      result.kind = *known;
    } else {
      in.refuse("kind", fmt::format("'{}' is no kind of failure", cut(kind, 64)));
    }
  }
  result.fingerprint = in.key("fingerprint", in.text_or_empty("fingerprint"), k_fingerprint_limit);
  result.message = cut(in.text_or_empty("message"), k_message_limit);
  result.detail = cut(in.text_or_empty("detail"), k_detail_limit);
  // So that sums of them hold.
  result.duration = Duration{in.integer("duration_us", 0, k_year_us)};
  if (const json::object* mismatch = in.object("mismatch", false)) {
    if (auto read = read_mismatch(*mismatch)) {
      result.mismatch = *read;
    } else {
      const auto& message = read.error().message;
      const auto colon = message.find(": ");
      in.refuse("mismatch." + message.substr(0, colon), message.substr(colon + 2));
    }
  }
  if (in.object("governed", false) != nullptr) {
    result.governed = {
        .mode = in.word("governed.mode", parse_mode, "mode"),
        .basis = in.key("governed.basis", in.text("governed.basis"), k_basis_limit),
        .place = in.key("governed.place", in.text_or_empty("governed.place"), k_place_limit),
        .observed = in.word("governed.observed", parse_outcome, "outcome")};
  }
  if (in.object("leak", false) != nullptr) {
    constexpr auto k_most = std::numeric_limits<std::int64_t>::max();
    result.leak = {in.integer("leak.host", 0, k_most), in.integer("leak.device", 0, k_most)};
  }
  if (in.failed()) return in.error();
  return result;
}

// The first line that says again what an earlier one said; results begin on the second.
Result<void> refuse_repeated(const std::vector<TestResult>& results) {
  const auto key = [&](std::size_t i) { return std::tie(results[i].id, results[i].attempt); };
  std::vector<std::size_t> order(results.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple{key(a), a} < std::tuple{key(b), b};
  });
  std::optional<std::pair<std::size_t, std::size_t>> first;  // the later, the earlier
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (key(order[i - 1]) != key(order[i])) continue;
    if (!first || order[i] < first->first) first = {order[i], order[i - 1]};
  }
  if (!first) return {};
  const auto& [again, before] = *first;
  return fail(Fault::invalid_input,
              fmt::format("{}:{}: attempt {} of {} stands on line {} already", k_what, again + 2,
                          results[again].attempt, to_string(results[again].id), before + 2));
}

}  // namespace

std::string to_string(const TestId& id) {
  std::string text = id.file + "::";
  if (!id.class_name.empty()) text += id.class_name + "::";
  text += id.method;
  if (id.variant != "{}") text += id.variant;
  return text;
}

std::optional<std::string_view> too_long(const TestId& id) {
  if (id.file.size() > TestId::k_file_limit) return "file";
  if (id.class_name.size() > TestId::k_name_limit) return "class";
  if (id.method.size() > TestId::k_name_limit) return "method";
  if (id.variant.size() > TestId::k_variant_limit) return "variant";
  return std::nullopt;
}

std::string TestId::digest() const {
  return sha256_hex(canonical_json(json::array{file, class_name, method, variant}));
}

std::string Combination::digest() const {
  return sha256_hex(canonical_json(json::array{backend, backend_revision, core_revision,
                                               suite_revision, device, environment_digest}));
}

json::object to_json(const Combination& combination) {
  return {{"backend", utf8(combination.backend)},
          {"backend_revision", utf8(combination.backend_revision)},
          {"core_revision", utf8(combination.core_revision)},
          {"suite_revision", utf8(combination.suite_revision)},
          {"device", utf8(combination.device)},
          {"environment_digest", utf8(combination.environment_digest)}};
}

json::object to_json(const Mismatch& mismatch) {
  json::object object;
  const auto set = [&object](std::string_view name, std::optional<double> number) {
    if (number) object[name] = number_value(*number);
  };
  set("absolute", mismatch.absolute);
  set("relative", mismatch.relative);
  set("absolute_tolerance", mismatch.absolute_tolerance);
  set("relative_tolerance", mismatch.relative_tolerance);
  for (const auto& [name, text] : {std::pair{"absolute_index", &mismatch.absolute_index},
                                   {"relative_index", &mismatch.relative_index},
                                   {"dtype", &mismatch.dtype}}) {
    if (!text->empty()) object[name] = utf8(*text);
  }
  return object;
}

json::object to_json(const Leak& leak) { return {{"host", leak.host}, {"device", leak.device}}; }

Result<Mismatch> read_mismatch(const json::object& object) {
  Mismatch mismatch;
  for (const auto& [name, field] : {std::pair{"absolute", &Mismatch::absolute},
                                    {"relative", &Mismatch::relative},
                                    {"absolute_tolerance", &Mismatch::absolute_tolerance},
                                    {"relative_tolerance", &Mismatch::relative_tolerance}}) {
    auto number = read_number(object, name);
    if (!number) return tl::unexpected{number.error()};
    mismatch.*field = *number;
  }
  for (const auto& [name, field] : {std::pair{"absolute_index", &Mismatch::absolute_index},
                                    {"relative_index", &Mismatch::relative_index},
                                    {"dtype", &Mismatch::dtype}}) {
    const json::value* value = object.if_contains(name);
    if (value == nullptr) continue;
    const auto* text = value->if_string();
    if (text == nullptr || text->size() > k_index_limit || text->find('\0') != text->npos) {
      return fail(Fault::invalid_input, fmt::format("{}: expected a short text", name));
    }
    mismatch.*field = *text;
  }
  return mismatch;
}

std::vector<Tested> RunResults::tested() const {
  struct Attempts {
    std::size_t at;
    int first_failure;  // attempt; over every other: none
  };
  std::vector<Tested> tested;
  std::map<std::reference_wrapper<const TestId>, Attempts, std::less<TestId>> known;
  for (const TestResult& result : results) {
    const auto [entry, added] =
        known.emplace(result.id, Attempts{tested.size(), std::numeric_limits<int>::max()});
    Attempts& attempts = entry->second;
    if (is_failure(result.outcome)) {
      attempts.first_failure = std::min(attempts.first_failure, result.attempt);
    }
    if (added) {
      tested.push_back({&result, false});
    } else if (result.attempt >= tested[attempts.at].latest->attempt) {
      tested[attempts.at].latest = &result;
    }
    Tested& test = tested[attempts.at];
    test.flaky = attempts.first_failure < test.latest->attempt &&
                 is_flaky_after_failure(test.latest->outcome);
  }
  return tested;
}

OutcomeCounts RunResults::counts() const {
  OutcomeCounts counts;
  for (const Tested& test : tested()) {
    if (test.flaky) {
      counts.add_flaky();
    } else {
      counts.add(test.latest->outcome);
    }
  }
  return counts;
}

bool breaks(const TestResult& result) {
  if (!is_fault(result.outcome)) return is_failure(result.outcome);
  return !result.governed || result.governed->mode == Mode::mandatory_success ||
         result.governed->mode == Mode::xfail_strict;
}

bool RunResults::ok() const {
  if (header.interrupted) return false;
  const std::vector<Tested> tests = tested();
  return std::ranges::none_of(tests, [](const Tested& test) {
    // A configuration leaves tests out on purpose; without one, what did not run was cut short.
    const bool cut_short = test.latest->outcome == Outcome::not_run && !test.latest->governed;
    return cut_short || breaks(*test.latest);
  });
}

json::object to_json(const OutcomeCounts& counts) {
  json::object object;
  for (std::size_t i = 0; i < k_outcome_count; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    if (counts[outcome] != 0) object[to_string(outcome)] = counts[outcome];
  }
  if (counts.flaky() != 0) object[k_flaky] = counts.flaky();
  return object;
}

OutcomeCounts read_counts(const json::object& object) {
  OutcomeCounts counts;
  for (const auto& [name, number] : object) {
    if (!number.is_int64()) continue;
    if (name == k_flaky) {
      counts.add_flaky(number.get_int64());
    } else if (const auto outcome = parse_outcome(name)) {
      counts.add(*outcome, number.get_int64());
    }
  }
  return counts;
}

std::string to_json_lines(const RunResults& run) {
  std::string text = header_line(run.header) + "\n";
  for (const TestResult& result : run.results) text += result_line(result) + "\n";
  text += fmt::format("{{\"end\":{}}}\n", run.results.size());
  return text;
}

Result<RunResults> parse_run_results(std::string_view text) {
  RunResults run;
  bool ended = false;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    const std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    ++number;
    if (ended) {
      return fail(Fault::invalid_input,
                  fmt::format("{}:{}: something follows the \"end\" line", k_what, number));
    }
    auto root = parse_json(line, k_what, number);
    if (!root) return tl::unexpected{root.error()};
    if (!root->is_object()) {
      return fail(Fault::invalid_input,
                  fmt::format("{}:{}: expected a JSON object", k_what, number));
    }
    if (number == 1) {
      auto header = read_header(*root);
      if (!header) return tl::unexpected{header.error()};
      run.header = *std::move(header);
    } else if (root->get_object().contains("end")) {
      LineReader in{*root, number};
      const auto count = in.integer("end", 0, std::numeric_limits<std::int64_t>::max());
      if (in.failed()) return in.error();
      if (static_cast<std::size_t>(count) != run.results.size()) {
        return fail(Fault::invalid_input,
                    fmt::format("{}:{}: field end: {} results are announced, {} are there", k_what,
                                number, count, run.results.size()));
      }
      ended = true;
    } else {
      auto result = read_result(*root, number);
      if (!result) return tl::unexpected{result.error()};
      run.results.push_back(*std::move(result));
    }
  }
  if (!ended) {
    return fail(Fault::invalid_input,
                number == 0
                    ? fmt::format("{}: the file is empty", k_what)
                    : fmt::format("{}:{}: the file is cut off: no \"end\" line", k_what, number));
  }
  if (auto once = refuse_repeated(run.results); !once) return tl::unexpected{once.error()};
  return run;
}

}  // namespace crosscheck::base
