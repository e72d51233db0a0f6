#include "crosscheck/config/write.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "crosscheck/base/json.h"
#include "schema.h"

namespace crosscheck::config {
namespace {

// Of well-formed UTF-8: the character at `at`, which moves behind it.
char32_t take_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t value = length == 1 ? lead : lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) value = (value << 6U) | (byte(at + i) & 0x3FU);
  at += length;
  return value;
}

// Whether YAML lets the character stand for itself, and it ends no line.
bool stands_for_itself(char32_t c) {
  return (c >= 0x20 && c <= 0x7E) || (c >= 0xA0 && c <= 0xD7FF && c != 0x2028 && c != 0x2029) ||
         (c >= 0xE000 && c <= 0xFFFD && c != 0xFEFF) || c >= 0x10000;
}

std::string flow_list(const std::vector<std::string>& items) {
  std::vector<std::string> written;
  written.reserve(items.size());
  for (const std::string& item : items) written.push_back(plain_or_quoted(item));
  return fmt::format("[{}]", fmt::join(written, ", "));
}

// What an anchor or a tag looks like in front of a value is in the source before it.
std::string properties(Node node) {
  if (!node.is_special()) return {};
  const std::string_view source = node.source();
  std::string text;
  for (std::size_t at = 0; at < source.size() && (source[at] == '&' || source[at] == '!');) {
    const auto end = std::min(source.find_first_of(" \t\r\n,]}", at), source.size());
    text += std::string{source.substr(at, end - at)} + " ";
    at = std::min(source.find_first_not_of(" \t\r\n", end), source.size());
  }
  return text;
}

std::string scalar(Node node, bool in_flow) {
  if (node.is(Node::Kind::alias)) return std::string{node.source()};
  // As it was written, where that is one line and no flow indicator can be mistaken.
  const std::string_view source = node.source();
  const bool one_line = source.find_first_of("\r\n") == std::string_view::npos;
  if (node.style() == Node::Style::plain && !node.is_special()) {
    if (node.text().empty()) return "null";
    if (one_line && (!in_flow || source.find_first_of(",[]{}") == std::string_view::npos))
      return std::string{source};
    return in_quotes(node.text());
  }
  if (node.style() == Node::Style::quoted && one_line && !node.is_special())
    return std::string{source};
  if (node.style() == Node::Style::plain) return properties(node) + plain_or_quoted(node.text());
  return properties(node) + in_quotes(node.text());
}

bool is_collection(Node node) {
  return node.is(Node::Kind::mapping) || node.is(Node::Kind::sequence);
}

}  // namespace

std::string in_quotes(std::string_view text) {
  const std::string clean = base::is_utf8(text) ? std::string{text} : base::to_utf8(text);
  std::string out = "\"";
  for (std::size_t at = 0; at < clean.size();) {
    const std::size_t from = at;
    const char32_t c = take_character(clean, at);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (stands_for_itself(c)) {
      out += clean.substr(from, at - from);
    } else if (c <= 0xFF) {
      out += fmt::format("\\x{:02X}", static_cast<unsigned>(c));
    } else {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    }
  }
  return out + '"';
}

std::string plain_or_quoted(std::string_view text) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view{"_.:/-+"}.find(c) != std::string_view::npos;
  };
  const bool plain = !text.empty() &&
                     (std::isalpha(static_cast<unsigned char>(text[0])) != 0 || text[0] == '_') &&
                     std::all_of(text.begin(), text.end(), fits) && text.back() != ':' &&
                     !parse_boolean(text) && text != "null" && text != "Null" && text != "NULL" &&
                     text != "y" && text != "Y" && text != "n" && text != "N";
  return plain ? std::string{text} : in_quotes(text);
}

std::vector<std::string> rationale_lines(const Rationale& rationale) {
  std::vector<std::string> lines{fmt::format("reason: {}", to_string(rationale.reason))};
  const auto list = [&](std::string_view key, const std::vector<std::string>& items) {
    if (!items.empty()) lines.push_back(fmt::format("{}: {}", key, flow_list(items)));
  };
  list("operators", rationale.operators);
  list("dtypes", rationale.dtypes);
  list("features", rationale.features);
  if (!rationale.mismatch.empty()) {
    std::vector<std::string> numbers;
    numbers.reserve(rationale.mismatch.size());
    for (const auto& [key, value] : rationale.mismatch)
      numbers.push_back(fmt::format("{}: {}", key, value));
    lines.push_back(fmt::format("mismatch: {{{}}}", fmt::join(numbers, ", ")));
  }
  if (!rationale.text.empty()) lines.push_back("text: " + in_quotes(rationale.text));
  if (!rationale.evidence.empty()) {
    std::vector<std::string> items;
    items.reserve(rationale.evidence.size());
    for (const Evidence& evidence : rationale.evidence)
      items.push_back(fmt::format("{{kind: {}, ref: {}}}", plain_or_quoted(evidence.kind),
                                  in_quotes(evidence.ref)));
    lines.push_back(fmt::format("evidence: [{}]", fmt::join(items, ", ")));
  }
  if (rationale.decided_by)
    lines.push_back(fmt::format("decided_by: {}", to_string(*rationale.decided_by)));
  if (!rationale.decided_at.empty()) lines.push_back("decided_at: " + rationale.decided_at);
  if (!rationale.expires.empty()) lines.push_back("expires: " + rationale.expires);
  list("test_source", rationale.test_sources);
  return lines;
}

std::string flow(Node node) {
  if (!is_collection(node)) return scalar(node, true);
  std::vector<std::string> parts;
  if (node.is(Node::Kind::sequence)) {
    for (const Node item : node.children()) parts.push_back(flow(item));
    return properties(node) + fmt::format("[{}]", fmt::join(parts, ", "));
  }
  for (Node key = node.first(); key; key = key.next().next())
    parts.push_back(fmt::format("{}: {}", scalar(key, true), flow(key.next())));
  return properties(node) + fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string in_line(Node node) { return is_collection(node) ? flow(node) : scalar(node, false); }

std::string block(Node node, std::size_t indent) {
  const std::string before(indent, ' ');
  if (!is_collection(node) || !node.first() || node.is_special())
    return before + in_line(node) + "\n";
  std::string out;
  if (node.is(Node::Kind::sequence)) {
    for (const Node item : node.children()) {
      if (is_collection(item) && item.first() && !item.is_special()) {
        std::string lines = block(item, indent + 2);
        lines[indent] = '-';
        out += lines;
      } else {
        out += before + "- " + in_line(item) + "\n";
      }
    }
    return out;
  }
  for (Node key = node.first(); key; key = key.next().next()) {
    const Node value = key.next();
    // What was written in one line, such as a shape, stays in one.
    if (is_collection(value) && value.first() && !value.is_special() &&
        value.style() == Node::Style::block) {
      out += before + scalar(key, false) + ":\n" + block(value, indent + 2);
    } else {
      out += before + scalar(key, false) + ": " + in_line(value) + "\n";
    }
  }
  return out;
}

}  // namespace crosscheck::config
