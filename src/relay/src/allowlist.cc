#include "crosscheck/relay/allowlist.h"

#include <algorithm>
#include <array>
#include <span>

#include "crosscheck/base/nearest.h"
#include "crosscheck/base/yaml.h"

namespace crosscheck::relay {
namespace {

using base::Result;
using base::yaml::Node;
using Kind = base::yaml::Node::Kind;

constexpr std::array<std::string_view, 4> k_levels{"L1", "L2", "L3", "L4"};
constexpr std::array<std::string_view, 4> k_options{"oncalls", "events", "branches", "paths"};
constexpr std::array<std::string_view, 2> k_events{"pull_request", "nightly"};

std::string_view trim(std::string_view text, std::string_view of = " \t\r\n") {
  const auto begin = text.find_first_not_of(of);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(of) - begin + 1);
}

class Parser {
 public:
  explicit Parser(std::string_view source) : source_{source} {}

  Result<Allowlist> parse(const Node& root) {
    if (root.is(Kind::null)) return Allowlist{};
    if (!root.is(Kind::mapping))
      return fail(root, "expected a mapping of levels, found " + describe(root),
                  "begin with `L1:`, `L2:`, `L3:` or `L4:`");
    for (const auto& [key, value] : root.entries) {
      const auto level = parse_level(key.text);
      if (!level)
        return fail(key, "unknown level '" + key.text + "'", base::suggest(key.text, k_levels));
      // A level whose last entry was commented out is empty, not wrong.
      if (value.is(Kind::null)) continue;
      if (auto done = *level == Level::L3 ? devices(value) : entries(*level, value); !done)
        return tl::unexpected(done.error());
    }
    return std::move(list_);
  }

 private:
  [[nodiscard]] tl::unexpected<base::Error> fail(const Node& node, std::string message,
                                                 std::string remedy = {}) const {
    return base::yaml::fail_at(source_, node, std::move(message), std::move(remedy));
  }
  static std::string describe(const Node& node) {
    return node.is(Kind::text) ? "'" + node.text.substr(0, 80) + "'"
                               : std::string{to_string(node.kind)};
  }

  Result<void> entries(Level level, const Node& list) {
    const std::string name{to_string(level)};
    if (!list.is(Kind::sequence))
      return fail(list, name + ": expected a list of repositories, found " + describe(list),
                  "write each as `- owner/repo` or `- owner/repo: oncall, oncall`");
    for (const Node& item : list.items) {
      if (item.is(Kind::text)) {
        if (auto done = backend(level, {}, item, nullptr); !done) return done;
      } else if (item.is(Kind::mapping) && item.entries.size() == 1) {
        const auto& [key, value] = item.entries.front();
        if (auto done = backend(level, {}, key, &value); !done) return done;
      } else {
        return fail(item,
                    name + ": expected `owner/repo` or one `owner/repo: oncalls`, found " +
                        (item.is(Kind::mapping)
                             ? "a mapping of " + std::to_string(item.entries.size()) + " keys"
                             : describe(item)),
                    "begin each repository with a `- ` of its own");
      }
    }
    return {};
  }

  Result<void> devices(const Node& map) {
    if (!map.is(Kind::mapping))
      return fail(map, "L3: expected a mapping of device to repositories, found " + describe(map),
                  "write `device:` and below it `owner/repo: [oncall]`");
    for (const auto& [device, repos] : map.entries) {
      const std::string name{trim(device.text)};
      if (name.empty()) return fail(device, "L3: a device needs a name");
      // The label on GitHub is `ciflow/crcr/<device>`.
      if (name.find_first_of("/ \t") != std::string::npos || name.size() > 64)
        return fail(device, "L3: '" + name + "' is not a device name",
                    "at most 64 characters, no spaces and no '/'");
      if (!repos.is(Kind::mapping))
        return fail(repos,
                    "L3, device '" + name +
                        "': expected a mapping of repository to on-calls, found " + describe(repos),
                    "write `owner/repo: [oncall, oncall]`");
      for (const auto& [key, value] : repos.entries)
        if (auto done = backend(Level::L3, name, key, &value); !done) return done;
    }
    return {};
  }

  Result<void> backend(Level level, std::string device, const Node& name, const Node* value) {
    const std::string where =
        std::string{to_string(level)} + (device.empty() ? "" : ", device '" + device + "'") + ": ";
    auto repo = base::RepoName::parse(trim(trim(name.text), "/"));
    if (!repo)
      return fail(name, where + "'" + name.text.substr(0, 160) + "' is not a repository",
                  "write `owner/repo`");
    if (const Backend* first = list_.find(*repo))
      return fail(name,
                  where + "'" + repo->full_name() + "' stands in the list twice (first in line " +
                      std::to_string(first->line) + ", " + std::string{to_string(first->level)} +
                      ")",
                  "a repository has one level: remove one of the two");
    Backend entry{.repo = *repo, .level = level, .device = std::move(device), .line = name.line};
    if (value != nullptr) {
      const std::string of = where + "'" + repo->full_name() + "': ";
      if (auto done =
              value->is(Kind::mapping) ? options(of, *value, entry) : oncalls(of, *value, entry);
          !done)
        return done;
    }
    list_.add(std::move(entry));
    return {};
  }

  Result<void> oncalls(const std::string& of, const Node& value, Backend& entry) {
    auto names = words(of + "on-calls", value);
    if (!names) return tl::unexpected(names.error());
    entry.oncalls = std::move(*names);
    return {};
  }

  Result<void> options(const std::string& of, const Node& map, Backend& entry) {
    for (const auto& [key, value] : map.entries) {
      if (std::ranges::find(k_options, key.text) == k_options.end())
        return fail(key, of + "unknown key '" + key.text + "'", base::suggest(key.text, k_options));
      auto list = words(of + key.text, value);
      if (!list) return tl::unexpected(list.error());
      if (key.text == "oncalls") {
        entry.oncalls = std::move(*list);
      } else if (key.text == "events") {
        if (auto done = events(of, value, *list, entry); !done) return done;
      } else {
        if (list->empty())
          return fail(value, of + key.text + ": an empty list lets nothing pass",
                      "leave the key out to let everything pass");
        for (const std::string& pattern : *list)
          if (pattern == "!" || pattern.size() > 256)
            return fail(value,
                        of + key.text + ": '" + pattern.substr(0, 80) + "' is not a pattern");
        (key.text == "branches" ? entry.branches : entry.paths) = Patterns{std::move(*list)};
      }
    }
    return {};
  }

  Result<void> events(const std::string& of, const Node& node, const std::vector<std::string>& list,
                      Backend& entry) {
    if (list.empty())
      return fail(node, of + "events: an empty list takes part in nothing",
                  "leave the key out for both, or remove the repository");
    entry.pull_requests = entry.nightly = false;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Node& at = node.is(Kind::sequence) ? node.items[i] : node;
      if (list[i] == "pull_request") {
        entry.pull_requests = true;
      } else if (list[i] == "nightly") {
        entry.nightly = true;
      } else {
        return fail(at, of + "unknown event '" + list[i] + "'", base::suggest(list[i], k_events));
      }
    }
    return {};
  }

  // A list of texts, or one text with commas.
  Result<std::vector<std::string>> words(const std::string& what, const Node& value) const {
    std::vector<std::string> result;
    if (value.is(Kind::text)) {
      std::string_view rest = value.text;
      while (true) {
        const auto comma = rest.find(',');
        const std::string_view word = trim(rest.substr(0, comma));
        if (word.empty())
          return fail(value, what + ": an empty name", "write `name, name` or `[name, name]`");
        result.emplace_back(word);
        if (comma == std::string_view::npos) return result;
        rest.remove_prefix(comma + 1);
      }
    }
    if (!value.is(Kind::sequence))
      return fail(value, what + ": expected a list, found " + std::string{to_string(value.kind)},
                  "write `[name, name]`, or `[]` for none");
    for (const Node& item : value.items) {
      if (!item.is(Kind::text) || trim(item.text).empty())
        return fail(item, what + ": expected a name, found " + describe(item));
      result.emplace_back(trim(item.text));
    }
    return result;
  }

  std::string_view source_;
  Allowlist list_;
};

}  // namespace

std::string_view to_string(Level level) { return k_levels[static_cast<std::size_t>(level)]; }

std::optional<Level> parse_level(std::string_view name) {
  const auto found = std::ranges::find(k_levels, name);
  if (found == k_levels.end()) return std::nullopt;
  return static_cast<Level>(found - k_levels.begin());
}

bool glob_match(std::string_view pattern, std::string_view name) {
  // reach[i]: what was read of the pattern can stand for the first i characters of the name. Linear
  // in each pattern character, whatever the stars.
  std::vector<bool> reach(name.size() + 1, false);
  reach[0] = true;
  for (std::size_t p = 0; p < pattern.size(); ++p) {
    std::vector<bool> next(name.size() + 1, false);
    if (pattern[p] == '*') {
      const bool any = p + 1 < pattern.size() && pattern[p + 1] == '*';
      if (any) ++p;
      // "**/x" is also "x": the slash after `**` may stand for nothing.
      const bool folder = any && p + 1 < pattern.size() && pattern[p + 1] == '/' &&
                          (p < 2 || pattern[p - 2] == '/');
      for (std::size_t i = 0; i <= name.size(); ++i) {
        if (reach[i]) next[i] = true;
        if (i > 0 && next[i - 1] && (any || name[i - 1] != '/')) next[i] = true;
      }
      if (folder) {
        ++p;
        std::vector<bool> after = reach;
        for (std::size_t i = 0; i < name.size(); ++i)
          if (next[i] && name[i] == '/') after[i + 1] = true;
        next = std::move(after);
      }
    } else {
      for (std::size_t i = 0; i < name.size(); ++i)
        if (reach[i] && (pattern[p] == '?' ? name[i] != '/' : pattern[p] == name[i]))
          next[i + 1] = true;
    }
    reach = std::move(next);
  }
  return reach[name.size()];
}

bool Patterns::pass(std::string_view name) const {
  if (patterns_.empty()) return true;
  bool in = patterns_.front().starts_with('!');
  for (const std::string& pattern : patterns_) {
    const bool out = pattern.starts_with('!');
    if (glob_match(std::string_view{pattern}.substr(out ? 1 : 0), name)) in = !out;
  }
  return in;
}

const Backend* Allowlist::find(const base::RepoName& repo) const {
  const auto found = by_key_.find(repo.key());
  return found == by_key_.end() ? nullptr : &backends_[found->second];
}

void Allowlist::add(Backend backend) {
  by_key_.emplace(backend.repo.key(), backends_.size());
  backends_.push_back(std::move(backend));
}

Result<Allowlist> parse_allowlist(std::string_view text, std::string_view source) {
  if (text.size() > k_allowlist_limit)
    return base::fail(base::Fault::too_large,
                      std::string{source} + ": the allowlist is larger than 1 MiB");
  auto root = base::yaml::parse(text, source);
  if (!root) return tl::unexpected(root.error());
  return Parser{source}.parse(*root);
}

}  // namespace crosscheck::relay
