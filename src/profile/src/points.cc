#include "crosscheck/profile/points.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "crosscheck/base/nearest.h"
#include "crosscheck/base/yaml.h"
#include "crosscheck_embed/profile_data.h"

namespace crosscheck::profile {
namespace {

using base::Result;
using base::yaml::Node;
using Kind = Node::Kind;

constexpr std::array<std::pair<std::string_view, Mention::Kind>, 6> k_kinds{
    {{"call", Mention::Kind::call},
     {"base", Mention::Kind::base},
     {"define", Mention::Kind::definition},
     {"decorate", Mention::Kind::decorator},
     {"name", Mention::Kind::name},
     {"text", Mention::Kind::text}}};

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

class Parser {
 public:
  Parser(std::string_view source, Points& points) : source_{source}, points_{points} {}

  Result<void> parse(const Node& root) {
    if (root.is(Kind::null)) return {};
    if (!root.is(Kind::mapping)) return fail(root, "expected a mapping", "begin with `points:`");
    for (const auto& [key, value] : root.entries) {
      Result<void> done;
      if (key.text == "points") {
        done = parse_points(value);
      } else if (key.text == "areas") {
        done = parse_areas(value);
      } else if (key.text == "skip") {
        done = texts(value, points_.skip);
      } else {
        done = unknown(key, std::array<std::string_view, 3>{"points", "areas", "skip"});
      }
      if (!done) return done;
    }
    for (const Point& point : points_.points) {
      if (point.implied_by.empty() || points_.find(point.implied_by) != nullptr) continue;
      return fail(root, point.name + ": implied_by: there is no point '" + point.implied_by + "'",
                  base::suggest(point.implied_by, points_.names()));
    }
    return {};
  }

 private:
  [[nodiscard]] tl::unexpected<base::Error> fail(const Node& node, std::string message,
                                                 std::string remedy = {}) const {
    return base::yaml::fail_at(source_, node, std::move(message), std::move(remedy));
  }
  [[nodiscard]] tl::unexpected<base::Error> unknown(const Node& key,
                                                    std::span<const std::string_view> known) const {
    return fail(key, "unknown key '" + base_text(key) + "'", base::suggest(key.text, known));
  }
  [[nodiscard]] static std::string base_text(const Node& node) { return node.text.substr(0, 100); }

  Result<void> texts(const Node& node, std::vector<std::string>& to) const {
    if (!node.is(Kind::sequence)) return fail(node, "expected a list of words");
    for (const Node& item : node.items) {
      if (!item.is(Kind::text)) return fail(item, "expected a word");
      to.push_back(item.text);
    }
    return {};
  }

  Result<void> parse_areas(const Node& node) {
    if (!node.is(Kind::mapping)) return fail(node, "areas: expected a mapping of name to meaning");
    for (const auto& [key, value] : node.entries) {
      if (!value.is(Kind::text)) return fail(value, key.text + ": expected what it is");
      points_.areas[key.text] = value.text;
    }
    return {};
  }

  Result<void> parse_points(const Node& node) {
    if (!node.is(Kind::mapping)) return fail(node, "points: expected a mapping of name to point");
    for (const auto& [key, value] : node.entries) {
      if (!value.is(Kind::mapping)) return fail(value, key.text + ": expected a mapping");
      const auto there = std::ranges::find(points_.points, key.text, &Point::name);
      Point& point = there != points_.points.end()
                         ? *there
                         : points_.points.emplace_back(Point{.name = key.text});
      for (const auto& [field, content] : value.entries) {
        std::string* text = field.text == "says"         ? &point.says
                            : field.text == "implied_by" ? &point.implied_by
                            : field.text == "because"    ? &point.because
                                                         : nullptr;
        if (text != nullptr) {
          if (!content.is(Kind::text)) return fail(content, field.text + ": expected text");
          *text = content.text;
        } else if (field.text == "found_by") {
          if (!content.is(Kind::sequence)) return fail(content, "found_by: expected a list");
          for (const Node& item : content.items) {
            auto pattern = parse_pattern(item);
            if (!pattern) return tl::unexpected(pattern.error());
            point.found_by.push_back(std::move(*pattern));
          }
        } else {
          return unknown(
              field, std::array<std::string_view, 4>{"says", "found_by", "implied_by", "because"});
        }
      }
      if (!point.implied_by.empty() && point.because.empty())
        return fail(key, key.text + ": implied_by: `because` is missing");
      if (point.says.empty()) return fail(key, key.text + ": `says` is missing");
    }
    return {};
  }

  Result<Pattern> parse_pattern(const Node& node) const {
    if (!node.is(Kind::mapping))
      return fail(node, "expected a pattern", "such as {in: cpp, call: TORCH_LIBRARY}");
    Pattern pattern;
    bool has_language = false;
    for (const auto& [key, value] : node.entries) {
      if (const auto kind = std::ranges::find(k_kinds, key.text,
                                              &std::pair<std::string_view, Mention::Kind>::first);
          kind != k_kinds.end()) {
        if (!pattern.chain.empty()) return fail(key, "a pattern asks for one thing");
        if (!value.is(Kind::text)) return fail(value, key.text + ": expected a name");
        pattern.kind = kind->second;
        pattern.chain =
            pattern.kind == Mention::Kind::text ? std::vector{value.text} : split(value.text, '.');
        if (std::ranges::any_of(pattern.chain, &std::string::empty))
          return fail(value, key.text + ": there is a name missing at a dot");
      } else if (key.text == "in") {
        if (value.text != "cpp" && value.text != "python")
          return fail(value, "in: expected cpp or python");
        pattern.in = value.text == "cpp" ? Language::cpp : Language::python;
        has_language = true;
      } else if (key.text == "with") {
        std::vector<std::string> words;
        if (auto done = texts(value, words); !done) return tl::unexpected(done.error());
        for (const std::string& word : words) pattern.with.push_back(split(word, '|'));
      } else if (key.text == "without") {
        if (auto done = texts(value, pattern.without); !done) return tl::unexpected(done.error());
      } else if (key.text == "device") {
        const std::string& text = value.text;
        const auto [end, error] =
            std::from_chars(text.data(), text.data() + text.size(), pattern.device);
        if (error != std::errc{} || end != text.data() + text.size() || pattern.device == 0)
          return fail(value, "device: expected the number of an argument, from 1");
      } else {
        return unknown(
            key, std::array<std::string_view, 10>{"in", "call", "base", "define", "decorate",
                                                  "name", "text", "with", "without", "device"});
      }
    }
    if (!has_language) return fail(node, "`in` is missing", "in: cpp, or in: python");
    if (pattern.chain.empty())
      return fail(node, "the pattern asks for nothing",
                  "one of call, base, define, decorate, name, text");
    return pattern;
  }

  const std::string_view source_;
  Points& points_;
};

bool has(const std::vector<std::vector<std::string_view>>& arguments, std::string_view word) {
  return std::ranges::any_of(arguments, [&](const auto& argument) {
    return std::ranges::find(argument, word) != argument.end();
  });
}

}  // namespace

const Point* Points::find(std::string_view name) const {
  const auto found = std::ranges::find(points, name, &Point::name);
  return found == points.end() ? nullptr : &*found;
}

std::vector<std::string_view> Points::names() const {
  std::vector<std::string_view> all;
  all.reserve(points.size());
  for (const Point& point : points) all.push_back(point.name);
  return all;
}

std::vector<std::string_view> Points::area_names() const {
  std::vector<std::string_view> all;
  all.reserve(areas.size());
  for (const auto& [name, says] : areas) all.push_back(name);
  return all;
}

const Points& built_in_points() {
  static const Points k_points = [] {
    const auto files = embed::profile_data_files();
    auto points = add_points({}, files.front().text, files.front().name);
    if (!points) throw std::logic_error{to_string(points.error())};
    return std::move(*points);
  }();
  return k_points;
}

Result<Points> add_points(Points points, std::string_view text, std::string_view source) {
  const auto root = base::yaml::parse(text, source);
  if (!root) return tl::unexpected(root.error());
  if (auto done = Parser{source, points}.parse(*root); !done) return tl::unexpected(done.error());
  return points;
}

bool matches(const Pattern& pattern, const Mention& mention) {
  const bool names = pattern.kind == Mention::Kind::name &&
                     mention.kind != Mention::Kind::text;  // what is called is named, too
  if (pattern.kind != mention.kind && !names) return false;
  if (mention.chain.empty() || pattern.chain.back() != mention.chain.back()) return false;
  std::size_t next = 0;
  for (std::size_t i = 0; i + 1 < mention.chain.size() && next + 1 < pattern.chain.size(); ++i)
    if (mention.chain[i] == pattern.chain[next]) ++next;
  if (next + 1 != pattern.chain.size()) return false;
  return std::ranges::all_of(pattern.with,
                             [&](const std::vector<std::string>& one_of) {
                               return std::ranges::any_of(one_of, [&](const std::string& word) {
                                 return has(mention.arguments, word);
                               });
                             }) &&
         std::ranges::none_of(pattern.without, [&](const std::string& word) {
           return has(mention.arguments, word);
         });
}

}  // namespace crosscheck::profile
