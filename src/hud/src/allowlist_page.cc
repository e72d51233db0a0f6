#include "allowlist_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <utility>

#include "crosscheck/base/json.h"
#include "crosscheck/store/store.h"
#include "queries.h"
#include "text.h"

namespace crosscheck::hud {
namespace {

namespace json = boost::json;
using base::Result;

constexpr std::size_t k_text_limit = 2048;
constexpr std::size_t k_line_limit = 200;
constexpr std::size_t k_lines_shown = 20;  // of what a version added or removed

// The line's text without its comment and the blanks around it; empty if nothing is left.
std::string_view significant(std::string_view line) {
  if (const auto hash = line.find('#');
      hash != std::string_view::npos && (hash == 0 || line[hash - 1] == ' '))
    line = line.substr(0, hash);
  const auto begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

template <class F>
void each_line(std::string_view text, F use) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    if (const auto line = significant(text.substr(0, end)); !line.empty()) use(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

json::object when(base::Time time, base::Time now) {
  return {{"iso", base::to_rfc3339(time)}, {"text", clock_text(time)}, {"age", age(time, now)}};
}

json::array strings(const std::vector<std::string>& texts) {
  json::array array;
  for (const auto& text : texts) array.emplace_back(text);
  return array;
}

// Lines for the page, the rest as a number.
json::array shown(const std::vector<std::string>& lines) {
  json::array array;
  for (std::size_t i = 0; i < std::min(lines.size(), k_lines_shown); ++i)
    array.push_back(json::object{{"text", lines[i]}});
  if (lines.size() > k_lines_shown)
    array.push_back(
        json::object{{"text", fmt::format("… and {} more", lines.size() - k_lines_shown)}});
  return array;
}

json::value text_or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}
json::value text_or_false(const std::string& text) {
  return text.empty() ? json::value(false) : json::value(text);
}

}  // namespace

std::vector<std::string> new_lines(std::string_view before, std::string_view after) {
  std::map<std::string_view, int> known;
  each_line(before, [&](std::string_view line) { ++known[line]; });
  std::vector<std::string> lines;
  each_line(after, [&](std::string_view line) {
    if (const auto found = known.find(line); found != known.end() && found->second > 0) {
      --found->second;
    } else {
      lines.push_back(base::to_utf8(line, k_line_limit));
    }
  });
  return lines;
}

Result<AllowlistPage> read_allowlist_page(store::Tx& tx) {
  AllowlistPage page;
  auto backends = Queries{tx}.backends();
  if (!backends) return tl::unexpected(backends.error());
  page.backends = std::move(*backends);

  const auto errors = tx.query("SELECT source, error, since FROM allowlist_errors ORDER BY since");
  if (!errors) return tl::unexpected(errors.error());
  for (const auto& row : *errors)
    page.errors.push_back({base::to_utf8(row.text(0), k_text_limit),
                           base::to_utf8(row.text(1), k_text_limit), row.time(2)});

  const auto rows =
      tx.query(fmt::format("SELECT id, digest, source, error, loaded_at, text FROM "
                           "allowlist_versions ORDER BY id DESC LIMIT {}",
                           k_allowlist_versions + 1));
  if (!rows) return tl::unexpected(rows.error());
  const auto text_before = [&](std::size_t i) -> std::optional<std::string_view> {
    for (std::size_t older = i + 1; older < rows->size(); ++older)
      if ((*rows)[older].is_null(3)) return (*rows)[older].text(5);
    return std::nullopt;
  };
  for (std::size_t i = 0; i < rows->size(); ++i) {
    if (std::ssize(page.versions) == k_allowlist_versions) break;
    const auto& row = (*rows)[i];
    AllowlistVersion version{
        .id = row.integer(0),
        .digest = row.text(1),
        .source = base::to_utf8(row.text(2), k_text_limit),
        .error = base::to_utf8(row.optional_text(3).value_or(""), k_text_limit),
        .loaded_at = row.time(4)};
    if (const auto before = text_before(i)) {
      version.added = new_lines(*before, row.text(5));
      version.removed = new_lines(row.text(5), *before);
    }
    page.versions.push_back(std::move(version));
  }
  return page;
}

Page allowlist_page(const AllowlistPage& allowlist, const PageContext& context) {
  Page page{.title = "Allowlist", .name = "allowlist"};
  json::array backends;
  json::array gone;
  json::array twins;
  std::map<std::string_view, std::int64_t> levels;
  for (const Backend& backend : allowlist.backends) {
    if (backend.listed) ++levels[backend.level];
    std::string oncalls;
    for (const auto& oncall : backend.oncalls) oncalls += (oncalls.empty() ? "" : ", ") + oncall;
    (backend.listed ? backends : gone)
        .push_back(json::object{{"repo", backend.repo},
                                {"level", backend.level},
                                {"device", text_or_false(backend.device)},
                                {"oncalls", text_or_false(oncalls)},
                                {"collected", collects_results(backend.level)},
                                {"since", when(backend.since, context.now)}});
    twins.push_back(json::object{{"backend", backend.repo},
                                 {"page", "/b/" + backend.repo},
                                 {"level", backend.level},
                                 {"device", text_or_null(backend.device)},
                                 {"oncalls", strings(backend.oncalls)},
                                 {"listed", backend.listed},
                                 {"since", base::to_rfc3339(backend.since)}});
  }
  json::array errors;
  json::array error_twins;
  for (const AllowlistError& error : allowlist.errors) {
    errors.push_back(
        json::object{{"error", error.error}, {"since", when(error.since, context.now)}});
    error_twins.push_back(json::object{{"source", error.source},
                                       {"error", error.error},
                                       {"since", base::to_rfc3339(error.since)}});
  }
  json::array versions;
  json::array version_twins;
  for (const AllowlistVersion& version : allowlist.versions) {
    page.newest_at = std::max(page.newest_at.value_or(base::Time{}), version.loaded_at);
    versions.push_back(json::object{{"digest", version.digest.substr(0, 12)},
                                    {"source", version.source},
                                    {"error", text_or_false(version.error)},
                                    {"when", when(version.loaded_at, context.now)},
                                    {"same", version.added.empty() && version.removed.empty()},
                                    {"added", shown(version.added)},
                                    {"removed", shown(version.removed)}});
    version_twins.push_back(json::object{{"digest", version.digest},
                                         {"source", version.source},
                                         {"error", text_or_null(version.error)},
                                         {"loaded_at", base::to_rfc3339(version.loaded_at)},
                                         {"added", strings(version.added)},
                                         {"removed", strings(version.removed)}});
  }
  std::string sentence;
  for (const auto& [level, count] : levels)
    sentence += fmt::format("{}{} {}", sentence.empty() ? "" : ", ", count, level);
  page.twin = {{"errors", std::move(error_twins)},
               {"backends", std::move(twins)},
               {"versions", std::move(version_twins)}};
  page.context = {
      {"sentence", count_of(std::ssize(backends), "backend") +
                       (sentence.empty() ? std::string{"."} : ": " + sentence + ".")},
      {"source", allowlist.versions.empty() ? json::value(false)
                                            : json::value(allowlist.versions.front().source)},
      {"errors", std::move(errors)},
      {"has_backends", !backends.empty()},
      {"backends", std::move(backends)},
      {"has_gone", !gone.empty()},
      {"gone", std::move(gone)},
      {"has_versions", !versions.empty()},
      {"versions", std::move(versions)}};
  return page;
}

}  // namespace crosscheck::hud
