#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "command.h"
#include "crosscheck/store/backup.h"
#include "crosscheck/store/store.h"
#include "retention.h"
#include "settings.h"

namespace crosscheck::cli {
namespace {

using base::ExitCode;
using base::Result;

// What grows, and what a person asks about first.
constexpr std::array k_tables{"deliveries",   "dispatches", "github_calls", "jobs",
                              "result_files", "runs",       "tests",        "test_results",
                              "upgrades",     "backends"};

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

Result<ExitCode> run_backup(const Globals& globals, const std::string& file) {
  const auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  if (auto done = store::backup(*url, file); !done) return tl::unexpected(done.error());
  std::error_code ignored;
  const auto bytes = std::filesystem::file_size(file, ignored);
  if (globals.json) {
    const boost::json::object object{
        {"url", store::redact(*url)}, {"file", file}, {"bytes", bytes}};
    std::printf("%s\n", boost::json::serialize(object).c_str());
  } else {
    std::printf("%s: %ju bytes, of %s\n", file.c_str(), bytes, store::redact(*url).c_str());
  }
  return ExitCode::ok;
}

Result<ExitCode> run_restore(const Globals& globals, const std::string& file, bool replace,
                             bool force) {
  const auto url = store_url(globals);
  if (!url) return tl::unexpected(url.error());
  const auto how = replace ? store::Replace::yes : store::Replace::no;
  const auto in_use = force ? store::Force::yes : store::Force::no;
  if (auto done = store::restore(*url, file, how, in_use); !done)
    return tl::unexpected(done.error());
  if (globals.json) {
    const boost::json::object object{{"url", store::redact(*url)}, {"file", file}};
    std::printf("%s\n", boost::json::serialize(object).c_str());
  } else {
    std::printf("%s is what %s holds\n", store::redact(*url).c_str(), file.c_str());
  }
  return ExitCode::ok;
}

Result<ExitCode> run_prune(const Globals& globals, bool dry_run) {
  std::vector<Flag> flags;
  if (!globals.db.empty()) flags.push_back({"db", "--db", globals.db});
  const auto loaded = load_settings(globals.settings_file, process_environment(), flags);
  if (!loaded) return tl::unexpected(loaded.error());
  const Settings& settings = loaded->values;
  store::OpenOptions options;
  options.create = false;
  auto store = store::open(settings.db, options);
  if (!store) return tl::unexpected(store.error());
  const auto pruned = relay::prune(**store, retention_of(settings), base::SystemClock{}.now(),
                                   dry_run ? relay::DryRun::yes : relay::DryRun::no);
  if (!pruned) return tl::unexpected(pruned.error());
  struct Line {
    const char* name;
    std::int64_t count;
    std::int64_t days;
  };
  const std::array lines{
      Line{"bodies", pruned->bodies, settings.retention_bodies_days},
      Line{"reports", pruned->reports, settings.retention_bodies_days},
      Line{"calls", pruned->calls, settings.retention_bodies_days},
      Line{"forwards", pruned->forwards, settings.retention_bodies_days},
      Line{"log_files", pruned->log_files, settings.retention_logs_days},
      Line{"result_files", pruned->result_files, settings.retention_results_days},
      Line{"test_results", pruned->test_results, settings.retention_results_days},
      Line{"upgrades", pruned->upgrades, settings.retention_results_days},
      Line{"events", pruned->events, settings.retention_events_days},
      Line{"audit_entries", pruned->audit_entries, settings.retention_events_days},
      Line{"tokens", pruned->tokens, settings.retention_events_days}};
  if (globals.json) {
    boost::json::object object{{"dry_run", dry_run}};
    for (const Line& line : lines) object[line.name] = line.count;
    std::printf("%s\n", boost::json::serialize(object).c_str());
    return ExitCode::ok;
  }
  for (const Line& line : lines) {
    const std::string kept =
        line.days == 0 ? "kept for ever" : "older than " + std::to_string(line.days) + " days";
    std::printf("%-14s %10lld %s  (%s)\n", line.name, static_cast<long long>(line.count),
                dry_run ? "would go" : "gone", kept.c_str());
  }
  return ExitCode::ok;
}

const Registration k_registration{
    "db", [](CLI::App& app, Globals& globals, Action& action) {
      auto* command = app.add_subcommand("db", "The store: its state, schema, backups, retention");
      command->footer("Example:\n  crosscheck db status --db postgresql://relay@db.example/relay");
      command->require_subcommand(1);
      auto* status = command->add_subcommand("status", "Print engine, schema and numbers of rows");
      status->footer("Example:\n  crosscheck db status --json");
      status->callback([&] { action = [&] { return run_status(globals); }; });
      auto* migrate =
          command->add_subcommand("migrate", "Make the store if it is missing; apply migrations");
      migrate->footer("Example:\n  crosscheck db migrate --db .crosscheck/crosscheck.db");
      migrate->callback([&] { action = [&] { return run_migrate(globals); }; });
      const auto file = std::make_shared<std::string>();
      auto* backup =
          command->add_subcommand("backup", "Copy the store into a new file while it is in use");
      backup->footer(
          "PostgreSQL: pg_dump's custom format, by the pg_dump that is installed.\n"
          "Example:\n  crosscheck db backup /var/backups/crosscheck-$(date +%F).db");
      backup->add_option("FILE", *file, "The file to make")->required();
      backup->callback([&globals, &action, file] {
        action = [&globals, file] { return run_backup(globals, *file); };
      });
      const auto replace = std::make_shared<bool>(false);
      auto* restore = command->add_subcommand("restore", "Make a store of a backup");
      restore->footer(
          "No relay may run on the store meanwhile: one in use is refused. An older backup's "
          "schema is brought forward.\n"
          "Example:\n  crosscheck db restore crosscheck-2026-11-30.db --replace");
      restore->add_option("FILE", *file, "A file that `db backup` made")->required();
      restore->add_flag("--replace", *replace,
                        "Although a store is there: a SQLite file is kept as FILE.replaced");
      const auto force = std::make_shared<bool>(false);
      restore->add_flag("--force", *force,
                        "PostgreSQL: although programs of crosscheck are connected to it");
      restore->callback([&globals, &action, file, replace, force] {
        action = [&globals, file, replace, force] {
          return run_restore(globals, *file, *replace, *force);
        };
      });
      const auto dry_run = std::make_shared<bool>(false);
      auto* prune = command->add_subcommand(
          "prune", "Remove what is past its retention now (a relay does so once a day)");
      prune->footer(
          "For how long what is kept: settings retention_bodies_days, _logs_, _results_, "
          "_events_.\n"
          "Example:\n  crosscheck db prune --dry-run");
      prune->add_flag("--dry-run", *dry_run, "Only count");
      prune->callback([&globals, &action, dry_run] {
        action = [&globals, dry_run] { return run_prune(globals, *dry_run); };
      });
    }};

}  // namespace
}  // namespace crosscheck::cli
