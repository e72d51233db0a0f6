#include "crosscheck/runner/executor.h"

#include <poll.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <optional>
#include <utility>

#include "memory.h"
#include "orphans.h"
#include "processes.h"
#include "reaper.h"
#include "worker.h"

namespace crosscheck::runner {
namespace {

using base::Result;
namespace json = base::json;

constexpr std::chrono::milliseconds k_turn{100};

Instant now() { return std::chrono::steady_clock::now(); }

class Executor {
 public:
  Executor(const ProbeSetup& setup, const std::vector<CollectedTest>& tests,
           std::vector<Chunk> chunks, const ExecuteOptions& options)
      : setup_{setup},
        tests_{tests},
        options_{options},
        workers_(std::max<std::size_t>(std::min(options.workers, chunks.size()), 1)),
        dispatcher_{tests, std::move(chunks), workers_.size(), options.limits, options.handling} {}

  Result<Executed> run() {
    const EndsOrphans at_the_end;
    auto reaper = Reaper::start();
    if (!reaper) return tl::unexpected(reaper.error());
    reaper_ = &*reaper;
    obey(dispatcher_.begin(now()));
    hand_out();
    while (!dispatcher_.done()) {
      wait();
      if (take_interrupt(options_.interrupt_fd)) obey(dispatcher_.interrupt(now()));
      if (!stopped_ && options_.must_stop && options_.must_stop()) {
        stopped_ = true;
        for (int press = 0; press < 2; ++press) obey(dispatcher_.interrupt(now()));
      }
      for (std::size_t i = 0; i < workers_.size(); ++i) serve(i);
      weigh();
      obey(dispatcher_.on_tick(now()));
      hand_out();
    }
    return Executed{dispatcher_.interrupted(), dispatcher_.cut_short()};
  }

 private:
  void wait() {
    std::vector<pollfd> descriptors;
    for (const auto& worker : workers_) {
      if (worker) worker->watch(descriptors);
    }
    if (options_.interrupt_fd >= 0) descriptors.push_back({options_.interrupt_fd, POLLIN, 0});
    auto limit = k_turn;
    if (const auto deadline = dispatcher_.next_deadline()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - now());
      limit = std::clamp(left, std::chrono::milliseconds{0}, k_turn);
    }
    ::poll(descriptors.data(), descriptors.size(), static_cast<int>(limit.count()));
  }

  // What workers hold with all that they started, several times a second: a test that takes all
  // memory takes the machine. Looking for processes takes longer where the machine has many: a
  // twentieth of the time at most.
  void weigh() {
    const auto limit = options_.limits.memory;
    if (limit <= 0 || now() < weigh_next_) return;
    const auto began = now();
    const auto all = all_processes();
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (!workers_[i]) continue;
      const auto pid = workers_[i]->pid();
      obey(dispatcher_.on_memory(i, held_bytes(pid, descendants(all, pid), limit), now()));
    }
    weigh_next_ = now() + std::max<Instant::duration>(k_turn, 20 * (now() - began));
  }

  void serve(std::size_t i) {
    if (!workers_[i]) return;
    const bool was_open = !workers_[i]->pipe_closed();
    take_lines(i, workers_[i]->read());
    std::vector<std::string> last;
    if (auto ended = workers_[i]->ended(last)) {
      take_lines(i, last);
      reaper_->forget(workers_[i]->pid());
      workers_[i].reset();
      obey(dispatcher_.on_exit(i, *ended, now()));
    } else if (was_open && workers_[i]->pipe_closed()) {
      obey(dispatcher_.on_pipe_closed(i, now()));
    }
  }

  void take_lines(std::size_t i, const std::vector<std::string>& lines) {
    for (const auto& line : lines) {
      auto event = parse_event(line);
      obey(event ? dispatcher_.on_event(i, *event, now())
                 : dispatcher_.on_garbage(i, event.error().message, now()));
      // What follows garbage is not believed.
      if (!event) return;
      auto* finish = std::get_if<Finish>(&*event);
      if (finish != nullptr && finish->operators && options_.on_operators) {
        options_.on_operators(finish->node_id, std::move(*finish->operators));
      }
    }
  }

  // A command may lead to others.
  void obey(std::vector<Command> commands) {
    std::deque<Command> todo{std::make_move_iterator(commands.begin()),
                             std::make_move_iterator(commands.end())};
    while (!todo.empty()) {
      const auto command = std::move(todo.front());
      todo.pop_front();
      if (const auto* spawn = std::get_if<SpawnWorker>(&command)) {
        auto started = Worker::start(setup_, "run", request(*spawn));
        if (started) {
          reaper_->remember(started->pid());
          workers_[spawn->worker].emplace(std::move(*started));
        } else {
          for (auto& more : dispatcher_.on_spawn_failed(spawn->worker, started.error(), now())) {
            todo.push_back(std::move(more));
          }
        }
      } else if (const auto* signal = std::get_if<SignalWorker>(&command)) {
        if (workers_[signal->worker]) workers_[signal->worker]->signal(signal->signal);
      } else if (const auto* abandon = std::get_if<AbandonWorker>(&command)) {
        if (workers_[abandon->worker]) std::move(*workers_[abandon->worker]).abandon();
        workers_[abandon->worker].reset();
      }
    }
  }

  [[nodiscard]] json::object request(const SpawnWorker& spawn) const {
    json::array tests;
    for (const auto test : spawn.tests) tests.emplace_back(tests_[test].node_id);
    Suite suite = setup_.suite;
    suite.files = {spawn.file};
    json::object request{{"suite", to_json(suite)},
                         {"device", to_json(setup_.device)},
                         {"file", spawn.file},
                         {"tests", std::move(tests)},
                         {"repeat", 1}};
    if (setup_.trace) {
      request["trace"] =
          json::object{{"observer", setup_.trace->observer}, {"library", setup_.trace->library}};
    }
    return request;
  }

  void hand_out() {
    auto results = dispatcher_.take_results();
    if (!results.empty() && options_.on_results) options_.on_results(std::move(results));
    for (const auto& note : dispatcher_.take_notes()) {
      if (options_.on_note) options_.on_note(note);
    }
    if (options_.on_progress) options_.on_progress(dispatcher_.progress());
  }

  const ProbeSetup& setup_;
  const std::vector<CollectedTest>& tests_;
  const ExecuteOptions& options_;
  std::vector<std::optional<Worker>> workers_;
  Dispatcher dispatcher_;
  Reaper* reaper_ = nullptr;
  Instant weigh_next_{};
  bool stopped_ = false;
};

}  // namespace

Result<Executed> execute(const ProbeSetup& setup, const std::vector<CollectedTest>& tests,
                         std::vector<Chunk> chunks, const ExecuteOptions& options) {
  return Executor{setup, tests, std::move(chunks), options}.run();
}

}  // namespace crosscheck::runner
