#include "crosscheck/ops/trace.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <system_error>

#include "crosscheck/base/file.h"
#include "crosscheck/base/gzip.h"
#include "crosscheck/base/json.h"
#include "crosscheck/ops/names.h"

namespace crosscheck::ops {
namespace {

namespace fs = std::filesystem;
namespace json = base::json;
using base::fail;
using base::Fault;
using base::Result;

constexpr std::string_view k_format = "crosscheck-trace";
constexpr std::size_t k_text_limit = 4096;

Result<std::string> short_text(const json::value& root, std::string_view key, bool needed) {
  auto text = needed ? base::require_string(root, key) : [&]() -> Result<std::string> {
    auto found = base::optional_string(root, key);
    if (!found) return tl::unexpected(found.error());
    return std::move(*found).value_or("");
  }();
  if (text && (text->size() > k_text_limit || text->find('\0') != std::string::npos)) {
    return fail(Fault::invalid_input,
                fmt::format("{}: expected at most {} bytes, and no NUL", key, k_text_limit));
  }
  return text;
}

Result<Build> read_build(const json::value& root) {
  Build build;
  for (const auto& [key, to] : {std::pair{"torch", &build.torch},
                                {"torch_git", &build.torch_git},
                                {"device", &build.device},
                                {"suite", &build.suite}}) {
    auto text = short_text(root, key, true);
    if (!text) return tl::unexpected(text.error());
    *to = std::move(*text);
  }
  return build;
}

Result<std::vector<std::string>> read_names(const json::object& root, std::string_view key) {
  std::vector<std::string> names;
  const auto* value = root.if_contains(key);
  if (value == nullptr) return names;
  const auto* array = value->if_array();
  if (array == nullptr) return fail(Fault::invalid_input, fmt::format("{}: expected a list", key));
  for (const auto& item : *array) {
    if (!item.is_string() || item.get_string().size() > base::Operators::k_name_limit) {
      return fail(Fault::invalid_input, fmt::format("{}: expected operators' names", key));
    }
    names.emplace_back(item.get_string());
  }
  return names;
}

Result<Aliases> read_pairs(const json::object& root, std::string_view key) {
  Aliases pairs;
  const auto* value = root.if_contains(key);
  if (value == nullptr) return pairs;
  const auto* object = value->if_object();
  if (object == nullptr) {
    return fail(Fault::invalid_input, fmt::format("{}: expected an object", key));
  }
  for (const auto& [name, of] : *object) {
    if (!of.is_string() || of.get_string().size() > base::Operators::k_name_limit ||
        name.size() > base::Operators::k_name_limit) {
      return fail(Fault::invalid_input, fmt::format("{}: expected operators' names", key));
    }
    pairs.emplace_back(name, of.get_string());
  }
  return pairs;
}

Result<TraceHeader> read_header(const json::value& root) {
  TraceHeader header;
  const auto* object = root.if_object();
  const auto* format = object == nullptr ? nullptr : object->if_contains("format");
  if (format == nullptr || !format->is_string() || format->get_string() != k_format) {
    return fail(Fault::invalid_input, "no trace: expected {\"format\":\"crosscheck-trace\", …}",
                "crosscheck trace writes one");
  }
  const auto schema = base::require_int(root, "schema");
  if (!schema) return tl::unexpected(schema.error());
  if (*schema != TraceHeader::k_schema) {
    return fail(
        Fault::invalid_input,
        fmt::format("schema: this program reads {}, not {}", TraceHeader::k_schema, *schema),
        "trace again, or use the program that wrote it");
  }
  auto build = read_build(root);
  if (!build) return tl::unexpected(build.error());
  header.build = std::move(*build);
  for (const auto& [key, to] : {std::pair{"python", &header.python},
                                {"observer", &header.observer},
                                {"note", &header.note},
                                {"selection", &header.selection},
                                {"shard", &header.shard}}) {
    auto text = short_text(root, key, false);
    if (!text) return tl::unexpected(text.error());
    *to = std::move(*text);
  }
  auto composites = read_names(*object, "composites");
  if (!composites) return tl::unexpected(composites.error());
  header.composites = std::move(*composites);
  for (const auto& [key, to] :
       {std::pair{"aliases", &header.aliases}, {"delegates", &header.delegates}}) {
    auto pairs = read_pairs(*object, key);
    if (!pairs) return tl::unexpected(pairs.error());
    *to = std::move(*pairs);
  }
  return header;
}

Result<TracedTest> read_test(const json::value& root) {
  TracedTest test;
  const auto* object = root.if_object();
  for (const auto& [key, to, needed] : {std::tuple{"file", &test.id.file, true},
                                        {"class", &test.id.class_name, false},
                                        {"method", &test.id.method, true},
                                        {"node", &test.node_id, true}}) {
    auto text = short_text(root, key, needed);
    if (!text) return tl::unexpected(text.error());
    *to = std::move(*text);
  }
  const auto* variant = object->if_contains("variant");
  if (variant != nullptr && !variant->is_object()) {
    return fail(Fault::invalid_input, "variant: expected an object");
  }
  test.id.variant = variant == nullptr ? "{}" : base::canonical_json(*variant);
  if (const auto field = base::too_long(test.id)) {
    return fail(Fault::invalid_input, fmt::format("{}: over what a test's identity holds", *field));
  }
  const auto outcome = base::require_string(root, "outcome");
  if (!outcome) return tl::unexpected(outcome.error());
  const auto known = base::parse_outcome(*outcome);
  if (!known) return fail(Fault::invalid_input, "outcome: there is none of that name");
  test.outcome = *known;
  auto operators = base::read_operators(*object);
  if (!operators) return tl::unexpected(operators.error());
  test.operators = std::move(*operators);
  return test;
}

base::Error system_error(const fs::path& path, int number) {
  const auto reason = std::generic_category().message(number);
  if (number == ENOSPC || number == EDQUOT) {
    return {Fault::full, path.string() + ": " + reason, "free disk space, then --resume"};
  }
  return {Fault::read_only, path.string() + ": " + reason, {}};
}

base::Error unfinished(const fs::path& partial) {
  return {Fault::conflict, "an unfinished trace lies at " + partial.string(),
          "go on with it: --resume; or remove it"};
}

}  // namespace

Result<void> check_same_build(const Build& trace, std::string_view name, const Build& wanted,
                              std::string_view whose) {
  std::string differences;
  const auto compare = [&](std::string_view what, const std::string& has,
                           const std::string& wants) {
    if (has == wants) return;
    differences += fmt::format("{}{} is {}, not {}", differences.empty() ? "" : "; ", what,
                               has.empty() ? "unknown" : has, wants.empty() ? "unknown" : wants);
  };
  compare("torch", trace.torch, wanted.torch);
  compare("torch's revision", trace.torch_git, wanted.torch_git);
  compare("the device", trace.device, wanted.device);
  compare("the suite's revision", trace.suite, wanted.suite);
  if (differences.empty()) return {};
  return fail(Fault::invalid_input,
              fmt::format("{} is of another build than {}: {}", name, whose, differences));
}

std::string header_line(const TraceHeader& header) {
  json::object line{{"format", k_format},
                    {"schema", TraceHeader::k_schema},
                    {"torch", header.build.torch},
                    {"torch_git", header.build.torch_git},
                    {"device", header.build.device},
                    {"suite", header.build.suite},
                    {"python", header.python},
                    {"observer", header.observer}};
  for (const auto& [key, text] : {std::pair{"note", &header.note},
                                  {"selection", &header.selection},
                                  {"shard", &header.shard}}) {
    if (!text->empty()) line[key] = *text;
  }
  json::array composites;
  for (const auto& name : header.composites) composites.emplace_back(name);
  line["composites"] = std::move(composites);
  for (const auto& [key, pairs] :
       {std::pair{"aliases", &header.aliases}, {"delegates", &header.delegates}}) {
    json::object object;
    for (const auto& [name, of] : *pairs) object[name] = of;
    line[key] = std::move(object);
  }
  return json::serialize(line);
}

std::string test_line(const TracedTest& test) {
  auto variant = base::parse_json(test.id.variant, "variant");
  json::object line{{"file", test.id.file},
                    {"class", test.id.class_name},
                    {"method", test.id.method},
                    {"variant", variant ? std::move(*variant) : json::value(json::object{})},
                    {"node", test.node_id},
                    {"outcome", base::to_string(test.outcome)}};
  if (test.operators) {
    for (auto& [key, value] : base::to_json(*test.operators)) line[key] = std::move(value);
  }
  return json::serialize(line);
}

std::string end_line(std::size_t tests) { return fmt::format(R"({{"end":{}}})", tests); }

TraceReader::TraceReader(std::string name, OnHeader on_header, OnTest on_test)
    : name_{std::move(name)}, on_header_{std::move(on_header)}, on_test_{std::move(on_test)} {}

Result<void> TraceReader::add(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    if (held_.size() + std::min(end, bytes.size()) > k_line_limit) {
      ++line_;
      return tl::unexpected(
          at({Fault::too_large, fmt::format("a line of over {} MiB", k_line_limit >> 20U)}));
    }
    if (end == std::string_view::npos) {
      held_ += bytes;
      return {};
    }
    const auto rest = bytes.substr(end + 1);
    auto done = [&] {
      if (held_.empty()) return line(bytes.substr(0, end));
      held_ += bytes.substr(0, end);
      return line(std::exchange(held_, {}));
    }();
    if (!done) return done;
    bytes = rest;
  }
  return {};
}

base::Error TraceReader::at(const base::Error& error) const {
  return {error.fault, fmt::format("{}:{}: {}", name_, line_, error.message), error.remedy};
}

Result<void> TraceReader::line(std::string_view text) {
  ++line_;
  if (end_) {
    return tl::unexpected(at({Fault::invalid_input, "expected nothing behind the end"}));
  }
  if (!has_header_) return header(text);
  const auto root = base::parse_json(text, name_, line_);
  if (!root) return tl::unexpected(root.error());
  const auto* object = root->if_object();
  if (object == nullptr) {
    return tl::unexpected(at({Fault::invalid_input, "expected an object"}));
  }
  if (object->contains("end")) {
    const auto end = base::require_int(*root, "end");
    if (!end) return tl::unexpected(at(end.error()));
    if (*end < 0 || static_cast<std::size_t>(*end) != tests_) {
      return tl::unexpected(at({Fault::invalid_input,
                                fmt::format("end: {} tests are said, {} are here", *end, tests_),
                                "trace again: lines are missing"}));
    }
    end_ = tests_;
    return {};
  }
  auto test = read_test(*root);
  if (!test) return tl::unexpected(at(test.error()));
  ++tests_;
  return on_test_(std::move(*test));
}

Result<void> TraceReader::header(std::string_view text) {
  const auto root = base::parse_json(text, name_, line_);
  if (!root) return tl::unexpected(root.error());
  auto header = read_header(*root);
  if (!header) return tl::unexpected(at(header.error()));
  has_header_ = true;
  return on_header_(std::move(*header));
}

Result<TraceRead> TraceReader::finish() {
  if (!has_header_) {
    return fail(Fault::invalid_input, name_ + " ends before its header: it is empty or cut off",
                "trace again");
  }
  TraceRead read{tests_, {}};
  if (!end_) {
    read.cut_off =
        fmt::format("{} is cut off behind line {}: {} tests are whole", name_, line_, tests_);
  }
  return read;
}

Result<TraceRead> read_trace(const fs::path& path, const TraceReader::OnHeader& on_header,
                             const TraceReader::OnTest& on_test) {
  struct Closer {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };
  std::error_code is_folder;
  if (fs::is_directory(path, is_folder)) {
    return fail(Fault::invalid_input, path.string() + " is a folder, not a trace");
  }
  errno = 0;
  // Reads what is not gzipped as it is.
  const std::unique_ptr<gzFile_s, Closer> file{gzopen(path.c_str(), "rb")};
  if (!file) {
    const int number = errno == 0 ? ENOMEM : errno;
    return fail(number == ENOENT ? Fault::not_found : Fault::invalid_input,
                path.string() + ": " + std::generic_category().message(number));
  }
  gzbuffer(file.get(), 1U << 18U);
  TraceReader reader{path.string(), on_header, on_test};
  std::string buffer(std::size_t{1} << 18U, '\0');
  while (true) {
    const int got = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    if (got > 0) {
      const auto bytes = std::string_view{buffer}.substr(0, static_cast<std::size_t>(got));
      if (auto added = reader.add(bytes); !added) return tl::unexpected(added.error());
      continue;
    }
    // A gzipped file that was cut off ends in the middle; other damage is in its data.
    int code = Z_OK;
    const char* message = gzerror(file.get(), &code);
    if (got == 0 || code == Z_BUF_ERROR) return reader.finish();
    return fail(Fault::invalid_input, path.string() + ": " + message);
  }
}

fs::path TraceWriter::partial_path(const fs::path& path) { return path.string() + ".partial"; }

Result<void> TraceWriter::check(const fs::path& path, bool go_on) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return fail(Fault::usage, "the trace's file " + path.string() + " is a folder");
  }
  const auto partial = partial_path(path);
  if (!go_on && fs::exists(partial, error)) return tl::unexpected(unfinished(partial));
  const auto folder = path.has_parent_path() ? path.parent_path() : fs::path{"."};
  if (::access(folder.c_str(), W_OK) != 0) {
    const int number = errno;
    return fail(number == ENOENT || number == ENOTDIR ? Fault::usage : Fault::read_only,
                "the trace cannot be written: " + folder.string() + ": " +
                    std::generic_category().message(number));
  }
  return {};
}

Result<TraceWriter> TraceWriter::begin(const fs::path& path, const TraceHeader& header) {
  const auto partial = partial_path(path);
  // "x": who comes second must not write into the first one's.
  std::FILE* file = std::fopen(partial.c_str(), "wxe");
  if (file == nullptr && errno == EEXIST) {
    return tl::unexpected(unfinished(partial));
  }
  if (file == nullptr) return tl::unexpected(system_error(partial, errno));
  TraceWriter writer{path, file};
  if (auto written = writer.write(header_line(header)); !written) {
    return tl::unexpected(written.error());
  }
  return writer;
}

Result<TraceWriter> TraceWriter::go_on(const fs::path& path, const TraceHeader& header,
                                       const std::function<void(const TracedTest&)>& kept) {
  const auto partial = partial_path(path);
  std::error_code error;
  if (!fs::exists(partial, error)) return begin(path, header);
  std::vector<TracedTest> tests;
  const auto read = read_trace(
      partial,
      [&](const TraceHeader& found) -> Result<void> {
        if (auto same = check_same_build(found.build, partial.string(), header.build, "this run");
            !same) {
          return same;
        }
        if (found.observer != header.observer || found.selection != header.selection ||
            found.shard != header.shard) {
          return fail(Fault::invalid_input,
                      fmt::format("{} is of other tests or another observer: {}, {} {}",
                                  partial.string(), found.observer, found.selection, found.shard),
                      "trace with the same options, or remove it");
        }
        return {};
      },
      [&](TracedTest test) -> Result<void> {
        tests.push_back(std::move(test));
        return {};
      });
  if (!read) return tl::unexpected(read.error());
  // Anew, without half a line at the end.
  const fs::path fresh = partial.string() + ".new";
  fs::remove(fresh, error);
  std::FILE* file = std::fopen(fresh.c_str(), "we");
  if (file == nullptr) return tl::unexpected(system_error(fresh, errno));
  TraceWriter writer{path, file};
  auto written = writer.write(header_line(header));
  for (const auto& test : tests) {
    if (written) written = writer.add(test);
  }
  if (!written) return tl::unexpected(written.error());
  fs::rename(fresh, partial, error);
  if (error) return fail(Fault::read_only, partial.string() + ": " + error.message());
  for (const auto& test : tests) kept(test);
  return writer;
}

Result<void> TraceWriter::write(const std::string& line) {
  const auto whole = line + "\n";
  if (std::fwrite(whole.data(), 1, whole.size(), file_.get()) != whole.size() ||
      std::fflush(file_.get()) != 0) {
    return tl::unexpected(system_error(partial_path(path_), errno));
  }
  return {};
}

Result<void> TraceWriter::add(const TracedTest& test) {
  if (auto written = write(test_line(test)); !written) return written;
  ++tests_;
  return {};
}

Result<void> TraceWriter::finish() {
  if (auto written = write(end_line(tests_)); !written) return written;
  const auto partial = partial_path(path_);
  const auto text = base::read_file(partial);
  if (!text) return tl::unexpected(text.error());
  const bool gzipped = path_.extension() == ".gz";
  if (auto written = base::write_file_atomically(path_, gzipped ? base::gzip(*text) : *text);
      !written) {
    return written;
  }
  std::error_code error;
  fs::remove(partial, error);
  return {};
}

void TraceWriter::discard() {
  std::error_code error;
  fs::remove(partial_path(path_), error);
}

}  // namespace crosscheck::ops
