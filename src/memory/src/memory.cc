#include "crosscheck/memory/memory.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <set>
#include <unordered_map>

#include "crosscheck/base/digest.h"
#include "crosscheck/memory/link.h"
#include "crosscheck_embed/schema.h"
#include "impl.h"
#include "meaning.h"
#include "tokens.h"

namespace crosscheck::memory {
namespace {

namespace fs = std::filesystem;
using base::fail;
using base::Fault;
using base::Result;

// Of the tables and of what is read from a file: what an older program wrote is made anew.
constexpr std::string_view k_schema = "4";
// A file that was changed so short a time before it was read may change again within the same tick.
constexpr std::int64_t k_settled = 2'000'000'000;

std::string raw(const std::string& hex) { return base::from_hex(hex).value_or(""); }

std::string bytes_of(const std::vector<std::uint32_t>& numbers) {
  std::string bytes;
  bytes.reserve(numbers.size() * 4);
  for (const std::uint32_t number : numbers)
    for (unsigned shift = 0; shift < 32; shift += 8)
      bytes += static_cast<char>((number >> shift) & 0xffU);
  return bytes;
}

std::vector<std::uint32_t> numbers_of(std::string_view bytes) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(bytes.size() / 4);
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    std::uint32_t number = 0;
    for (unsigned byte = 0; byte < 4; ++byte)
      number |= std::uint32_t{static_cast<unsigned char>(bytes[i + byte])} << (8 * byte);
    numbers.push_back(number);
  }
  return numbers;
}

std::int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// What is written of an index, statement by statement.
class Writer {
 public:
  explicit Writer(SQLite::Database& db)
      : db_{db},
        source_{db, "INSERT INTO memory_source VALUES (NULL,?,?,?,?,?,?,?,?)"},
        definition_{db, "INSERT INTO memory_definition VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"},
        search_{db,
                "INSERT INTO memory_search (rowid,name,path,decorators,apis,symbols,doc) "
                "VALUES (?,?,?,?,?,?,?)"},
        unsearch_{db,
                  "INSERT INTO memory_search (memory_search,rowid,name,path,decorators,apis,"
                  "symbols,doc) VALUES ('delete',?,?,?,?,?,?,?)"},
        vector_{db, "INSERT INTO memory_vector VALUES (?,?,?)"},
        next_{db.execAndGet("SELECT coalesce(max(id), 0) FROM memory_definition").getInt64() / 4 +
              1} {}

  // Its definitions' ids, in their order.
  std::vector<std::int64_t> add(const Source& source, const std::string& rule) {
    source_.reset();
    const std::string digest = raw(source.digest);
    const std::string imports = join(source.facts.imports);
    const std::string stars = join(source.facts.stars);
    source_.bindNoCopy(1, source.path);
    source_.bind(2, static_cast<std::int64_t>(source.size));
    source_.bind(3, source.modified);
    source_.bind(4, digest.data(), static_cast<int>(digest.size()));
    source_.bindNoCopy(5, imports);
    source_.bindNoCopy(6, stars);
    source_.bindNoCopy(7, source.facts.problem);
    source_.bindNoCopy(8, rule);
    source_.exec();
    const std::int64_t id = db_.getLastInsertRowid();
    std::vector<std::int64_t> ids;
    ids.reserve(source.facts.definitions.size());
    for (const Definition& definition : source.facts.definitions)
      ids.push_back(add(id, source.path, definition));
    return ids;
  }

  void remove(std::int64_t source, const std::string& path);

  // Last: brings the words' counts to what was written.
  void finish() {
    std::vector<std::pair<std::string_view, std::int64_t>> changes(words_.begin(), words_.end());
    std::ranges::sort(changes);
    SQLite::Statement add{db_,
                          "INSERT INTO memory_word VALUES (?1,?2) ON CONFLICT (word) DO UPDATE SET "
                          "entries = entries + ?2"};
    for (const auto& [word, by] : changes) {
      if (by == 0) continue;
      add.reset();
      const std::string text{word};
      add.bindNoCopy(1, text);
      add.bind(2, by);
      add.exec();
    }
    db_.exec("DELETE FROM memory_word WHERE entries = 0");
    words_.clear();
  }

 private:
  std::int64_t add(std::int64_t source, const std::string& path, const Definition& definition) {
    const std::int64_t id = next_++ * 4 + static_cast<std::int64_t>(definition.kind);
    const std::string decorators = join(definition.decorators);
    const std::string instantiated = join(definition.instantiated);
    const std::string bases = join(definition.bases);
    const std::string uses = join(definition.uses);
    const std::string apis = join(definition.apis);
    const std::string symbols = join(definition.symbols);
    const std::string body = raw(definition.body);
    const std::string shape = bytes_of(definition.shape);
    auto& row = definition_;
    row.reset();
    row.bind(1, id);
    row.bind(2, source);
    row.bindNoCopy(3, definition.class_name);
    row.bindNoCopy(4, definition.name);
    row.bind(5, definition.first_line);
    row.bind(6, definition.line);
    row.bind(7, definition.last_line);
    row.bindNoCopy(8, decorators);
    row.bindNoCopy(9, instantiated);
    row.bindNoCopy(10, bases);
    row.bindNoCopy(11, uses);
    row.bindNoCopy(12, body.data(), static_cast<int>(body.size()));
    row.bindNoCopy(13, shape.data(), static_cast<int>(shape.size()));
    row.bindNoCopy(14, apis);
    row.bindNoCopy(15, symbols);
    row.bindNoCopy(16, definition.doc);
    row.bindNoCopy(17, definition.comment);
    row.exec();
    if (definition.kind == Kind::value) return id;
    const IndexedText text = indexed_text(path, definition);
    put(search_, id, text, 1);
    if (definition.kind == Kind::test) put_vector(id, text, definition);
    return id;
  }

  void put_vector(std::int64_t id, const IndexedText& text, const Definition& definition) {
    const std::string digest = raw(text_digest(text, definition));
    const Vector vector = sketch_of(text);
    vector_.reset();
    vector_.bind(1, id);
    vector_.bindNoCopy(2, digest.data(), static_cast<int>(digest.size()));
    vector_.bindNoCopy(3, vector.data(), static_cast<int>(vector.size()));
    vector_.exec();
  }

  void put(SQLite::Statement& statement, std::int64_t id, const IndexedText& text, int by) {
    for (const std::string* field :
         {&text.name, &text.path, &text.decorators, &text.apis, &text.symbols, &text.doc})
      count(*field, by);
    statement.reset();
    statement.bind(1, id);
    statement.bindNoCopy(2, text.name);
    statement.bindNoCopy(3, text.path);
    statement.bindNoCopy(4, text.decorators);
    statement.bindNoCopy(5, text.apis);
    statement.bindNoCopy(6, text.symbols);
    statement.bindNoCopy(7, text.doc);
    statement.exec();
  }

  void count(std::string_view words, int by) {
    while (!words.empty()) {
      const auto stop = words.find(' ');
      word_.assign(words.substr(0, stop));
      words_[word_] += by;
      words.remove_prefix(stop == std::string_view::npos ? words.size() : stop + 1);
    }
  }

  SQLite::Database& db_;
  std::unordered_map<std::string, std::int64_t> words_;
  std::string word_;
  SQLite::Statement source_;
  SQLite::Statement definition_;
  SQLite::Statement search_;
  SQLite::Statement unsearch_;
  SQLite::Statement vector_;
  std::int64_t next_;
};

constexpr std::string_view k_columns =
    "id,class,name,first_line,line,last_line,decorators,instantiated,bases,uses,body,shape,apis,"
    "symbols,doc,comment";

// Of a row of k_columns; `whole`: also what only searches, rules and exports need.
Definition definition_of(SQLite::Statement& row, bool whole) {
  Definition definition;
  definition.kind = kind_of(row.getColumn(0).getInt64());
  definition.class_name = text_of(row, 1);
  definition.name = text_of(row, 2);
  definition.first_line = row.getColumn(3).getInt();
  definition.line = row.getColumn(4).getInt();
  definition.last_line = row.getColumn(5).getInt();
  definition.decorators = split(text_of(row, 6));
  definition.bases = split(text_of(row, 8));
  definition.uses = split(text_of(row, 9));
  definition.body = base::to_hex(blob_of(row, 10));
  if (!whole) return definition;
  definition.instantiated = split(text_of(row, 7));
  definition.shape = numbers_of(blob_of(row, 11));
  definition.apis = split(text_of(row, 12));
  definition.symbols = split(text_of(row, 13));
  definition.doc = text_of(row, 14);
  definition.comment = text_of(row, 15);
  return definition;
}

void Writer::remove(std::int64_t source, const std::string& path) {
  SQLite::Statement rows{
      db_, "SELECT " + std::string{k_columns} + " FROM memory_definition WHERE source = ?"};
  rows.bind(1, source);
  while (rows.executeStep())
    if (const Definition definition = definition_of(rows, true); definition.kind != Kind::value)
      put(unsearch_, rows.getColumn(0).getInt64(), indexed_text(path, definition), -1);
  for (const char* sql : {"DELETE FROM memory_vector WHERE definition IN "
                          "(SELECT id FROM memory_definition WHERE source = ?)",
                          "DELETE FROM memory_test WHERE definition IN "
                          "(SELECT id FROM memory_definition WHERE source = ?)",
                          "UPDATE memory_variant SET definition = NULL WHERE definition IN "
                          "(SELECT id FROM memory_definition WHERE source = ?)",
                          "DELETE FROM memory_definition WHERE source = ?",
                          "DELETE FROM memory_source WHERE id = ?"}) {
    SQLite::Statement statement{db_, sql};
    statement.bind(1, source);
    statement.exec();
  }
}

// What is known of a file before this time.
struct Known {
  std::int64_t id = 0;
  std::uint64_t size = 0;
  std::int64_t modified = 0;
  std::string digest;
  std::string rule;
};

std::string fact(SQLite::Database& db, const char* name) {
  SQLite::Statement row{db, "SELECT value FROM memory_fact WHERE name = ?"};
  row.bindNoCopy(1, name);
  return row.executeStep() ? std::string{text_of(row, 0)} : std::string{};
}

void set_fact(SQLite::Database& db, const char* name, const std::string& value) {
  SQLite::Statement row{db, "INSERT OR REPLACE INTO memory_fact VALUES (?,?)"};
  row.bindNoCopy(1, name);
  row.bindNoCopy(2, value);
  row.exec();
}

bool has_index(SQLite::Database& db) {
  return db.tableExists("memory_fact") && fact(db, "schema") == k_schema;
}

void make_tables(SQLite::Database& db) {
  if (has_index(db)) return;
  for (const char* table : {"memory_word", "memory_search", "memory_variant", "memory_test",
                            "memory_vector", "memory_definition", "memory_source", "memory_fact"})
    db.exec(std::string{"DROP TABLE IF EXISTS "} + table);
  db.exec(std::string{embed::schema_files().front().text});
  set_fact(db, "schema", std::string{k_schema});
}

// The sources as they are after this time, with their definitions' ids.
struct State {
  std::vector<Source> sources;
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<bool> fresh;  // read this time
  std::vector<std::int64_t> source_ids;
};

// Joins what was collected to definitions: by the file, the class and the method that the test says
// it was made from and the line where that begins; through base classes where the file only
// instantiates what another defines.
class Joiner {
 public:
  Joiner(const State& state, const Linked& linked) : state_{state}, linked_{linked} {
    for (std::uint32_t s = 0; s < state.sources.size(); ++s)
      by_path_.emplace(state.sources[s].path, s);
  }

  // 0: there is none.
  std::int64_t find(std::string_view file, const std::string& class_name, std::string_view method,
                    std::int64_t line) {
    const auto found = by_path_.find(file);
    if (found == by_path_.end()) return 0;
    const auto holds = [&](const Definition& definition) {
      return definition.kind != Kind::klass && definition.name == method &&
             definition.first_line <= line && line <= definition.last_line;
    };
    const auto& definitions = state_.sources[found->second].facts.definitions;
    std::int64_t elsewhere = 0;
    for (std::size_t d = 0; d < definitions.size(); ++d) {
      if (!holds(definitions[d])) continue;
      if (definitions[d].class_name == class_name) return state_.ids[found->second][d];
      if (elsewhere == 0) elsewhere = state_.ids[found->second][d];
    }
    if (elsewhere != 0) return elsewhere;
    const auto inherited = linked_.method(found->second, class_name, method);
    if (!inherited || !holds(linked_.at(*inherited))) return 0;
    return state_.ids[inherited->source][inherited->definition];
  }

 private:
  const State& state_;
  const Linked& linked_;
  std::unordered_map<std::string_view, std::uint32_t> by_path_;
};

class Indexing {
 public:
  Indexing(SQLite::Database& db, const fs::path& root, const IndexOptions& options)
      : db_{db}, root_{root}, options_{options} {}

  Result<IndexReport> run() {
    auto walked = walk(root_);
    if (!walked) return tl::unexpected(walked.error());
    report_.problems = std::move(walked->problems);
    report_.files = walked->files.size();
    SQLite::Transaction transaction{db_, SQLite::TransactionBehavior::IMMEDIATE};
    make_tables(db_);
    const std::string narrowing = options_.narrowing == nullptr ? "" : options_.narrowing->digest();
    judge_all_ = fact(db_, "narrowing") != narrowing;
    const std::int64_t began = now_nanoseconds();
    load_known();
    if (auto read = read_changed(std::move(walked->files)); !read)
      return tl::unexpected(read.error());
    load_unchanged();
    const Linked linked{state_.sources};
    write_tests(linked);
    if (auto joined = join(linked); !joined) return tl::unexpected(joined.error());
    count();
    db_.exec("DELETE FROM memory_fact WHERE name LIKE 'note:%'");
    for (const auto& [name, value] : options_.notes) set_fact(db_, ("note:" + name).c_str(), value);
    set_fact(db_, "narrowing", narrowing);
    set_fact(db_, "root", fs::absolute(root_).lexically_normal().string());
    set_fact(db_, "indexed_at", std::to_string(began));
    transaction.commit();
    std::ranges::sort(report_.problems);
    return std::move(report_);
  }

 private:
  void load_known() {
    SQLite::Statement rows{db_, "SELECT id,path,size,modified,digest,rule FROM memory_source"};
    while (rows.executeStep())
      known_.emplace(text_of(rows, 1),
                     Known{rows.getColumn(0).getInt64(),
                           static_cast<std::uint64_t>(rows.getColumn(2).getInt64()),
                           rows.getColumn(3).getInt64(), base::to_hex(blob_of(rows, 4)),
                           std::string{text_of(rows, 5)}});
  }

  std::string rule_of(const Source& source) const {
    if (options_.narrowing == nullptr) return {};
    const Verdict verdict = options_.narrowing->file(source);
    return verdict ? verdict.rule->id : std::string{};
  }

  Result<void> read_changed(std::vector<TreeFile> files) {
    const std::string text = fact(db_, "indexed_at");
    const std::int64_t settled = (text.empty() ? 0 : std::stoll(text)) - k_settled;
    std::vector<TreeFile> todo;
    std::vector<std::size_t> slots;
    for (const TreeFile& file : files) {
      state_.sources.emplace_back().path = file.path;
      const auto known = known_.find(file.path);
      if (known != known_.end() && !options_.every_file && known->second.size == file.size &&
          known->second.modified == file.modified && file.modified < settled) {
        continue;
      }
      slots.push_back(state_.sources.size() - 1);
      todo.push_back(file);
    }
    state_.fresh.resize(files.size());
    state_.ids.resize(files.size());
    Writer writer{db_};
    forget_gone(files, writer);
    ReadOptions reading;
    reading.jobs = options_.jobs;
    reading.known = [&](std::size_t index) {
      const auto known = known_.find(todo[index].path);
      return known == known_.end() ? std::string{} : known->second.digest;
    };
    if (options_.on_progress)
      reading.on_progress = [&](std::size_t done) { options_.on_progress(done, todo.size()); };
    SQLite::Statement touch{db_, "UPDATE memory_source SET modified = ? WHERE id = ?"};
    std::set<std::size_t> unread(slots.begin(), slots.end());
    auto read = read_tree(root_, todo, reading, report_.problems,
                          [&](std::size_t index, Source source) -> Result<void> {
                            const std::size_t slot = slots[index];
                            unread.erase(slot);
                            const auto known = known_.find(source.path);
                            if (known != known_.end() && known->second.digest == source.digest) {
                              touch.reset();
                              touch.bind(1, source.modified);
                              touch.bind(2, known->second.id);
                              touch.exec();
                              return {};
                            }
                            if (known != known_.end()) writer.remove(known->second.id, source.path);
                            state_.ids[slot] = writer.add(source, rule_of(source));
                            state_.fresh[slot] = true;
                            ++report_.read;
                            keep(source, slot);
                            return {};
                          });
    if (!read) return read;
    // What can no longer be read is not there.
    for (const std::size_t slot : unread)
      if (const auto known = known_.find(state_.sources[slot].path); known != known_.end()) {
        writer.remove(known->second.id, known->first);
        known_.erase(known);
      }
    writer.finish();
    return {};
  }

  // Of a source that is written, what is still to be asked.
  void keep(Source& source, std::size_t slot) {
    auto& rules = rules_[slot];
    rules.reserve(source.facts.definitions.size());
    for (Definition& definition : source.facts.definitions) {
      rules.push_back(judge(source, definition));
    }
    for (Definition& definition : source.facts.definitions) {
      definition.symbols = {};
      definition.apis = {};
      definition.shape = {};
      definition.doc = {};
      definition.comment = {};
    }
    state_.sources[slot] = std::move(source);
  }

  std::string judge(const Source& source, const Definition& definition) const {
    if (options_.narrowing == nullptr || definition.kind != Kind::test) return {};
    const Verdict verdict = options_.narrowing->definition(source, definition);
    return verdict ? verdict.rule->id : std::string{};
  }

  void forget_gone(const std::vector<TreeFile>& files, Writer& writer) {
    std::set<std::string_view> there;
    for (const TreeFile& file : files) there.insert(file.path);
    for (auto it = known_.begin(); it != known_.end();) {
      if (there.contains(it->first)) {
        ++it;
        continue;
      }
      writer.remove(it->second.id, it->first);
      ++report_.removed;
      it = known_.erase(it);
    }
  }

  void load_unchanged() {
    std::unordered_map<std::int64_t, std::size_t> slot_of;
    for (std::size_t slot = 0; slot < state_.sources.size(); ++slot) {
      const auto known = known_.find(state_.sources[slot].path);
      if (!state_.fresh[slot] && known != known_.end()) slot_of.emplace(known->second.id, slot);
    }
    if (slot_of.empty()) return;
    SQLite::Statement files{db_, "SELECT id,size,digest,imports,stars,problem FROM memory_source"};
    while (files.executeStep()) {
      const auto slot = slot_of.find(files.getColumn(0).getInt64());
      if (slot == slot_of.end()) continue;
      Source& source = state_.sources[slot->second];
      source.facts.imports = split(text_of(files, 3));
      source.facts.stars = split(text_of(files, 4));
      source.facts.problem = text_of(files, 5);
    }
    SQLite::Statement rows{
        db_, "SELECT " + std::string{k_columns} + ",source FROM memory_definition ORDER BY id"};
    while (rows.executeStep()) {
      const auto slot = slot_of.find(rows.getColumn(16).getInt64());
      if (slot == slot_of.end()) continue;
      state_.ids[slot->second].push_back(rows.getColumn(0).getInt64());
      state_.sources[slot->second].facts.definitions.push_back(definition_of(rows, judge_all_));
    }
    if (!judge_all_) return;
    SQLite::Statement mark{db_, "UPDATE memory_source SET rule = ? WHERE id = ?"};
    for (const auto& [id, slot] : slot_of) {
      const Source& source = state_.sources[slot];
      for (const Definition& definition : source.facts.definitions)
        rules_[slot].push_back(judge(source, definition));
      mark.reset();
      mark.bind(1, rule_of(source));
      mark.bind(2, id);
      mark.exec();
    }
  }

  void write_tests(const Linked& linked) {
    std::unordered_map<std::int64_t, std::pair<std::string, std::string>> had;
    SQLite::Statement rows{db_, "SELECT definition,content,rule FROM memory_test"};
    while (rows.executeStep())
      had.emplace(rows.getColumn(0).getInt64(),
                  std::pair{std::string{blob_of(rows, 1)}, std::string{text_of(rows, 2)}});
    SQLite::Statement put{db_, "INSERT OR REPLACE INTO memory_test VALUES (?,?,?)"};
    for (std::uint32_t s = 0; s < state_.sources.size(); ++s) {
      const auto& definitions = state_.sources[s].facts.definitions;
      const auto judged = rules_.find(s);
      for (std::uint32_t d = 0; d < definitions.size(); ++d) {
        if (definitions[d].kind != Kind::test) continue;
        const std::int64_t id = state_.ids[s][d];
        const std::string content = raw(linked.content({s, d}));
        const auto before = had.find(id);
        const std::string& rule =
            judged != rules_.end() ? judged->second[d] : before->second.second;
        ++(rule.empty() ? report_.kept : report_.dropped[rule]);
        if (before != had.end() && before->second.first == content && before->second.second == rule)
          continue;
        put.reset();
        put.bind(1, id);
        put.bindNoCopy(2, content.data(), static_cast<int>(content.size()));
        put.bindNoCopy(3, rule);
        put.exec();
      }
    }
  }

  Result<void> join(const Linked& linked) {
    Joiner joiner{state_, linked};
    if (options_.collected) {
      db_.exec("DELETE FROM memory_variant");
      SQLite::Statement put{db_, "INSERT INTO memory_variant VALUES (NULL,?,?,?,?,?,?,?,?,?,?)"};
      for (const Collected& test : *options_.collected) {
        put.reset();
        const std::int64_t id = joiner.find(test.file, test.class_name, test.method, test.line);
        if (id == 0) {
          put.bind(1);
        } else {
          put.bind(1, id);
        }
        put.bindNoCopy(2, test.file);
        put.bindNoCopy(3, test.class_name);
        put.bindNoCopy(4, test.method);
        put.bindNoCopy(5, test.variant);
        put.bindNoCopy(6, test.op);
        put.bindNoCopy(7, test.dtype);
        put.bindNoCopy(8, test.device);
        put.bindNoCopy(9, test.node_id);
        put.bind(10, test.line);
        put.exec();
      }
      set_fact(db_, "subject", options_.subject);
    } else if (report_.read > 0 || report_.removed > 0) {
      rejoin(joiner);
    }
    report_.variants =
        static_cast<std::size_t>(db_.execAndGet("SELECT count(*) FROM memory_variant").getInt64());
    report_.unplaced = static_cast<std::size_t>(
        db_.execAndGet("SELECT count(*) FROM memory_variant WHERE definition IS NULL").getInt64());
    if (options_.collected && options_.mostly_placed && report_.unplaced * 2 > report_.variants)
      return fail(Fault::environment,
                  "of " + std::to_string(report_.variants) + " tests collected of " +
                      options_.subject + ", " + std::to_string(report_.unplaced) +
                      " are not where the inventory says in " + root_.string() +
                      ": it was collected from another tree or another version of it",
                  "collect this one: crosscheck collect --suite TREE, or index the tree of that "
                  "version");
    return {};
  }

  // A file that changed may hold what was elsewhere, and its classes what others inherit.
  void rejoin(Joiner& joiner) {
    SQLite::Statement rows{db_, "SELECT id,file,class,method,line,definition FROM memory_variant"};
    SQLite::Statement put{db_, "UPDATE memory_variant SET definition = ? WHERE id = ?"};
    while (rows.executeStep()) {
      const std::int64_t id = joiner.find(text_of(rows, 1), std::string{text_of(rows, 2)},
                                          text_of(rows, 3), rows.getColumn(4).getInt64());
      if (id == rows.getColumn(5).getInt64()) continue;
      put.reset();
      if (id == 0) {
        put.bind(1);
      } else {
        put.bind(1, id);
      }
      put.bind(2, rows.getColumn(0).getInt64());
      put.exec();
    }
  }

  void count() {
    for (const Source& source : state_.sources) {
      for (const Definition& definition : source.facts.definitions)
        ++report_.definitions[definition.kind];
      if (!source.facts.problem.empty())
        report_.problems.push_back({source.path, source.facts.problem});
    }
  }

  SQLite::Database& db_;
  const fs::path& root_;
  const IndexOptions& options_;
  IndexReport report_;
  std::map<std::string, Known, std::less<>> known_;
  State state_;
  std::unordered_map<std::size_t, std::vector<std::string>> rules_;  // by source: its tests' rules
  bool judge_all_ = false;
};

}  // namespace

std::string join(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    if (!text.empty()) text += '\n';
    text += item;
  }
  return text;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const auto stop = text.find('\n');
    items.emplace_back(text.substr(0, stop));
    text.remove_prefix(stop == std::string_view::npos ? text.size() : stop + 1);
  }
  return items;
}

IndexedText indexed_text(std::string_view path, const Definition& definition) {
  const auto text = [](const std::vector<std::string>& items) { return token_text(join(items)); };
  return {token_text(definition.class_name + " " + definition.name),
          token_text(path),
          text(definition.decorators),
          text(definition.apis),
          text(definition.symbols),
          token_text(definition.doc + " " + definition.comment)};
}

const Vectors& Memory::Impl::vectors(const std::string& model) {
  const std::int64_t version = db_.execAndGet("PRAGMA data_version").getInt64();
  if (vectors_version_ != version) vectors_.clear();
  vectors_version_ = version;
  const auto [found, fresh] = vectors_.try_emplace(model);
  if (!fresh) return found->second;
  SQLite::Statement rows{
      db_,
      model.empty()
          ? "SELECT definition,vector FROM memory_vector ORDER BY definition"
          : "SELECT v.definition,a.value FROM memory_vector v JOIN memory_answer a ON a.text = "
            "v.text AND a.kind = 'embedding' AND a.model = ? ORDER BY v.definition"};
  if (!model.empty()) rows.bind(1, model);
  while (rows.executeStep()) found->second.add(rows.getColumn(0).getInt64(), blob_of(rows, 1));
  return found->second;
}

Memory::Memory(std::unique_ptr<Impl> impl) : impl_{std::move(impl)} {}
Memory::Memory(Memory&&) noexcept = default;
Memory& Memory::operator=(Memory&&) noexcept = default;
Memory::~Memory() = default;

Result<Memory> Memory::open(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error)
    return fail(Fault::read_only,
                "the folder " + path.parent_path().string() + " cannot be made: " + error.message(),
                "name another file with --memory");
  try {
    auto impl = std::make_unique<Impl>(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    impl->db().exec(
        "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536;");
    return Memory{std::move(impl)};
  } catch (const SQLite::Exception& exception) {
    return tl::unexpected(Impl::error_of(exception, path));
  }
}

Result<Memory> Memory::open_existing(const fs::path& path) {
  const auto none = [&] {
    return fail(Fault::not_found, path.string() + ": there is no index of a tree",
                "make one: crosscheck index TREE, or name another with --memory");
  };
  std::error_code error;
  if (!fs::exists(path, error)) return none();
  try {
    auto impl = std::make_unique<Impl>(path, SQLite::OPEN_READONLY);
    if (!has_index(impl->db())) return none();
    impl->db().exec("PRAGMA mmap_size = 268435456; PRAGMA temp_store = MEMORY;");
    return Memory{std::move(impl)};
  } catch (const SQLite::Exception& exception) {
    return tl::unexpected(Impl::error_of(exception, path));
  }
}

Result<IndexReport> Memory::index(const fs::path& root, const IndexOptions& options) {
  return impl_->guard([&] {
    impl_->forget_vectors();
    return Indexing{impl_->db(), root, options}.run();
  });
}

Result<std::string> Memory::note(const std::string& name) {
  return impl_->guard(
      [&]() -> Result<std::string> { return fact(impl_->db(), ("note:" + name).c_str()); });
}

Result<std::vector<Source>> Memory::sources() {
  return impl_->guard([&]() -> Result<std::vector<Source>> {
    std::vector<Source> sources;
    std::unordered_map<std::int64_t, std::size_t> slot_of;
    SQLite::Statement files{impl_->db(),
                            "SELECT id,path,size,modified,digest,imports,stars,problem FROM "
                            "memory_source ORDER BY path"};
    while (files.executeStep()) {
      slot_of.emplace(files.getColumn(0).getInt64(), sources.size());
      Source& source = sources.emplace_back();
      source.path = text_of(files, 1);
      source.size = static_cast<std::uint64_t>(files.getColumn(2).getInt64());
      source.modified = files.getColumn(3).getInt64();
      source.digest = base::to_hex(blob_of(files, 4));
      source.facts.imports = split(text_of(files, 5));
      source.facts.stars = split(text_of(files, 6));
      source.facts.problem = text_of(files, 7);
    }
    SQLite::Statement rows{impl_->db(), "SELECT " + std::string{k_columns} +
                                            ",source FROM memory_definition ORDER BY id"};
    while (rows.executeStep())
      sources[slot_of.at(rows.getColumn(16).getInt64())].facts.definitions.push_back(
          definition_of(rows, true));
    return sources;
  });
}

Result<std::vector<Placed>> Memory::tests() {
  return impl_->guard([&]() -> Result<std::vector<Placed>> {
    std::vector<Placed> tests;
    SQLite::Statement rows{
        impl_->db(),
        "SELECT definition,file,class,method,variant,op,dtype,device,node,line FROM memory_variant "
        "WHERE definition IS NOT NULL UNION ALL SELECT d.id,s.path,d.class,d.name,'{}','','','',"
        "s.path || '::' || CASE d.class WHEN '' THEN '' ELSE d.class || '::' END || d.name,"
        "d.first_line FROM memory_test t JOIN memory_definition d ON d.id = t.definition JOIN "
        "memory_source s ON s.id = d.source WHERE NOT EXISTS (SELECT 1 FROM memory_variant v WHERE "
        "v.definition = d.id)"};
    while (rows.executeStep())
      tests.push_back({rows.getColumn(0).getInt64(),
                       {std::string{text_of(rows, 1)}, std::string{text_of(rows, 2)},
                        std::string{text_of(rows, 3)}, std::string{text_of(rows, 4)},
                        std::string{text_of(rows, 5)}, std::string{text_of(rows, 6)},
                        std::string{text_of(rows, 7)}, std::string{text_of(rows, 8)},
                        rows.getColumn(9).getInt64()}});
    return tests;
  });
}

Result<std::vector<Collected>> Memory::collected() {
  return impl_->guard([&]() -> Result<std::vector<Collected>> {
    std::vector<Collected> tests;
    SQLite::Statement rows{impl_->db(),
                           "SELECT file,class,method,variant,op,dtype,device,node,line FROM "
                           "memory_variant ORDER BY id"};
    while (rows.executeStep())
      tests.push_back({std::string{text_of(rows, 0)}, std::string{text_of(rows, 1)},
                       std::string{text_of(rows, 2)}, std::string{text_of(rows, 3)},
                       std::string{text_of(rows, 4)}, std::string{text_of(rows, 5)},
                       std::string{text_of(rows, 6)}, std::string{text_of(rows, 7)},
                       rows.getColumn(8).getInt64()});
    return tests;
  });
}

}  // namespace crosscheck::memory
