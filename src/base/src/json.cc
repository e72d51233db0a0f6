#include "crosscheck/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parser.hpp>
#include <cmath>
#include <exception>
#include <limits>
#include <vector>

namespace crosscheck::base {
namespace {

constexpr std::size_t k_depth_limit = 64;
constexpr std::string_view k_replacement = "\xEF\xBF\xBD";  // U+FFFD

tl::unexpected<Error> syntax_error(std::string_view text, std::size_t at, std::string_view what,
                                   std::size_t first_line, std::string_view why) {
  const std::string_view before = text.substr(0, at);
  const auto line = first_line + static_cast<std::size_t>(std::ranges::count(before, '\n'));
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? at : at - newline - 1;
  return fail(Fault::invalid_input, fmt::format("{}:{}:{}: {}", what, line, column + 1, why));
}

std::string describe(const json::error_code& code) {
  if (code == json::error::incomplete) return "the JSON text is cut off";
  if (code == json::error::extra_data) return "something follows the JSON value";
  if (code == json::error::too_deep) return fmt::format("nested over {} levels", k_depth_limit);
  return "not JSON: " + code.message();
}

json::parse_options strict() {
  json::parse_options options;
  options.max_depth = k_depth_limit;
  return options;
}

// What a parser finds, kept nowhere.
struct Ignore {
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = max_object_size;
  static constexpr std::size_t max_key_size = max_object_size;
  static constexpr std::size_t max_string_size = max_object_size;
  using Code = json::error_code&;
  using Text = json::string_view;
  static bool on_document_begin(Code) { return true; }
  static bool on_document_end(Code) { return true; }
  static bool on_object_begin(Code) { return true; }
  static bool on_object_end(std::size_t, Code) { return true; }
  static bool on_array_begin(Code) { return true; }
  static bool on_array_end(std::size_t, Code) { return true; }
  static bool on_key_part(Text, std::size_t, Code) { return true; }
  static bool on_key(Text, std::size_t, Code) { return true; }
  static bool on_string_part(Text, std::size_t, Code) { return true; }
  static bool on_string(Text, std::size_t, Code) { return true; }
  static bool on_number_part(Text, Code) { return true; }
  static bool on_int64(std::int64_t, Text, Code) { return true; }
  static bool on_uint64(std::uint64_t, Text, Code) { return true; }
  static bool on_double(double, Text, Code) { return true; }
  static bool on_bool(bool, Code) { return true; }
  static bool on_null(Code) { return true; }
  static bool on_comment_part(Text, Code) { return true; }
  static bool on_comment(Text, Code) { return true; }
};

std::string_view kind_name(const json::value* value) {
  if (value == nullptr) return "nothing";
  switch (value->kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "an integer";
    case json::kind::double_:
      return "a number that is no 64-bit integer";
    case json::kind::string:
      return "text";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "nothing";
}

tl::unexpected<Error> wrong_type(std::string_view path, std::string_view wanted,
                                 const json::value* found) {
  return fail(Fault::invalid_input,
              fmt::format("field {}: expected {}, found {}", path, wanted, kind_name(found)));
}

std::optional<std::int64_t> as_int(const json::value& value) {
  if (const auto* i = value.if_int64()) return *i;
  if (const auto* u = value.if_uint64();
      u != nullptr && *u <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return static_cast<std::int64_t>(*u);
  }
  return std::nullopt;
}

std::optional<std::string> as_id(const json::value& value) {
  if (const auto* text = value.if_string()) return std::string{*text};
  if (const auto* i = value.if_int64()) return std::to_string(*i);
  if (const auto* u = value.if_uint64()) return std::to_string(*u);
  return std::nullopt;
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void append_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";  // JSON has no word for it
    return;
  }
  const std::string text = fmt::format("{}", value);
  out += text;
  if (text.find_first_of(".e") == std::string::npos)
    out += ".0";  // stays what it is when read again
}

class Writer {
 public:
  Writer(bool sorted, bool indented) : sorted_{sorted}, indented_{indented} {}

  void append(const json::value& value, std::size_t level) {
    switch (value.kind()) {
      case json::kind::null:
        out += "null";
        break;
      case json::kind::bool_:
        out += value.get_bool() ? "true" : "false";
        break;
      case json::kind::int64:
        out += std::to_string(value.get_int64());
        break;
      case json::kind::uint64:
        out += std::to_string(value.get_uint64());
        break;
      case json::kind::double_:
        append_double(out, value.get_double());
        break;
      case json::kind::string:
        append_quoted(out, value.get_string());
        break;
      case json::kind::array:
        append_array(value.get_array(), level);
        break;
      case json::kind::object:
        append_object(value.get_object(), level);
        break;
    }
  }

  std::string out;

 private:
  void append_array(const json::array& array, std::size_t level) {
    out += '[';
    bool first = true;
    for (const json::value& element : array) {
      if (!std::exchange(first, false)) out += ',';
      break_line(level + 1);
      append(element, level + 1);
    }
    if (!array.empty()) break_line(level);
    out += ']';
  }

  void append_object(const json::object& object, std::size_t level) {
    std::vector<const json::key_value_pair*> members;
    members.reserve(object.size());
    for (const json::key_value_pair& member : object) members.push_back(&member);
    if (sorted_)
      std::ranges::sort(members, {},
                        [](const auto* member) { return std::string_view{member->key()}; });
    out += '{';
    bool first = true;
    for (const json::key_value_pair* member : members) {
      if (!std::exchange(first, false)) out += ',';
      break_line(level + 1);
      append_quoted(out, member->key());
      out += indented_ ? ": " : ":";
      append(member->value(), level + 1);
    }
    if (!members.empty()) break_line(level);
    out += '}';
  }

  void break_line(std::size_t level) {
    if (!indented_) return;
    out += '\n';
    out.append(2 * level, ' ');
  }

  bool sorted_;
  bool indented_;
};

// The length of the well-formed character at the front, 0 if there is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [text](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;  // a continuation, or an overlong form
  if (first < 0xE0) return continues(1) ? 2 : 0;
  if (first < 0xF0) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;   // overlong
    if (first == 0xED && byte(1) >= 0xA0) return 0;  // surrogate
    return 3;
  }
  if (first > 0xF4 || !continues(1) || !continues(2) || !continues(3)) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;   // overlong
  if (first == 0xF4 && byte(1) >= 0x90) return 0;  // past U+10FFFF
  return 4;
}

// C0 and DEL are one byte; C1 is C2 80 to C2 9F.
bool is_control(std::string_view character) {
  // Those that turn the direction of writing: what is shown would not be what is there.
  constexpr std::string_view k_turning[] = {"\u202A", "\u202B", "\u202C", "\u202D", "\u202E",
                                            "\u2066", "\u2067", "\u2068", "\u2069"};
  if (std::ranges::find(k_turning, character) != std::end(k_turning)) return true;
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1)
    return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F;
  return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

}  // namespace

Result<json::value> parse_json(std::string_view text, std::string_view what,
                               std::size_t first_line) {
  json::parser parser{{}, strict()};
  json::error_code code;
  try {
    const std::size_t read = parser.write_some(text.data(), text.size(), code);
    if (!code && read != text.size()) code = json::error::extra_data;
    if (code) return syntax_error(text, read, what, first_line, describe(code));
    return parser.release();
  } catch (const std::exception& e) {
    // A string or array past the library's own limits.
    return fail(Fault::too_large, fmt::format("{}: {}", what, e.what()));
  }
}

Result<void> check_json(std::string_view text, std::string_view what) {
  json::basic_parser<Ignore> parser{strict()};
  json::error_code code;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), code);
  if (!code && read != text.size()) code = json::error::extra_data;
  if (code) return syntax_error(text, read, what, 1, describe(code));
  return {};
}

const json::value* find(const json::value& root, std::string_view path) {
  const json::value* value = &root;
  while (true) {
    const auto* object = value->if_object();
    if (object == nullptr) return nullptr;
    const std::size_t dot = path.find('.');
    value = object->if_contains(path.substr(0, dot));
    if (value == nullptr || dot == std::string_view::npos) return value;
    path.remove_prefix(dot + 1);
  }
}

Result<std::string> require_string(const json::value& root, std::string_view path) {
  const json::value* value = find(root, path);
  if (value == nullptr || !value->is_string()) return wrong_type(path, "text", value);
  return std::string{value->get_string()};
}

Result<std::int64_t> require_int(const json::value& root, std::string_view path) {
  const json::value* value = find(root, path);
  const auto number = value != nullptr ? as_int(*value) : std::nullopt;
  if (!number) return wrong_type(path, "an integer of 64 bits", value);
  return *number;
}

Result<std::string> require_id(const json::value& root, std::string_view path) {
  const json::value* value = find(root, path);
  auto id = value != nullptr ? as_id(*value) : std::nullopt;
  if (!id) return wrong_type(path, "text or an integer", value);
  return *std::move(id);
}

Result<std::optional<std::string>> optional_string(const json::value& root, std::string_view path) {
  const json::value* value = find(root, path);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return require_string(root, path);
}

Result<std::optional<std::int64_t>> optional_int(const json::value& root, std::string_view path) {
  const json::value* value = find(root, path);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return require_int(root, path);
}

Result<std::optional<std::string>> optional_id(const json::value& root, std::string_view path) {
  const json::value* value = find(root, path);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return require_id(root, path);
}

std::string canonical_json(const json::value& value) {
  Writer writer{true, false};
  writer.append(value, 0);
  return std::move(writer.out);
}

std::string pretty_json(const json::value& value) {
  Writer writer{false, true};
  writer.append(value, 0);
  return std::move(writer.out);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t n = character_length(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

std::string to_utf8(std::string_view text, std::size_t limit) {
  std::string out;
  out.reserve(std::min(text.size(), limit));
  while (!text.empty()) {
    const std::size_t n = character_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(n, 1));
    const std::string_view shown = n == 0 || is_control(character) ? k_replacement : character;
    if (shown.size() > limit - out.size()) break;
    out += shown;
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace crosscheck::base
