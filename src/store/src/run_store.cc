#include "crosscheck/store/run_store.h"

#include <algorithm>
#include <array>
#include <optional>

#include "crosscheck/base/json.h"

namespace crosscheck::store {

using base::fail;
using base::Fault;
using base::Result;
namespace json = base::json;

namespace {

std::string to_json(const std::vector<std::string>& texts) {
  return base::canonical_json(json::array(texts.begin(), texts.end()));
}

std::string to_json(const std::vector<base::ConfigFile>& files) {
  json::array array;
  for (const auto& [path, digest] : files) {
    array.push_back(json::object{{"path", path}, {"digest", digest}});
  }
  return base::canonical_json(array);
}

std::string to_json(const std::vector<std::pair<std::string, std::string>>& facts) {
  json::object object;
  for (const auto& [name, value] : facts) object[name] = value;
  return base::canonical_json(object);
}

// "($1, $2), ($3, $4)" for 2 rows of 2 columns, beginning after placeholder `before`. `casts` gives
// a column its type where PostgreSQL cannot tell it.
std::string value_rows(std::size_t rows, std::span<const char* const> casts, std::size_t before) {
  std::string out;
  std::size_t n = before;
  for (std::size_t row = 0; row < rows; ++row) {
    out += row == 0 ? "(" : ", (";
    for (std::size_t column = 0; column < casts.size(); ++column) {
      if (column > 0) out += ", ";
      const std::string placeholder = "$" + std::to_string(++n);
      out += std::string_view{casts[column]} == "TEXT"
                 ? placeholder
                 : "CAST(" + placeholder + " AS " + casts[column] + ")";
    }
    out += ")";
  }
  return out;
}

constexpr std::array k_test_columns{"TEXT", "TEXT", "TEXT", "TEXT", "TEXT"};
constexpr std::array k_result_columns{"TEXT", "BIGINT", "TEXT", "TEXT", "TEXT",
                                      "TEXT", "TEXT",   "TEXT", "TEXT", "BIGINT",
                                      "TEXT", "TEXT",   "TEXT", "TEXT", "TEXT"};

std::string insert_tests_sql(std::size_t rows) {
  return "INSERT INTO tests (digest, file, class_name, method, variant) VALUES " +
         value_rows(rows, k_test_columns, 0) + " ON CONFLICT DO NOTHING";
}

std::string insert_results_sql(std::size_t rows) {
  return "WITH given (digest, attempt, outcome, kind, fingerprint, node_id, message, detail, "
         "mismatch, duration_us, mode, basis, place, observed, leak) AS (VALUES " +
         value_rows(rows, k_result_columns, 1) +
         ") INSERT INTO test_results (run, test, attempt, outcome, kind, fingerprint, node_id, "
         "message, detail, mismatch, duration_us, mode, basis, place, observed, leak) "
         "SELECT $1, tests.id, given.attempt, given.outcome, given.kind, given.fingerprint, "
         "given.node_id, given.message, given.detail, given.mismatch, given.duration_us, "
         "given.mode, given.basis, given.place, given.observed, given.leak "
         // Says to SQLite's planner which table to begin with.
         "FROM given CROSS JOIN tests WHERE tests.digest = given.digest "
         "ON CONFLICT DO NOTHING";
}

Result<void> add_chunk(Tx& tx, std::int64_t run, std::span<const base::TestResult> results,
                       const std::string& tests_sql, const std::string& results_sql) {
  Parameters tests;
  tests.reserve(results.size() * k_test_columns.size());
  Parameters rows;
  rows.reserve(1 + results.size() * k_result_columns.size());
  rows.emplace_back(run);
  for (const base::TestResult& result : results) {
    const std::string digest = result.id.digest();
    for (const std::string* part :
         {&digest, &result.id.file, &result.id.class_name, &result.id.method, &result.id.variant}) {
      tests.emplace_back(*part);
    }
    rows.emplace_back(digest);
    rows.emplace_back(result.attempt);
    rows.emplace_back(to_string(result.outcome));
    rows.emplace_back(to_string(result.kind));
    rows.emplace_back(result.fingerprint);
    rows.emplace_back(result.node_id);
    rows.emplace_back(result.message);
    rows.emplace_back(result.detail);
    rows.emplace_back(result.mismatch
                          ? std::optional{base::canonical_json(base::to_json(*result.mismatch))}
                          : std::nullopt);
    rows.emplace_back(std::int64_t{result.duration.count()});
    const auto& governed = result.governed;
    using Text = std::optional<std::string>;
    rows.emplace_back(governed ? Text{to_string(governed->mode)} : Text{});
    rows.emplace_back(governed ? Text{governed->basis} : Text{});
    rows.emplace_back(governed ? Text{governed->place} : Text{});
    rows.emplace_back(governed ? Text{to_string(governed->observed)} : Text{});
    rows.emplace_back(result.leak ? Text{base::canonical_json(base::to_json(*result.leak))}
                                  : Text{});
  }
  if (auto done = tx.execute(tests_sql, tests); !done) return tl::unexpected(done.error());
  if (auto done = tx.execute(results_sql, rows); !done) return tl::unexpected(done.error());
  return {};
}

// The new run's id; nothing when there is one of that id.
Result<std::optional<std::int64_t>> insert_run(Tx& tx, const base::RunHeader& header,
                                               const ResultFile& file, const Owner& owner) {
  const base::Combination& combination = header.combination;
  const std::string digest = combination.digest();
  auto known = tx.execute(
      "INSERT INTO combinations (digest, backend, backend_revision, core_revision, suite_revision, "
      "device, environment_digest) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
      {digest, combination.backend, combination.backend_revision, combination.core_revision,
       combination.suite_revision, combination.device, combination.environment_digest});
  if (!known) return tl::unexpected(known.error());
  auto rows = tx.query(
      "INSERT INTO runs (repo_key, run_key, results_digest, combination, command, selection, "
      "environment, started_at, config, observe, shard, imported, owner, alive_at) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) "
      "ON CONFLICT DO NOTHING RETURNING id",
      {file.repo_key, header.run_id,
       file.digest.empty() ? std::nullopt : std::optional{file.digest}, digest,
       to_json(header.command), header.selection, to_json(header.environment), header.started_at,
       to_json(header.config), std::int64_t{header.observe},
       header.shard.empty() ? std::nullopt : std::optional{header.shard},
       std::int64_t{header.imported}, owner.name.empty() ? std::nullopt : std::optional{owner.name},
       owner.name.empty() ? std::nullopt : std::optional{owner.alive_at}});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  return rows->front().integer(0);
}

// The numbers of the latest attempts, as JSON.
Result<std::string> count_results(Tx& tx, std::int64_t run) {
  auto rows = tx.query(
      "SELECT outcome, flaky, COUNT(*) FROM (SELECT outcome, CASE WHEN attempt > 1 AND EXISTS "
      "(SELECT 1 FROM test_results AS earlier WHERE earlier.run = result.run AND "
      "earlier.test = result.test AND earlier.attempt < result.attempt AND "
      "earlier.outcome IN ('failed', 'crashed', 'timed_out')) THEN 1 ELSE 0 END AS flaky "
      "FROM test_results AS result WHERE run = $1 AND attempt = "
      "(SELECT MAX(attempt) FROM test_results AS other "
      "WHERE other.run = result.run AND other.test = result.test)) AS latest "
      "GROUP BY outcome, flaky",
      {run});
  if (!rows) return tl::unexpected(rows.error());
  base::OutcomeCounts counts;
  for (const Row& row : *rows) {
    const auto outcome = base::parse_outcome(row.text(0)).value_or(base::Outcome::not_run);
    if (row.integer(1) != 0 && base::is_flaky_after_failure(outcome)) {
      counts.add_flaky(row.integer(2));
    } else {
      counts.add(outcome, row.integer(2));
    }
  }
  return base::canonical_json(base::to_json(counts));
}

// What an owner changed of its run; nothing: it is not its own.
Result<void> own(Tx& tx, const Result<std::int64_t>& changed, std::int64_t run) {
  if (!changed) return tl::unexpected(changed.error());
  if (*changed > 0) return {};
  auto rows = tx.query("SELECT run_key FROM runs WHERE id = $1", {run});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return fail(Fault::not_found, "there is no run " + std::to_string(run));
  return fail(Fault::conflict,
              "run '" + rows->front().text(0) + "' is another process's, or ended");
}

}  // namespace

Result<std::int64_t> begin_run(Tx& tx, const base::RunHeader& header, const Owner& owner) {
  auto begun = insert_run(tx, header, {}, owner);
  if (!begun) return tl::unexpected(begun.error());
  if (!*begun) return fail(Fault::conflict, "there is a run '" + header.run_id + "' already");
  return **begun;
}

Result<void> keep_alive(Tx& tx, std::int64_t run, const Owner& owner) {
  return own(tx,
             tx.execute("UPDATE runs SET alive_at = $2 WHERE id = $1 AND owner = $3",
                        {run, owner.alive_at, owner.name}),
             run);
}

Result<bool> take_over_run(Tx& tx, std::int64_t run, const Owner& from, const Owner& to) {
  auto taken = tx.execute(
      "UPDATE runs SET owner = $2, alive_at = $3, ended = NULL, finished_at = NULL "
      "WHERE id = $1 AND COALESCE(owner, '') = $4 AND COALESCE(alive_at, 0) = $5",
      {run, to.name, to.alive_at, from.name, from.alive_at});
  if (!taken) return tl::unexpected(taken.error());
  if (*taken == 0) return false;
  auto cleared =
      tx.execute("DELETE FROM test_results WHERE run = $1 AND outcome = 'not_run'", {run});
  if (!cleared) return tl::unexpected(cleared.error());
  return true;
}

Result<void> end_dead_run(Tx& tx, std::int64_t run, const Owner& dead) {
  auto counts = count_results(tx, run);
  if (!counts) return tl::unexpected(counts.error());
  auto ended = tx.execute(
      "UPDATE runs SET finished_at = alive_at, counts = $2, ended = 'died', owner = NULL "
      "WHERE id = $1 AND owner = $3 AND alive_at = $4",
      {run, *counts, dead.name, dead.alive_at});
  if (!ended) return tl::unexpected(ended.error());
  return {};
}

Result<void> add_results(Tx& tx, std::int64_t run, std::span<const base::TestResult> rest) {
  // Few sizes, so that an engine prepares few statements; large ones first, for few round trips.
  for (const std::size_t size : {std::size_t{64}, std::size_t{8}, std::size_t{1}}) {
    if (rest.size() < size) continue;
    const std::string tests_sql = insert_tests_sql(size);
    const std::string results_sql = insert_results_sql(size);
    for (; rest.size() >= size; rest = rest.subspan(size)) {
      if (auto done = add_chunk(tx, run, rest.first(size), tests_sql, results_sql); !done) {
        return done;
      }
    }
  }
  return {};
}

Result<void> finish_run(Tx& tx, std::int64_t run, const base::RunHeader& header,
                        const Owner& owner) {
  auto counts = count_results(tx, run);
  if (!counts) return tl::unexpected(counts.error());
  return own(tx,
             tx.execute("UPDATE runs SET finished_at = $2, counts = $3, ended = $4, owner = NULL "
                        "WHERE id = $1 AND COALESCE(owner, '') = $5",
                        {run, header.finished_at, *counts,
                         header.interrupted ? "interrupted" : "complete", owner.name}),
             run);
}

Result<Import> begin_import(Tx& tx, const base::RunHeader& header, const ResultFile& file) {
  auto begun = insert_run(tx, header, file, {});
  if (!begun) return tl::unexpected(begun.error());
  if (*begun) return Import{**begun, false};
  auto rows = tx.query(
      "SELECT id, results_digest, finished_at FROM runs WHERE repo_key = $1 AND run_key = $2",
      {file.repo_key, header.run_id});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return fail(Fault::busy, "run '" + header.run_id + "' is being stored");
  const Row& row = rows->front();
  const std::string stored = row.optional_text(1).value_or("");
  if (stored != file.digest) {
    return fail(Fault::conflict, "run '" + header.run_id + "' was stored from another file (" +
                                     stored.substr(0, 12) + ")");
  }
  return Import{row.integer(0), !row.is_null(2)};
}

Result<std::int64_t> import_run(Tx& tx, const base::RunResults& run, const ResultFile& file) {
  auto import = begin_import(tx, run.header, file);
  if (!import) return tl::unexpected(import.error());
  if (import->complete) return import->run;
  if (auto added = add_results(tx, import->run, run.results); !added) {
    return tl::unexpected(added.error());
  }
  if (auto ended = finish_run(tx, import->run, run.header); !ended) {
    return tl::unexpected(ended.error());
  }
  return import->run;
}

}  // namespace crosscheck::store
