#include "crosscheck/store/run_history.h"

#include <algorithm>

#include "crosscheck/base/json.h"

namespace crosscheck::store {

using base::Result;
namespace json = base::json;

namespace {

constexpr std::string_view k_run_columns =
    "r.id, r.repo_key, r.run_key, r.command, r.selection, r.environment, r.started_at, "
    "r.finished_at, c.backend, c.backend_revision, c.core_revision, c.suite_revision, c.device, "
    "c.environment_digest, r.config, r.observe, r.shard, r.imported, r.ended";
constexpr std::size_t k_run_column_count = 19;

StoredRun read_run(const Row& row) {
  StoredRun run;
  run.id = row.integer(0);
  run.repo_key = row.text(1);
  run.header.run_id = row.text(2);
  if (const auto command = base::parse_json(row.text(3), "command");
      command && command->is_array()) {
    for (const json::value& word : command->get_array())
      if (word.is_string()) run.header.command.emplace_back(word.get_string());
  }
  run.header.selection = row.text(4);
  if (const auto facts = base::parse_json(row.text(5), "environment");
      facts && facts->is_object()) {
    for (const auto& [name, value] : facts->get_object())
      if (value.is_string()) run.header.environment.emplace_back(name, value.get_string());
  }
  run.header.started_at = row.time(6);
  run.ended = !row.is_null(7);
  if (run.ended) run.header.finished_at = row.time(7);
  run.header.combination = {row.text(8),  row.text(9),  row.text(10),
                            row.text(11), row.text(12), row.text(13)};
  if (const auto files = base::parse_json(row.text(14), "config"); files && files->is_array()) {
    for (const json::value& file : files->get_array()) {
      auto path = base::require_string(file, "path");
      auto digest = base::require_string(file, "digest");
      if (path && digest) run.header.config.push_back({std::move(*path), std::move(*digest)});
    }
  }
  run.header.observe = row.integer(15) != 0;
  run.header.shard = row.optional_text(16).value_or("");
  run.header.imported = row.integer(17) != 0;
  run.header.interrupted = row.optional_text(18) == "interrupted";
  return run;
}

constexpr std::string_view k_result_columns =
    "t.attempt, t.outcome, t.kind, t.fingerprint, t.node_id, "
    "CASE WHEN t.fingerprint = '' THEN '' ELSE t.message END, t.mismatch, t.duration_us, t.mode, "
    "t.basis, t.place, t.observed";
constexpr std::size_t k_result_column_count = 12;

base::TestResult read_result(const Row& row, std::size_t first) {
  base::TestResult result;
  result.attempt = static_cast<int>(row.integer(first));
  result.outcome = base::parse_outcome(row.text(first + 1)).value_or(base::Outcome::not_run);
  result.kind = base::parse_failure_kind(row.text(first + 2)).value_or(base::FailureKind::none);
  result.fingerprint = row.text(first + 3);
  result.node_id = row.text(first + 4);
  result.message = row.text(first + 5);
  if (const auto text = row.optional_text(first + 6)) {
    if (const auto value = base::parse_json(*text, "mismatch"); value && value->is_object())
      if (auto mismatch = base::read_mismatch(value->get_object())) result.mismatch = *mismatch;
  }
  result.duration = base::Duration{row.integer(first + 7)};
  const auto mode = base::parse_mode(row.optional_text(first + 8).value_or(""));
  const auto observed = base::parse_outcome(row.optional_text(first + 11).value_or(""));
  if (mode && observed)
    result.governed = {*mode, row.optional_text(first + 9).value_or(""),
                       row.optional_text(first + 10).value_or(""), *observed};
  return result;
}

base::TestId read_test(const Row& row, std::size_t first) {
  return {row.text(first), row.text(first + 1), row.text(first + 2), row.text(first + 3)};
}

std::string placeholder(const Parameters& parameters) {
  return "$" + std::to_string(parameters.size());
}

// A pattern for LIKE … ESCAPE '\\' that finds `part` anywhere.
std::string anywhere(std::string_view part) {
  std::string pattern = "%";
  for (const char c : part) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return pattern + "%";
}

Result<std::vector<StoredTest>> read_tests(Tx& tx, const std::string& where,
                                           const Parameters& parameters) {
  const auto rows = tx.query(
      "SELECT x.file, x.class_name, x.method, x.variant, "
      "COALESCE((SELECT t.node_id FROM test_results t WHERE t.test = x.id "
      "ORDER BY t.run DESC LIMIT 1), '') FROM tests x WHERE " +
          where + " ORDER BY x.file, x.class_name, x.method, x.variant LIMIT $1",
      parameters);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<StoredTest> tests;
  for (const Row& row : *rows) tests.push_back({read_test(row, 0), row.text(4)});
  return tests;
}

constexpr std::string_view k_is_unfinished =
    "r.repo_key = '' AND r.imported = 0 AND "
    "(r.owner IS NOT NULL OR r.ended IN ('interrupted', 'died'))";

constexpr std::string_view k_newest_first = " ORDER BY r.started_at DESC, r.run_key DESC";

// Runs r: which, and in which order.
Result<std::vector<UnfinishedRun>> read_unfinished(Tx& tx, const std::string& which,
                                                   const Parameters& parameters) {
  const auto rows =
      tx.query("SELECT " + std::string{k_run_columns} +
                   ", r.owner, r.alive_at FROM runs r JOIN combinations c ON c.digest = "
                   "r.combination WHERE " +
                   which,
               parameters);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<UnfinishedRun> runs;
  for (const Row& row : *rows) {
    runs.push_back({read_run(row),
                    {row.optional_text(k_run_column_count).value_or(""),
                     row.optional_time(k_run_column_count + 1).value_or(base::Time{})}});
  }
  return runs;
}

// The condition on runs r and their combinations c.
std::string conditions(const RunFilter& filter, Parameters& parameters) {
  parameters.emplace_back(filter.repo_key);
  std::string where = "r.repo_key = " + placeholder(parameters);
  const auto equals = [&](std::string_view column, const std::string& value) {
    if (value.empty()) return;
    parameters.emplace_back(value);
    where += " AND " + std::string{column} + " = " + placeholder(parameters);
  };
  equals("c.backend", filter.backend);
  for (const std::string& device : filter.devices) {
    // "type: model", or the type alone.
    parameters.emplace_back(device);
    const std::string whole = placeholder(parameters);
    parameters.emplace_back(device + ": ");
    const std::string type = placeholder(parameters);
    parameters.emplace_back(": " + device);
    const std::string model = placeholder(parameters);
    where += " AND (c.device = " + whole + " OR SUBSTR(c.device, 1, LENGTH(" + type +
             ")) = " + type + " OR SUBSTR(c.device, LENGTH(c.device) - LENGTH(" + model +
             ") + 1) = " + model + ")";
  }
  if (!filter.run_ids.empty()) {
    where += " AND r.run_key IN (";
    for (const std::string& id : filter.run_ids) {
      parameters.emplace_back(id);
      where += (&id == &filter.run_ids.front() ? "" : ", ") + placeholder(parameters);
    }
    where += ")";
  }
  return where;
}

}  // namespace

Result<std::vector<StoredRun>> list_runs(Tx& tx, const RunFilter& filter) {
  Parameters parameters;
  const std::string where = conditions(filter, parameters);
  parameters.emplace_back(static_cast<std::int64_t>(filter.most));
  const auto rows =
      tx.query("SELECT " + std::string{k_run_columns} +
                   " FROM runs r JOIN combinations c ON c.digest = r.combination WHERE " + where +
                   " ORDER BY r.started_at DESC, r.run_key DESC LIMIT " + placeholder(parameters),
               parameters);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<StoredRun> runs;
  for (const Row& row : *rows) runs.push_back(read_run(row));
  return runs;
}

Result<std::vector<UnfinishedRun>> unfinished_runs(Tx& tx, const base::Combination& combination) {
  return read_unfinished(
      tx, std::string{k_is_unfinished} + " AND r.combination = $1" + std::string{k_newest_first},
      {combination.digest()});
}

Result<std::optional<UnfinishedRun>> unfinished_run(Tx& tx, std::string_view run_id) {
  auto runs = read_unfinished(
      tx, std::string{k_is_unfinished} + " AND r.run_key = $1" + std::string{k_newest_first},
      {run_id});
  if (!runs) return tl::unexpected(runs.error());
  if (runs->empty()) return std::nullopt;
  return std::move(runs->front());
}

Result<std::vector<UnfinishedRun>> owned_runs(Tx& tx) {
  // Only a run that is made here has one. Asked so, and in this order, the index serves.
  return read_unfinished(tx, "r.owner IS NOT NULL ORDER BY r.alive_at", {});
}

Result<std::vector<base::TestResult>> read_results(Tx& tx, std::int64_t run, Texts texts) {
  const bool whole = texts == Texts::whole;
  const auto rows =
      tx.query("SELECT x.file, x.class_name, x.method, x.variant, " +
                   std::string{k_result_columns} + (whole ? ", t.message, t.detail, t.leak" : "") +
                   " FROM test_results t JOIN tests x ON x.id = t.test "
                   "WHERE t.run = $1 ORDER BY t.test, t.attempt",
               {run});
  if (!rows) return tl::unexpected(rows.error());
  std::vector<base::TestResult> results;
  results.reserve(rows->size());
  for (const Row& row : *rows) {
    results.push_back(read_result(row, 4));
    base::TestResult& result = results.back();
    result.id = read_test(row, 0);
    if (!whole) continue;
    constexpr std::size_t k_texts = 4 + k_result_column_count;
    result.message = row.text(k_texts);
    result.detail = row.text(k_texts + 1);
    if (const auto leak = base::parse_json(row.optional_text(k_texts + 2).value_or(""), "leak");
        leak && leak->is_object()) {
      result.leak = {base::require_int(*leak, "host").value_or(0),
                     base::require_int(*leak, "device").value_or(0)};
    }
  }
  return results;
}

Result<std::vector<StoredTest>> find_tests(Tx& tx, std::string_view part, std::size_t most) {
  const Parameters parameters{static_cast<std::int64_t>(most), anywhere(part)};
  auto tests = read_tests(tx,
                          "LOWER(x.file || '::' || CASE WHEN x.class_name = '' THEN '' ELSE "
                          "x.class_name || '::' END || x.method) LIKE $2 ESCAPE '\\'",
                          parameters);
  if (!tests || !tests->empty()) return tests;
  tests = read_tests(tx,
                     "EXISTS (SELECT 1 FROM test_results t WHERE t.test = x.id AND "
                     "LOWER(t.node_id) LIKE $2 ESCAPE '\\')",
                     parameters);
  if (!tests) return tests;
  const auto exact = std::find_if(tests->begin(), tests->end(),
                                  [&](const StoredTest& test) { return test.node_id == part; });
  if (exact != tests->end()) return std::vector{*exact};
  return tests;
}

Result<std::vector<RunOfTest>> runs_of_test(Tx& tx, const base::TestId& test,
                                            const RunFilter& filter) {
  Parameters parameters{test.digest()};
  const std::string where = conditions(filter, parameters);
  parameters.emplace_back(static_cast<std::int64_t>(filter.most));
  const auto rows = tx.query(
      "SELECT " + std::string{k_run_columns} + ", " + std::string{k_result_columns} +
          ", COALESCE((SELECT j.word_url FROM jobs j WHERE j.results_digest = r.results_digest "
          "AND j.repo_key = r.repo_key ORDER BY j.id DESC LIMIT 1), '') "
          "FROM (SELECT r.id FROM runs r JOIN combinations c ON c.digest = r.combination "
          "JOIN tests x ON x.digest = $1 WHERE " +
          where +
          " AND EXISTS (SELECT 1 FROM test_results o WHERE o.test = x.id AND o.run = r.id) "
          "ORDER BY r.started_at DESC, r.run_key DESC LIMIT " +
          placeholder(parameters) +
          ") newest JOIN runs r ON r.id = newest.id "
          "JOIN combinations c ON c.digest = r.combination JOIN tests x ON x.digest = $1 "
          "JOIN test_results t ON t.run = r.id AND t.test = x.id "
          "ORDER BY r.started_at DESC, r.run_key DESC, r.id, t.attempt",
      parameters);
  if (!rows) return tl::unexpected(rows.error());
  std::vector<RunOfTest> runs;
  for (const Row& row : *rows) {
    if (runs.empty() || runs.back().run.id != row.integer(0))
      runs.push_back({read_run(row), {}, row.text(k_run_column_count + 12)});
    runs.back().attempts.push_back(read_result(row, k_run_column_count));
  }
  return runs;
}

}  // namespace crosscheck::store
