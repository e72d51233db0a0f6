#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>

#include "command.h"
#include "crosscheck/store/store.h"

namespace crosscheck::cli {
namespace {

using base::ExitCode;
using base::Result;

// What grows, and what a person asks about first.
constexpr std::array k_tables{"deliveries", "dispatches", "github_calls", "jobs",    "result_files",
                              "runs",       "tests",      "test_results", "backends"};

struct Status {
  store::SchemaState schema;
  std::vector<std::pair<std::string, std::int64_t>> rows;  // empty: no table of ours is there
};

Result<Status> read_status(store::Store& store) {
  auto schema = store::schema_state(store);
  if (!schema) return tl::unexpected(schema.error());
  Status status{*schema, {}};
  // A newer schema may have other tables.
  if (schema->current == 0 || schema->current > schema->latest) return status;
  auto read = store.read([&](store::Tx& tx) -> Result<void> {
    for (const char* table : k_tables) {
      auto rows = tx.query(std::string{"SELECT COUNT(*) FROM "} + table);
      if (!rows) return tl::unexpected(rows.error());
      status.rows.emplace_back(table, rows->front().integer(0));
    }
    return {};
  });
  if (!read) return tl::unexpected(read.error());
  return status;
}

const char* name(store::Engine engine) {
  return engine == store::Engine::sqlite ? "sqlite" : "postgresql";
}

Result<ExitCode> run_status(const Globals& globals) {
  store::OpenOptions options;
  options.create = false;
  options.check_schema = false;
  options.read_only = true;
  const auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  auto store = store::open(*url, options);
  if (!store) return tl::unexpected(store.error());
  auto status = read_status(**store);
  if (!status) return tl::unexpected(status.error());
  const auto& [current, latest] = status->schema;
  if (globals.json) {
    boost::json::object rows;
    for (const auto& [table, count] : status->rows) rows[table] = count;
    const boost::json::object object{{"engine", name((*store)->engine())},
                                     {"url", store::redact(*url)},
                                     {"schema", {{"current", current}, {"latest", latest}}},
                                     {"rows", std::move(rows)}};
    std::printf("%s\n", boost::json::serialize(object).c_str());
    return ExitCode::ok;
  }
  std::printf("%s  %s\n", name((*store)->engine()), store::redact(*url).c_str());
  const char* note = current == latest  ? "up to date"
                     : current < latest ? "run `crosscheck db migrate`"
                                        : "made by a newer crosscheck";
  std::printf("schema  %d of %d  (%s)\n", current, latest, note);
  for (const auto& [table, count] : status->rows) {
    std::printf("%-12s  %lld rows\n", table.c_str(), static_cast<long long>(count));
  }
  return ExitCode::ok;
}

Result<int> schema_before(const std::string& url) {
  store::OpenOptions options;
  options.check_schema = false;
  auto store = store::open(url, options);
  if (!store) return tl::unexpected(store.error());
  auto schema = store::schema_state(**store);
  if (!schema) return tl::unexpected(schema.error());
  return schema->current;
}

Result<ExitCode> run_migrate(const Globals& globals) {
  const auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  auto before = schema_before(*url);
  if (!before) return tl::unexpected(before.error());
  auto store = store::open(*url);
  if (!store) return tl::unexpected(store.error());
  auto schema = store::schema_state(**store);
  if (!schema) return tl::unexpected(schema.error());
  if (globals.json) {
    const boost::json::object object{
        {"url", store::redact(*url)}, {"from", *before}, {"to", schema->current}};
    std::printf("%s\n", boost::json::serialize(object).c_str());
  } else if (*before == schema->current) {
    std::printf("%s is at schema %d already\n", store::redact(*url).c_str(), *before);
  } else {
    std::printf("%s: schema %d -> %d\n", store::redact(*url).c_str(), *before, schema->current);
  }
  return ExitCode::ok;
}

const Registration k_registration{
    "db", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command = app.add_subcommand("db", "Look at the store, or bring its schema forward");
      command->footer("Example:\n  crosscheck db status --db postgresql://relay@db.example/relay");
      command->require_subcommand(1);
      auto* status = command->add_subcommand("status", "Print engine, schema and numbers of rows");
      status->footer("Example:\n  crosscheck db status --json");
      status->callback([&] { action = [&] { return run_status(globals); }; });
      auto* migrate =
          command->add_subcommand("migrate", "Make the store if it is missing; apply migrations");
      migrate->footer("Example:\n  crosscheck db migrate --db .crosscheck/crosscheck.db");
      migrate->callback([&] { action = [&] { return run_migrate(globals); }; });
    }};

}  // namespace
}  // namespace crosscheck::cli
