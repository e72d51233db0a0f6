#include <fcntl.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "harness.h"

// SQLite under the faults that files and other processes bring.
namespace crosscheck::store::testing {
namespace {

using base::Fault;
using base::Result;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A forked process that runs `body` and exits; `say` in it is `hear` here. Made while this process
// has no other threads.
class Child {
 public:
  explicit Child(const std::function<void(Child&)>& body) {
    auto up = base::make_pipe();
    auto down = base::make_pipe();
    if (!up || !down) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      in_ = std::move(down->read);
      out_ = std::move(up->write);
      up->read.reset();
      down->write.reset();
      body(*this);
      ::_exit(0);
    }
    in_ = std::move(up->read);
    out_ = std::move(down->write);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { kill(); }

  void say(const std::string& line) {
    const std::string text = line + "\n";
    static_cast<void>(!::write(out_.get(), text.data(), text.size()));
  }
  // The next line; empty when the other side is gone.
  std::string hear() {
    std::string line;
    for (char c = 0; ::read(in_.get(), &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  base::Fd in_;
  base::Fd out_;
};

// Holds the write lock from its first word until it is told to go on.
void hold_lock(Child& self, const std::string& path) {
  sqlite3* db = nullptr;
  if (sqlite3_open(path.c_str(), &db) != SQLITE_OK ||
      sqlite3_exec(db, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr) != SQLITE_OK) {
    return;
  }
  self.say("locked");
  self.hear();
  sqlite3_close(db);
}

// Mounts a tmpfs of `options` on `dir` for this process only. Works for root, and for others where
// user namespaces are allowed.
bool mount_private(const std::string& dir, const char* options) {
  const uid_t uid = ::getuid();
  if (::unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (uid != 0) {
    std::ofstream{"/proc/self/setgroups"} << "deny";
    std::ofstream{"/proc/self/uid_map"} << "0 " << uid << " 1";
  }
  return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", dir.c_str(), "tmpfs", 0, options) == 0;
}

std::string fault_of(const Result<void>& result) {
  return result ? "ok" : std::string{to_string(result.error().fault)};
}

class Sqlite : public ::testing::Test {
 protected:
  // A database with the table v (n, part), closed.
  void SetUp() override {
    auto store = open(path_);
    ASSERT_OK(store);
    ASSERT_OK(write_one(**store, k_table));
  }
  static constexpr const char* k_table =
      "CREATE TABLE v (n BIGINT NOT NULL, part BIGINT NOT NULL, b BLOB, PRIMARY KEY (n, part))";
  // Two rows that must come together.
  static Result<void> write_pair(Store& store, std::int64_t n, std::size_t size = 0) {
    return store.write([&](Tx& tx) -> Result<void> {
      for (int part = 0; part < 2; ++part) {
        auto done = tx.execute("INSERT INTO v VALUES ($1, $2, $3)", {n, part, Bytes(size)});
        if (!done) return tl::unexpected(done.error());
      }
      return {};
    });
  }
  static std::int64_t count_halves(Store& store) {
    return read_one(
               store,
               "SELECT COUNT(*) FROM (SELECT n FROM v GROUP BY n HAVING COUNT(*) <> 2) AS half")
        .value_or(-1);
  }
  static std::int64_t count_pairs(Store& store) {
    return read_one(store, "SELECT COUNT(DISTINCT n) FROM v").value_or(-1);
  }

  base::TemporaryFolder dir_;
  const std::string path_ = dir_ / "store.db";
};

TEST_F(Sqlite, WritesDurablyAndChecksReferences) {
  auto store = open(path_);
  ASSERT_OK(store);
  EXPECT_OK((*store)->write([](Tx& tx) -> Result<void> {
    EXPECT_EQ(tx.query("PRAGMA journal_mode")->front().text(0), "wal");
    EXPECT_EQ(tx.query("PRAGMA synchronous")->front().integer(0), 2);  // FULL
    EXPECT_EQ(tx.query("PRAGMA foreign_keys")->front().integer(0), 1);
    return {};
  }));
}

TEST_F(Sqlite, LockedIsBusyForAllWhoWaitAndHalfWritesNothing) {
  Child holder{[&](Child& self) { hold_lock(self, path_); }};
  ASSERT_EQ(holder.hear(), "locked");
  OpenOptions options;
  options.busy_timeout = milliseconds{100};
  auto store = open(path_, options);
  ASSERT_OK(store);
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      const auto result = write_pair(**store, i);
      EXPECT_FAULT(result, Fault::busy);
      EXPECT_THAT(to_string(result.error()), HasSubstr("locked by another process"));
      EXPECT_THAT(to_string(result.error()), HasSubstr(path_));
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Readers are not held up.
  EXPECT_EQ(count_pairs(**store), 0);
  holder.kill();
  EXPECT_OK(write_pair(**store, 1));
  EXPECT_EQ(count_pairs(**store), 1);
}

TEST_F(Sqlite, AWriteWaitsForAnotherProcess) {
  Child holder{[&](Child& self) { hold_lock(self, path_); }};
  ASSERT_EQ(holder.hear(), "locked");
  auto store = open(path_, {.busy_timeout = seconds{60}});
  ASSERT_OK(store);
  std::thread writer{[&] { EXPECT_OK(write_pair(**store, 1)); }};
  holder.say("go on");
  writer.join();
}

TEST_F(Sqlite, OpeningALockedDatabaseThatMustBeMigratedIsBusy) {
  const std::string path = dir_ / "new.db";
  Child holder{[&](Child& self) { hold_lock(self, path); }};
  ASSERT_EQ(holder.hear(), "locked");
  EXPECT_FAULT(open(path, {.busy_timeout = milliseconds{50}}), Fault::busy);
  holder.kill();
  EXPECT_OK(open(path));
}

TEST_F(Sqlite, OnAReadOnlyFileSystemItReadsAndSaysSo) {
  const std::string mounted = dir_ / "mounted";
  std::filesystem::create_directory(mounted);
  const std::string path = mounted + "/store.db";
  Child child{[&](Child& self) {
    if (!mount_private(mounted, "size=8m")) return;
    {
      auto store = open(path);
      if (!store || !write_one(**store, k_table) || !write_pair(**store, 1)) return;
    }
    if (::mount(nullptr, mounted.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "size=8m") != 0) return;
    self.say("mounted");
    const auto writing = open(path);
    self.say(writing ? "ok" : std::string{to_string(writing.error().fault)});
    const auto missing = open(mounted + "/other/store.db");
    self.say(missing ? "ok" : std::string{to_string(missing.error().fault)});
    const auto reading = open(path, {.read_only = true});
    self.say(reading ? std::to_string(count_pairs(**reading)) : to_string(reading.error()));
  }};
  if (child.hear() != "mounted") GTEST_SKIP() << "this user may not mount, even in a namespace";
  EXPECT_EQ(child.hear(), "read_only");
  EXPECT_EQ(child.hear(), "read_only");
  EXPECT_EQ(child.hear(), "1");
}

TEST_F(Sqlite, AFileThatMayNotBeWrittenIsReadOnly) {
  if (::getuid() == 0) GTEST_SKIP() << "permission bits do not bind root";
  ::chmod(path_.c_str(), 0444);
  ::chmod(dir_.path().c_str(), 0555);
  EXPECT_FAULT(open(path_), Fault::read_only);
  EXPECT_FAULT(open(dir_ / "new.db"), Fault::read_only);
  const auto reading = open(path_, {.read_only = true});
  EXPECT_OK(reading);
  ::chmod(dir_.path().c_str(), 0755);
}

TEST_F(Sqlite, AFullDiskIsFullAndLosesNothing) {
  const std::string mounted = dir_ / "mounted";
  std::filesystem::create_directory(mounted);
  Child child{[&](Child& self) {
    if (!mount_private(mounted, "size=6m")) return;
    auto store = open(mounted + "/store.db");
    if (!store || !write_one(**store, k_table)) return;
    self.say("mounted");
    {
      std::ofstream{mounted + "/filler"} << std::string(3 << 20, 'x');
    }
    std::int64_t written = 0;
    Result<void> result;
    while ((result = write_pair(**store, written, 20'000)) && written < 1000) ++written;
    self.say(fault_of(result));
    self.say(std::to_string(count_pairs(**store) - written));
    self.say(std::to_string(count_halves(**store)));
    std::filesystem::remove(mounted + "/filler");
    self.say(fault_of(write_pair(**store, 5000, 20'000)));
  }};
  if (child.hear() != "mounted") GTEST_SKIP() << "this user may not mount, even in a namespace";
  EXPECT_EQ(child.hear(), "full");
  EXPECT_EQ(child.hear(), "0");
  EXPECT_EQ(child.hear(), "0");
  EXPECT_EQ(child.hear(), "ok");
}

TEST_F(Sqlite, OverTheFileSizeLimitIsFullForAGroupAndLosesNothing) {
  Child child{[&](Child& self) {
    std::signal(SIGXFSZ, SIG_IGN);
    auto store = open(path_);
    if (!store) return;
    constexpr rlim_t k_limit = 2 << 20;
    const rlimit small{k_limit, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &small);
    std::atomic<int> written{0};
    std::set<std::string> faults;
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 100; ++i) {
          const auto result = write_pair(**store, thread * 1000 + i, 20'000);
          if (result) ++written;
          const std::lock_guard lock{mutex};
          if (!result) faults.insert(fault_of(result));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    self.say(faults.size() == 1 ? *faults.begin() : std::to_string(faults.size()) + " faults");
    self.say(written > 0 ? "some" : "none");
    self.say(std::to_string(count_pairs(**store) - written));
    self.say(std::to_string(count_halves(**store)));
    const rlimit large{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &large);
    self.say(fault_of(write_pair(**store, 900'000, 20'000)));
  }};
  EXPECT_EQ(child.hear(), "full");
  EXPECT_EQ(child.hear(), "some");
  EXPECT_EQ(child.hear(), "0");
  EXPECT_EQ(child.hear(), "0");
  EXPECT_EQ(child.hear(), "ok");
}

TEST_F(Sqlite, WhatWasAcknowledgedSurvivesAKill) {
  std::int64_t next = 0;
  for (int round = 0; round < 4; ++round) {
    std::set<std::int64_t> acknowledged;
    {
      Child writer{[&](Child& self) {
        auto store = open(path_);
        if (!store) return;
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 4; ++thread) {
          threads.emplace_back([&, thread] {
            for (std::int64_t n = next + thread; write_pair(**store, n, 2000); n += 4) {
              self.say(std::to_string(n));  // one write(2): whole or not at all
            }
          });
        }
        for (std::thread& thread : threads) thread.join();
      }};
      const auto hear = [&] {
        const std::string line = writer.hear();
        if (!line.empty()) acknowledged.insert(std::stoll(line));
        return !line.empty();
      };
      for (int i = 0; i < 50 * (round + 1); ++i) ASSERT_TRUE(hear());
      writer.kill();
      while (hear()) {
      }
    }
    auto store = open(path_);
    ASSERT_OK(store);
    for (const std::int64_t n : acknowledged) {
      EXPECT_EQ(read_one(**store, "SELECT COUNT(*) FROM v WHERE n = " + std::to_string(n)), 2) << n;
    }
    EXPECT_EQ(count_halves(**store), 0);
    next = read_one(**store, "SELECT MAX(n) + 1 FROM v").value();
  }
}

TEST_F(Sqlite, ProcessesThatWriteAtOnceLoseNothing) {
  const auto write_many = [&](std::int64_t first) {
    auto store = open(path_, {.busy_timeout = seconds{60}});
    if (!store) return fault_of(tl::unexpected(store.error()));
    for (std::int64_t n = first; n < first + 100; ++n) {
      if (auto done = write_pair(**store, n); !done) return fault_of(done);
    }
    return std::string{"ok"};
  };
  Child one{[&](Child& self) { self.say(write_many(1000)); }};
  Child two{[&](Child& self) { self.say(write_many(2000)); }};
  EXPECT_EQ(write_many(3000), "ok");
  EXPECT_EQ(one.hear(), "ok");
  EXPECT_EQ(two.hear(), "ok");
  auto store = open(path_);
  ASSERT_OK(store);
  EXPECT_EQ(count_pairs(**store), 300);
  EXPECT_EQ(count_halves(**store), 0);
}

TEST_F(Sqlite, ProcessesThatOpenANewDatabaseAtOnceAllMay) {
  const std::string path = dir_ / "deep/er/new.db";
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(std::make_unique<Child>([&](Child& self) {
      auto store = open(path, {.busy_timeout = seconds{60}});
      self.say(store ? "ok" : to_string(store.error()));
    }));
  }
  for (auto& child : children) EXPECT_EQ(child->hear(), "ok");
}

TEST_F(Sqlite, TheLogIsMovedIntoTheFileAndUsedAgain) {
  auto store = open(path_);
  ASSERT_OK(store);
  constexpr std::uintmax_t k_written = 12'000'000;
  std::int64_t n = 0;
  for (unsigned round = 1; round <= 3; ++round) {
    for (int i = 0; i < 40; ++i) ASSERT_OK(write_pair(**store, n++, k_written / 80));
    // Done by the writer when it has nothing else to do; it leaves less than half a round
    // in the log.
    const auto deadline = std::chrono::steady_clock::now() + seconds{60};
    while (std::filesystem::file_size(path_) < round * k_written - k_written / 2) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(milliseconds{1});
    }
  }
  EXPECT_LT(std::filesystem::file_size(path_ + "-wal"), 2 * k_written);
}

TEST_F(Sqlite, AReaderThatStaysDoesNotStopWriters) {
  auto store = open(path_);
  ASSERT_OK(store);
  ASSERT_OK(write_pair(**store, -1));
  EXPECT_OK((*store)->read([&](Tx& tx) -> Result<void> {
    EXPECT_EQ(tx.query("SELECT COUNT(*) FROM v")->front().integer(0), 2);
    for (int n = 0; n < 50; ++n) EXPECT_OK(write_pair(**store, n, 100'000));
    EXPECT_EQ(tx.query("SELECT COUNT(*) FROM v")->front().integer(0), 2);
    return {};
  }));
  EXPECT_EQ(count_pairs(**store), 51);
}

TEST_F(Sqlite, SaysWhatIsNoDatabase) {
  const std::string text = dir_ / "text.db";
  std::ofstream{text} << std::string(8192, 'x');
  const auto refused = open(text);
  EXPECT_FAULT(refused, Fault::invalid_input);
  EXPECT_THAT(refused.error().message, HasSubstr(text));
  EXPECT_FALSE(refused.error().remedy.empty());

  EXPECT_FAULT(open(dir_.path()), Fault::invalid_input);

  const auto missing = open(dir_ / "missing.db", {.create = false});
  EXPECT_FAULT(missing, Fault::not_found);
  EXPECT_THAT(missing.error().remedy,
              HasSubstr("crosscheck db migrate --db " + (dir_ / "missing.db").string()));
  EXPECT_FAULT(open(dir_ / "missing.db", {.read_only = true}), Fault::not_found);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "missing.db"));
}

TEST_F(Sqlite, LeavesAnotherProgramsDatabaseAlone) {
  const std::string path = dir_ / "other.db";
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "CREATE TABLE songs (id)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  const auto refused = open(path);
  EXPECT_FAULT(refused, Fault::invalid_input);
  EXPECT_THAT(refused.error().message, HasSubstr("songs"));
}

TEST_F(Sqlite, ADamagedDatabaseIsNamed) {
  {
    auto store = open(path_);
    ASSERT_OK(store);
    for (int n = 0; n < 20; ++n) ASSERT_OK(write_pair(**store, n, 3000));
  }
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path_));
  {
    std::fstream file{path_, std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(size / 2);
    file << std::string(static_cast<std::size_t>(size / 2), '\x7f');
  }
  // Found at the first page that is read, be it the schema's.
  const auto damaged = [&]() -> Result<std::int64_t> {
    auto store = open(path_);
    if (!store) return tl::unexpected(store.error());
    return read_one(**store, "SELECT SUM(LENGTH(b)) FROM v");
  }();
  EXPECT_FAULT(damaged, Fault::invalid_input);
  EXPECT_THAT(to_string(damaged.error()), HasSubstr("backup"));
}

}  // namespace
}  // namespace crosscheck::store::testing
