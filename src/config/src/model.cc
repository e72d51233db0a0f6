#include "crosscheck/config/model.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace crosscheck::config {
namespace {

template <class Enum, std::size_t N>
std::optional<Enum> parse(const std::string_view (&names)[N], std::string_view name) {
  const auto* found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<Enum>(found - std::begin(names));
}

constexpr std::string_view k_deciders[] = {"rule", "agent", "person"};
constexpr std::array k_all_modes = {Mode::mandatory_success, Mode::xfail, Mode::xfail_strict,
                                    Mode::skip};

}  // namespace

std::string_view to_string(Reason reason) { return k_reasons[static_cast<std::size_t>(reason)]; }
std::optional<Reason> parse_reason(std::string_view name) { return parse<Reason>(k_reasons, name); }
std::string_view to_string(Decider decider) {
  return k_deciders[static_cast<std::size_t>(decider)];
}
std::optional<Decider> parse_decider(std::string_view name) {
  return parse<Decider>(k_deciders, name);
}

bool goes_with(Reason reason, Mode mode) {
  switch (reason) {
    case Reason::undecided:
      return mode == Mode::xfail;
    case Reason::all_operators_supported:
    case Reason::passed_on_device:
      return mode == Mode::mandatory_success;
    case Reason::unsupported_operator:
    case Reason::unsupported_dtype:
    case Reason::unsupported_feature:
    case Reason::numerical_mismatch:
    case Reason::device_error:
    case Reason::crash:
    case Reason::timeout:
    case Reason::out_of_memory:
      return mode != Mode::mandatory_success;
    case Reason::flaky:
      return mode == Mode::xfail || mode == Mode::skip;
    case Reason::not_for_this_device:
    case Reason::out_of_scope:
    case Reason::superseded:
      return mode == Mode::skip;
    case Reason::person:
      return true;
  }
  return false;
}

std::string modes_of(Reason reason) {
  std::vector<std::string_view> modes;
  for (const Mode mode : k_all_modes)
    if (goes_with(reason, mode)) modes.push_back(to_string(mode));
  std::string text;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    if (i > 0) text += i + 1 == modes.size() ? " or " : ", ";
    text += modes[i];
  }
  return text;
}

std::string_view needed_by(Reason reason) {
  if (reason == Reason::unsupported_operator) return "operators";
  if (reason == Reason::unsupported_dtype) return "dtypes";
  if (reason == Reason::unsupported_feature) return "features";
  if (reason == Reason::numerical_mismatch) return "mismatch";
  return {};
}

struct Pattern::Engine {
  re2::RE2 re;
  static re2::RE2::Options options() {
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(std::int64_t{1} << 20);
    return options;
  }
  explicit Engine(std::string_view text) : re{{text.data(), text.size()}, options()} {}
};

base::Result<Pattern> Pattern::compile(std::string_view text) {
  // Python reads {,3} as {0,3}, RE2 as those four characters.
  if (text.find("{,") != std::string_view::npos)
    return base::fail(
        base::Fault::invalid_input,
        fmt::format("the pattern '{}' has a repetition without its least number", text),
        "write {0,n}");
  Pattern pattern;
  pattern.engine_ = std::make_shared<const Engine>(text);
  const re2::RE2& re = pattern.engine_->re;
  if (re.ok()) return pattern;
  const bool beyond = re.error_code() == re2::RE2::ErrorBadPerlOp ||
                      (re.error_code() == re2::RE2::ErrorBadEscape && re.error_arg().size() == 2 &&
                       re.error_arg()[1] >= '1' && re.error_arg()[1] <= '9');
  return base::fail(
      base::Fault::invalid_input,
      fmt::format("'{}' is no pattern: {}: '{}'", text, re.error(), re.error_arg()),
      beyond
          ? "patterns have no backreferences and no lookaround, so that each is matched in linear "
            "time: list the names, or write two patterns"
          : "escape what is meant literally with a backslash");
}

bool Pattern::matches(std::string_view name) const {
  return re2::RE2::FullMatch(re2::StringPiece{name.data(), name.size()}, engine_->re);
}

bool Name::matches(std::string_view test_class, std::string_view test_method) const {
  if (!is_pattern())
    return method == test_method && (class_name.empty() || class_name == test_class);
  return (!patterns->of_class || patterns->of_class->matches(test_class)) &&
         patterns->of_method.matches(test_method);
}

std::string_view without_token(std::string_view path) {
  if (!path.starts_with("${")) return path;
  const auto close = path.find('}');
  if (close == std::string_view::npos) return path;
  path.remove_prefix(close + 1);
  while (path.starts_with('/')) path.remove_prefix(1);
  return path;
}

}  // namespace crosscheck::config
