#include "crosscheck/runner/run.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <unordered_map>

#include "crosscheck/base/digest.h"
#include "crosscheck/runner/output.h"
#include "crosscheck/runner/times.h"
#include "crosscheck/store/run_store.h"
#include "memory.h"
#include "owner.h"
#include "resume.h"

namespace crosscheck::runner {
namespace {

using base::fail;
using base::Fault;
using base::Result;

constexpr std::size_t k_batch = 500;
constexpr std::chrono::seconds k_batch_age{2};
constexpr std::size_t k_waiting = 20'000;
constexpr std::chrono::seconds k_plain_every{15};
constexpr std::size_t k_failures_said = 200;
constexpr std::chrono::milliseconds k_drawn_every{200};

// What people see while it runs, on standard error.
class Display {
 public:
  explicit Display(RunRequest::Show show)
      : show_{show}, began_{std::chrono::steady_clock::now()}, last_{began_} {}

  void progress(const Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    const auto elapsed = std::chrono::duration_cast<base::Duration>(now - began_);
    switch (show_) {
      case RunRequest::Show::drawn:
        if (now - last_ < k_drawn_every) return;
        std::fprintf(stderr, "\r\x1b[2K%s", progress_line(progress, elapsed, width() - 1).c_str());
        std::fflush(stderr);
        drawn_ = true;
        break;
      case RunRequest::Show::plain:
        if (now - last_ < k_plain_every) return;
        std::fprintf(stderr, "%s\n", progress_line(progress, elapsed, 200).c_str());
        break;
      case RunRequest::Show::quiet:
        return;
    }
    last_ = now;
  }

  void result(const base::TestResult& result) {
    if (!base::is_failure(result.outcome) && !base::is_fault(result.outcome)) return;
    if (++failures_ <= k_failures_said) {
      line(failure_line(result));
    } else if (failures_ == k_failures_said + 1) {
      line("further failures are counted and kept, but no longer listed here");
    }
  }

  void line(const std::string& text) {
    clear();
    std::fprintf(stderr, "%s\n", text.c_str());
  }

  void clear() {
    if (!std::exchange(drawn_, false)) return;
    std::fprintf(stderr, "\r\x1b[2K");
    std::fflush(stderr);
  }

 private:
  static std::size_t width() {
    winsize size{};
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
    return 80;
  }

  RunRequest::Show show_;
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point last_;
  std::size_t failures_ = 0;
  bool drawn_ = false;
};

// Brings results into the store while the run goes on, on a thread of its own: a store that is
// locked for a while must not keep workers, their time limits and Ctrl-C waiting. What it refuses
// is tried again with the next batch, and last at the end.
class Recorder {
 public:
  explicit Recorder(store::Store* store) : store_{store} {}
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder() { stop(); }

  Result<void> begin(const base::RunHeader& header) {
    if (store_ == nullptr) return {};
    auto id = store_->write_value(
        [&](store::Tx& tx) { return store::begin_run(tx, header, this_process()); });
    if (!id) return tl::unexpected(id.error());
    go_on(*id);
    return {};
  }

  // With a run that is there.
  void go_on(std::int64_t run) {
    run_ = run;
    thread_ = std::thread{[this] { work(); }};
  }

  void add(const std::vector<base::TestResult>& results) {
    if (store_ == nullptr) return;
    const std::lock_guard lock{mutex_};
    waiting_.insert(waiting_.end(), results.begin(), results.end());
    if (waiting_.size() > k_waiting) behind_ = true;
    if (behind_) waiting_.clear();
    if (waiting_.size() >= k_batch) wake_.notify_one();
  }

  // `run` holds all that was added.
  Result<void> finish(const base::RunResults& run) {
    if (store_ == nullptr) return {};
    stop();
    // What is there already changes nothing.
    const auto& missing = behind_ ? run.results : waiting_;
    if (lost_) return lost(run.header.run_id);
    auto written = store_->write([&](store::Tx& tx) -> Result<void> {
      const auto owner = this_process();
      if (auto own = store::keep_alive(tx, run_, owner); !own) return own;
      if (auto added = store::add_results(tx, run_, missing); !added) return added;
      return store::finish_run(tx, run_, run.header, owner);
    });
    if (!written && written.error().fault == Fault::conflict) return lost(run.header.run_id);
    return written;
  }

  // Somebody took this process to be dead, and the run is no longer its own. Thread-safe.
  [[nodiscard]] bool is_lost() const { return lost_; }

 private:
  static store::Owner this_process() {
    static const std::string name = own_name();
    return {name, base::SystemClock{}.now()};
  }

  static tl::unexpected<base::Error> lost(const std::string& run_id) {
    return fail(Fault::busy,
                "run " + run_id + " is no longer this process's: it was silent for " +
                    base::to_human(k_dead_after) +
                    " and was taken to be dead; what it ran since is not kept there",
                "go on with --resume " + run_id + ", unless another process has");
  }

  void work() {
    std::unique_lock lock{mutex_};
    bool refused = false;
    while (!stopping_) {
      wake_.wait_for(lock, k_batch_age,
                     [&] { return stopping_ || (!refused && waiting_.size() >= k_batch); });
      const auto now = std::chrono::steady_clock::now();
      const bool silent = now - said_alive_ >= k_alive_every;
      if (stopping_ || (waiting_.empty() && !silent)) continue;
      auto batch = std::exchange(waiting_, {});
      lock.unlock();
      const auto written = store_->write([&](store::Tx& tx) -> Result<void> {
        if (auto own = store::keep_alive(tx, run_, this_process()); !own) return own;
        return store::add_results(tx, run_, batch);
      });
      lock.lock();
      if (!written && written.error().fault == Fault::conflict) {
        lost_ = true;
        return;
      }
      if (written) said_alive_ = now;
      refused = !written;
      if (refused && !behind_) {
        waiting_.insert(waiting_.begin(), std::make_move_iterator(batch.begin()),
                        std::make_move_iterator(batch.end()));
      }
    }
  }

  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock{mutex_};
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  store::Store* store_;
  std::int64_t run_ = 0;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<base::TestResult> waiting_;
  bool behind_ = false;  // too many wait: all are added at the end
  bool stopping_ = false;
  std::atomic<bool> lost_ = false;
  std::chrono::steady_clock::time_point said_alive_ = std::chrono::steady_clock::now();
};

// Brings together, by test, what was seen of its operators and how it ended.
class TraceKeeper {
 public:
  explicit TraceKeeper(const std::optional<Tracing>& tracing) : tracing_{tracing} {}

  void saw(const std::string& node_id, base::Operators operators) {
    seen_[node_id] = std::move(operators);
  }

  void ended(const std::vector<base::TestResult>& results) {
    if (!tracing_) return;
    for (const auto& result : results) {
      std::optional<base::Operators> operators;
      if (auto found = seen_.extract(result.node_id)) operators = std::move(found.mapped());
      if (operators && operators->compiles) {
        compiling_.emplace(result.node_id, std::move(*operators));
      } else {
        keep(result, operators);
      }
    }
  }

  [[nodiscard]] bool compiles(const std::string& node_id) const {
    return compiling_.contains(node_id);
  }
  [[nodiscard]] bool any_compiles() const { return !compiling_.empty(); }

  // Of the processes that compile. How a test ended there is its outcome: no mode kept it from
  // compiling.
  void ended_compiling(const std::vector<base::TestResult>& results) {
    for (const auto& result : results) {
      auto first = compiling_.extract(result.node_id);
      if (!first) continue;
      auto& operators = first.mapped();
      if (auto graphs = seen_.extract(result.node_id)) base::join(operators, graphs.mapped());
      keep(result, operators);
    }
  }

  [[nodiscard]] const std::optional<base::Error>& error() const { return error_; }

 private:
  void keep(const base::TestResult& result, const std::optional<base::Operators>& operators) {
    if (error_) return;
    if (auto kept = tracing_->on_traced(result, operators); !kept) error_ = std::move(kept.error());
  }

  const std::optional<Tracing>& tracing_;
  std::unordered_map<std::string, base::Operators> seen_;
  std::unordered_map<std::string, base::Operators> compiling_;
  std::optional<base::Error> error_;
};

// The first error; the others have been tried all the same.
class Errors {
 public:
  void keep(Result<void> result) {
    if (!result && !first_) first_ = std::move(result.error());
  }
  [[nodiscard]] const std::optional<base::Error>& first() const { return first_; }

 private:
  std::optional<base::Error> first_;
};

std::vector<std::size_t> all_of(const std::vector<CollectedTest>& tests) {
  std::vector<std::size_t> all(tests.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

// What is left of a selection once a configuration and a shard have had their say.
struct Work {
  std::vector<std::size_t> run;
  std::vector<base::TestResult> left_out;
  std::string shard;  // as the header has it
};

Result<Work> divide(const RunRequest& request, const std::vector<std::size_t>& selected) {
  const auto& tests = request.inventory.tests;
  const auto& governing = request.governing;
  if (auto any = check_lists_any(tests, selected, governing, request.govern); !any) {
    return tl::unexpected(any.error());
  }
  const auto fate = fates(selected, governing, request.govern);
  std::size_t begin = 0;
  std::size_t end = selected.size();
  Work work;
  if (request.shard) {
    // Not by recorded times, nor by what a start costs here: another machine has others.
    const PlanOptions options;
    auto expected = expected_times(tests, selected, {}, options);
    for (std::size_t i = 0; i < fate.size(); ++i) {
      if (fate[i] != Fate::run) expected[i] = base::Duration{0};
    }
    const auto shard = shard_of(*request.shard, tests, selected, expected, options.start_cost);
    if (!shard) return tl::unexpected(shard.error());
    begin = shard->begin;
    end = shard->end;
    work.shard = to_string(*shard);
  }
  for (std::size_t i = begin; i < end; ++i) {
    const auto test = selected[i];
    if (fate[i] == Fate::run) {
      work.run.push_back(test);
    } else {
      work.left_out.push_back(left_out(tests[test], governing.rules[test], fate[i]));
    }
  }
  return work;
}

// Takes out what has a result, but for what failed and may be tried again: how often it did, by
// test.
std::vector<int> leave_to_do(const std::vector<base::TestResult>& done, int retries,
                             const std::vector<CollectedTest>& tests, Work& work,
                             std::vector<base::TestResult>& broken) {
  struct Known {
    int attempts = 0;
    bool failed = true;  // in all of them
  };
  std::map<std::reference_wrapper<const base::TestId>, Known, std::less<base::TestId>> known;
  for (const auto& result : done) {
    auto& of_test = known[result.id];
    ++of_test.attempts;
    of_test.failed = of_test.failed && base::is_failure(result.outcome);
  }
  const auto has_result = [&](const base::TestResult& result) { return known.contains(result.id); };
  std::vector<int> failures(tests.size(), 0);
  std::erase_if(work.run, [&](std::size_t i) {
    const auto found = known.find(tests[i].id);
    if (found == known.end()) return false;
    const auto& [attempts, failed] = found->second;
    const bool again = failed && attempts <= retries;
    if (again) failures[i] = attempts;
    return !again;
  });
  std::erase_if(work.left_out, has_result);
  std::erase_if(broken, has_result);
  return failures;
}

}  // namespace

std::size_t default_workers() {
  // A process that imported torch and a large test file needs up to 1 GB.
  constexpr std::int64_t k_each = std::int64_t{1} << 30;
  const auto workers =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, k_most_workers);
  const auto available = available_bytes();
  if (available == 0) return workers;
  return std::clamp<std::size_t>(static_cast<std::size_t>(available / k_each), 1, workers);
}

std::int64_t default_memory_limit() { return usable_bytes() / 10 * 9; }

base::Combination combination_of(const RunRequest& request) {
  const auto& environment = request.environment;
  base::Combination combination;
  combination.backend = request.backend.empty() ? request.setup.device.name : request.backend;
  combination.backend_revision =
      request.backend_revision.empty() ? "unknown" : request.backend_revision;
  combination.core_revision = environment.torch;
  if (!environment.torch_git.empty()) {
    combination.core_revision += " (" + environment.torch_git + ")";
  }
  combination.suite_revision = environment.suite;
  const auto& device = environment.device;
  combination.device = device.type;
  if (!device.name.empty() && device.name != device.type) combination.device += ": " + device.name;
  combination.environment_digest = environment_digest(environment);
  return combination;
}

Result<RunReport> run(const RunRequest& request) {
  const base::SystemClock clock;
  const auto& tests = request.inventory.tests;
  if (auto same = check_same_subject(request.inventory, request.environment); !same) {
    return tl::unexpected(same.error());
  }
  const auto selected = select(tests, request.selection);
  if (!selected) return tl::unexpected(selected.error());
  // Before hours of tests, not after them.
  const Files files{request.junit_file, request.results_file, ""};
  if (auto writable = check_writable(files); !writable) return tl::unexpected(writable.error());

  RunReport report;
  auto& header = report.results.header;
  header.run_id = base::random_hex(16);
  header.combination = combination_of(request);
  header.command = request.command;
  header.selection = request.inventory.suite.name + " suite, " + request.selection.describe();
  header.config = request.governing.files;
  header.observe = request.govern.observe;
  header.started_at = clock.now();
  for (const auto& [name, value] : request.environment.facts) {
    header.environment.emplace_back(name, value);
  }
  KnownTimes times;
  if (request.store != nullptr) {
    auto known = known_times(*request.store, header.combination);
    if (!known) return tl::unexpected(known.error());
    times = std::move(*known);
  }
  PlanOptions options;
  options.workers = request.workers > 0 ? request.workers : default_workers();
  if (request.start_cost) options.start_cost = *request.start_cost;
  auto work = divide(request, *selected);
  if (!work) return tl::unexpected(work.error());
  header.shard = work->shard;
  Recorder recorder{request.store};
  auto broken = uncollected(request.inventory, request.selection);
  // Once, of several shards.
  if (request.shard && request.shard->index != 1) broken.clear();
  if (request.store != nullptr) {
    if (auto ended = end_dead_runs(*request.store, header.started_at); !ended) {
      return tl::unexpected(ended.error());
    }
  }
  std::vector<int> failures;
  if (request.resume) {
    auto resumed = resume_run(*request.store, header, *request.resume, header.started_at);
    if (!resumed) return tl::unexpected(resumed.error());
    header.run_id = resumed->header.run_id;
    header.started_at = resumed->header.started_at;
    report.results.results = std::move(resumed->results);
    failures = leave_to_do(report.results.results, request.retries, tests, *work, broken);
    recorder.go_on(resumed->run);
  } else if (auto begun = recorder.begin(header); !begun) {
    return tl::unexpected(begun.error());
  }
  if (request.tracing) {
    std::erase_if(work->run, [&](std::size_t i) { return request.tracing->is_done(tests[i].id); });
  }
  auto chunks = plan(tests, work->run, times, options);
  TraceKeeper traces{request.tracing};

  Display display{request.show};
  ExecuteOptions execution;
  execution.workers = options.workers;
  execution.limits = request.limits;
  execution.handling.retries = request.retries;
  execution.handling.failures = std::move(failures);
  for (const auto& rule : request.governing.rules) {
    execution.handling.governed.push_back(rule.governed);
  }
  execution.handling.expected = expected_times(tests, all_of(tests), times, options);
  execution.interrupt_fd = request.interrupt_fd;
  execution.must_stop = [&] { return recorder.is_lost() || traces.error().has_value(); };
  const auto record = [&](std::vector<base::TestResult> results) {
    for (const auto& result : results) display.result(result);
    recorder.add(results);
    auto& all = report.results.results;
    all.insert(all.end(), std::make_move_iterator(results.begin()),
               std::make_move_iterator(results.end()));
  };
  execution.on_results = [&](std::vector<base::TestResult> results) {
    traces.ended(results);
    record(std::move(results));
  };
  execution.on_progress = [&](const Progress& progress) { display.progress(progress); };
  execution.on_note = [&](const std::string& note) { display.line("note: " + note); };
  if (request.resume) {
    display.line(fmt::format("resuming run {}: {} tests have a result, {} are left", header.run_id,
                             report.results.tested().size(), work->run.size()));
  }
  record(std::move(broken));
  record(std::move(work->left_out));
  auto setup = request.setup;
  if (request.tracing) {
    setup.trace = request.tracing->setup;
    execution.on_operators = [&](const std::string& node_id, base::Operators operators) {
      traces.saw(node_id, std::move(operators));
    };
  }
  auto executed = execute(setup, tests, std::move(chunks), execution);
  if (executed && !executed->interrupted && traces.any_compiles()) {
    std::erase_if(work->run, [&](std::size_t i) { return !traces.compiles(tests[i].node_id); });
    display.line(fmt::format("{} tests compile: once more, for their graphs", work->run.size()));
    setup.trace = TraceSetup{"compiled", ""};
    execution.on_results = [&](const std::vector<base::TestResult>& results) {
      traces.ended_compiling(results);
    };
    executed = execute(setup, tests, plan(tests, work->run, times, options), execution);
  }
  display.clear();
  if (!executed) return tl::unexpected(executed.error());
  if (traces.error()) return tl::unexpected(*traces.error());
  report.interrupted = executed->interrupted;
  header.finished_at = clock.now();
  header.interrupted = executed->interrupted || executed->cut_short;

  Errors errors;
  errors.keep(write_files(report.results, files));
  if (auto recorded = recorder.finish(report.results); !recorded) {
    auto error = recorded.error();
    error.message = "the results could not be brought into the store " + request.store_name + ": " +
                    error.message;
    errors.keep(tl::unexpected(std::move(error)));
  }
  if (errors.first()) return tl::unexpected(*errors.first());
  return report;
}

}  // namespace crosscheck::runner
