#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "channels.h"
#include "check.h"
#include "crosscheck/base/log.h"
#include "crosscheck/base/threads.h"
#include "crosscheck/store/sqlite_error.h"
#include "engines.h"
#include "placeholders.h"
#include "pool.h"
#include "write_queue.h"

// Threads: callers of `write` queue a job and wait; the writer thread owns the write connection,
// runs the jobs' bodies and commits. Callers of `read` run their bodies themselves on a pooled
// connection.
// Locks: the queue's, the pool's and the channels'. None is held while another is taken, nor while
// SQL runs.
namespace crosscheck::store {
namespace {

namespace fs = std::filesystem;
using base::Error;
using base::fail;
using base::Fault;
using base::Result;
using Body = std::function<Result<void>(Tx&)>;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::size_t k_cached_statements = 256;
// Pages in the WAL at which the writer checkpoints when it has nothing else to do, and at which it
// does so in any case (32 MB).
constexpr int k_checkpoint_idle = 1000;
constexpr int k_checkpoint_always = 8000;

// One connection with its prepared statements. Used by one thread at a time.
class Connection {
 public:
  // Throws SQLite::Exception.
  Connection(const std::string& name, std::string path, int flags, base::Duration busy_timeout)
      : path_{std::move(path)}, database_{name, flags | SQLITE_OPEN_NOMUTEX} {
    set_busy_timeout(busy_timeout);
  }

  void set_busy_timeout(base::Duration timeout) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
    database_.setBusyTimeout(static_cast<int>(std::clamp<std::int64_t>(ms, 0, INT_MAX)));
  }

  Result<std::vector<Row>> query(std::string_view sql, const Parameters& parameters) {
    std::vector<Row> rows;
    auto done = step_all(sql, parameters,
                         [&](SQLite::Statement& statement) { rows.push_back(row_of(statement)); });
    if (!done) return tl::unexpected(done.error());
    return rows;
  }

  Result<std::int64_t> execute(std::string_view sql, const Parameters& parameters) {
    const int before = database_.getTotalChanges();
    auto done = step_all(sql, parameters, [](SQLite::Statement&) {});
    if (!done) return tl::unexpected(done.error());
    // A statement that changes nothing by nature leaves the count of the one before it standing.
    if (database_.getTotalChanges() == before) return 0;
    return std::int64_t{database_.getChanges()};
  }

  // A statement without parameters whose rows do not matter.
  Result<void> run(std::string_view sql) {
    return step_all(sql, {}, [](SQLite::Statement&) {});
  }

  // Statements without parameters and rows, as many as there are; not kept prepared.
  Result<void> script(const std::string& sql) {
    try {
      database_.exec(sql);
      return {};
    } catch (const SQLite::Exception& exception) {
      return tl::unexpected(error(exception, sql));
    }
  }

  // Whether a transaction is open. An error such as a full disk may have ended it.
  [[nodiscard]] bool in_transaction() const {
    return sqlite3_get_autocommit(database_.getHandle()) == 0;
  }
  [[nodiscard]] bool is_read_only() const {
    return sqlite3_db_readonly(database_.getHandle(), "main") == 1;
  }
  [[nodiscard]] sqlite3* handle() const { return database_.getHandle(); }
  [[nodiscard]] const std::string& path() const { return path_; }

  [[nodiscard]] Error error(const SQLite::Exception& exception, std::string_view sql) const {
    const int extended = exception.getExtendedErrorCode();
    return sqlite_error(exception.getErrorCode() & 0xff, extended, exception.what(),
                        last_errno(extended), path_, sql);
  }

 private:
  // Of the system call behind an error; 0 if there was none.
  [[nodiscard]] int last_errno(int extended) const {
    const int code = extended & 0xff;
    if (code != SQLITE_IOERR && code != SQLITE_CANTOPEN) return 0;
    if (extended == SQLITE_IOERR_WRITE || extended == SQLITE_IOERR_TRUNCATE ||
        extended == SQLITE_IOERR_FSYNC) {
      // What the connection remembers is overwritten while it rolls back; the
      // files remember better.
      for (const int which : {SQLITE_FCNTL_JOURNAL_POINTER, SQLITE_FCNTL_FILE_POINTER}) {
        sqlite3_file* file = nullptr;
        int number = 0;
        sqlite3_file_control(handle(), "main", which, &file);
        if (file == nullptr || file->pMethods == nullptr) continue;
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &number);
        if (number != 0) return number;
      }
    }
    return sqlite3_system_errno(handle());
  }

  template <class OnRow>
  Result<void> step_all(std::string_view sql, const Parameters& parameters, OnRow on_row) {
    if (auto ok = check_parameters(parameters); !ok) return ok;
    SQLite::Statement* statement = nullptr;
    try {
      statement = &prepared(sql);
      if (static_cast<std::size_t>(statement->getBindParameterCount()) != parameters.size()) {
        return fail(Fault::internal,
                    "SQL with " + std::to_string(statement->getBindParameterCount()) +
                        " placeholders was given " + std::to_string(parameters.size()) +
                        " values (" + summary(sql) + ")");
      }
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        bind(*statement, static_cast<int>(i) + 1, parameters[i].value());
      }
      while (statement->executeStep()) on_row(*statement);
      statement->reset();
      // What is bound is the caller's memory.
      statement->clearBindings();
      return {};
    } catch (const SQLite::Exception& exception) {
      Error failed = error(exception, sql);
      if (statement != nullptr) statement->tryReset();
      return tl::unexpected(std::move(failed));
    }
  }

  SQLite::Statement& prepared(std::string_view sql) {
    const auto found = statements_.find(sql);
    if (found != statements_.end()) return found->second;
    if (has_second_statement(sql)) {
      throw SQLite::Exception("more than one statement in one call", SQLITE_ERROR);
    }
    if (statements_.size() >= k_cached_statements) statements_.clear();
    return statements_.try_emplace(std::string{sql}, database_, to_sqlite_placeholders(sql))
        .first->second;
  }

  static void bind(SQLite::Statement& statement, int index, const Value& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      statement.bind(index, *integer);
    } else if (const auto* real = std::get_if<double>(&value)) {
      statement.bind(index, *real);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      statement.bindNoCopy(index, *text);
    } else if (const auto* bytes = std::get_if<Bytes>(&value)) {
      // SQLite takes a null pointer for NULL, whatever the length.
      const void* data = bytes->empty() ? static_cast<const void*>("") : bytes->data();
      statement.bindNoCopy(index, data, static_cast<int>(bytes->size()));
    } else {
      statement.bind(index);
    }
  }

  static Row row_of(SQLite::Statement& statement) {
    std::vector<Value> values;
    const int count = statement.getColumnCount();
    values.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      const SQLite::Column column = statement.getColumn(i);
      switch (column.getType()) {
        case SQLITE_INTEGER:
          values.emplace_back(column.getInt64());
          break;
        case SQLITE_FLOAT:
          values.emplace_back(column.getDouble());
          break;
        case SQLITE_TEXT:
          values.emplace_back(column.getString());
          break;
        case SQLITE_BLOB: {
          const auto* data = static_cast<const std::byte*>(column.getBlob());
          values.emplace_back(Bytes(data, data + column.getBytes()));
          break;
        }
        default:
          values.emplace_back(std::monostate{});
      }
    }
    return Row{std::move(values)};
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  std::string path_;
  SQLite::Database database_;
  std::unordered_map<std::string, SQLite::Statement, Hash, std::equal_to<>> statements_;
};

class SqliteTx final : public ScriptTx {
 public:
  explicit SqliteTx(Connection& connection) : connection_{connection} {}

  Result<std::vector<Row>> query(std::string_view sql, const Parameters& parameters) override {
    return keep(doomed_ ? connection_.query(sql, parameters)
                        : Result<std::vector<Row>>{tl::unexpected(doomed_.error())});
  }
  Result<std::int64_t> execute(std::string_view sql, const Parameters& parameters) override {
    return keep(doomed_ ? connection_.execute(sql, parameters)
                        : Result<std::int64_t>{tl::unexpected(doomed_.error())});
  }
  Result<void> run_script(const std::string& sql) override {
    return keep(doomed_ ? connection_.script(sql) : doomed_);
  }
  void notify(std::string_view channel) override { channels_.emplace(channel); }

  // What `body` makes of this transaction: its error, or the first of its calls that failed.
  Result<void> run(const Body& body) {
    auto done = guarded(body, *this);
    return done ? doomed_ : done;
  }
  [[nodiscard]] const std::set<std::string, std::less<>>& channels() const { return channels_; }

 private:
  template <class T>
  Result<T> keep(Result<T> result) {
    if (!result && doomed_) doomed_ = tl::unexpected(result.error());
    return result;
  }

  Connection& connection_;
  Result<void> doomed_;  // the first failure
  std::set<std::string, std::less<>> channels_;
};

class SqliteStore final : public Store {
 public:
  SqliteStore(std::string path, const OpenOptions& options)
      : path_{std::move(path)},
        options_{options},
        readers_{options.readers, options.busy_timeout, [this] { return open_reader(); }} {}

  ~SqliteStore() override {
    if (!writer_.joinable()) return;
    queue_.close();
    writer_.join();
  }

  Result<void> open(std::span<const Migration> known, const std::string& url) {
    if (!options_.read_only) {
      if (auto opened = open_writer(); !opened) return opened;
    }
    auto ready = prepare_schema(*this, options_, url, known,
                                [this](const auto& body) { return exclusively(body); });
    if (!ready || options_.read_only) return ready;
    writer_ = base::start_thread([this] { write_loop(); });
    return {};
  }

  Result<void> write(const Body& body) override {
    if (auto ok = InsideWrite::check(); !ok) return ok;
    if (options_.read_only) {
      return tl::unexpected(io_error(Fault::read_only, path_, "it was opened for reading only"));
    }
    return queue_.run(body, options_.busy_timeout);
  }

  Result<void> read(const Body& body) override {
    auto reader = readers_.take();
    if (!reader) return tl::unexpected(reader.error());
    Connection& connection = **reader;
    if (auto begun = connection.run("BEGIN"); !begun) return begun;
    SqliteTx tx{connection};
    auto done = tx.run(body);
    // Reads change nothing, so there is nothing to commit.
    if (connection.in_transaction()) {
      if (auto ended = connection.run("ROLLBACK"); !ended) (*reader).discard();
    }
    return done;
  }

  bool wait_for(std::string_view channel, base::Duration timeout) override {
    return channels_.wait_for(channel, timeout);
  }
  void interrupt() override { channels_.interrupt(); }
  Engine engine() const override { return Engine::sqlite; }
  std::size_t waiting_writes() const override { return queue_.size(); }

 private:
  using Job = WriteQueue::Job;
  using Group = WriteQueue::Group;

  Result<void> open_writer() {
    try {
      writing_ = std::make_unique<Connection>(
          path_, path_, SQLite::OPEN_READWRITE | (options_.create ? SQLite::OPEN_CREATE : 0),
          options_.busy_timeout);
    } catch (const SQLite::Exception& exception) {
      return tl::unexpected(open_error(exception));
    }
    if (writing_->is_read_only()) {
      return tl::unexpected(io_error(Fault::read_only, path_, "it opens for reading only"));
    }
    if (auto wal = enter_wal(); !wal) return wal;
    // FULL: a commit is on the disk when it returns. The limit gives space back after a burst.
    if (auto set = writing_->script("PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                                    "PRAGMA journal_size_limit = 67108864");
        !set) {
      return set;
    }
    // In the place of SQLite's own checkpoints, which hold up the commit that happens to
    // cross the limit.
    sqlite3_wal_hook(
        writing_->handle(),
        [](void* self, sqlite3*, const char*, int pages) {
          static_cast<SqliteStore*>(self)->wal_pages_ = pages;
          return SQLITE_OK;
        },
        this);
    return {};
  }

  // Changing the journal's mode does not wait for other processes by itself.
  Result<void> enter_wal() {
    const SteadyTime deadline = std::chrono::steady_clock::now() + options_.busy_timeout;
    while (true) {
      auto mode = writing_->query("PRAGMA journal_mode = WAL", {});
      if (mode) {
        if (mode->front().text(0) == "wal") return {};
        return fail(Fault::environment,
                    "the database " + path_ + " cannot use a write-ahead log (its mode is " +
                        mode->front().text(0) + ")",
                    "put it on a local file system");
      }
      if (mode.error().fault != Fault::busy || std::chrono::steady_clock::now() > deadline) {
        return tl::unexpected(mode.error());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
  }

  Error open_error(const SQLite::Exception& exception) const {
    // No handle is left to ask for the errno, but access(2) fails for the same reason.
    const fs::path folder = fs::path{path_}.parent_path();
    int number = 0;
    if (exception.getErrorCode() == SQLITE_CANTOPEN) {
      const bool exists = ::access(path_.c_str(), F_OK) == 0;
      const std::string& asked = exists ? path_ : (folder.empty() ? "." : folder.string());
      if (::access(asked.c_str(), options_.read_only ? R_OK : W_OK) != 0) number = errno;
    }
    return sqlite_error(exception.getErrorCode() & 0xff, exception.getExtendedErrorCode(),
                        exception.what(), number, path_, "");
  }

  Result<std::unique_ptr<Connection>> open_reader() {
    try {
      // Who only reads leaves no log beside a file that nobody has open.
      if (options_.read_only && !fs::exists(path_ + "-wal") && !fs::exists(path_ + "-journal"))
        return open_immutable();
      const int flags = options_.read_only ? SQLite::OPEN_READONLY : SQLite::OPEN_READWRITE;
      auto connection = std::make_unique<Connection>(path_, path_, flags, options_.busy_timeout);
      auto set = connection->script("PRAGMA query_only = ON");
      if (set) set = connection->script("SELECT 1 FROM sqlite_schema LIMIT 1");
      if (!set && set.error().fault == Fault::read_only && options_.read_only && is_settled()) {
        return open_immutable();
      }
      if (!set) return tl::unexpected(set.error());
      return connection;
    } catch (const SQLite::Exception& exception) {
      return tl::unexpected(open_error(exception));
    }
  }

  // Whether all that was committed is in the database file itself, and not in a log beside it.
  [[nodiscard]] bool is_settled() const {
    std::error_code error;
    const auto size = fs::file_size(path_ + "-wal", error);
    return error || size == 0;
  }

  // In a folder that may not be written, SQLite cannot make the index that readers of a WAL share.
  // Where there is no log, a reader needs none.
  Result<std::unique_ptr<Connection>> open_immutable() {
    std::string uri = "file:";
    for (const char c : path_) {
      constexpr std::string_view k_hex = "0123456789ABCDEF";
      if (c == '%' || c == '?' || c == '#') {
        const auto byte = static_cast<unsigned char>(c);
        uri += {'%', k_hex[byte >> 4U], k_hex[byte & 15U]};
      } else {
        uri += c;
      }
    }
    return std::make_unique<Connection>(uri + "?immutable=1", path_,
                                        SQLite::OPEN_READONLY | SQLite::OPEN_URI,
                                        options_.busy_timeout);
  }

  // For migrations, before the writer thread exists. Foreign keys are off while a table is rebuilt,
  // and checked as a whole before the commit.
  Result<void> exclusively(const std::function<Result<void>(ScriptTx&)>& body) {
    if (auto begun = writing_->script("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE"); !begun) {
      return begun;
    }
    SqliteTx tx{*writing_};
    auto done = tx.run([&](Tx&) -> Result<void> {
      if (auto migrated = body(tx); !migrated) return migrated;
      auto broken = tx.query("PRAGMA foreign_key_check", {});
      if (!broken) return tl::unexpected(broken.error());
      if (broken->empty()) return {};
      return fail(Fault::internal, "a migration breaks a reference of table " +
                                       broken->front().optional_text(0).value_or("?"));
    });
    if (done) done = writing_->script("COMMIT");
    if (!done) roll_back();
    auto restored = writing_->script("PRAGMA foreign_keys = ON");
    return done ? restored : done;
  }

  void write_loop() {
    while (true) {
      Group group = queue_.take();
      if (group.empty()) return;
      if (begin(group)) commit(group);
      maybe_checkpoint();
    }
  }

  // Begins the group's transaction. While another process holds the lock, each job waits until
  // its own deadline and leaves the group with `busy`; another error is every job's. False if
  // none is left.
  bool begin(Group& group) {
    while (!group.empty()) {
      const SteadyTime now = std::chrono::steady_clock::now();
      const auto earliest = std::ranges::min(group, {}, &Job::deadline)->deadline;
      writing_->set_busy_timeout(
          std::chrono::ceil<base::Duration>(std::max(earliest - now, SteadyTime::duration{0})));
      auto begun = writing_->run("BEGIN IMMEDIATE");
      if (begun) return true;
      const SteadyTime later = std::chrono::steady_clock::now();
      const bool busy = begun.error().fault == Fault::busy;
      // SQLite gives up a little before its time-out.
      std::erase_if(group, [&](Job* job) {
        if (busy && job->deadline > std::max(later, earliest)) return false;
        job->finish(begun);
        return true;
      });
    }
    return false;
  }

  void commit(const Group& group) {
    std::set<std::string, std::less<>> channels;
    const bool alone = group.size() == 1;
    Result<void> whole;  // an error of the group's transaction itself
    for (Job* job : group) {
      job->result = whole ? run_one(*job, alone, channels, whole) : whole;
    }
    if (whole && !(alone && !group.front()->result)) {
      // Only an open transaction may wait for other processes' locks here, and none needs to.
      whole = writing_->run("COMMIT");
    }
    if (writing_->in_transaction()) roll_back();
    if (whole) {
      for (const std::string& channel : channels) channels_.signal(channel);
    }
    for (Job* job : group) {
      job->finish(whole || !job->result ? std::move(job->result) : whole);
    }
  }

  // Runs a job's body in a savepoint, or, where it has the transaction for itself, in that. `whole`
  // gets an error if the transaction did not survive.
  Result<void> run_one(Job& job, bool alone, std::set<std::string, std::less<>>& channels,
                       Result<void>& whole) {
    if (!alone) {
      if (auto saved = writing_->run("SAVEPOINT job"); !saved) return whole = saved;
    }
    SqliteTx tx{*writing_};
    Result<void> done;
    {
      const InsideWrite inside;
      done = tx.run(*job.body);
    }
    if (!writing_->in_transaction()) {
      // A full disk or a failing one ends the transaction, with what the jobs before this one did.
      whole = done ? fail(Fault::internal, "a transaction was ended by its body") : done;
      return whole;
    }
    if (done) channels.insert(tx.channels().begin(), tx.channels().end());
    if (alone) return done;
    auto ended = done ? Result<void>{} : writing_->run("ROLLBACK TO job");
    if (ended) ended = writing_->run("RELEASE job");
    if (!ended) whole = ended;
    return done;
  }

  void roll_back() {
    if (!writing_->in_transaction()) return;
    if (auto done = writing_->script("ROLLBACK"); !done) {
      base::log::error("rollback_failed", {{"database", path_}, {"error", done.error().message}});
    }
  }

  // Moves the log into the database file. PASSIVE waits for nobody; jobs wait for it only when the
  // log has grown long.
  void maybe_checkpoint() {
    if (wal_pages_ < k_checkpoint_idle + checkpoint_backoff_) return;
    if (wal_pages_ < k_checkpoint_always + checkpoint_backoff_ && queue_.size() > 0) return;
    int in_log = 0;
    int moved = 0;
    const int code = sqlite3_wal_checkpoint_v2(writing_->handle(), nullptr,
                                               SQLITE_CHECKPOINT_PASSIVE, &in_log, &moved);
    if (code == SQLITE_OK && moved == in_log) {
      checkpoint_backoff_ = 0;
      wal_pages_ = 0;
      return;
    }
    // A reader holds an old snapshot, or the disk is full: the log grows on, and is
    // tried again later.
    checkpoint_backoff_ = wal_pages_;
    if (code != SQLITE_OK && code != SQLITE_BUSY) {
      base::log::warning("checkpoint_failed",
                         {{"database", path_}, {"error", sqlite3_errstr(code)}});
    }
  }

  const std::string path_;
  const OpenOptions options_;
  Channels channels_;
  std::unique_ptr<Connection> writing_;  // the writer thread's, once that runs
  Pool<Connection> readers_;             // closed before `writing_`, which then checkpoints
  int wal_pages_ = 0;                    // the writer thread's
  int checkpoint_backoff_ = 0;           // the writer thread's
  WriteQueue queue_;
  std::thread writer_;
};

Result<void> make_folder(const std::string& path) {
  const fs::path folder = fs::path{path}.parent_path();
  if (folder.empty()) return {};
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error || fs::is_directory(folder)) return {};
  return tl::unexpected(io_error(fault_of_errno(error.value()), path,
                                 "its folder cannot be made: " + error.message()));
}

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite(const std::string& path, const OpenOptions& options,
                                           std::span<const Migration> known) {
  if (path.empty() || path == ":memory:") {
    return fail(Fault::usage, "the store must be a file",
                "name one: --db .crosscheck/crosscheck.db");
  }
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return fail(Fault::invalid_input, path + " is a folder, not a database",
                "name a file in it: --db " + path + "/crosscheck.db");
  }
  if (!fs::exists(path, error)) {
    if (!options.create || options.read_only) {
      return fail(Fault::not_found, "there is no database " + path,
                  "name the relay's by --db or its --settings, or make one: crosscheck db migrate "
                  "--db " +
                      path);
    }
    if (auto made = make_folder(path); !made) return tl::unexpected(made.error());
  }
  auto store = std::make_unique<SqliteStore>(path, options);
  if (auto opened = store->open(known, path); !opened) return tl::unexpected(opened.error());
  return store;
}

}  // namespace crosscheck::store
