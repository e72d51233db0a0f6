#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "crosscheck/base/nearest.h"
#include "crosscheck/memory/memory.h"
#include "impl.h"
#include "tokens.h"

namespace crosscheck::memory {
namespace {

using base::fail;
using base::Fault;
using base::Result;

// A word's weight where it stands: in a test's own name it says most.
constexpr const char* k_rank = "bm25(memory_search, 8.0, 2.0, 3.0, 4.0, 2.0, 3.0)";

std::string phrase(std::string_view token) {
  std::string text{"\""};
  for (const char c : token) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + '"';
}

std::string any_of(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += (text.empty() ? "" : " OR ") + phrase(token);
  return text;
}

// Names of torch that stand for an operator: "add", "aten::add.Tensor" and "torch.add" alike.
std::string operator_name(std::string_view text) {
  if (const auto colons = text.find("::"); colons != std::string_view::npos) {
    text.remove_prefix(colons + 2);
    text = text.substr(0, text.find('.'));
  }
  if (text.starts_with("torch.")) text.remove_prefix(6);
  return std::string{text};
}

std::string lowered(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return text;
}

// Entries of the index that a search may score. Words that are in more say little, and cost most.
constexpr std::int64_t k_most_entries = 4000;

using Ids = std::unordered_set<std::int64_t>;

struct Scored {
  std::int64_t id = 0;
  double score = 0;
};

class Search {
 public:
  Search(SQLite::Database& db, const Query& query) : db_{db}, query_{query} {}

  Answer run(std::size_t limit) {
    const std::vector<std::string> words = tokens_of(query_.words);
    restrict_by_filters();
    Answer answer;
    std::vector<Scored> found = score(rare(words, answer.ignored));
    std::ranges::sort(found, [](const Scored& a, const Scored& b) {
      return a.score != b.score ? a.score > b.score : a.id < b.id;
    });
    answer.found = found.size();
    for (const Scored& one : found) {
      if (answer.hits.size() == limit) break;
      answer.hits.push_back(describe(one, words));
    }
    return answer;
  }

 private:
  const std::vector<std::string>* values(std::string_view name) const {
    const auto found = query_.filters.find(name);
    return found == query_.filters.end() ? nullptr : &found->second;
  }

  void restrict_to(Ids ids) {
    if (!allowed_) {
      allowed_ = std::move(ids);
    } else {
      std::erase_if(*allowed_, [&](std::int64_t id) { return !ids.contains(id); });
    }
  }

  void add_ids(Ids& ids, const char* sql, const std::string& value) {
    SQLite::Statement rows{db_, sql};
    rows.bindNoCopy(1, value);
    while (rows.executeStep()) ids.insert(rows.getColumn(0).getInt64());
  }

  void add_matches(Ids& ids, const std::string& expression) {
    add_ids(ids, "SELECT rowid FROM memory_search WHERE memory_search MATCH ?", expression);
  }

  void restrict_by_filters() {
    if (const auto* files = values("file")) {
      Ids ids;
      for (const std::string& file : *files) {
        // A part of a path is enough.
        const std::string pattern =
            file.find_first_of("*?") == std::string::npos ? "*" + file + "*" : file;
        add_ids(ids,
                "SELECT d.id FROM memory_definition d JOIN memory_source s ON s.id = d.source "
                "WHERE s.path GLOB ?",
                pattern);
      }
      restrict_to(std::move(ids));
    }
    if (const auto* dtypes = values("dtype")) {
      Ids ids;
      for (const std::string& dtype : *dtypes) {
        const std::string name = dtype.starts_with("torch.") ? dtype.substr(6) : dtype;
        add_ids(ids, "SELECT DISTINCT definition FROM memory_variant WHERE dtype = ?", name);
        add_matches(ids, "apis : " + phrase("torch." + lowered(name)));
      }
      restrict_to(std::move(ids));
    }
    if (const auto* ops = values("op")) {
      Ids ids;
      for (const std::string& op : *ops) {
        const std::string name = operator_name(op);
        add_ids(ids, "SELECT DISTINCT definition FROM memory_variant WHERE op = ?", name);
        add_matches(ids, fmt::format("apis : ({} OR {})", phrase("torch." + lowered(name)),
                                     phrase("torch.tensor." + lowered(name))));
      }
      restrict_to(std::move(ids));
    }
    if (const auto* decorators = values("decorator")) {
      Ids ids;
      for (const std::string& decorator : *decorators)
        add_matches(ids, "decorators : " + phrase(lowered(decorator)));
      restrict_to(std::move(ids));
    }
    // Of operator and dtype one variant must have both.
    if (values("op") != nullptr && values("dtype") != nullptr) restrict_by_variant();
    if (const auto* kinds = values("kind"))
      for (const std::string& kind : *kinds)
        kinds_[static_cast<std::size_t>(*parse_kind(kind))] = true;
    else
      kinds_[static_cast<std::size_t>(Kind::test)] = true;
    if (!query_.dropped) {
      SQLite::Statement rows{db_, "SELECT definition FROM memory_test WHERE rule <> ''"};
      while (rows.executeStep()) dropped_.insert(rows.getColumn(0).getInt64());
    }
  }

  void restrict_by_variant() {
    SQLite::Statement any{db_, "SELECT 1 FROM memory_variant WHERE definition = ? LIMIT 1"};
    SQLite::Statement both{
        db_, "SELECT 1 FROM memory_variant WHERE definition = ? AND op = ? AND dtype = ? LIMIT 1"};
    std::erase_if(*allowed_, [&](std::int64_t id) {
      any.reset();
      any.bind(1, id);
      if (!any.executeStep()) return false;
      for (const std::string& op : *values("op"))
        for (const std::string& dtype : *values("dtype")) {
          both.reset();
          both.bind(1, id);
          both.bind(2, operator_name(op));
          both.bind(3, dtype.starts_with("torch.") ? dtype.substr(6) : dtype);
          if (both.executeStep()) return false;
        }
      return true;
    });
  }

  bool is_wanted(std::int64_t id) const {
    return kinds_[static_cast<std::size_t>(kind_of(id))] && (!allowed_ || allowed_->contains(id)) &&
           !dropped_.contains(id);
  }

  // The rarest of the words that the index has, as many as may be scored, at least one.
  std::vector<std::string> rare(const std::vector<std::string>& words,
                                std::vector<std::string>& ignored) {
    std::vector<std::pair<std::int64_t, std::string>> known;
    SQLite::Statement row{db_, "SELECT entries FROM memory_word WHERE word = ?"};
    for (const std::string& word : words) {
      row.reset();
      row.bindNoCopy(1, word);
      if (row.executeStep()) known.emplace_back(row.getColumn(0).getInt64(), word);
    }
    // None of them: what is asked for is not there.
    if (known.empty()) return words;
    std::ranges::sort(known);
    std::vector<std::string> chosen;
    std::int64_t entries = 0;
    for (auto& [count, word] : known) {
      entries += count;
      (chosen.empty() || entries <= k_most_entries ? chosen : ignored).push_back(std::move(word));
    }
    return chosen;
  }

  std::vector<Scored> score(const std::vector<std::string>& words) {
    std::vector<Scored> found;
    if (words.empty()) {
      if (!allowed_) return found;
      for (const std::int64_t id : *allowed_)
        if (is_wanted(id)) found.push_back({id, 0});
      return found;
    }
    SQLite::Statement rows{db_, fmt::format("SELECT rowid, {} FROM memory_search WHERE "
                                            "memory_search MATCH ?",
                                            k_rank)};
    rows.bind(1, any_of(words));
    while (rows.executeStep()) {
      const std::int64_t id = rows.getColumn(0).getInt64();
      if (is_wanted(id)) found.push_back({id, -rows.getColumn(1).getDouble()});
    }
    return found;
  }

  Hit describe(const Scored& one, const std::vector<std::string>& words) {
    SQLite::Statement row{
        db_,
        "SELECT s.path,d.class,d.name,d.line,d.last_line,d.doc,d.decorators,d.apis,d.symbols,"
        "coalesce((SELECT rule FROM memory_test WHERE definition = d.id),''),"
        "(SELECT count(*) FROM memory_variant WHERE definition = d.id) "
        "FROM memory_definition d JOIN memory_source s ON s.id = d.source WHERE d.id = ?"};
    row.bind(1, one.id);
    Hit hit;
    hit.id = one.id;
    hit.kind = kind_of(one.id);
    hit.score = one.score;
    if (!row.executeStep()) return hit;
    Definition definition;
    hit.path = text_of(row, 0);
    definition.class_name = text_of(row, 1);
    definition.name = text_of(row, 2);
    hit.line = row.getColumn(3).getInt();
    hit.last_line = row.getColumn(4).getInt();
    definition.doc = text_of(row, 5);
    definition.decorators = split(text_of(row, 6));
    definition.apis = split(text_of(row, 7));
    definition.symbols = split(text_of(row, 8));
    hit.rule = text_of(row, 9);
    hit.variants = static_cast<std::size_t>(row.getColumn(10).getInt64());
    hit.name = qualified_name(definition);
    hit.doc = definition.doc;
    const IndexedText text = indexed_text(hit.path, definition);
    const std::string* fields[] = {&text.name, &text.path,    &text.decorators,
                                   &text.apis, &text.symbols, &text.doc};
    for (std::size_t i = 0; i < std::size(fields); ++i) {
      const std::string padded = " " + *fields[i] + " ";
      for (const std::string& word : words)
        if (padded.find(" " + word + " ") != std::string::npos)
          hit.matched[std::string{k_fields[i]}].push_back(word);
    }
    return hit;
  }

  SQLite::Database& db_;
  const Query& query_;
  std::optional<Ids> allowed_;  // nothing: all
  Ids dropped_;
  bool kinds_[4] = {};
};

}  // namespace

Result<Query> parse_query(std::string_view text) {
  Query query;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == ' ' || text[at] == '\t' || text[at] == '\n') {
      ++at;
      continue;
    }
    const auto stop = std::min(text.find_first_of(" \t\n", at), text.size());
    const std::string_view word = text.substr(at, stop - at);
    at = stop;
    const auto colon = word.find(':');
    // "aten::add" is a word.
    if (colon == std::string_view::npos || word.substr(colon).starts_with("::") || colon == 0) {
      query.words += (query.words.empty() ? "" : " ") + std::string{word};
      continue;
    }
    const std::string_view name = word.substr(0, colon);
    const std::string value{word.substr(colon + 1)};
    if (std::ranges::find(k_search_filters, name) == std::end(k_search_filters))
      return fail(Fault::usage, "there is no filter '" + std::string{name} + ":'",
                  base::suggest(name, k_search_filters));
    if (value.empty())
      return fail(Fault::usage, std::string{name} + ": needs a value",
                  "write " + std::string{name} + ":VALUE, without a space");
    if (name == "kind" && !parse_kind(value))
      return fail(Fault::usage, "there is no kind '" + value + "'",
                  "use kind:test, kind:class, kind:helper");
    query.filters[std::string{name}].push_back(value);
  }
  if (query.words.empty() && query.filters.empty())
    return fail(Fault::usage, "nothing is searched for", "crosscheck search \"relu backward\"");
  return query;
}

Result<Answer> Memory::search(const Query& query, std::size_t limit) {
  return impl_->guard([&]() -> Result<Answer> { return Search{impl_->db(), query}.run(limit); });
}

}  // namespace crosscheck::memory
