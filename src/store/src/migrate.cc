#include "migrate.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/log.h"
#include "crosscheck_embed/migration.h"

namespace crosscheck::store {

using base::fail;
using base::Fault;
using base::Result;

std::string Migration::digest() const { return base::sha256_hex(text); }

const std::vector<Migration>& all_migrations() {
  static const std::vector<Migration> all = [] {
    std::vector<Migration> found;
    for (const auto& file : embed::migration_files()) {
      std::string_view name = file.name.substr(file.name.rfind('/') + 1);
      name.remove_suffix(std::string_view{".sql"}.size());
      int version = 0;
      std::from_chars(name.data(), name.data() + name.size(), version);
      found.push_back({version, std::string{name}, std::string{file.text}});
    }
    std::ranges::sort(found, {}, &Migration::version);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].version != static_cast<int>(i) + 1) {
        throw std::logic_error("migrations are not numbered 1, 2, 3…: " + found[i].name);
      }
    }
    return found;
  }();
  return all;
}

std::string expand(std::string_view text, Engine engine) {
  const bool sqlite = engine == Engine::sqlite;
  std::string out;
  while (true) {
    const std::size_t begin = text.find("{{");
    out += text.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const std::size_t end = text.find("}}", begin);
    const std::string_view name =
        end == std::string_view::npos ? "" : text.substr(begin + 2, end - begin - 2);
    if (name == "bytes") {
      out += sqlite ? "BLOB" : "BYTEA";
    } else if (name == "identity") {
      // AUTOINCREMENT, so that an id is never given to a second row.
      out += sqlite ? "INTEGER PRIMARY KEY AUTOINCREMENT"
                    : "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY";
    } else {
      throw std::logic_error("a migration has {{" + std::string{name} +
                             "}}: only {{bytes}} and {{identity}} are known");
    }
    text.remove_prefix(end + 2);
  }
}

Result<std::span<const Migration>> pending(std::span<const Migration> known,
                                           std::span<const Applied> applied) {
  if (!applied.empty() && applied.back().version > static_cast<int>(known.size())) {
    return fail(Fault::environment,
                "the database has schema " + std::to_string(applied.back().version) +
                    ", and this crosscheck knows schemas up to " + std::to_string(known.size()),
                "use the newer crosscheck that last ran on it, or another database (--db)");
  }
  for (std::size_t i = 0; i < applied.size(); ++i) {
    if (applied[i].version != static_cast<int>(i) + 1) {
      return fail(Fault::conflict,
                  "the database's schema_migrations lacks migration " + std::to_string(i + 1),
                  "restore the database from a backup");
    }
    if (applied[i].digest != known[i].digest()) {
      return fail(Fault::conflict,
                  "the database's migration " + known[i].name +
                      " is not this crosscheck's: it was applied with digest " +
                      applied[i].digest.substr(0, 12) + ", and is " +
                      known[i].digest().substr(0, 12) + " here",
                  "use the crosscheck that made the database, or another database (--db)");
    }
  }
  return known.subspan(applied.size());
}

Result<std::vector<Applied>> read_applied(Tx& tx, Engine engine) {
  auto table = tx.query(
      engine == Engine::sqlite
          ? "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'"
          : "SELECT CASE WHEN to_regclass('schema_migrations') IS NULL THEN 0 ELSE 1 END");
  if (!table) return tl::unexpected(table.error());
  if (table->front().integer(0) == 0) return std::vector<Applied>{};
  auto rows = tx.query("SELECT version, digest FROM schema_migrations ORDER BY version");
  if (!rows) return tl::unexpected(rows.error());
  std::vector<Applied> applied;
  for (const Row& row : *rows) applied.push_back({static_cast<int>(row.integer(0)), row.text(1)});
  return applied;
}

namespace {

// Applies the first migration that is pending; false if there is none.
Result<bool> apply_next(ScriptTx& tx, Engine engine, std::span<const Migration> known) {
  auto applied = read_applied(tx, engine);
  if (!applied) return tl::unexpected(applied.error());
  const auto rest = pending(known, *applied);
  if (!rest) return tl::unexpected(rest.error());
  if (rest->empty()) return false;
  const Migration& next = rest->front();
  if (applied->empty()) {
    if (engine == Engine::sqlite) {
      auto tables =
          tx.query("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' LIMIT 1");
      if (!tables) return tl::unexpected(tables.error());
      if (!tables->empty() && tables->front().text(0) != "schema_migrations") {
        return fail(Fault::invalid_input,
                    "the database is not crosscheck's: it holds '" + tables->front().text(0) +
                        "' and no schema_migrations",
                    "name another file with --db");
      }
    }
    auto made = tx.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT PRIMARY KEY, "
        "name TEXT NOT NULL, digest TEXT NOT NULL, applied_at BIGINT NOT NULL)");
    if (!made) return tl::unexpected(made.error());
  }
  if (auto run = tx.run_script(expand(next.text, engine)); !run) {
    return fail(run.error().fault, "migration " + next.name + ": " + run.error().message,
                run.error().remedy);
  }
  auto recorded = tx.execute("INSERT INTO schema_migrations VALUES ($1, $2, $3, $4)",
                             {next.version, next.name, next.digest(), base::SystemClock{}.now()});
  if (!recorded) return tl::unexpected(recorded.error());
  return true;
}

}  // namespace

Result<void> migrate(Engine engine, std::span<const Migration> known,
                     const Exclusively& exclusively) {
  for (bool more = true; more;) {
    auto done = exclusively([&](ScriptTx& tx) -> Result<void> {
      auto applied = apply_next(tx, engine, known);
      if (!applied) return tl::unexpected(applied.error());
      more = *applied;
      return {};
    });
    if (!done) return done;
  }
  return {};
}

Result<void> prepare_schema(Store& store, const OpenOptions& options, const std::string& url,
                            std::span<const Migration> known, const Exclusively& exclusively) {
  if (!options.check_schema) return {};
  // Looked at without a lock first: most times there is nothing to do, and a read-only file
  // can be read.
  auto applied = store.read_value([&](Tx& tx) { return read_applied(tx, store.engine()); });
  if (!applied) return tl::unexpected(applied.error());
  const auto rest = pending(known, *applied);
  if (!rest) return tl::unexpected(rest.error());
  if (rest->empty()) return {};
  if (!options.migrate || options.read_only) {
    return fail(Fault::environment,
                "the database has schema " + std::to_string(applied->size()) +
                    ", and this crosscheck needs schema " + std::to_string(known.size()),
                "run: crosscheck db migrate --db " + redact(url));
  }
  auto done = migrate(store.engine(), known, exclusively);
  if (done) {
    base::log::debug("schema_migrated", {{"from", applied->size()}, {"to", known.size()}});
  }
  return done;
}

}  // namespace crosscheck::store
