#include "crosscheck/store/run_store.h"

#include <algorithm>
#include <array>
#include <span>

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

std::string to_json(const std::vector<std::pair<std::string, std::string>>& facts) {
  json::object object;
  for (const auto& [name, value] : facts) object[name] = value;
  return base::canonical_json(object);
}

std::optional<std::string> to_json(const std::optional<base::Mismatch>& mismatch) {
  if (!mismatch) return std::nullopt;
  json::object object;
  const auto set = [&](const char* name, const std::optional<double>& value) {
    if (value) object[name] = *value;
  };
  set("absolute", mismatch->absolute);
  set("relative", mismatch->relative);
  set("absolute_tolerance", mismatch->absolute_tolerance);
  set("relative_tolerance", mismatch->relative_tolerance);
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

constexpr std::array k_test_columns{"TEXT", "TEXT", "TEXT", "TEXT"};
constexpr std::array k_result_columns{"TEXT", "TEXT", "TEXT", "TEXT", "BIGINT", "TEXT",  "TEXT",
                                      "TEXT", "TEXT", "TEXT", "TEXT", "TEXT",   "BIGINT"};

std::string insert_tests_sql(std::size_t rows) {
  return "INSERT INTO tests (file, class_name, method, variant) VALUES " +
         value_rows(rows, k_test_columns, 0) + " ON CONFLICT DO NOTHING";
}

std::string insert_results_sql(std::size_t rows) {
  return "WITH given (file, class_name, method, variant, attempt, outcome, kind, fingerprint, "
         "node_id, "
         "message, detail, mismatch, duration_us) AS (VALUES " +
         value_rows(rows, k_result_columns, 1) +
         ") INSERT INTO test_results (run, test, attempt, outcome, kind, fingerprint, node_id, "
         "message, "
         "detail, mismatch, duration_us) "
         "SELECT $1, tests.id, given.attempt, given.outcome, given.kind, given.fingerprint, "
         "given.node_id, given.message, given.detail, given.mismatch, given.duration_us "
         // Says to SQLite's planner which table to begin with.
         "FROM given CROSS JOIN tests "
         "WHERE tests.file = given.file AND tests.class_name = given.class_name "
         "AND tests.method = given.method AND tests.variant = given.variant "
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
    for (const std::string* part :
         {&result.id.file, &result.id.class_name, &result.id.method, &result.id.variant}) {
      tests.emplace_back(*part);
      rows.emplace_back(*part);
    }
    rows.emplace_back(result.attempt);
    rows.emplace_back(to_string(result.outcome));
    rows.emplace_back(to_string(result.kind));
    rows.emplace_back(result.fingerprint);
    rows.emplace_back(result.node_id);
    rows.emplace_back(result.message);
    rows.emplace_back(result.detail);
    rows.emplace_back(to_json(result.mismatch));
    rows.emplace_back(std::int64_t{result.duration.count()});
  }
  if (auto done = tx.execute(tests_sql, tests); !done) return tl::unexpected(done.error());
  if (auto done = tx.execute(results_sql, rows); !done) return tl::unexpected(done.error());
  return {};
}

}  // namespace

Result<std::int64_t> begin_run(Tx& tx, const base::RunHeader& header) {
  const base::Combination& combination = header.combination;
  const std::string digest = combination.digest();
  auto known = tx.execute(
      "INSERT INTO combinations (digest, backend, backend_revision, core_revision, suite_revision, "
      "device, environment_digest) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
      {digest, combination.backend, combination.backend_revision, combination.core_revision,
       combination.suite_revision, combination.device, combination.environment_digest});
  if (!known) return tl::unexpected(known.error());
  auto rows = tx.query(
      "INSERT INTO runs (run_key, combination, command, selection, environment, started_at) "
      "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING id",
      {header.run_id, digest, to_json(header.command), header.selection,
       to_json(header.environment), header.started_at});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return fail(Fault::conflict, "there is a run '" + header.run_id + "' already");
  return rows->front().integer(0);
}

Result<void> add_results(Tx& tx, std::int64_t run, const std::vector<base::TestResult>& results) {
  // Few sizes, so that an engine prepares few statements; large ones first, for few round trips.
  std::span<const base::TestResult> rest{results};
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

Result<void> finish_run(Tx& tx, std::int64_t run, base::Time finished_at) {
  auto rows = tx.query(
      "SELECT outcome, COUNT(*) FROM test_results AS result WHERE run = $1 AND attempt = "
      "(SELECT MAX(attempt) FROM test_results AS other "
      "WHERE other.run = result.run AND other.test = result.test) GROUP BY outcome",
      {run});
  if (!rows) return tl::unexpected(rows.error());
  json::object counts;
  for (const Row& row : *rows) counts[row.text(0)] = row.integer(1);
  auto changed = tx.execute("UPDATE runs SET finished_at = $2, counts = $3 WHERE id = $1",
                            {run, finished_at, base::canonical_json(counts)});
  if (!changed) return tl::unexpected(changed.error());
  if (*changed == 0) return fail(Fault::not_found, "there is no run " + std::to_string(run));
  return {};
}

Result<std::int64_t> import_run(Tx& tx, const base::RunResults& run,
                                std::string_view results_digest) {
  const std::string& key = run.header.run_id;
  auto stored = tx.query("SELECT id, results_digest FROM runs WHERE run_key = $1", {key});
  if (!stored) return tl::unexpected(stored.error());
  std::int64_t id = 0;
  if (!stored->empty()) {
    id = stored->front().integer(0);
    const auto digest = stored->front().optional_text(1);
    if (digest == results_digest) return id;
    if (digest) {
      return fail(Fault::conflict,
                  "run '" + key + "' was stored from another file (" + digest->substr(0, 12) + ")");
    }
  } else {
    auto begun = begin_run(tx, run.header);
    if (!begun) return begun;
    id = *begun;
    if (auto added = add_results(tx, id, run.results); !added) return tl::unexpected(added.error());
    if (auto ended = finish_run(tx, id, run.header.finished_at); !ended) {
      return tl::unexpected(ended.error());
    }
  }
  auto marked =
      tx.execute("UPDATE runs SET results_digest = $2 WHERE id = $1", {id, results_digest});
  if (!marked) return tl::unexpected(marked.error());
  return id;
}

}  // namespace crosscheck::store
