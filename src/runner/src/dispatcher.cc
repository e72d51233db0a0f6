#include "crosscheck/runner/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "crosscheck/base/json.h"
#include "crosscheck/runner/classify.h"

namespace crosscheck::runner {
namespace {

using base::Duration;
using base::Outcome;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

Duration since(Instant begin, Instant now) {
  return std::chrono::duration_cast<Duration>(now - begin);
}

std::string over_file_limit(Duration limit) {
  return "not reached within the " + base::to_human(limit) + " that its file may take";
}

std::string dtype_of(const base::TestId& id) {
  const auto variant = base::parse_json(id.variant, "variant");
  if (!variant || !variant->is_object()) return {};
  const auto* dtype = variant->get_object().if_contains("dtype");
  return dtype != nullptr && dtype->is_string() ? std::string{dtype->get_string()} : std::string{};
}

Verdict not_run(std::string why) {
  Verdict verdict;
  verdict.outcome = Outcome::not_run;
  verdict.message = std::move(why);
  return verdict;
}

}  // namespace

Dispatcher::Dispatcher(const std::vector<CollectedTest>& tests, std::vector<Chunk> chunks,
                       std::size_t workers, Limits limits, Handling handling)
    : tests_{tests},
      queue_{std::make_move_iterator(chunks.begin()), std::make_move_iterator(chunks.end())},
      slots_(std::max<std::size_t>(workers, 1)),
      limits_{limits},
      handling_{std::move(handling)},
      attempts_(tests.size(), 0),
      tries_(tests.size(), 0),
      due_(tests.size(), false),
      latest_(tests.size()),
      failed_(tests.size(), false) {
  if (!handling_.failures.empty()) attempts_ = tries_ = handling_.failures;
  for (std::size_t test = 0; test < tests.size(); ++test) failed_[test] = attempts_[test] > 0;
  for (const auto& chunk : queue_) {
    for (const auto test : chunk.tests) {
      by_node_.emplace(tests_[test].node_id, test);
      planned_.push_back(test);
      due_[test] = true;
      expected_total_ += expected(test);
    }
  }
}

Duration Dispatcher::expected(std::size_t test) const {
  return handling_.expected.empty() ? Duration{1} : handling_.expected[test];
}

std::vector<Command> Dispatcher::begin(Instant now) {
  for (std::size_t worker = 0; worker < slots_.size(); ++worker) start_next(worker, now);
  finish_if_idle();
  return take_commands();
}

void Dispatcher::start_next(std::size_t worker, Instant now) {
  if (interrupted_ || queue_.empty()) return;
  auto chunk = std::move(queue_.front());
  queue_.pop_front();
  spawn(worker, std::move(chunk), now);
}

void Dispatcher::spawn(std::size_t worker, Chunk chunk, Instant now) {
  auto& slot = slots_[worker];
  slot = Slot{};
  slot.phase = Phase::starting;
  slot.deadline = now + limits_.start;
  slot.began = now;
  slot.file = std::move(chunk.file);
  slot.tests = std::move(chunk.tests);
  commands_.push_back(SpawnWorker{worker, slot.file, slot.tests});
}

void Dispatcher::stop(std::size_t worker, Reason reason, std::string why, int signal, Instant now) {
  auto& slot = slots_[worker];
  if (slot.phase == Phase::idle || slot.phase == Phase::stopping || slot.phase == Phase::killing) {
    return;
  }
  slot.phase = signal == SIGKILL ? Phase::killing : Phase::stopping;
  slot.deadline = now + (signal == SIGKILL ? limits_.exit : limits_.grace);
  slot.reason = reason;
  slot.why = std::move(why);
  commands_.push_back(SignalWorker{worker, signal});
}

std::optional<std::size_t> Dispatcher::find(const Slot& slot, const std::string& node_id) const {
  const auto at = by_node_.find(node_id);
  if (at == by_node_.end()) return {};
  if (tests_[at->second].id.file != slot.file) return {};
  return at->second;
}

void Dispatcher::record(Slot& slot, std::size_t test, Verdict verdict, Duration duration) {
  base::TestResult result;
  if (!handling_.governed.empty()) {
    result.governed = handling_.governed[test];
    judge(verdict, *result.governed);
  }
  result.id = tests_[test].id;
  result.node_id = tests_[test].node_id;
  result.attempt = ++attempts_[test];
  result.outcome = verdict.outcome;
  result.kind = verdict.kind;
  result.fingerprint = std::move(verdict.fingerprint);
  result.message = std::move(verdict.message);
  result.detail = std::move(verdict.detail);
  result.duration = duration;
  result.mismatch = verdict.mismatch;
  if (result.mismatch && result.mismatch->dtype.empty()) {
    result.mismatch->dtype = dtype_of(result.id);
  }
  result.leak = verdict.leak;
  if (result.leak) name_leak(result);
  results_.push_back(std::move(result));
  slot.progressed = true;
  if (slot.running == test) slot.running.reset();
  due_[test] = false;
  count(test, verdict.outcome);
  if (base::is_failure(verdict.outcome) && tries_[test]++ < handling_.retries) {
    slot.again.push_back(test);
  }
}

// Each test counts once, by its latest attempt.
void Dispatcher::count(std::size_t test, Outcome outcome) {
  if (latest_[test]) {
    counts_.add(*latest_[test], -1);
  } else {
    ++with_result_;
    expected_done_ += expected(test);
  }
  latest_[test] = outcome;
  if (failed_[test] && base::is_flaky_after_failure(outcome)) {
    counts_.add_flaky();
  } else {
    counts_.add(outcome);
  }
  failed_[test] = failed_[test] || base::is_failure(outcome);
}

void Dispatcher::name_leak(const base::TestResult& result) {
  const auto part = [](std::int64_t bytes, std::int64_t limit, std::string_view whose) {
    return limit > 0 && bytes >= limit
               ? fmt::format(" {} MiB of {}", bytes / (std::int64_t{1} << 20), whose)
               : std::string{};
  };
  notes_.push_back(result.node_id + " left more memory in use than before:" +
                   part(result.leak->host, limits_.leak.host, "the process") +
                   part(result.leak->device, limits_.leak.device, "the device"));
}

Duration Dispatcher::spent_on(const std::string& file, Instant now) const {
  const auto before = spent_.find(file);
  Duration spent = before == spent_.end() ? Duration{0} : before->second;
  for (const auto& slot : slots_) {
    if (slot.phase != Phase::idle && slot.file == file) spent += since(slot.began, now);
  }
  return spent;
}

// A test that is due and will not be run; of one that failed, and was to be tried again, that
// result stands.
void Dispatcher::leave(std::size_t test, const std::string& why) {
  Slot none;
  if (attempts_[test] == 0) record(none, test, not_run(why), Duration{0});
  due_[test] = false;
}

// Tests of a file whose limit is reached, and that no process has.
void Dispatcher::give_up_file(const std::string& file) {
  for (auto& chunk : queue_) {
    if (chunk.file != file) continue;
    for (const auto test : chunk.tests) {
      if (!due_[test]) continue;
      leave(test, over_file_limit(limits_.file));
      cut_short_ = true;
    }
    chunk.tests.clear();
  }
  std::erase_if(queue_, [](const Chunk& chunk) { return chunk.tests.empty(); });
}

std::vector<Command> Dispatcher::on_event(std::size_t worker, const Event& event, Instant now) {
  auto& slot = slots_[worker];
  if (slot.reason == Reason::garbage) return {};
  // A process that is being stopped may still end its test in time; it begins no other.
  const bool live = slot.phase != Phase::stopping && slot.phase != Phase::killing;
  const auto enter = [&](Phase phase, Duration limit) {
    if (!live) return;
    slot.phase = phase;
    slot.deadline = now + limit;
  };
  std::visit(
      Overloaded{
          [&](const Ready&) { enter(Phase::between, limits_.quiet); },
          [&](const Start& start) {
            if (!live) return;
            const auto test = find(slot, start.node_id);
            if (!test) {
              notes_.push_back("a worker began a test that was not asked for: " + start.node_id);
              return;
            }
            if (slot.running) {
              record(slot, *slot.running,
                     classify_harness("its process went on to another test without saying how it "
                                      "ended",
                                      ""),
                     since(slot.running_since, now));
            }
            slot.running = test;
            slot.running_since = now;
            enter(Phase::testing, limits_.test);
          },
          [&](const Finish& finish) {
            const auto test = find(slot, finish.node_id);
            if (!test || slot.running != test) {
              if (live)
                notes_.push_back("a worker ended a test that it had not begun: " + finish.node_id);
              return;
            }
            auto verdict = classify(finish);
            if ((limits_.leak.host > 0 && finish.grown.host >= limits_.leak.host) ||
                (limits_.leak.device > 0 && finish.grown.device >= limits_.leak.device)) {
              verdict.leak = {std::max<std::int64_t>(finish.grown.host, 0),
                              std::max<std::int64_t>(finish.grown.device, 0)};
            }
            record(slot, *test, std::move(verdict), finish.duration);
            enter(Phase::between, limits_.quiet);
          },
          [&](const Missing& missing) {
            const auto test = find(slot, missing.node_id);
            if (!test || !due_[*test]) return;
            if (slot.collect_error) {
              record(slot, *test, classify_collect_error(*slot.collect_error), Duration{0});
            } else {
              record(slot, *test,
                     classify_harness("its file no longer collects it: the inventory is out of "
                                      "date, or collection is not deterministic",
                                      ""),
                     Duration{0});
            }
          },
          [&](const CollectError& error) {
            if (!slot.collect_error) slot.collect_error = error;
          },
          [&](const ProbeFailure& failure) {
            slot.why = failure.message.empty() ? failure.type : failure.message;
            slot.environment_fault = failure.event == "environment_error";
          },
          [&](const End&) { enter(Phase::leaving, limits_.exit); },
          [](const Environment&) {},
          [](const CollectedTest&) {},
          [](const CollectSkip&) {},
          [](const Collecting&) {},
          [](const Observer&) {},
          [](const Unknown&) {},
      },
      event);
  return take_commands();
}

std::vector<Command> Dispatcher::on_garbage(std::size_t worker, std::string_view why, Instant now) {
  stop(worker, Reason::garbage, std::string{why}, SIGKILL, now);
  return take_commands();
}

std::vector<Command> Dispatcher::on_pipe_closed(std::size_t worker, Instant now) {
  auto& slot = slots_[worker];
  // A process that exits closes its pipe a moment before: it gets the time to.
  if (slot.phase == Phase::leaving || slot.phase == Phase::stopping ||
      slot.phase == Phase::killing || slot.phase == Phase::idle) {
    return {};
  }
  slot.phase = Phase::leaving;
  slot.deadline = now + limits_.exit;
  slot.reason = Reason::pipe_closed;
  return take_commands();
}

std::vector<Command> Dispatcher::on_memory(std::size_t worker, std::int64_t bytes, Instant now) {
  if (limits_.memory > 0 && bytes > limits_.memory) {
    stop(worker, Reason::memory_limit,
         "its process took too much memory between tests, and was killed", SIGKILL, now);
  }
  return take_commands();
}

std::vector<Command> Dispatcher::on_tick(Instant now) {
  for (std::size_t worker = 0; limits_.file.count() > 0 && worker < slots_.size(); ++worker) {
    const auto& slot = slots_[worker];
    if (slot.phase == Phase::idle || spent_on(slot.file, now) < limits_.file) continue;
    stop(worker, Reason::file_limit, "", SIGABRT, now);
  }
  for (std::size_t worker = 0; worker < slots_.size(); ++worker) {
    auto& slot = slots_[worker];
    if (slot.phase == Phase::idle || now < slot.deadline) continue;
    switch (slot.phase) {
      case Phase::idle:
        break;
      case Phase::starting:
        stop(worker, Reason::other_limit,
             slot.file + " was not imported and collected within " + base::to_human(limits_.start),
             SIGABRT, now);
        break;
      case Phase::between:
        stop(worker, Reason::other_limit,
             "its process said nothing for " + base::to_human(limits_.quiet) + " between tests",
             SIGABRT, now);
        break;
      case Phase::testing:
        // SIGABRT, so that Python's fault handler writes where it hangs.
        stop(worker, Reason::test_limit, "", SIGABRT, now);
        break;
      case Phase::leaving:
        if (slot.reason == Reason::pipe_closed) {
          stop(worker, Reason::pipe_closed, "its process closed the pipe on which it reports",
               SIGKILL, now);
        } else {
          notes_.push_back(slot.file + ": a process that had ended its tests did not exit within " +
                           base::to_human(limits_.exit) + " and was killed");
          stop(worker, Reason::other_limit, "its process ended the tests early", SIGKILL, now);
        }
        break;
      case Phase::stopping:
        slot.phase = Phase::killing;
        slot.deadline = now + limits_.exit;
        commands_.push_back(SignalWorker{worker, SIGKILL});
        break;
      case Phase::killing:
        notes_.push_back(slot.file +
                         ": a process cannot be killed, a driver may hang; left behind");
        commands_.push_back(AbandonWorker{worker});
        settle(worker, Ended{{std::nullopt, SIGKILL}, "", ""}, now);
        break;
    }
  }
  return take_commands();
}

std::vector<Command> Dispatcher::on_spawn_failed(std::size_t worker, const base::Error& error,
                                                 Instant) {
  auto& slot = slots_[worker];
  Verdict verdict = classify_harness(error.message, "");
  verdict.outcome = Outcome::environment_error;
  for (const auto test : slot.tests) {
    if (due_[test]) record(slot, test, verdict, Duration{0});
  }
  slot = Slot{};
  // Not the next file at once: what kept this process from starting keeps the next from it too, and
  // all of them get their result by the same way.
  while (!queue_.empty()) {
    for (const auto test : queue_.front().tests) {
      if (due_[test]) record(slot, test, verdict, Duration{0});
    }
    queue_.pop_front();
  }
  finish_if_idle();
  return take_commands();
}

std::vector<Command> Dispatcher::on_exit(std::size_t worker, const Ended& ended, Instant now) {
  settle(worker, ended, now);
  return take_commands();
}

void Dispatcher::settle(std::size_t worker, const Ended& ended, Instant now) {
  auto& slot = slots_[worker];
  if (slot.phase == Phase::idle) return;
  if (slot.running) {
    const auto test = *slot.running;
    const auto lasted = since(slot.running_since, now);
    switch (slot.reason) {
      case Reason::died:
      case Reason::pipe_closed:
        if (slot.why.empty()) {
          record(slot, test, classify_crash(ended.status, ended.err), lasted);
          break;
        }
        [[fallthrough]];
      case Reason::garbage:
      case Reason::other_limit:
        record(slot, test, classify_harness(slot.why, ended.err), lasted);
        break;
      case Reason::test_limit:
        record(slot, test, classify_timeout(limits_.test, ended.err), lasted);
        break;
      case Reason::file_limit:
        record(slot, test, classify_timeout(limits_.file, ended.err, Limited::file), lasted);
        break;
      case Reason::memory_limit:
        record(slot, test, classify_out_of_memory(limits_.memory, ended.err), lasted);
        break;
      case Reason::interrupted:
        slot.running.reset();
        break;
    }
  }
  spent_[slot.file] += since(slot.began, now);
  std::vector<std::size_t> rest;
  for (const auto test : slot.tests) {
    if (due_[test]) rest.push_back(test);
  }
  const bool file_is_over = limits_.file.count() > 0 && spent_[slot.file] >= limits_.file;
  if (file_is_over && !interrupted_) {
    cut_short_ = cut_short_ || !rest.empty();
    for (const auto test : rest) leave(test, over_file_limit(limits_.file));
    slot.again.clear();
    give_up_file(slot.file);
  } else if (rest.empty()) {
    if (slot.reason == Reason::died && !ended.status.ok() && !slot.tests.empty() &&
        slot.phase == Phase::leaving) {
      notes_.push_back(slot.file + ": the process died after its last test had ended: " +
                       base::to_string(ended.status));
    }
  } else if (interrupted_) {
    // They get their results when the last worker is gone.
  } else if (slot.collect_error) {
    for (const auto test : rest) {
      record(slot, test, classify_collect_error(*slot.collect_error), Duration{0});
    }
  } else if (slot.progressed) {
    Chunk chunk{slot.file, std::move(rest), Duration{0}};
    auto again = std::move(slot.again);
    spawn(worker, std::move(chunk), now);
    slot.again = std::move(again);
    return;
  } else {
    std::string why = "its process ran no test: ";
    why += slot.why.empty() ? base::to_string(ended.status) : slot.why;
    auto verdict = classify_harness(why, ended.err);
    if (slot.environment_fault) verdict.outcome = Outcome::environment_error;
    for (const auto test : rest) record(slot, test, verdict, Duration{0});
  }
  if (!slot.again.empty() && !interrupted_) {
    for (const auto test : slot.again) due_[test] = true;
    Chunk chunk{slot.file, std::move(slot.again), Duration{0}};
    spawn(worker, std::move(chunk), now);
    return;
  }
  slot = Slot{};
  start_next(worker, now);
  finish_if_idle();
}

std::vector<Command> Dispatcher::interrupt(Instant now) {
  const bool again = std::exchange(interrupted_, true);
  for (std::size_t worker = 0; worker < slots_.size(); ++worker) {
    auto& slot = slots_[worker];
    if (slot.phase == Phase::idle) continue;
    if (again && slot.phase == Phase::stopping) {
      slot.phase = Phase::killing;
      slot.deadline = now + limits_.exit;
      commands_.push_back(SignalWorker{worker, SIGKILL});
    } else {
      stop(worker, Reason::interrupted, "", again ? SIGKILL : SIGTERM, now);
    }
  }
  finish_if_idle();
  return take_commands();
}

void Dispatcher::finish_if_idle() {
  if (done_) return;
  const bool idle = std::all_of(slots_.begin(), slots_.end(),
                                [](const Slot& slot) { return slot.phase == Phase::idle; });
  if (!idle || (!interrupted_ && !queue_.empty())) return;
  for (const auto test : planned_) {
    if (due_[test]) leave(test, "interrupted before it ended");
  }
  done_ = true;
}

std::optional<Instant> Dispatcher::next_deadline() const {
  std::optional<Instant> next;
  for (const auto& slot : slots_) {
    if (slot.phase != Phase::idle && (!next || slot.deadline < *next)) next = slot.deadline;
  }
  return next;
}

std::vector<Command> Dispatcher::take_commands() { return std::exchange(commands_, {}); }
std::vector<base::TestResult> Dispatcher::take_results() { return std::exchange(results_, {}); }
std::vector<std::string> Dispatcher::take_notes() { return std::exchange(notes_, {}); }

Progress Dispatcher::progress() const {
  Progress progress;
  progress.done = with_result_;
  progress.total = planned_.size();
  progress.expected_done = expected_done_;
  progress.expected_total = expected_total_;
  progress.counts = counts_;
  for (const auto& slot : slots_) {
    if (slot.running) progress.running.push_back(tests_[*slot.running].node_id);
  }
  return progress;
}

}  // namespace crosscheck::runner
