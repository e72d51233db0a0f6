#include "crosscheck/config/when.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace crosscheck::config {
namespace {

using base::Fault;
using base::Result;

std::string_view trim(std::string_view text) {
  const auto from = text.find_first_not_of(" \t");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

// Takes digits from the front.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::string to_string(const Version& version) {
  std::string text = fmt::format("{}.{}", version.release[0], version.release[1]);
  for (std::size_t i = 2; i < 4 && std::any_of(
                                       version.release.begin() + static_cast<std::ptrdiff_t>(i),
                                       version.release.end(), [](auto n) { return n != 0; });
       ++i)
    text += fmt::format(".{}", version.release[i]);
  switch (version.stage) {
    case Version::Stage::dev:
      return text + fmt::format(".dev{}", version.number);
    case Version::Stage::alpha:
      return text + fmt::format("a{}", version.number);
    case Version::Stage::beta:
      return text + fmt::format("b{}", version.number);
    case Version::Stage::candidate:
      return text + fmt::format("rc{}", version.number);
    case Version::Stage::final:
      return text;
    case Version::Stage::post:
      return text + fmt::format(".post{}", version.number);
  }
  return text;
}

// Whether the lower end `a` leaves out what `b` leaves out.
bool is_tighter_from(const std::optional<VersionRange::End>& a,
                     const std::optional<VersionRange::End>& b) {
  if (!b) return true;
  if (!a) return false;
  return a->at > b->at || (a->at == b->at && (!a->included || b->included));
}
bool is_tighter_to(const std::optional<VersionRange::End>& a,
                   const std::optional<VersionRange::End>& b) {
  if (!b) return true;
  if (!a) return false;
  return a->at < b->at || (a->at == b->at && (!a->included || b->included));
}

// Of two sorted lists, an empty one of which means all.
bool is_within(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return b.empty() || (!a.empty() && std::includes(b.begin(), b.end(), a.begin(), a.end()));
}
std::optional<std::vector<std::string>> intersect(const std::vector<std::string>& a,
                                                  const std::vector<std::string>& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  std::vector<std::string> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  if (both.empty()) return std::nullopt;
  return both;
}

}  // namespace

Result<Version> parse_version(std::string_view text) {
  const auto refuse = [&] {
    return base::fail(Fault::invalid_input, fmt::format("'{}' is no version of torch", text),
                      "write one as in 2.13, 2.13.1 or 2.14.0rc1");
  };
  std::string_view rest = trim(text);
  rest = rest.substr(0, rest.find('+'));
  Version version;
  std::size_t parts = 0;
  do {
    const auto number = take_number(rest);
    if (!number || parts == version.release.size()) return refuse();
    version.release[parts++] = *number;
  } while (rest.size() > 1 && rest[0] == '.' && rest[1] >= '0' && rest[1] <= '9' &&
           take(rest, "."));
  if (rest.empty()) return version;
  take(rest, ".");
  if (take(rest, "dev")) {
    version.stage = Version::Stage::dev;
  } else if (take(rest, "rc")) {
    version.stage = Version::Stage::candidate;
  } else if (take(rest, "post")) {
    version.stage = Version::Stage::post;
  } else if (take(rest, "a")) {
    version.stage = Version::Stage::alpha;
  } else if (take(rest, "b")) {
    version.stage = Version::Stage::beta;
  } else {
    return refuse();
  }
  version.number = take_number(rest).value_or(0);
  if (!rest.empty()) return refuse();
  return version;
}

bool VersionRange::contains(const Version& version) const {
  return is_tighter_from(End{version}, from) && is_tighter_to(End{version}, to);
}
bool VersionRange::is_empty() const {
  if (!from || !to) return false;
  return from->at > to->at || (from->at == to->at && !(from->included && to->included));
}
bool VersionRange::is_within(const VersionRange& other) const {
  return is_tighter_from(from, other.from) && is_tighter_to(to, other.to);
}
VersionRange VersionRange::intersect(const VersionRange& other) const {
  return {is_tighter_from(from, other.from) ? from : other.from,
          is_tighter_to(to, other.to) ? to : other.to};
}

Result<VersionRange> parse_range(std::string_view text) {
  VersionRange range;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    std::string_view part = trim(rest.substr(0, comma));
    std::string_view sign;
    for (const std::string_view candidate : {">=", "<=", "==", ">", "<"})
      if (sign.empty() && take(part, candidate)) sign = candidate;
    if (sign.empty())
      return base::fail(Fault::invalid_input,
                        fmt::format("'{}' does not begin with a comparison", part),
                        "write a range as in \">=2.12,<2.14\"");
    const auto version = parse_version(part);
    if (!version) return tl::unexpected(version.error());
    const VersionRange::End end{*version, sign.ends_with('=')};
    VersionRange one;
    if (sign != "<" && sign != "<=") one.from = end;
    if (sign != ">" && sign != ">=") one.to = end;
    range = range.intersect(one);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (range.is_empty())
    return base::fail(Fault::invalid_input, fmt::format("no version is in '{}'", text),
                      "turn the comparisons round, or remove one");
  return range;
}

std::optional<std::string_view> When::unknown(const Circumstances& circumstances) const {
  if (!platforms.empty() && !circumstances.platform) return "platform";
  if (!devices.empty() && circumstances.devices.empty()) return "device";
  if (torch && !circumstances.torch) return "torch";
  return std::nullopt;
}

bool When::holds(const Circumstances& circumstances) const {
  if (unknown(circumstances)) return false;
  const auto has = [](const std::vector<std::string>& list, const std::string& name) {
    return std::binary_search(list.begin(), list.end(), name);
  };
  return (platforms.empty() || has(platforms, *circumstances.platform)) &&
         (devices.empty() ||
          std::any_of(circumstances.devices.begin(), circumstances.devices.end(),
                      [&](const std::string& name) { return has(devices, name); })) &&
         (!torch || torch->contains(*circumstances.torch));
}

bool When::implies(const When& other) const {
  return is_within(platforms, other.platforms) && is_within(devices, other.devices) &&
         (!other.torch || (torch && torch->is_within(*other.torch)));
}

std::optional<When> When::meet(const When& other) const {
  auto both_platforms = intersect(platforms, other.platforms);
  auto both_devices = intersect(devices, other.devices);
  if (!both_platforms || !both_devices) return std::nullopt;
  When both{std::move(*both_platforms), std::move(*both_devices), torch ? torch : other.torch};
  if (torch && other.torch) both.torch = torch->intersect(*other.torch);
  if (both.torch && both.torch->is_empty()) return std::nullopt;
  return both;
}

std::string to_string(const VersionRange& range) {
  if (range.from && range.from == range.to) return "==" + to_string(range.from->at);
  std::string text;
  if (range.from) text = (range.from->included ? ">=" : ">") + to_string(range.from->at);
  if (range.from && range.to) text += ",";
  if (range.to) text += (range.to->included ? "<=" : "<") + to_string(range.to->at);
  return text;
}

std::string to_string(const When& when) {
  std::vector<std::string> parts;
  if (!when.platforms.empty())
    parts.push_back(fmt::format("platform {}", fmt::join(when.platforms, "|")));
  if (when.torch) parts.push_back("torch " + to_string(*when.torch));
  if (!when.devices.empty())
    parts.push_back(fmt::format("device {}", fmt::join(when.devices, "|")));
  return parts.empty() ? "always" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace crosscheck::config
