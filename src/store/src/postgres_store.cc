#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <pqxx/connection>
#include <pqxx/errorhandler>
#include <pqxx/except>
#include <pqxx/nontransaction>
#include <pqxx/notification>
#include <pqxx/result>
#include <pqxx/transaction>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <unordered_map>

#include "channels.h"
#include "check.h"
#include "crosscheck/base/log.h"
#include "crosscheck/base/process.h"
#include "crosscheck/base/threads.h"
#include "engines.h"
#include "pool.h"
#include "write_queue.h"

// libpqxx 6 deprecates what its successor lacks. Two such things are needed here: to forbid that it
// reconnects by itself (it would lose a transaction's fate), and parameters of mixed types.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// Threads: callers run the bodies of reads themselves on pooled connections; one runs those of
// writes; one tells and one listens for NOTIFY.
// Locks: a pool's, the queue's and the channels'. None is held while another is taken, nor while
// SQL runs.
//
// Isolation: one transaction writes at a time in the whole database, under an advisory lock that
// all processes take first, as SQLite has it. So a body may decide by what it read and need not
// know which rows or gaps to lock, nothing is undone by others, and the bodies that wait meanwhile
// share the next commit. In SERIALIZABLE, 8 writers undid 1.8 attempts a commit among themselves.
// Reads are REPEATABLE READ: a snapshot that need not wait or be run again.
namespace crosscheck::store {
namespace {

using base::Error;
using base::fail;
using base::Fault;
using base::Result;
using Body = std::function<Result<void>(Tx&)>;
using SteadyTime = std::chrono::steady_clock::time_point;
using NameSet = std::set<std::string, std::less<>>;

constexpr std::size_t k_cached_statements = 256;
// How often a body is run when a dead-lock with another program undoes it, and when its connection
// breaks.
constexpr int k_undone_attempts = 10;
constexpr int k_connection_attempts = 4;
// For how many groups each body gets a savepoint after one in which a body failed.
constexpr int k_wary_groups = 16;
// The one channel listened to; the payload names ours.
constexpr const char* k_channel = "crosscheck";
// Any number that other users of the database are unlikely to lock.
constexpr const char* k_write_lock = "SELECT pg_advisory_xact_lock(4919131752989213764)";

enum class Retry : std::uint8_t { no, undone, connection };
struct Failure {
  Error error;
  Retry retry = Retry::no;
  bool in_doubt = false;  // the transaction may have been committed
};

// libpq's message without its severity, and without the lines after the first: those show values.
std::string first_line(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  for (const std::string_view prefix : {"ERROR:", "FATAL:", "PANIC:"}) {
    if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  return std::string{text};
}

Failure failure_of_sqlstate(std::string_view state, const std::string& message,
                            std::string_view sql) {
  const std::string reason = "PostgreSQL: " + message;
  if (state == "40001" || state == "40P01") {
    return {{Fault::busy, "other writes kept undoing this one (" + message + ")", "try again"},
            Retry::undone};
  }
  if (state == "55P03" || state == "57014") {
    return {{Fault::busy, reason + ": locked by another client for too long",
             "try again when that client is done (pg_stat_activity shows it)"}};
  }
  if (state == "53100") return {{Fault::full, reason, "free disk space on the database server"}};
  if (state == "25006" || state == "42501") {
    return {{Fault::read_only, reason, "connect to the primary as a user who may write"}};
  }
  // A plan that another process's migration made stale; a new connection has none.
  if (state == "0A000" && sql.starts_with("SELECT")) {
    return {{Fault::unavailable, reason, "try again"}, Retry::connection};
  }
  if (state.starts_with("23")) {
    return {{Fault::conflict, message + " (" + summary(sql) + ")", ""}};
  }
  if (state == "54000" || state == "53200") return {{Fault::too_large, reason, ""}};
  if (state.starts_with("08") || state.starts_with("57P") || state.starts_with("53")) {
    return {{Fault::unavailable, reason, "look at the database server's log"}, Retry::connection};
  }
  return {{Fault::internal, reason + " (" + summary(sql) + ")", ""}};
}

// `open` is whether the connection outlived `exception`.
Failure failure_of(const std::exception& exception, bool open, std::string_view sql) {
  const std::string message = first_line(exception.what());
  if (!open) {
    return {{Fault::unavailable, "the connection to PostgreSQL was lost: " + message,
             "look at the database server"},
            Retry::connection};
  }
  // libpqxx gives class 40 types of its own, without their SQLSTATE.
  if (dynamic_cast<const pqxx::transaction_rollback*>(&exception) != nullptr) {
    return failure_of_sqlstate("40001", message, sql);
  }
  if (const auto* error = dynamic_cast<const pqxx::sql_error*>(&exception)) {
    return failure_of_sqlstate(error->sqlstate(), message, sql);
  }
  // Among them a wrong number of parameters, which libpqxx takes for a broken connection.
  return {{Fault::internal, "PostgreSQL: " + message + " (" + summary(sql) + ")", ""}};
}

// `url` with what we want unless it says otherwise itself.
std::string with_defaults(std::string url) {
  constexpr std::pair<std::string_view, std::string_view> k_defaults[] = {
      {"connect_timeout", "10"},
      {"client_encoding", "UTF8"},
      {"application_name", "crosscheck"},
      {"keepalives_idle", "60"},
      {"tcp_user_timeout", "60000"}};
  for (const auto& [key, value] : k_defaults) {
    const std::size_t query = url.find('?');
    if (query != std::string::npos &&
        url.find(std::string{key} + "=", query) != std::string::npos) {
      continue;
    }
    url += std::string{query == std::string::npos ? "?" : "&"} + std::string{key} + "=" +
           std::string{value};
  }
  return url;
}

// As a time-out's setting, where 0 would mean none.
std::string milliseconds(base::Duration time) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return std::to_string(std::max<std::int64_t>(ms, 1));
}

// One session with its prepared statements. Used by one thread at a time.
class Connection {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Connection>> open(const std::string& url,
                                                                base::Duration lock_timeout) {
    try {
      auto connection = std::make_unique<Connection>(with_defaults(url));
      connection->pq_.set_variable("lock_timeout", milliseconds(lock_timeout));
      connection->pq_.set_variable("bytea_output", "hex");
      // Takes 30 ms where statements take less than one.
      connection->pq_.set_variable("jit", "off");
      return connection;
    } catch (const std::exception& exception) {
      // libpq's message would show the piece of a password that it took for a host or port.
      if (has_unescaped_password(url)) {
        return fail(Fault::invalid_input, "cannot connect to " + redact(url),
                    "write @ / ? # in the password as %40 %2F %3F %23");
      }
      return fail(Fault::unavailable,
                  "cannot connect to " + redact(url) + ": " + first_line(exception.what()),
                  "check that the server runs, and that the database and user exist");
    }
  }

  explicit Connection(const std::string& url) : pq_{url}, quiet_{pq_} {
    pq_.inhibit_reactivation(true);
  }

  pqxx::result run(pqxx::transaction_base& transaction, std::string_view sql,
                   const Parameters& parameters) {
    auto invocation = transaction.prepared(prepared(sql));
    for (const Parameter& parameter : parameters) add(invocation, parameter.value());
    return invocation.exec();
  }

  [[nodiscard]] bool is_open() const { return pq_.is_open(); }
  // Statements are only given up together with their session.
  [[nodiscard]] bool is_worn() const { return statements_.size() >= k_cached_statements; }
  [[nodiscard]] pqxx::connection& pq() { return pq_; }

 private:
  const std::string& prepared(std::string_view sql) {
    const auto found = statements_.find(sql);
    if (found != statements_.end()) return found->second;
    std::string name = "s" + std::to_string(statements_.size());
    pq_.prepare(name, std::string{sql});
    return statements_.emplace(std::string{sql}, std::move(name)).first->second;
  }

  static void add(pqxx::prepare::invocation& invocation, const Value& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      invocation(std::to_string(*integer));
    } else if (const auto* real = std::get_if<double>(&value)) {
      // The shortest text that reads back as the same number.
      std::array<char, 32> text{};
      const auto end = std::to_chars(text.data(), text.data() + text.size(), *real).ptr;
      invocation(std::string{text.data(), end});
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      invocation(*text);
    } else if (const auto* bytes = std::get_if<Bytes>(&value)) {
      invocation(pqxx::binarystring{bytes->data(), bytes->size()});
    } else {
      invocation();
    }
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  pqxx::connection pq_;
  pqxx::quiet_errorhandler quiet_;  // notices are not for stderr
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> statements_;
};

template <class T>
T parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::logic_error("PostgreSQL sent '" + std::string{text} + "' for a number");
  }
  return value;
}

Value value_of(const pqxx::field& field, pqxx::oid type) {
  // Of pg_type, where they never change.
  constexpr pqxx::oid k_bool = 16, k_bytea = 17, k_int8 = 20, k_int2 = 21, k_int4 = 23, k_oid = 26,
                      k_float4 = 700, k_float8 = 701, k_numeric = 1700;
  if (field.is_null()) return std::monostate{};
  const std::string_view text{field.c_str(), field.size()};
  switch (type) {
    case k_bool:
      return std::int64_t{text == "t"};
    case k_int2:
    case k_int4:
    case k_int8:
    case k_oid:
      return parse_number<std::int64_t>(text);
    case k_float4:
    case k_float8:
      return parse_number<double>(text);
    case k_numeric:
      // What SUM makes of BIGINT, and AVG of anything.
      if (text.find_first_not_of("-0123456789") == std::string_view::npos) {
        return parse_number<std::int64_t>(text);
      }
      return parse_number<double>(text);
    case k_bytea: {
      const pqxx::binarystring bytes{field};
      const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
      return Bytes(data, data + bytes.size());
    }
    default:
      return std::string{text};
  }
}

class PostgresTx final : public ScriptTx {
 public:
  PostgresTx(Connection& connection, pqxx::transaction_base& transaction)
      : connection_{connection}, transaction_{transaction} {}

  Result<std::vector<Row>> query(std::string_view sql, const Parameters& parameters) override {
    return call<std::vector<Row>>(sql, [&]() -> Result<std::vector<Row>> {
      if (auto ok = check_parameters(parameters); !ok) return tl::unexpected(ok.error());
      const pqxx::result result = connection_.run(transaction_, sql, parameters);
      std::vector<pqxx::oid> types;
      types.reserve(static_cast<std::size_t>(result.columns()));
      for (pqxx::row_size_type i = 0; i < result.columns(); ++i) {
        types.push_back(result.column_type(i));
      }
      std::vector<Row> rows;
      rows.reserve(result.size());
      for (const pqxx::row& row : result) {
        std::vector<Value> values;
        values.reserve(types.size());
        for (pqxx::row_size_type i = 0; i < row.size(); ++i) {
          values.push_back(value_of(row[i], types[i]));
        }
        rows.emplace_back(std::move(values));
      }
      return rows;
    });
  }

  Result<std::int64_t> execute(std::string_view sql, const Parameters& parameters) override {
    return call<std::int64_t>(sql, [&]() -> Result<std::int64_t> {
      if (auto ok = check_parameters(parameters); !ok) return tl::unexpected(ok.error());
      return static_cast<std::int64_t>(
          connection_.run(transaction_, sql, parameters).affected_rows());
    });
  }

  Result<void> run_script(const std::string& sql) override {
    return call<void>(sql, [&]() -> Result<void> {
      transaction_.exec(sql);
      return {};
    });
  }

  void notify(std::string_view channel) override { channels_.emplace(channel); }

  // The caller commits, and then notifies `channels`.
  std::optional<Failure> run(const Body& body) {
    auto done = guarded(body, *this);
    // Whether to try again is for the first failed call to say; in words, a body may say more.
    if (failed_ && (done || failed_->retry != Retry::no)) return failed_;
    if (!done) return Failure{done.error()};
    return std::nullopt;
  }
  [[nodiscard]] const NameSet& channels() const { return channels_; }

 private:
  template <class T, class F>
  Result<T> call(std::string_view sql, F body) {
    if (failed_) return tl::unexpected(failed_->error);
    try {
      Result<T> result = body();
      if (!result) failed_ = Failure{result.error()};
      return result;
    } catch (const std::exception& exception) {
      failed_ = failure_of(exception, connection_.is_open(), sql);
      return tl::unexpected(failed_->error);
    }
  }

  Connection& connection_;
  pqxx::transaction_base& transaction_;
  std::optional<Failure> failed_;
  NameSet channels_;
};

// One transaction of the given kind, once. `work(transaction)` says why not to commit it.
template <class Transaction, class F>
std::optional<Failure> run_once(Connection& connection, F work) {
  try {
    Transaction transaction{connection.pq()};
    if (std::optional<Failure> failed = work(transaction)) return failed;  // leaving rolls back
    transaction.commit();
    return std::nullopt;
  } catch (const pqxx::in_doubt_error&) {
    return Failure{.error = {Fault::unavailable,
                             "the connection to PostgreSQL was lost while committing: whether the "
                             "change was made is unknown",
                             "look at the database server, then at whether the change is there"},
                   .in_doubt = true};
  } catch (const std::exception& exception) {
    return failure_of(exception, connection.is_open(), "BEGIN or COMMIT");
  }
}

using Write = pqxx::transaction<pqxx::read_committed, pqxx::read_write>;
using Read = pqxx::transaction<pqxx::repeatable_read, pqxx::read_only>;

// Whether to try again, and when: for one transaction.
class Patience {
 public:
  explicit Patience(base::Duration limit) : deadline_{std::chrono::steady_clock::now() + limit} {}

  // Waits before it says yes; the first time it does so at once.
  [[nodiscard]] bool again(const Failure& failure) {
    if (std::chrono::steady_clock::now() >= deadline_) return false;
    if (failure.retry == Retry::undone && ++undone_ < k_undone_attempts) {
      pause(std::min(500 << undone_, 50'000) * (undone_ > 1 ? 1 : 0));
      return true;
    }
    if (failure.retry == Retry::connection && ++broken_ < k_connection_attempts) {
      pause(broken_ > 1 ? 100'000 * broken_ : 0);
      return true;
    }
    return false;
  }

 private:
  // Random, so that those who undid each other do not meet again.
  static void pause(int limit_us) {
    if (limit_us == 0) return;
    thread_local std::minstd_rand random{std::random_device{}()};
    std::this_thread::sleep_for(
        std::chrono::microseconds{std::uniform_int_distribution<int>{0, limit_us}(random)});
  }

  const SteadyTime deadline_;
  int undone_ = 0;
  int broken_ = 0;
};

// Tells other processes what was committed here, on a connection of its own, once for what came in
// meanwhile. A NOTIFY inside the transaction would let one transaction at a time commit in the
// whole database, each with a sync of its own.
class Notifier {
 public:
  explicit Notifier(std::string url) : url_{std::move(url)} {}
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  ~Notifier() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock{mutex_};
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void start() {
    thread_ = base::start_thread([this] { loop(); });
  }

  void send(const NameSet& channels) {
    {
      const std::lock_guard lock{mutex_};
      pending_.insert(channels.begin(), channels.end());
    }
    wake_.notify_one();
  }

  // The server's process that our notifications come from; 0 before the first.
  [[nodiscard]] int process() const { return process_; }

 private:
  void loop() {
    while (true) {
      NameSet channels;
      {
        std::unique_lock lock{mutex_};
        wake_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
        if (pending_.empty()) return;
        channels.swap(pending_);
      }
      // Who was not told polls: a server that is away is not waited for.
      if (!tell(channels)) static_cast<void>(tell(channels));
    }
  }

  bool tell(const NameSet& channels) {
    try {
      if (!connection_) {
        auto opened = Connection::open(url_, std::chrono::seconds{10});
        if (!opened) return false;
        connection_ = std::move(*opened);
        process_ = connection_->pq().backendpid();
      }
      pqxx::nontransaction work{connection_->pq()};
      for (const std::string& channel : channels) {
        connection_->run(work, "SELECT pg_notify($1, $2)", {k_channel, channel});
      }
      return true;
    } catch (const std::exception& exception) {
      base::log::warning("notifier_lost",
                         {{"database", redact(url_)}, {"error", first_line(exception.what())}});
      connection_.reset();
      return false;
    }
  }

  const std::string url_;
  std::mutex mutex_;
  std::condition_variable wake_;
  NameSet pending_;                         // guarded by mutex_
  bool stopping_ = false;                   // guarded by mutex_
  std::unique_ptr<Connection> connection_;  // the thread's
  std::atomic<int> process_{0};
  std::thread thread_;
};

// Waits for NOTIFY on a connection of its own, made again whenever it breaks.
class Listener {
 public:
  // What `own` sent is not heard here: it was signalled at its commit.
  Listener(std::string url, Channels& channels, const Notifier& own)
      : url_{std::move(url)}, channels_{channels}, own_{own} {}
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  ~Listener() {
    if (!thread_.joinable()) return;
    stopping_ = true;
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wake_.get(), &one, sizeof one));
    thread_.join();
  }

  // From its return on, what is committed anywhere is heard here.
  Result<void> start() {
    wake_ = base::Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (!wake_) return fail(Fault::environment, "eventfd: no file descriptor is left");
    if (auto connected = connect(); !connected) return connected;
    thread_ = base::start_thread([this] { loop(); });
    return {};
  }

 private:
  class Receiver final : public pqxx::notification_receiver {
   public:
    Receiver(pqxx::connection_base& connection, Channels& channels, const Notifier& own)
        : notification_receiver{connection, k_channel}, channels_{channels}, own_{own} {}
    void operator()(const std::string& payload, int process) override {
      if (process != own_.process()) channels_.signal(payload);
    }

   private:
    Channels& channels_;
    const Notifier& own_;
  };

  Result<void> connect() {
    receiver_.reset();
    auto opened = Connection::open(url_, std::chrono::seconds{10});
    if (!opened) return tl::unexpected(opened.error());
    connection_ = std::move(*opened);
    try {
      receiver_ = std::make_unique<Receiver>(connection_->pq(), channels_, own_);
      return {};
    } catch (const std::exception& exception) {
      return tl::unexpected(failure_of(exception, connection_->is_open(), "LISTEN").error);
    }
  }

  // Until the connection breaks or `stopping_`.
  void listen() {
    try {
      while (!stopping_) {
        std::array<pollfd, 2> waiting{
            {{connection_->pq().sock(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
        ::poll(waiting.data(), waiting.size(), -1);
        connection_->pq().get_notifs();
      }
    } catch (const std::exception& exception) {
      base::log::warning("listener_lost",
                         {{"database", redact(url_)}, {"error", first_line(exception.what())}});
    }
  }

  void loop() {
    std::chrono::milliseconds pause{50};
    while (!stopping_) {
      if (receiver_ && connection_->is_open()) listen();
      if (stopping_) return;
      if (connect()) {
        pause = std::chrono::milliseconds{50};
        // What was committed meanwhile was not heard.
        channels_.signal_all();
        continue;
      }
      pollfd wake{wake_.get(), POLLIN, 0};
      ::poll(&wake, 1, static_cast<int>(pause.count()));
      pause = std::min(pause * 2, std::chrono::milliseconds{5000});
    }
  }

  const std::string url_;
  Channels& channels_;
  const Notifier& own_;
  base::Fd wake_;
  std::atomic<bool> stopping_{false};
  // The thread's, once it runs.
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<Receiver> receiver_;
  std::thread thread_;
};

class PostgresStore final : public Store {
 public:
  PostgresStore(std::string url, const OpenOptions& options)
      : url_{std::move(url)},
        options_{options},
        readers_{options.readers, options.busy_timeout, [this] { return connect(); }},
        notifier_{url_},
        listener_{url_, channels_, notifier_} {}

  ~PostgresStore() override {
    if (!writer_.joinable()) return;
    queue_.close();
    writer_.join();
  }

  Result<void> open(std::span<const Migration> known) {
    auto ready = prepare_schema(*this, options_, url_, known,
                                [this](const auto& body) { return exclusively(body); });
    if (!ready || options_.read_only) return ready;
    notifier_.start();
    writer_ = base::start_thread([this] { write_loop(); });
    return listener_.start();
  }

  Result<void> write(const Body& body) override {
    if (auto ok = InsideWrite::check(); !ok) return ok;
    if (options_.read_only) {
      return fail(Fault::read_only, redact(url_) + " was opened for reading only");
    }
    return queue_.run(body, options_.busy_timeout);
  }

  Result<void> read(const Body& body) override {
    Patience patience{options_.busy_timeout};
    while (true) {
      std::optional<Failure> failed;
      if (auto lease = readers_.take()) {
        failed = run_once<Read>(**lease, [&](pqxx::transaction_base& transaction) {
          return PostgresTx{**lease, transaction}.run(body);
        });
        if (!(*lease)->is_open() || (*lease)->is_worn()) lease->discard();
        if (failed && failed->retry == Retry::connection) {
          lease->discard();
          readers_.clear();
        }
      } else {
        failed = no_connection(lease.error());
      }
      if (!failed) return {};
      if (!patience.again(*failed)) return tl::unexpected(std::move(failed->error));
    }
  }

  bool wait_for(std::string_view channel, base::Duration timeout) override {
    return channels_.wait_for(channel, timeout);
  }
  void interrupt() override { channels_.interrupt(); }
  Engine engine() const override { return Engine::postgresql; }
  std::size_t waiting_writes() const override { return queue_.size(); }

 private:
  using Job = WriteQueue::Job;
  using Group = WriteQueue::Group;

  // One run of a group's transaction.
  struct Round {
    NameSet channels;     // to be notified of the commit
    Group undone;         // jobs to be run again, each alone
    bool spoilt = false;  // a body failed where the others have no savepoint to go back to
  };

  Result<std::unique_ptr<Connection>> connect() {
    return Connection::open(url_, options_.busy_timeout);
  }

  // Statements are planned while tables may still be empty: where an index leads to the rows, it is
  // used. A process that stops inside a transaction must not keep all others waiting.
  Result<std::unique_ptr<Connection>> connect_writer() {
    auto connection = connect();
    if (!connection) return connection;
    try {
      auto& pq = (*connection)->pq();
      pq.set_variable("enable_seqscan", "off");
      pq.set_variable("idle_in_transaction_session_timeout", milliseconds(options_.busy_timeout));
      return connection;
    } catch (const std::exception& exception) {
      return tl::unexpected(failure_of(exception, (*connection)->is_open(), "SET").error);
    }
  }

  static Failure no_connection(const Error& error) {
    return {error, error.fault == Fault::unavailable ? Retry::connection : Retry::no};
  }

  // One transaction under the lock of all writers.
  template <class F>
  std::optional<Failure> write_once(F work) {
    if (!writing_) {
      auto connection = connect_writer();
      if (!connection) return no_connection(connection.error());
      writing_ = std::move(*connection);
    }
    auto failed = run_once<Write>(*writing_, [&](pqxx::transaction_base& transaction) {
      transaction.exec(k_write_lock);
      return work(transaction);
    });
    if (!writing_->is_open() || writing_->is_worn() ||
        (failed && failed->retry == Retry::connection)) {
      writing_.reset();
    }
    return failed;
  }

  void write_loop() {
    while (true) {
      const Group group = queue_.take();
      if (group.empty()) return;
      settle(group);
    }
  }

  // Runs the group until it is committed or cannot be, and finishes its jobs.
  void settle(const Group& group) {
    Patience patience{options_.busy_timeout};
    bool savepoints = group.size() > 1 && wary_ > 0;
    wary_ = std::max(wary_ - 1, 0);
    while (true) {
      Round round;
      const auto failed = run_group(group, savepoints, round);
      if (!failed) {
        for (const std::string& channel : round.channels) channels_.signal(channel);
        if (!round.channels.empty()) notifier_.send(round.channels);
        for (Job* job : group) {
          if (!std::ranges::count(round.undone, job)) job->finish(std::move(job->result));
        }
        return settle_each(round.undone);
      }
      if (round.spoilt) {
        savepoints = true;
        wary_ = k_wary_groups;
        continue;
      }
      if (failed->retry != Retry::connection && !failed->in_doubt && group.size() > 1) {
        return settle_each(group);
      }
      if (patience.again(*failed)) continue;
      for (Job* job : group) {
        const bool said_no = failed->in_doubt && !job->result;
        job->finish(said_no ? std::move(job->result) : tl::unexpected(failed->error));
      }
      return;
    }
  }

  void settle_each(const Group& group) {
    for (Job* job : group) settle({job});
  }

  std::optional<Failure> run_group(const Group& group, bool savepoints, Round& round) {
    return write_once([&](pqxx::transaction_base& transaction) -> std::optional<Failure> {
      for (Job* job : group) {
        if (savepoints) {
          transaction.exec(job == group.front() ? "SAVEPOINT job"
                                                : "RELEASE SAVEPOINT job; SAVEPOINT job");
        }
        PostgresTx tx{*writing_, transaction};
        std::optional<Failure> failed;
        {
          const InsideWrite inside;
          failed = tx.run(*job->body);
        }
        if (!failed) {
          job->result = {};
          round.channels.insert(tx.channels().begin(), tx.channels().end());
          continue;
        }
        if (failed->retry == Retry::connection || group.size() == 1) return failed;
        if (!savepoints) {
          round.spoilt = true;
          return failed;
        }
        if (failed->retry == Retry::undone) round.undone.push_back(job);
        job->result = tl::unexpected(std::move(failed->error));
        transaction.exec("ROLLBACK TO SAVEPOINT job");
      }
      return std::nullopt;
    });
  }

  // For migrations, before the writer thread exists.
  Result<void> exclusively(const std::function<Result<void>(ScriptTx&)>& body) {
    const auto failed = write_once([&](pqxx::transaction_base& transaction) {
      return PostgresTx{*writing_, transaction}.run(
          [&](Tx& tx) { return body(static_cast<ScriptTx&>(tx)); });
    });
    if (!failed) return {};
    return tl::unexpected(failed->error);
  }

  const std::string url_;
  const OpenOptions options_;
  Channels channels_;
  Pool<Connection> readers_;
  Notifier notifier_;
  Listener listener_;
  WriteQueue queue_;
  std::unique_ptr<Connection> writing_;  // the writer thread's, once that runs
  int wary_ = 0;                         // the writer thread's
  std::thread writer_;
};

}  // namespace

Result<std::unique_ptr<Store>> open_postgresql(const std::string& url, const OpenOptions& options,
                                               std::span<const Migration> known) {
  auto store = std::make_unique<PostgresStore>(url, options);
  if (auto opened = store->open(known); !opened) return tl::unexpected(opened.error());
  return store;
}

}  // namespace crosscheck::store
