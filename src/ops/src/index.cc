#include "crosscheck/ops/index.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <roaring/roaring.hh>
#include <set>
#include <unordered_map>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "crosscheck/store/sqlite_error.h"

namespace crosscheck::ops {
namespace {

namespace fs = std::filesystem;
namespace json = base::json;
using base::fail;
using base::Fault;
using base::k_phase_count;
using base::Phase;
using base::Result;

constexpr int k_schema = 1;
constexpr int k_application = 0x63784f70;  // "cxOp"
constexpr int k_busy_ms = 30'000;

// Counts are kept by test, sets of tests by operator: both questions are one look-up.
constexpr const char* k_tables = R"(
CREATE TABLE build (torch TEXT NOT NULL, torch_git TEXT NOT NULL, device TEXT NOT NULL,
                    suite TEXT NOT NULL);
CREATE TABLE composite (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE alias (name TEXT NOT NULL, operator TEXT NOT NULL, PRIMARY KEY (name, operator))
  WITHOUT ROWID;
CREATE TABLE delegate (name TEXT PRIMARY KEY, kernel TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE operator (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE test (number INTEGER PRIMARY KEY, file TEXT NOT NULL, class TEXT NOT NULL,
                   method TEXT NOT NULL, variant TEXT NOT NULL, node TEXT NOT NULL,
                   dtype TEXT NOT NULL, outcome INTEGER NOT NULL, known INTEGER NOT NULL,
                   uses BLOB NOT NULL, graphs TEXT NOT NULL);
CREATE TABLE posting (operator INTEGER NOT NULL, phase INTEGER NOT NULL, tests BLOB NOT NULL,
                      PRIMARY KEY (operator, phase)) WITHOUT ROWID;
)";

// What the database library throws, as an error of ours.
template <class F>
auto guarded(const fs::path& path, F body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& error) {
    return tl::unexpected(store::sqlite_error(error.getErrorCode() & 0xff,
                                              error.getExtendedErrorCode(), error.what(), 0,
                                              path.string(), "", "--index"));
  }
}

void put_varint(std::string& to, std::uint64_t value) {
  while (value >= 0x80) {
    to += static_cast<char>(value | 0x80);
    value >>= 7U;
  }
  to += static_cast<char>(value);
}

std::uint64_t take_varint(std::string_view& from) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

// Of one test: operator's number, phase, count.
struct Use {
  std::uint32_t op = 0;
  std::uint8_t phase = 0;
  std::int64_t count = 0;
};

std::string encode(const std::vector<Use>& uses) {
  std::string blob;
  for (const auto& use : uses) {
    put_varint(blob, std::uint64_t{use.op} * k_phase_count + use.phase);
    put_varint(blob, static_cast<std::uint64_t>(use.count));
  }
  return blob;
}

std::vector<Use> decode(std::string_view blob) {
  std::vector<Use> uses;
  while (!blob.empty()) {
    const auto key = take_varint(blob);
    uses.push_back({static_cast<std::uint32_t>(key / k_phase_count),
                    static_cast<std::uint8_t>(key % k_phase_count),
                    static_cast<std::int64_t>(take_varint(blob))});
  }
  return uses;
}

std::string_view blob_of(const SQLite::Column& column) {
  const auto* bytes = static_cast<const char*>(column.getBlob());
  return {bytes, static_cast<std::size_t>(column.getBytes())};
}

std::string text_of(const SQLite::Column& column) {
  return {column.getText(), static_cast<std::size_t>(column.getBytes())};
}

Roaring read_bitmap(std::string_view blob) {
  try {
    return Roaring::readSafe(blob.data(), blob.size());
  } catch (const std::exception&) {
    throw SQLite::Exception{"a set of tests is damaged", SQLITE_CORRUPT};
  }
}

std::string write_bitmap(Roaring& tests) {
  tests.runOptimize();
  std::string blob(tests.getSizeInBytes(), '\0');
  blob.resize(tests.write(blob.data()));
  return blob;
}

Tests numbers_of(const Roaring& bitmap) {
  Tests tests(bitmap.cardinality());
  bitmap.toUint32Array(tests.data());
  return tests;
}

std::string dtype_of(std::string_view variant) {
  // Most have it, and none is parsed where none can be.
  if (variant.find("\"dtype\"") == std::string_view::npos) return {};
  const auto parsed = base::parse_json(variant, "variant");
  const auto* object = parsed ? parsed->if_object() : nullptr;
  const auto* dtype = object == nullptr ? nullptr : object->if_contains("dtype");
  return dtype != nullptr && dtype->is_string() ? std::string{dtype->get_string()} : std::string{};
}

std::string identity_of(const base::TestId& id) {
  std::string key;
  key.reserve(id.file.size() + id.class_name.size() + id.method.size() + id.variant.size() + 3);
  for (const auto* part : {&id.file, &id.class_name, &id.method, &id.variant}) {
    key += *part;
    key += '\0';
  }
  return key;
}

std::string graphs_text(const std::vector<base::CompiledGraph>& graphs) {
  if (graphs.empty()) return {};
  base::Operators only;
  only.graphs = graphs;
  return json::serialize(base::to_json(only).at("graphs"));
}

std::vector<base::CompiledGraph> read_graphs(const std::string& text) {
  if (text.empty()) return {};
  auto parsed = base::parse_json(text, "graphs");
  if (!parsed) return {};
  auto operators =
      base::read_operators({{"operators", json::object{}}, {"graphs", std::move(*parsed)}});
  return operators && *operators ? std::move((*operators)->graphs)
                                 : std::vector<base::CompiledGraph>{};
}

constexpr const char* k_test_columns =
    "number, file, class, method, variant, node, dtype, outcome, known";

IndexedTest read_row(SQLite::Statement& row) {
  IndexedTest test;
  test.number = row.getColumn(0).getUInt();
  test.id = {text_of(row.getColumn(1)), text_of(row.getColumn(2)), text_of(row.getColumn(3)),
             text_of(row.getColumn(4))};
  test.node_id = text_of(row.getColumn(5));
  test.dtype = text_of(row.getColumn(6));
  const auto outcome = row.getColumn(7).getUInt();
  test.outcome = outcome < base::k_outcome_count ? static_cast<base::Outcome>(outcome)
                                                 : base::Outcome::not_run;
  test.known = row.getColumn(8).getInt() != 0;
  return test;
}

}  // namespace

struct Index::Impl {
  fs::path path;
  SQLite::Database db;

  std::optional<Build> build() {
    SQLite::Statement rows{db, "SELECT torch, torch_git, device, suite FROM build"};
    if (!rows.executeStep()) return {};
    return Build{text_of(rows.getColumn(0)), text_of(rows.getColumn(1)), text_of(rows.getColumn(2)),
                 text_of(rows.getColumn(3))};
  }

  std::vector<std::string> operator_names() {
    std::vector<std::string> names;
    SQLite::Statement rows{db, "SELECT number, name FROM operator ORDER BY number"};
    while (rows.executeStep()) names.push_back(text_of(rows.getColumn(1)));
    return names;
  }
};

namespace {

// One trace on its way into an index: what is there already is read as it is needed.
class Joining {
 public:
  explicit Joining(SQLite::Database& db)
      : db_{db},
        insert_{db,
                "INSERT INTO test (number, file, class, method, variant, node, dtype, outcome, "
                "known, uses, graphs) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
        old_{db, "SELECT outcome, known, uses, graphs, node FROM test WHERE number = ?"},
        update_{db,
                "UPDATE test SET outcome = ?, known = ?, uses = ?, graphs = ?, node = ? "
                "WHERE number = ?"} {
    SQLite::Statement tests{db, "SELECT number, file, class, method, variant FROM test"};
    while (tests.executeStep()) {
      numbers_.emplace(identity_of({text_of(tests.getColumn(1)), text_of(tests.getColumn(2)),
                                    text_of(tests.getColumn(3)), text_of(tests.getColumn(4))}),
                       tests.getColumn(0).getUInt());
    }
    SQLite::Statement operators{db, "SELECT number, name FROM operator ORDER BY number"};
    while (operators.executeStep()) {
      operators_.emplace(text_of(operators.getColumn(1)), operators.getColumn(0).getUInt());
    }
  }

  void add(const TracedTest& test, Ingested& ingested) {
    auto uses = uses_of(test, ingested);
    const auto next = static_cast<std::uint32_t>(numbers_.size());
    const auto [at, fresh] = numbers_.emplace(identity_of(test.id), next);
    ++ingested.tests;
    if (fresh) {
      ++ingested.added;
      insert(at->second, test, uses);
    } else {
      join(at->second, test, uses);
    }
    for (const auto& use : uses)
      fresh_[std::size_t{use.op} * k_phase_count + use.phase].push_back(at->second);
  }

  // Once all are added.
  void write_postings() {
    SQLite::Statement old{db_, "SELECT tests FROM posting WHERE operator = ? AND phase = ?"};
    SQLite::Statement put{db_, "INSERT OR REPLACE INTO posting VALUES (?, ?, ?)"};
    for (std::size_t key = 0; key < fresh_.size(); ++key) {
      const auto& tests = fresh_[key];
      if (tests.empty()) continue;
      const auto op = static_cast<std::uint32_t>(key / k_phase_count);
      const auto phase = static_cast<std::uint32_t>(key % k_phase_count);
      Roaring bitmap{tests.size(), tests.data()};
      old.bind(1, op);
      old.bind(2, phase);
      if (old.executeStep()) bitmap |= read_bitmap(blob_of(old.getColumn(0)));
      old.reset();
      const auto blob = write_bitmap(bitmap);
      put.bind(1, op);
      put.bind(2, phase);
      put.bindNoCopy(3, blob.data(), static_cast<int>(blob.size()));
      put.exec();
      put.reset();
    }
  }

 private:
  std::vector<Use> uses_of(const TracedTest& test, Ingested& ingested) {
    std::vector<Use> uses;
    if (!test.operators) return uses;
    for (std::size_t phase = 0; phase < k_phase_count; ++phase) {
      for (const auto& [name, count] : test.operators->phases[phase]) {
        uses.push_back({number_of(name), static_cast<std::uint8_t>(phase), count});
      }
    }
    ingested.pairs += uses.size();
    return uses;
  }

  std::uint32_t number_of(const std::string& name) {
    const auto next = static_cast<std::uint32_t>(operators_.size());
    const auto [at, fresh] = operators_.emplace(name, next);
    if (fresh) {
      SQLite::Statement insert{db_, "INSERT INTO operator VALUES (?, ?)"};
      insert.bind(1, next);
      insert.bind(2, name);
      insert.exec();
    }
    if (fresh_.size() < operators_.size() * k_phase_count) {
      fresh_.resize(operators_.size() * k_phase_count);
    }
    return at->second;
  }

  void insert(std::uint32_t number, const TracedTest& test, const std::vector<Use>& uses) {
    const auto dtype = dtype_of(test.id.variant);
    const auto blob = encode(uses);
    const auto graphs = test.operators ? graphs_text(test.operators->graphs) : std::string{};
    insert_.bind(1, number);
    insert_.bindNoCopy(2, test.id.file);
    insert_.bindNoCopy(3, test.id.class_name);
    insert_.bindNoCopy(4, test.id.method);
    insert_.bindNoCopy(5, test.id.variant);
    insert_.bindNoCopy(6, test.node_id);
    insert_.bindNoCopy(7, dtype);
    insert_.bind(8, static_cast<int>(test.outcome));
    insert_.bind(9, test.operators ? 1 : 0);
    insert_.bindNoCopy(10, blob.data(), static_cast<int>(blob.size()));
    insert_.bindNoCopy(11, graphs);
    insert_.exec();
    insert_.reset();
  }

  void join(std::uint32_t number, const TracedTest& test, const std::vector<Use>& uses) {
    old_.bind(1, number);
    if (!old_.executeStep()) throw SQLite::Exception{"a test is missing", SQLITE_CORRUPT};
    std::map<std::pair<std::uint32_t, std::uint8_t>, std::int64_t> joined;
    for (const auto& all : {decode(blob_of(old_.getColumn(2))), uses}) {
      for (const auto& use : all) {
        auto& count = joined[{use.op, use.phase}];
        count = std::max(count, use.count);
      }
    }
    std::vector<Use> whole;
    whole.reserve(joined.size());
    for (const auto& [key, count] : joined) whole.push_back({key.first, key.second, count});
    base::Operators graphs;
    graphs.graphs = read_graphs(text_of(old_.getColumn(3)));
    if (test.operators) {
      base::Operators more;
      more.graphs = test.operators->graphs;
      base::join(graphs, more);
    }
    const auto outcome = std::min(old_.getColumn(0).getInt(), static_cast<int>(test.outcome));
    const bool known = old_.getColumn(1).getInt() != 0 || test.operators.has_value();
    const auto node = std::min(text_of(old_.getColumn(4)), test.node_id);
    old_.reset();
    const auto blob = encode(whole);
    update_.bind(1, outcome);
    update_.bind(2, known ? 1 : 0);
    update_.bindNoCopy(3, blob.data(), static_cast<int>(blob.size()));
    update_.bind(4, graphs_text(graphs.graphs));
    update_.bind(5, node);
    update_.bind(6, number);
    update_.exec();
    update_.reset();
  }

  SQLite::Database& db_;
  SQLite::Statement insert_;
  SQLite::Statement old_;
  SQLite::Statement update_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::unordered_map<std::string, std::uint32_t> operators_;
  std::vector<std::vector<std::uint32_t>> fresh_;  // by operator and phase: tests
};

void put_names(SQLite::Database& db, const TraceHeader& header) {
  SQLite::Statement composite{db, "INSERT OR IGNORE INTO composite VALUES (?)"};
  for (const auto& name : header.composites) {
    composite.bindNoCopy(1, name);
    composite.exec();
    composite.reset();
  }
  for (const auto& [pairs, sql] :
       {std::pair{&header.aliases, "INSERT OR IGNORE INTO alias VALUES (?, ?)"},
        {&header.delegates, "INSERT OR IGNORE INTO delegate VALUES (?, ?)"}}) {
    SQLite::Statement insert{db, sql};
    for (const auto& [name, of] : *pairs) {
      insert.bindNoCopy(1, name);
      insert.bindNoCopy(2, of);
      insert.exec();
      insert.reset();
    }
  }
}

void put_build(SQLite::Database& db, const Build& build) {
  SQLite::Statement insert{db, "INSERT INTO build VALUES (?, ?, ?, ?)"};
  insert.bind(1, build.torch);
  insert.bind(2, build.torch_git);
  insert.bind(3, build.device);
  insert.bind(4, build.suite);
  insert.exec();
}

}  // namespace

Index::Index(std::unique_ptr<Impl> impl) : impl_{std::move(impl)} {}
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;
Index::~Index() = default;

Result<Index> Index::open(const fs::path& path, Open how) {
  std::error_code error;
  if (how == Open::read && !fs::exists(path, error)) {
    return fail(Fault::not_found, "there is no operator index at " + path.string(),
                "crosscheck trace … --output trace.jsonl.gz, then crosscheck ops ingest "
                "trace.jsonl.gz");
  }
  if (how == Open::write && path.has_parent_path())
    fs::create_directories(path.parent_path(), error);
  return guarded(path, [&]() -> Result<Index> {
    const int flags =
        how == Open::read ? SQLite::OPEN_READONLY : SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE;
    auto impl = std::make_unique<Impl>(Impl{path, {path.string(), flags, k_busy_ms}});
    auto& db = impl->db;
    const auto schema = db.execAndGet("PRAGMA user_version").getInt();
    const auto application = db.execAndGet("PRAGMA application_id").getInt();
    const bool empty = db.execAndGet("SELECT COUNT(*) FROM sqlite_master").getInt() == 0;
    if (empty && how == Open::write) {
      SQLite::Transaction transaction{db};
      db.exec(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}; {}", k_application,
                          k_schema, k_tables));
      transaction.commit();
    } else if (application != k_application || schema != k_schema) {
      return fail(Fault::invalid_input,
                  path.string() + (application == k_application
                                       ? fmt::format(" is an operator index of schema {}, not {}",
                                                     schema, k_schema)
                                       : " is no operator index"),
                  "give another with --index, or remove it and ingest the traces again");
    }
    return Index{std::move(impl)};
  });
}

Result<Ingested> Index::ingest(const fs::path& trace) {
  auto& db = impl_->db;
  return guarded(impl_->path, [&]() -> Result<Ingested> {
    db.exec("BEGIN IMMEDIATE");
    Ingested ingested;
    const auto body = [&]() -> Result<TraceRead> {
      Joining joining{db};
      auto read = read_trace(
          trace,
          [&](const TraceHeader& header) -> Result<void> {
            if (const auto build = impl_->build()) {
              if (auto same = check_same_build(header.build, trace.string(), *build,
                                               "the index " + impl_->path.string());
                  !same) {
                same.error().remedy = "keep an index for each build: --index FILE";
                return same;
              }
            } else {
              put_build(db, header.build);
            }
            put_names(db, header);
            return {};
          },
          [&](const TracedTest& test) -> Result<void> {
            joining.add(test, ingested);
            return {};
          });
      if (read) joining.write_postings();
      return read;
    };
    try {
      auto read = body();
      if (!read) {
        db.exec("ROLLBACK");
        return tl::unexpected(read.error());
      }
      ingested.cut_off = std::move(read->cut_off);
      db.exec("COMMIT");
    } catch (const SQLite::Exception&) {
      // A full disk may have undone it already.
      if (sqlite3_get_autocommit(db.getHandle()) == 0) db.exec("ROLLBACK");
      throw;
    }
    return ingested;
  });
}

Result<IndexSummary> Index::summary() const {
  return guarded(impl_->path, [&]() -> Result<IndexSummary> {
    auto& db = impl_->db;
    IndexSummary summary;
    summary.build = impl_->build();
    SQLite::Statement tests{db, "SELECT COUNT(*), COALESCE(SUM(1 - known), 0) FROM test"};
    tests.executeStep();
    summary.tests = static_cast<std::size_t>(tests.getColumn(0).getInt64());
    summary.unknown = static_cast<std::size_t>(tests.getColumn(1).getInt64());
    summary.operators =
        static_cast<std::size_t>(db.execAndGet("SELECT COUNT(*) FROM operator").getInt64());
    return summary;
  });
}

Result<std::vector<std::string>> Index::operators() const {
  return guarded(impl_->path, [&]() -> Result<std::vector<std::string>> {
    auto names = impl_->operator_names();
    std::sort(names.begin(), names.end());
    return names;
  });
}

Result<Aliases> Index::aliases() const {
  return guarded(impl_->path, [&]() -> Result<Aliases> {
    Aliases aliases;
    SQLite::Statement rows{impl_->db, "SELECT name, operator FROM alias ORDER BY name, operator"};
    while (rows.executeStep()) {
      aliases.emplace_back(text_of(rows.getColumn(0)), text_of(rows.getColumn(1)));
    }
    return aliases;
  });
}

Result<Making> Index::making() const {
  return guarded(impl_->path, [&]() -> Result<Making> {
    Making making;
    SQLite::Statement composites{impl_->db, "SELECT name FROM composite"};
    while (composites.executeStep()) making.composites.insert(text_of(composites.getColumn(0)));
    SQLite::Statement delegates{impl_->db, "SELECT name, kernel FROM delegate"};
    while (delegates.executeStep()) {
      making.delegates.emplace(text_of(delegates.getColumn(0)), text_of(delegates.getColumn(1)));
    }
    return making;
  });
}

Result<Tests> Index::tests_of(const std::vector<std::string>& operators, Phases phases) const {
  return guarded(impl_->path, [&]() -> Result<Tests> {
    Roaring found;
    SQLite::Statement rows{impl_->db,
                           "SELECT phase, tests FROM posting WHERE operator = "
                           "(SELECT number FROM operator WHERE name = ?)"};
    for (const auto& name : operators) {
      rows.bindNoCopy(1, name);
      while (rows.executeStep()) {
        if (!phases.has(static_cast<Phase>(rows.getColumn(0).getInt()))) continue;
        found |= read_bitmap(blob_of(rows.getColumn(1)));
      }
      rows.reset();
    }
    return numbers_of(found);
  });
}

Result<std::vector<OperatorTests>> Index::all(Phases phases) const {
  return guarded(impl_->path, [&]() -> Result<std::vector<OperatorTests>> {
    const auto names = impl_->operator_names();
    std::vector<Roaring> sets(names.size());
    SQLite::Statement rows{impl_->db, "SELECT operator, phase, tests FROM posting"};
    while (rows.executeStep()) {
      const auto number = rows.getColumn(0).getUInt();
      if (number >= sets.size() || !phases.has(static_cast<Phase>(rows.getColumn(1).getInt()))) {
        continue;
      }
      sets[number] |= read_bitmap(blob_of(rows.getColumn(2)));
    }
    std::vector<OperatorTests> all;
    all.reserve(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) all.push_back({names[i], numbers_of(sets[i])});
    return all;
  });
}

Result<Tests> Index::unknown() const {
  return guarded(impl_->path, [&]() -> Result<Tests> {
    Tests tests;
    SQLite::Statement rows{impl_->db, "SELECT number FROM test WHERE known = 0 ORDER BY number"};
    while (rows.executeStep()) tests.push_back(rows.getColumn(0).getUInt());
    return tests;
  });
}

Result<std::vector<IndexedTest>> Index::tests(const Tests& numbers) const {
  return guarded(impl_->path, [&]() -> Result<std::vector<IndexedTest>> {
    std::vector<IndexedTest> tests;
    tests.reserve(numbers.size());
    // One lock for all rows, not one each.
    SQLite::Transaction snapshot{impl_->db};
    SQLite::Statement row{impl_->db,
                          fmt::format("SELECT {} FROM test WHERE number = ?", k_test_columns)};
    for (const auto number : numbers) {
      row.bind(1, number);
      if (row.executeStep()) tests.push_back(read_row(row));
      row.reset();
    }
    return tests;
  });
}

Result<std::vector<TestOperators>> Index::operators_of(const std::string& part) const {
  return guarded(impl_->path, [&]() -> Result<std::vector<TestOperators>> {
    const auto names = impl_->operator_names();
    std::vector<TestOperators> found;
    for (const char* condition : {"node = ?", "instr(node, ?) > 0"}) {
      SQLite::Statement row{impl_->db, fmt::format("SELECT {}, uses, graphs FROM test WHERE {} "
                                                   "ORDER BY file, node",
                                                   k_test_columns, condition)};
      row.bind(1, part);
      while (row.executeStep()) {
        TestOperators one{read_row(row), {}};
        for (const auto& use : decode(blob_of(row.getColumn(9)))) {
          if (use.op >= names.size()) continue;
          one.operators.phases[use.phase].emplace_back(names[use.op], use.count);
        }
        for (auto& phase : one.operators.phases) std::sort(phase.begin(), phase.end());
        one.operators.graphs = read_graphs(text_of(row.getColumn(10)));
        found.push_back(std::move(one));
      }
      if (!found.empty()) break;
    }
    return found;
  });
}

Result<std::string> Index::exported() const {
  auto tests = operators_of("");
  if (!tests) return tl::unexpected(tests.error());
  std::set<std::string> lines;
  std::map<std::uint32_t, std::string> names;
  for (const auto& [test, operators] : *tests) {
    names[test.number] = test.node_id;
    TracedTest traced{test.id, test.node_id, test.outcome, {}};
    if (test.known) traced.operators = operators;
    lines.insert(test_line(traced));
  }
  auto sets = all(Phases::all());
  const auto aliased = aliases();
  const auto made = making();
  if (!sets) return tl::unexpected(sets.error());
  if (!aliased) return tl::unexpected(aliased.error());
  if (!made) return tl::unexpected(made.error());
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  std::set<std::string> postings;
  for (const auto& [name, numbers] : *sets) {
    std::set<std::string> users;
    for (const auto number : numbers) users.insert(names[number]);
    postings.insert(fmt::format("{}: {}", name, fmt::join(users, " ")));
  }
  text += fmt::format("{}\n", fmt::join(postings, "\n"));
  for (const auto& [alias, of] : *aliased) text += alias + " = " + of + "\n";
  for (const auto& [name, kernel] : std::map{made->delegates.begin(), made->delegates.end()}) {
    text += name + " by " + kernel + "\n";
  }
  return text + fmt::format("{}\n", fmt::join(made->composites, " "));
}

}  // namespace crosscheck::ops
