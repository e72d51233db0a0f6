#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"

// One store, two engines: SQLite (a file) and PostgreSQL (a server). Parts write SQL that both
// understand, with `$1`, `$2`… as placeholders; what differs is hidden here.
//
// The SQL both engines take: TEXT, BIGINT, DOUBLE PRECISION, `{{bytes}}` for bytes and
// `{{identity}}` for a generated primary key in migrations; INSERT … ON CONFLICT … DO
// UPDATE/NOTHING, RETURNING, CTEs, window functions, LIMIT. Booleans are BIGINT 0/1; times are
// BIGINT microseconds; JSON is TEXT. One statement a call. PostgreSQL infers a placeholder's
// type from where it stands: where nothing tells (`SELECT $1`, a list of VALUES), write
// CAST($1 AS BIGINT).
namespace crosscheck::store {

using Bytes = std::vector<std::byte>;

// A parameter or a column: NULL, integer, floating point, text (UTF-8), or bytes.
using Value = std::variant<std::monostate, std::int64_t, double, std::string, Bytes>;

[[nodiscard]] Bytes to_bytes(std::string_view text);
[[nodiscard]] std::string_view as_text(const Bytes& bytes);

class Row {
 public:
  explicit Row(std::vector<Value> values) : values_{std::move(values)} {}
  [[nodiscard]] bool is_null(std::size_t column) const;
  // A NULL or a column of another type is a bug in the query: throws std::logic_error, which the
  // transaction turns into an `internal` error. `real` takes an integer too: the engines disagree
  // on the type of sums.
  [[nodiscard]] std::int64_t integer(std::size_t column) const;
  [[nodiscard]] double real(std::size_t column) const;
  [[nodiscard]] const std::string& text(std::size_t column) const;
  [[nodiscard]] const Bytes& bytes(std::size_t column) const;
  [[nodiscard]] base::Time time(std::size_t column) const;
  [[nodiscard]] std::optional<std::int64_t> optional_integer(std::size_t column) const;
  [[nodiscard]] std::optional<double> optional_real(std::size_t column) const;
  [[nodiscard]] std::optional<std::string> optional_text(std::size_t column) const;
  [[nodiscard]] std::optional<base::Time> optional_time(std::size_t column) const;

 private:
  std::vector<Value> values_;
};

// A parameter list. Converts from what parts hold, so that call sites read
// `tx.execute(sql, {delivery_id, now, std::nullopt})`. Text that is not UTF-8 or holds a NUL
// character, and NaN, are `invalid_input` on both engines: neither could give them back.
class Parameter {
 public:
  Parameter(std::nullopt_t) {}                                       // NOLINT(*-explicit-*)
  Parameter(bool value) : value_{std::int64_t{value}} {}             // NOLINT(*-explicit-*)
  Parameter(int value) : value_{std::int64_t{value}} {}              // NOLINT(*-explicit-*)
  Parameter(std::int64_t value) : value_{value} {}                   // NOLINT(*-explicit-*)
  Parameter(double value) : value_{value} {}                         // NOLINT(*-explicit-*)
  Parameter(const char* value) : value_{std::string{value}} {}       // NOLINT(*-explicit-*)
  Parameter(std::string value) : value_{std::move(value)} {}         // NOLINT(*-explicit-*)
  Parameter(std::string_view value) : value_{std::string{value}} {}  // NOLINT(*-explicit-*)
  Parameter(Bytes value) : value_{std::move(value)} {}               // NOLINT(*-explicit-*)
  Parameter(base::Time value) : value_{base::to_micros(value)} {}    // NOLINT(*-explicit-*)
  template <class T>
  Parameter(const std::optional<T>& value) {  // NOLINT(*-explicit-*)
    if (value) value_ = Parameter{*value}.value_;
  }
  [[nodiscard]] const Value& value() const { return value_; }

 private:
  Value value_;
};
using Parameters = std::vector<Parameter>;

// One transaction, valid only inside the callback it is given to, on that thread. After its first
// failed call it is doomed: later calls return that error again, and so does `write` whatever the
// body returns (as PostgreSQL has it). Where a conflict is expected, use ON CONFLICT.
class Tx {
 public:
  virtual ~Tx() = default;
  // All rows, also of an INSERT/UPDATE … RETURNING.
  [[nodiscard]] virtual base::Result<std::vector<Row>> query(std::string_view sql,
                                                             const Parameters& parameters = {}) = 0;
  // How many rows were changed.
  [[nodiscard]] virtual base::Result<std::int64_t> execute(std::string_view sql,
                                                           const Parameters& parameters = {}) = 0;
  // Wakes `Store::wait_for(channel)` in every process on this store once the
  // transaction is committed.
  virtual void notify(std::string_view channel) = 0;
};

enum class Engine : std::uint8_t { sqlite, postgresql };

// Thread-safe. All faults are typed: `busy` (locked by another process for longer than the busy
// time-out), `read_only`, `full`, `unavailable` (server gone), `conflict` (a constraint, named).
class Store {
 public:
  virtual ~Store() = default;

  // Runs `body` in a transaction that is durable when this returns a value; rolled back whole when
  // `body` returns an error or throws. What another's failure or a lost connection undid is tried
  // again (so `body` may run more than once and must have no effect but through `tx`); a connection
  // lost while committing is never retried: it is `unavailable` and says that the outcome is
  // unknown. One thread runs all bodies, one transaction writes at a time among all processes on
  // the store, and bodies that wait share a commit (and its fsync), none seeing what one that fails
  // did. So `body` should be short, and must not call `write` itself (`internal`).
  [[nodiscard]] virtual base::Result<void> write(
      const std::function<base::Result<void>(Tx&)>& body) = 0;

  // Runs `body` on a snapshot that does not block and is not blocked by writes.
  [[nodiscard]] virtual base::Result<void> read(
      const std::function<base::Result<void>(Tx&)>& body) = 0;

  // Returns true when `notify(channel)` was committed since the last true return for this channel,
  // false after `timeout` (or `interrupt()`). Of several that wait for one channel, one returns
  // true. A wake-up can be missed, or come without reason, across processes: callers poll too.
  [[nodiscard]] virtual bool wait_for(std::string_view channel, base::Duration timeout) = 0;
  // Wakes all who wait now and later: the program is stopping.
  virtual void interrupt() = 0;

  [[nodiscard]] virtual Engine engine() const = 0;

  // How many bodies of `write` wait in this process for the one that runs now; for a load gauge.
  [[nodiscard]] virtual std::size_t waiting_writes() const = 0;

  // `body` returning a value.
  template <class F>
  [[nodiscard]] auto write_value(F body) {
    return with_value(body, [this](const auto& f) { return write(f); });
  }
  template <class F>
  [[nodiscard]] auto read_value(F body) {
    return with_value(body, [this](const auto& f) { return read(f); });
  }

 private:
  template <class F, class Run>
  static auto with_value(F& body, Run run) {
    using R = std::invoke_result_t<F&, Tx&>;
    std::optional<R> value;
    auto done = run([&](Tx& tx) -> base::Result<void> {
      value.emplace(body(tx));
      if (!*value) return tl::unexpected(value->error());
      return {};
    });
    if (!done) return R{tl::unexpected(done.error())};
    return std::move(*value);
  }
};

struct OpenOptions {
  bool create = true;  // make the file (and its folder) if missing; PostgreSQL databases must exist
  bool migrate = true;  // bring the schema forward; otherwise an older schema is refused
  bool check_schema =
      true;  // false: leave the schema as it is, whatever it is (`crosscheck db status`)
  bool read_only = false;  // only `read`
  base::Duration busy_timeout = std::chrono::seconds{10};
  std::size_t readers = 4;  // connections for `read`
};

// `url` is a path (or `sqlite:path`), or `postgresql://…`. Errors never show a password.
// A database of a newer crosscheck is refused with both schema numbers, and one in which an applied
// migration is not this program's.
[[nodiscard]] base::Result<std::unique_ptr<Store>> open(const std::string& url,
                                                        const OpenOptions& options = {});

// `url` without its password, for messages.
[[nodiscard]] std::string redact(std::string_view url);

struct SchemaState {
  int current = 0;  // applied to this database
  int latest = 0;   // known to this program
};
[[nodiscard]] base::Result<SchemaState> schema_state(Store& store);

}  // namespace crosscheck::store
