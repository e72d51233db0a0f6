#include "pytest_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text.h"

namespace crosscheck::runner {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() && !is_digit(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alpha(c) || is_digit(c) || c == '_' || c == '.'; });
}

std::string_view last_part(std::string_view name) {
  return name.substr(name.find_last_of('.') + 1);
}

// An exception's name as it stands before a message: told from a word with a colon by its case and
// its usual ending.
bool is_exception(std::string_view name) {
  if (!is_name(name)) return false;
  const auto last = last_part(name);
  if (last.empty() || last.front() < 'A' || last.front() > 'Z') return false;
  for (const std::string_view ending :
       {"Error", "Exception", "Failed", "Failure", "Warning", "Interrupt", "Exit", "Skipped",
        "SkipTest", "Unsupported", "Timeout", "StopIteration"}) {
    if (last.ends_with(ending)) return true;
  }
  return false;
}

// The name in a traceback's closing line, "path/file.py:12: ValueError".
std::string_view closing_type(std::string_view line) {
  const auto colon = line.rfind(": ");
  if (colon == std::string_view::npos) return {};
  const auto name = line.substr(colon + 2);
  auto number = line.substr(0, colon);
  const auto before = number.rfind(':');
  if (before == std::string_view::npos || before + 1 == number.size()) return {};
  number.remove_prefix(before + 1);
  if (!std::all_of(number.begin(), number.end(), is_digit) || !is_name(name)) return {};
  return name;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  return text;
}

}  // namespace

PytestError pytest_error(std::string_view text, std::string_view summary) {
  std::string marked;
  std::string_view closing;
  bool going_on = false;
  bool captured = false;
  for_each_line(text, [&](std::string_view line) {
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    // What the test itself printed may look like anything.
    if (line.starts_with("-----") && line.find(" Captured ") != std::string_view::npos) {
      captured = true;
    }
    if (captured) return;
    if (line.starts_with("E   ") || line == "E") {
      if (!going_on) marked.clear();
      going_on = true;
      if (!marked.empty()) marked += '\n';
      marked += line.substr(std::min<std::size_t>(4, line.size()));
      return;
    }
    going_on = false;
    if (const auto type = closing_type(line); !type.empty()) closing = type;
  });
  // The error stands as deep as the line it is about.
  if (const auto deep = marked.find_first_not_of(' '); deep > 0 && deep != std::string::npos) {
    const std::string indent(deep, ' ');
    std::string straight;
    for_each_line(marked, [&](std::string_view line) {
      if (line.starts_with(indent)) line.remove_prefix(deep);
      if (!straight.empty()) straight += '\n';
      straight += line;
    });
    marked = std::move(straight);
  }
  PytestError error;
  error.message = trimmed(marked.empty() ? summary : std::string_view{marked});
  if (error.message.empty()) error.message = trimmed(text);
  const std::string_view message = error.message;
  const auto colon = first_line(message).find(": ");
  const auto head = first_line(message).substr(0, colon);
  const auto same = [&](std::string_view name) {
    return head == name || last_part(head) == last_part(name);
  };
  if (!closing.empty() && is_name(head) && same(closing)) {
    error.type = head;
  } else if (is_exception(head)) {
    error.type = head;
  } else {
    // pytest leaves "AssertionError: " out before a comparison that it explains itself.
    error.type = message.starts_with("assert ") ? "AssertionError" : std::string{closing};
    return error;
  }
  error.message = colon == std::string_view::npos ? std::string{} : error.message.substr(colon + 2);
  return error;
}

std::optional<std::string> crashed_node(std::string_view text) {
  constexpr std::string_view k_mark = "' crashed while running '";
  const auto at = text.find(k_mark);
  if (at == std::string_view::npos) return std::nullopt;
  auto node = first_line(text.substr(at + k_mark.size()));
  const auto end = node.rfind('\'');
  if (end == std::string_view::npos) return std::nullopt;
  return std::string{node.substr(0, end)};
}

std::optional<base::Duration> timeout_limit(std::string_view message) {
  for (const std::string_view mark : {"Timeout >", "Timeout (>"}) {
    const auto at = message.find(mark);
    if (at == std::string_view::npos) continue;
    double seconds = 0;
    const auto number = message.substr(at + mark.size());
    const auto [end, failed] =
        std::from_chars(number.data(), number.data() + number.size(), seconds);
    constexpr double k_year = 366.0 * 24 * 3600;
    if (failed == std::errc{} && seconds > 0 && seconds < k_year &&
        end != number.data() + number.size() && *end == 's') {
      return base::Duration{std::llround(seconds * 1e6)};
    }
  }
  return std::nullopt;
}

bool is_unexpected_success(std::string_view message) {
  return message == "Unexpected success" || message == "Failed: Unexpected success" ||
         message.starts_with("[XPASS(strict)]");
}

}  // namespace crosscheck::runner
