#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "crosscheck/base/outcome.h"
#include "crosscheck/base/process.h"
#include "crosscheck/base/run_results.h"
#include "crosscheck/runner/plan.h"
#include "crosscheck/runner/protocol.h"

namespace crosscheck::runner {

struct Verdict;

using Instant = std::chrono::steady_clock::time_point;

struct Limits {
  base::Duration test = std::chrono::minutes{5};  // from a test's start to its end
  base::Duration start =
      std::chrono::minutes{5};  // from a process's start until its file is collected
  base::Duration quiet = std::chrono::minutes{2};  // between tests, and from the last to the end
  base::Duration exit =
      std::chrono::seconds{30};  // from the end, or a closed pipe, to the process's exit
  base::Duration grace = std::chrono::seconds{2};  // from the first signal to SIGKILL
  base::Duration file{0};   // that one file may take, all its processes together; 0: no limit
  std::int64_t memory = 0;  // bytes that a process may hold; 0: no limit
  base::Leak leak{std::int64_t{512} << 20, std::int64_t{512} << 20};  // growth that is named
};

// What is done about results beside keeping them.
struct Handling {
  int retries = 0;                       // further attempts of a test that failed
  std::vector<base::Governed> governed;  // of the tests, in their order; none: no configuration
  std::vector<base::Duration> expected;  // likewise, for the estimate; none: every test the same
  std::vector<int> failures;             // likewise, attempts of before, none of which passed
};

// What the dispatcher asks to be done.
struct SpawnWorker {
  std::size_t worker = 0;
  std::string file;
  std::vector<std::size_t> tests;
};
struct SignalWorker {
  std::size_t worker = 0;
  int signal = 0;  // to the whole process group
};
// The process does not go away, not even by SIGKILL (a driver that hangs in the kernel): forget it.
struct AbandonWorker {
  std::size_t worker = 0;
};
using Command = std::variant<SpawnWorker, SignalWorker, AbandonWorker>;

// How a process went, with the ends of what it wrote to its standard streams.
struct Ended {
  base::ExitStatus status;
  std::string out;
  std::string err;
};

struct Progress {
  std::size_t done = 0;
  std::size_t total = 0;
  base::Duration expected_done{0};  // of what is done, and of all, as it was expected
  base::Duration expected_total{0};
  base::OutcomeCounts counts;
  std::vector<std::string> running;  // node ids, by worker
};

// Decides what workers do. Takes what happened and the time, returns commands; has no effects and
// knows no processes. Every planned test gets exactly one result a started attempt, whatever
// happens; where it fails and may be tried again, that is done in a process of its file that begins
// when the first has ended. A process that ends early is replaced only if it brought at least one
// test to a result, so that nothing loops.
class Dispatcher {
 public:
  // `tests` must outlive it.
  Dispatcher(const std::vector<CollectedTest>& tests, std::vector<Chunk> chunks,
             std::size_t workers, Limits limits, Handling handling = {});

  // The commands to begin with.
  [[nodiscard]] std::vector<Command> begin(Instant now);

  [[nodiscard]] std::vector<Command> on_event(std::size_t worker, const Event& event, Instant now);
  // A line that is not the protocol: its process is not believed any longer.
  [[nodiscard]] std::vector<Command> on_garbage(std::size_t worker, std::string_view why,
                                                Instant now);
  [[nodiscard]] std::vector<Command> on_pipe_closed(std::size_t worker, Instant now);
  [[nodiscard]] std::vector<Command> on_exit(std::size_t worker, const Ended& ended, Instant now);
  [[nodiscard]] std::vector<Command> on_spawn_failed(std::size_t worker, const base::Error& error,
                                                     Instant now);
  // A process holds so many bytes of memory.
  [[nodiscard]] std::vector<Command> on_memory(std::size_t worker, std::int64_t bytes, Instant now);
  [[nodiscard]] std::vector<Command> on_tick(Instant now);
  // First: ask to end, then kill; nothing new begins. Second: kill.
  [[nodiscard]] std::vector<Command> interrupt(Instant now);

  // When on_tick has something to do next.
  [[nodiscard]] std::optional<Instant> next_deadline() const;
  // No worker is left and none will be started. Tests that were not reached then have results.
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  // A file's limit kept tests from being run.
  [[nodiscard]] bool cut_short() const { return cut_short_; }

  // Results since the last call.
  [[nodiscard]] std::vector<base::TestResult> take_results();
  // What is worth telling and belongs to no test, since the last call.
  [[nodiscard]] std::vector<std::string> take_notes();
  [[nodiscard]] Progress progress() const;

 private:
  enum class Phase : std::uint8_t { idle, starting, between, testing, leaving, stopping, killing };
  enum class Reason : std::uint8_t {
    died,
    test_limit,
    file_limit,
    memory_limit,
    other_limit,
    garbage,
    pipe_closed,
    interrupted
  };
  struct Slot {
    Phase phase = Phase::idle;
    Instant deadline{};
    std::string file;
    std::vector<std::size_t> tests;
    Instant began{};
    std::vector<std::size_t> again;  // that failed, and are to be tried once more
    std::optional<std::size_t> running;
    Instant running_since{};
    bool progressed = false;
    Reason reason = Reason::died;
    std::string why;
    bool environment_fault = false;
    std::optional<CollectError> collect_error;
  };

  void start_next(std::size_t worker, Instant now);
  void spawn(std::size_t worker, Chunk chunk, Instant now);
  void stop(std::size_t worker, Reason reason, std::string why, int signal, Instant now);
  void record(Slot& slot, std::size_t test, Verdict verdict, base::Duration duration);
  void count(std::size_t test, base::Outcome outcome);
  void name_leak(const base::TestResult& result);
  void leave(std::size_t test, const std::string& why);
  void give_up_file(const std::string& file);
  [[nodiscard]] base::Duration spent_on(const std::string& file, Instant now) const;
  [[nodiscard]] base::Duration expected(std::size_t test) const;
  void settle(std::size_t worker, const Ended& ended, Instant now);
  void finish_if_idle();
  [[nodiscard]] std::optional<std::size_t> find(const Slot& slot, const std::string& node_id) const;
  [[nodiscard]] std::vector<Command> take_commands();

  const std::vector<CollectedTest>& tests_;
  std::deque<Chunk> queue_;
  std::vector<Slot> slots_;
  Limits limits_;
  std::unordered_map<std::string, std::size_t> by_node_;  // planned tests only
  Handling handling_;
  std::vector<int> attempts_;  // by test: results so far
  std::vector<int> tries_;     // by test: of this process, that failed
  std::vector<bool> due_;      // by test: planned, and no result of the attempt that is next
  std::vector<std::optional<base::Outcome>> latest_;       // by test
  std::vector<bool> failed_;                               // by test: in an attempt before
  std::unordered_map<std::string, base::Duration> spent_;  // by file: of processes that have ended
  std::vector<std::size_t> planned_;
  base::OutcomeCounts counts_;
  std::size_t with_result_ = 0;
  base::Duration expected_done_{0};
  base::Duration expected_total_{0};
  bool interrupted_ = false;
  bool cut_short_ = false;
  bool done_ = false;
  std::vector<Command> commands_;
  std::vector<base::TestResult> results_;
  std::vector<std::string> notes_;
};

}  // namespace crosscheck::runner
