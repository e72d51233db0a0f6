#include "text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "crosscheck/base/json.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/net/http.h"

namespace crosscheck::hud {

std::string short_sha(std::string_view sha) { return std::string{sha.substr(0, 10)}; }

// Bytes of an error that are read at a glance.
constexpr std::size_t k_glance = 200;

std::string first_line(std::string_view text, std::size_t limit) {
  const auto start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return {};
  text.remove_prefix(start);
  text = text.substr(0, text.find_first_of("\r\n"));
  // PyTorch explains a missing operator in a paragraph; what happened is its first sentence.
  if (text.size() > k_glance) {
    const auto end = text.rfind(". ", k_glance);
    if (end != std::string_view::npos && end >= k_glance / 4) text = text.substr(0, end + 1);
  }
  return base::to_utf8(text, limit);
}

std::string shell_line(const std::vector<std::string>& arguments) {
  static constexpr std::string_view k_plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  std::string line;
  for (const auto& argument : arguments) {
    if (!line.empty()) line += ' ';
    if (!argument.empty() && argument.find_first_not_of(k_plain) == std::string::npos) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char c : argument) {
      if (c == '\'') {
        line += "'\\''";
      } else {
        line += c;
      }
    }
    line += '\'';
  }
  return line;
}

std::vector<std::string> repeated(const std::vector<std::string>& command,
                                  const std::string& node) {
  // Each has a value, behind it or joined by '='; --resume may have none.
  static constexpr std::array<std::string_view, 5> k_dropped{"--junit", "--results", "--db",
                                                             "--shard", "--resume"};
  static constexpr std::array<std::string_view, 2> k_narrowing{"--select", "--tests-from"};
  const auto contains = [](const auto& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (std::find(command.begin(), command.end(), "run") == command.end() ||
      contains(command, "--import")) {
    return node.empty() ? command : std::vector<std::string>{};
  }
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string& argument = command[i];
    const std::string_view name = std::string_view{argument}.substr(0, argument.find('='));
    if (!node.empty() && argument == "--quick") continue;
    if (!contains(k_dropped, name) && (node.empty() || !contains(k_narrowing, name))) {
      kept.push_back(argument);
      continue;
    }
    const bool has_value =
        i + 1 < command.size() && (name != "--resume" || !command[i + 1].starts_with('-'));
    if (name.size() == argument.size() && has_value) ++i;
  }
  if (!node.empty()) kept.insert(kept.end(), {"--select", node});
  return kept;
}

std::string query_string(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string query;
  for (const auto& [name, value] : pairs) {
    if (value.empty()) continue;
    query += query.empty() ? '?' : '&';
    query += name + '=' + net::percent_encode(value);
  }
  return query;
}

std::optional<std::int64_t> parse_positive(std::string_view text, std::int64_t limit) {
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text.front()))) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (value < 1 || value > limit) return std::nullopt;
  return value;
}

std::optional<std::string> parse_sha(std::string_view text) {
  if (text.size() < 7 || text.size() > 64) return std::nullopt;
  const auto is_hex = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
  if (!std::ranges::all_of(text, is_hex)) return std::nullopt;
  return base::to_lower_ascii(text);
}

std::string clock_text(base::Time time) {
  std::string text = base::to_rfc3339(std::chrono::floor<std::chrono::seconds>(time));
  if (const auto t = text.find('T'); t != std::string::npos) text[t] = ' ';
  if (text.ends_with('Z')) text.replace(text.size() - 1, 1, " UTC");
  return text;
}

std::string age(base::Time time, base::Time now) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(now - time).count();
  if (minutes < 1) return "just now";
  if (minutes < 60) return fmt::format("{} min ago", minutes);
  if (minutes < 48 * 60) return fmt::format("{} h ago", minutes / 60);
  return fmt::format("{} d ago", minutes / (24 * 60));
}

std::string percent(std::int64_t part, std::int64_t whole) {
  const auto tenths = part * 1000 / whole;
  return fmt::format("{}.{}", tenths / 10, tenths % 10);
}

std::string seconds(base::Duration duration) {
  const auto micros = duration.count();
  if (micros < 0) return "0 s";
  if (micros < 1'000'000) return fmt::format("{:.3f} s", static_cast<double>(micros) / 1e6);
  if (micros < 60'000'000) return fmt::format("{:.1f} s", static_cast<double>(micros) / 1e6);
  return base::to_human(std::chrono::floor<std::chrono::seconds>(duration));
}

}  // namespace crosscheck::hud
