#include "crosscheck/store/backup.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "crosscheck/base/process.h"
#include "crosscheck/store/store.h"
#include "migrate.h"

namespace crosscheck::store {
namespace {

namespace fs = std::filesystem;
using base::fail;
using base::Fault;
using base::Result;

constexpr base::Duration k_dump_timeout = std::chrono::hours{6};
constexpr std::chrono::milliseconds k_busy{10'000};
constexpr std::string_view k_other_file = "name a whole file that `crosscheck db backup` made";
// PostgreSQL notices a little later than others that a program has ended.
constexpr std::chrono::seconds k_ended{3};

bool is_postgresql(const std::string& url) {
  return url.starts_with("postgresql://") || url.starts_with("postgres://");
}
std::string path_of(const std::string& url) {
  constexpr std::string_view k_sqlite = "sqlite:";
  return url.starts_with(k_sqlite) ? url.substr(k_sqlite.size()) : url;
}

Fault fault_of(int sqlite_code) {
  switch (sqlite_code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Fault::busy;
    case SQLITE_FULL:
      return Fault::full;
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return Fault::read_only;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return Fault::invalid_input;
    default:
      return Fault::unavailable;
  }
}
tl::unexpected<base::Error> sqlite_failure(const fs::path& file,
                                           const SQLite::Exception& exception) {
  const Fault fault = fault_of(exception.getErrorCode() & 0xff);
  return fail(fault, file.string() + ": " + exception.what(),
              fault == Fault::invalid_input ? std::string{k_other_file} : std::string{});
}

// A file beside the one to be written that is removed unless it got its name.
class Draft {
 public:
  explicit Draft(fs::path file) : file_{std::move(file)}, draft_{file_.string() + ".part"} {
    remove();
  }
  ~Draft() { remove(); }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  [[nodiscard]] const fs::path& path() const { return draft_; }
  // Empty, for its owner alone: there are events in it.
  Result<void> make() const {
    if (const base::Fd made{::open(draft_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)}; !made)
      return fail(Fault::environment, draft_.string() + ": cannot be made: " + std::strerror(errno),
                  "name a file in a folder that is there and can be written to");
    return {};
  }
  // On the disk, then under its name.
  Result<void> finish() {
    for (const fs::path& path : {draft_, file_.has_parent_path() ? file_.parent_path() : "."}) {
      if (path == draft_) {
        if (auto synced = sync(path); !synced) return synced;
        std::error_code error;
        fs::rename(draft_, file_, error);
        if (error)
          return fail(Fault::environment, file_.string() + ": cannot be made: " + error.message());
      } else if (auto synced = sync(path); !synced) {
        return synced;
      }
    }
    return {};
  }

 private:
  static Result<void> sync(const fs::path& path) {
    const base::Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (!fd || ::fsync(fd.get()) != 0)
      return fail(Fault::environment, path.string() + ": " + std::strerror(errno));
    return {};
  }
  void remove() const {
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"})
      fs::remove(draft_.string() + suffix, ignored);
  }
  const fs::path file_;
  const fs::path draft_;
};

// Refuses a damaged database, and one that is not crosscheck's.
Result<void> check_sqlite(SQLite::Database& database, const fs::path& file) {
  SQLite::Statement check{database, "PRAGMA quick_check(1)"};
  if (!check.executeStep() || check.getColumn(0).getString() != "ok")
    return fail(Fault::invalid_input,
                file.string() + ": is damaged: " + check.getColumn(0).getString(),
                std::string{k_other_file});
  if (!database.tableExists("schema_migrations"))
    return fail(Fault::invalid_input, file.string() + ": is no store of crosscheck",
                std::string{k_other_file});
  return {};
}

// All pages of `from` in one step, so that they are of one moment, into one file without a log.
Result<void> copy_sqlite(const fs::path& from, const fs::path& to) {
  try {
    SQLite::Database source{from.string(), SQLite::OPEN_READONLY, static_cast<int>(k_busy.count())};
    {
      SQLite::Database target{to.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
      SQLite::Backup copy{target, source};
      while (copy.executeStep(-1) != SQLITE_DONE) ::usleep(10'000);
    }
    SQLite::Database target{to.string(), SQLite::OPEN_READWRITE};
    target.exec("PRAGMA journal_mode = DELETE");
    return check_sqlite(target, from);
  } catch (const SQLite::Exception& exception) {
    return sqlite_failure(from, exception);
  }
}

// SQLite reads what is missing of the last page as zeros.
Result<void> check_length(const fs::path& file) {
  try {
    SQLite::Database database{file.string(), SQLite::OPEN_READONLY};
    const auto page = database.execAndGet("PRAGMA page_size").getInt64();
    std::error_code error;
    if (static_cast<std::int64_t>(fs::file_size(file, error)) % page == 0 && !error) return {};
  } catch (const SQLite::Exception& exception) {
    return sqlite_failure(file, exception);
  }
  return fail(Fault::invalid_input, file.string() + ": is cut short", std::string{k_other_file});
}

// Takes the log of a database that nobody has open into its file.
Result<void> close_log(const fs::path& file) {
  try {
    SQLite::Database database{file.string(), SQLite::OPEN_READWRITE};
    SQLite::Statement change{database, "PRAGMA journal_mode = DELETE"};
    if (change.executeStep() && change.getColumn(0).getString() == "delete") return {};
  } catch (const SQLite::Exception& exception) {
    const Fault fault = fault_of(exception.getErrorCode() & 0xff);
    // What is no database may be replaced as well.
    if (fault == Fault::invalid_input) return {};
    if (fault != Fault::busy) return sqlite_failure(file, exception);
  }
  return fail(Fault::busy, file.string() + ": is in use", "stop the relay first");
}

// Root restores what the relay's own user must be able to write, and who could read a store still
// can.
Result<void> give_owner_of(const fs::path& other, const fs::path& file) {
  struct stat status{};
  if (::stat(other.empty() ? "." : other.c_str(), &status) != 0) return {};
  if ((::geteuid() != 0 || ::chown(file.c_str(), status.st_uid, status.st_gid) == 0) &&
      (S_ISDIR(status.st_mode) || ::chmod(file.c_str(), status.st_mode & 07777) == 0))
    return {};
  return fail(Fault::environment, file.string() + ": cannot be given to the user of " +
                                      other.string() + ": " + std::strerror(errno));
}

Result<void> restore_sqlite(const fs::path& store, const fs::path& file, Replace replace) {
  std::error_code error;
  const bool there = fs::exists(store, error);
  if (there && replace == Replace::no)
    return fail(Fault::conflict, "there is a store at " + store.string(),
                "give --replace: it is kept as " + store.string() + ".replaced");
  if (store.has_parent_path()) fs::create_directories(store.parent_path(), error);
  const fs::path kept = store.string() + ".replaced";
  if (there && fs::exists(kept, error))
    return fail(Fault::conflict, kept.string() + ": is there from an earlier restore",
                "move it away or remove it");
  if (auto whole = check_length(file); !whole) return whole;
  Draft draft{store};
  if (auto made = draft.make(); !made) return made;
  if (auto copied = copy_sqlite(file, draft.path()); !copied) return copied;
  if (auto given = give_owner_of(there ? store : store.parent_path(), draft.path()); !given)
    return given;
  if (there) {
    if (auto closed = close_log(store); !closed) return closed;
    fs::rename(store, kept, error);
    if (error)
      return fail(Fault::environment, store.string() + ": cannot be moved: " + error.message());
    for (const char* suffix : {"-wal", "-shm"}) fs::remove(store.string() + suffix, error);
  }
  return draft.finish();
}

// A PostgreSQL URL as the variables that its programs read: a command line is seen by everybody.
Result<std::vector<std::pair<std::string, std::optional<std::string>>>> variables_of(
    const std::string& url) {
  char* message = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options{
      PQconninfoParse(url.c_str(), &message), PQconninfoFree};
  // The message may hold the URL.
  PQfreemem(message);
  if (!options)
    return fail(Fault::usage, redact(url) + ": is not understood",
                "postgresql://USER@HOST/DATABASE");
  std::vector<std::pair<std::string, std::optional<std::string>>> variables;
  for (const PQconninfoOption* o = options.get(); o->keyword != nullptr; ++o)
    if (o->val != nullptr && o->envvar != nullptr) variables.emplace_back(o->envvar, o->val);
  return variables;
}

Result<void> run_tool(std::vector<std::string> arguments, const std::string& url,
                      std::vector<std::pair<int, int>> descriptors = {}) {
  auto variables = variables_of(url);
  if (!variables) return tl::unexpected(variables.error());
  base::ProcessSpec spec;
  spec.arguments = std::move(arguments);
  spec.environment = std::move(*variables);
  spec.descriptors = std::move(descriptors);
  const std::string tool = spec.arguments.front();
  const auto ended = base::run_captured(std::move(spec), k_dump_timeout, std::size_t{1} << 16);
  if (!ended) {
    if (ended.error().fault == Fault::environment)
      return fail(Fault::environment, tool + ": is not installed",
                  "apt-get install postgresql-client");
    return tl::unexpected(ended.error());
  }
  if (ended->status.ok()) return {};
  return fail(Fault::environment,
              tool + " of " + redact(url) + ": " + to_string(ended->status) + ": " + ended->err);
}

// Of a store of any version up to this one.
std::string drop_tables() {
  static constexpr std::string_view k_create = "CREATE TABLE ";
  std::string statement = "DROP TABLE IF EXISTS schema_migrations";
  for (const Migration& migration : all_migrations()) {
    const std::string_view text = migration.text;
    for (auto at = text.find(k_create); at != text.npos; at = text.find(k_create, at)) {
      at += k_create.size();
      statement += ", " + std::string{text.substr(at, text.find_first_of(" (", at) - at)};
    }
  }
  return statement + " CASCADE";
}

// Goes with its descriptor.
Result<base::Fd> unnamed_file() {
  std::error_code error;
  std::string name = (fs::temp_directory_path(error) / "crosscheck-restore-XXXXXX").string();
  base::Fd file{::mkostemp(name.data(), O_CLOEXEC)};
  if (!file) return fail(Fault::environment, name + ": " + std::strerror(errno), "set TMPDIR");
  ::unlink(name.c_str());
  return file;
}

// Other programs of ours that are connected to the database of `store`, which has one connection.
Result<std::int64_t> count_others(Store& store) {
  return store.read_value([](Tx& tx) -> Result<std::int64_t> {
    auto rows = tx.query(
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND "
        "pid <> pg_backend_pid() AND application_name = current_setting('application_name')");
    if (!rows) return tl::unexpected(rows.error());
    return rows->front().integer(0);
  });
}

Result<void> refuse_in_use(Store& store, const std::string& url) {
  const auto until = std::chrono::steady_clock::now() + k_ended;
  while (true) {
    const auto others = count_others(store);
    if (!others) return tl::unexpected(others.error());
    if (*others == 0) return {};
    if (std::chrono::steady_clock::now() >= until)
      return fail(Fault::busy,
                  redact(url) + ": is in use, by " + std::to_string(*others) +
                      (*others == 1 ? " connection" : " connections") + " of crosscheck",
                  "stop the relays first, or give --force");
    ::usleep(50'000);
  }
}

Result<void> restore_postgresql(const std::string& url, const fs::path& file, Replace replace,
                                Force force) {
  OpenOptions options;
  options.create = false;
  options.check_schema = false;
  options.read_only = true;
  options.readers = 1;
  auto store = open(url, options);
  if (!store) return tl::unexpected(store.error());
  const auto schema = schema_state(**store);
  if (!schema) return tl::unexpected(schema.error());
  if (force == Force::no)
    if (auto unused = refuse_in_use(**store, url); !unused) return unused;
  store->reset();
  if (schema->current > 0 && replace == Replace::no)
    return fail(Fault::conflict, redact(url) + ": holds a store",
                "name an empty database, or give --replace: what it holds is lost");
  // An older backup knows nothing of the tables that came later: these are dropped by name, in one
  // transaction with the rest, which pg_restore alone cannot do.
  const auto script = unnamed_file();
  if (!script) return tl::unexpected(script.error());
  const std::vector<std::pair<int, int>> as_three{{script->get(), 3}};
  const std::string script_option = "--file=/dev/fd/3";
  std::vector<std::string> write{"pg_restore", "--no-owner", "--no-privileges", script_option,
                                 file.string()};
  std::vector<std::string> run{"psql", "--no-psqlrc", "--quiet", "--single-transaction",
                               "--set=ON_ERROR_STOP=1"};
  // Where there was no store, a table of such a name is somebody else's.
  if (schema->current > 0) {
    write.insert(write.end() - 1, {"--clean", "--if-exists"});
    run.push_back("--command=" + drop_tables());
  }
  run.push_back(script_option);
  if (auto written = run_tool(std::move(write), url, as_three); !written) return written;
  return run_tool(std::move(run), url, as_three);
}

}  // namespace

Result<void> backup(const std::string& url, const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error))
    return fail(Fault::conflict, file.string() + ": exists", "name a new file");
  // Also says what is wrong with the store's address.
  OpenOptions options;
  options.create = false;
  options.check_schema = false;
  options.read_only = true;
  auto store = open(url, options);
  if (!store) return tl::unexpected(store.error());
  store->reset();
  Draft draft{file};
  if (auto made = draft.make(); !made) return made;
  const auto copied =
      is_postgresql(url)
          ? run_tool({"pg_dump", "--format=custom", "--file=" + draft.path().string()}, url)
          : copy_sqlite(path_of(url), draft.path());
  if (!copied) return copied;
  return draft.finish();
}

Result<void> restore(const std::string& url, const fs::path& file, Replace replace, Force force) {
  std::error_code error;
  if (!fs::is_regular_file(file, error))
    return fail(Fault::not_found, file.string() + ": there is no such file");
  auto restored = is_postgresql(url) ? restore_postgresql(url, file, replace, force)
                                     : restore_sqlite(path_of(url), file, replace);
  if (!restored) return restored;
  auto store = open(url);
  if (!store) return tl::unexpected(store.error());
  return {};
}

}  // namespace crosscheck::store
