#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/store/store.h"

namespace crosscheck::store {

// One step of the schema. `text` is a script of SQL with `{{bytes}}` and `{{identity}}`.
struct Migration {
  int version = 0;
  std::string name;  // "0001_base"
  std::string text;
  [[nodiscard]] std::string digest() const;
};

// The program's own, by version: 1, 2, 3…
[[nodiscard]] const std::vector<Migration>& all_migrations();

// `text` in the engine's words.
[[nodiscard]] std::string expand(std::string_view text, Engine engine);

// A transaction that also runs scripts of many statements.
class ScriptTx : public Tx {
 public:
  [[nodiscard]] virtual base::Result<void> run_script(const std::string& sql) = 0;
};

// Runs a body in a transaction that no other process's `exclusively` overlaps, and that sees all
// that those before it committed.
using Exclusively =
    std::function<base::Result<void>(const std::function<base::Result<void>(ScriptTx&)>&)>;

// What this program finds in a database: nothing, a schema to bring forward, or one it must refuse.
// Pure. `applied` is schema_migrations, by version.
struct Applied {
  int version = 0;
  std::string digest;
};
[[nodiscard]] base::Result<std::span<const Migration>> pending(std::span<const Migration> known,
                                                               std::span<const Applied> applied);

// Reads schema_migrations; empty where there is no such table yet.
[[nodiscard]] base::Result<std::vector<Applied>> read_applied(Tx& tx, Engine engine);

// Brings the schema forward, one transaction a migration. Does nothing to a database that is
// up to date.
[[nodiscard]] base::Result<void> migrate(Engine engine, std::span<const Migration> known,
                                         const Exclusively& exclusively);

// What `open` does with a database's schema: nothing, look, or bring it forward.
[[nodiscard]] base::Result<void> prepare_schema(Store& store, const OpenOptions& options,
                                                const std::string& url,
                                                std::span<const Migration> known,
                                                const Exclusively& exclusively);

// `open` with migrations other than the program's own, for tests.
[[nodiscard]] base::Result<std::unique_ptr<Store>> open_with(const std::string& url,
                                                             const OpenOptions& options,
                                                             std::span<const Migration> known);

}  // namespace crosscheck::store
