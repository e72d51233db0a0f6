#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "crosscheck/base/nearest.h"
#include "crosscheck/base/outcome.h"
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

// Of those most alike, how many are found by meaning, and how alike they must be: less is chance.
constexpr std::size_t k_most_alike = 200;
constexpr float k_least_likeness = 0.15F;
constexpr float k_least_of_model = 0.3F;
// Of reciprocal rank fusion: how little the first places say more than those after them.
constexpr double k_fusion = 60;
// Of a word that no test has: as rare as one can be.
constexpr double k_unknown_weight = 8;

// A set of definitions; their ids are dense.
class Ids {
 public:
  void insert(std::int64_t id) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= bits_.size()) bits_.resize(std::max(index + 1, bits_.size() * 2));
    bits_[index] = true;
  }
  bool contains(std::int64_t id) const {
    const auto index = static_cast<std::size_t>(id);
    return index < bits_.size() && bits_[index];
  }
  template <class F>
  void keep_if(F&& wanted) {
    for (std::size_t i = 0; i < bits_.size(); ++i)
      if (bits_[i] && !wanted(static_cast<std::int64_t>(i))) bits_[i] = false;
  }
  template <class F>
  void each(F&& take) const {
    for (std::size_t i = 0; i < bits_.size(); ++i)
      if (bits_[i]) take(static_cast<std::int64_t>(i));
  }

 private:
  std::vector<bool> bits_;
};

struct Scored {
  std::int64_t id = 0;
  double score = 0;
  std::size_t words_rank = 0;
  std::size_t meaning_rank = 0;
  std::size_t model_rank = 0;
  double likeness = 0;
};

void best_first(std::vector<Scored>& found) {
  std::ranges::sort(found, [](const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  });
}

// Of a list, best first. Those of one score share a place, so that it does not hang on their ids.
void rank(std::vector<Scored>& found, std::size_t Scored::* place) {
  for (std::size_t i = 0; i < found.size(); ++i)
    found[i].*place = i > 0 && found[i].score == found[i - 1].score ? found[i - 1].*place : i + 1;
}

// Of lists that are ranked; in the order of the sums.
std::vector<Scored> fused(const std::vector<std::vector<Scored>>& lists) {
  std::vector<Scored> all;
  std::unordered_map<std::int64_t, std::size_t> slot_of;
  for (const std::vector<Scored>& list : lists)
    for (const Scored& one : list) {
      const auto [found, fresh] = slot_of.emplace(one.id, all.size());
      if (fresh) all.push_back({.id = one.id});
      Scored& sum = all[found->second];
      // One of these is not 0.
      sum.words_rank += one.words_rank;
      sum.meaning_rank += one.meaning_rank;
      sum.model_rank += one.model_rank;
      sum.likeness += one.likeness;
      sum.score +=
          1 / (k_fusion + static_cast<double>(one.words_rank + one.meaning_rank + one.model_rank));
    }
  best_first(all);
  return all;
}

class Search {
 public:
  // `vectors` are of all tests; `of_model` of those that the query's model has been asked about.
  Search(SQLite::Database& db, const Vectors* vectors, const Vectors* of_model, const Query& query)
      : db_{db}, vectors_{vectors}, of_model_{of_model}, query_{query} {}

  Answer run(std::size_t limit) {
    const std::vector<std::string> words = tokens_of(query_.words);
    restrict_by_filters();
    Answer answer;
    std::vector<std::vector<Scored>> lists;
    if (query_.by != By::meaning || words.empty()) {
      lists.push_back(score(rare(words, answer.ignored)));
      best_first(lists.back());
      if (!words.empty()) rank(lists.back(), &Scored::words_rank);
    }
    if (vectors_ != nullptr && !words.empty())
      lists.push_back(most_alike(*vectors_, sketch_of(weighted(words)), k_least_likeness,
                                 &Scored::meaning_rank));
    if (of_model_ != nullptr && !words.empty())
      lists.push_back(most_alike(*of_model_, quantised(query_.embedding), k_least_of_model,
                                 &Scored::model_rank));
    const std::vector<Scored> found = lists.size() == 1 ? std::move(lists.front()) : fused(lists);
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
      allowed_->keep_if([&](std::int64_t id) { return ids.contains(id); });
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
    if (query_.of_mode) {
      Ids ids;
      for (const std::int64_t id : *query_.of_mode) ids.insert(id);
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
    allowed_->keep_if([&](std::int64_t id) {
      any.reset();
      any.bind(1, id);
      if (!any.executeStep()) return true;
      for (const std::string& op : *values("op"))
        for (const std::string& dtype : *values("dtype")) {
          both.reset();
          both.bind(1, id);
          both.bind(2, operator_name(op));
          both.bind(3, dtype.starts_with("torch.") ? dtype.substr(6) : dtype);
          if (both.executeStep()) return true;
        }
      return false;
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
      allowed_->each([&](std::int64_t id) {
        if (is_wanted(id)) found.push_back({.id = id});
      });
      return found;
    }
    SQLite::Statement rows{db_, fmt::format("SELECT rowid, {} FROM memory_search WHERE "
                                            "memory_search MATCH ?",
                                            k_rank)};
    rows.bind(1, any_of(words));
    while (rows.executeStep()) {
      const std::int64_t id = rows.getColumn(0).getInt64();
      if (is_wanted(id)) found.push_back({.id = id, .score = -rows.getColumn(1).getDouble()});
    }
    return found;
  }

  // Rare words say most about what is meant.
  std::vector<WeightedWord> weighted(const std::vector<std::string>& words) {
    std::vector<WeightedWord> all;
    SQLite::Statement row{db_, "SELECT entries FROM memory_word WHERE word = ?"};
    const auto tests = static_cast<double>(vectors_->size());
    for (const std::string& word : words) {
      row.reset();
      row.bindNoCopy(1, word);
      double weight = k_unknown_weight;
      if (row.executeStep()) {
        const double entries = std::min(row.getColumn(0).getDouble(), tests);
        weight = std::log((tests - entries + 0.5) / (entries + 0.5) + 1);
      }
      all.push_back({word, weight});
    }
    return all;
  }

  // Best first and ranked. Only the built-in likeness is kept: of another model it says nothing
  // beside it.
  std::vector<Scored> most_alike(const Vectors& vectors, const Vector& meant, float least,
                                 std::size_t Scored::* place) {
    const std::vector<float> likeness = vectors.likeness(meant);
    std::vector<Scored> found;
    for (std::size_t i = 0; i < likeness.size(); ++i)
      if (likeness[i] >= least && is_wanted(vectors.id(i)))
        found.push_back({.id = vectors.id(i), .score = likeness[i]});
    best_first(found);
    if (found.size() > k_most_alike) found.resize(k_most_alike);
    rank(found, place);
    if (place == &Scored::meaning_rank)
      for (Scored& one : found) one.likeness = one.score;
    return found;
  }

  Hit describe(const Scored& one, const std::vector<std::string>& words) {
    SQLite::Statement row{
        db_,
        "SELECT s.path,d.class,d.name,d.line,d.last_line,d.doc,d.decorators,d.apis,d.symbols,"
        "coalesce((SELECT rule FROM memory_test WHERE definition = d.id),''),"
        "(SELECT count(*) FROM memory_variant WHERE definition = d.id),d.comment "
        "FROM memory_definition d JOIN memory_source s ON s.id = d.source WHERE d.id = ?"};
    row.bind(1, one.id);
    Hit hit;
    hit.id = one.id;
    hit.kind = kind_of(one.id);
    hit.score = one.score;
    hit.words_rank = one.words_rank;
    hit.meaning_rank = one.meaning_rank;
    hit.model_rank = one.model_rank;
    hit.likeness = one.likeness;
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
    definition.comment = text_of(row, 11);
    hit.doc = definition.doc;
    if (hit.kind == Kind::test) summarise(definition, hit);
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

  void summarise(const Definition& definition, Hit& hit) {
    hit.summary = summary_of(definition);
    SQLite::Statement row{db_,
                          "SELECT a.value,a.model FROM memory_vector v JOIN memory_answer a ON "
                          "a.text = v.text AND a.kind = 'summary' WHERE v.definition = ? "
                          "ORDER BY a.model, a.prompt LIMIT 1"};
    row.bind(1, hit.id);
    if (!row.executeStep()) return;
    hit.summary = blob_of(row, 0);
    hit.summary_model = text_of(row, 1);
  }

  SQLite::Database& db_;
  const Vectors* vectors_;  // none: by words alone
  const Vectors* of_model_;
  const Query& query_;
  std::optional<Ids> allowed_;  // nothing: all
  Ids dropped_;
  bool kinds_[4] = {};
};

}  // namespace

std::optional<By> parse_by(std::string_view name) {
  if (name == "words") return By::words;
  if (name == "meaning") return By::meaning;
  if (name == "both") return By::both;
  return std::nullopt;
}

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
    if (name == "mode" && !base::parse_mode(value))
      return fail(Fault::usage, "there is no mode '" + value + "'",
                  "use mode:mandatory_success, mode:xfail, mode:xfail_strict, mode:skip");
    query.filters[std::string{name}].push_back(value);
  }
  if (query.words.empty() && query.filters.empty())
    return fail(Fault::usage, "nothing is searched for", "crosscheck search \"relu backward\"");
  return query;
}

Result<Answer> Memory::search(const Query& query, std::size_t limit) {
  if (query.filters.contains("mode") && !query.of_mode)
    return fail(Fault::usage, "mode: asks for what a test configuration says",
                "name it with --config");
  return impl_->guard([&]() -> Result<Answer> {
    const bool by_meaning = query.by != By::words;
    const Vectors* vectors = by_meaning ? &impl_->vectors({}) : nullptr;
    const Vectors* of_model =
        by_meaning && !query.model.empty() ? &impl_->vectors(query.model) : nullptr;
    return Search{impl_->db(), vectors, of_model, query}.run(limit);
  });
}

}  // namespace crosscheck::memory
