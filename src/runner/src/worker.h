#pragma once

#include <optional>
#include <string>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/process.h"
#include "crosscheck/base/result.h"
#include "crosscheck/runner/dispatcher.h"
#include "crosscheck/runner/probe.h"

struct pollfd;

namespace crosscheck::runner {

// The end of a stream of any length.
class Tail {
 public:
  explicit Tail(std::size_t limit) : limit_{limit} {}
  void append(std::string_view text);
  [[nodiscard]] std::string text() const;

 private:
  std::size_t limit_;
  std::string held_;
};

// Cuts a stream into lines. A line over the limit is handed out cut, once; the rest of it is
// dropped.
class LineBuffer {
 public:
  static constexpr std::size_t k_limit = std::size_t{4} << 20;
  void append(std::string_view bytes, std::vector<std::string>& lines);

 private:
  std::string held_;
  bool dropping_ = false;
};

// The number of the descriptor that a process of the probe reports on.
inline constexpr int k_events_fd = 3;
// A process of the probe, but for its descriptors; its request is on standard input.
[[nodiscard]] base::ProcessSpec probe_process(const ProbeSetup& setup, std::string_view verb);
// A file in memory that holds the request: the child reads it at its own pace, and nothing is left
// on disk.
[[nodiscard]] base::Result<base::Fd> request_file(const std::string& text);

// One process of the probe: the pipe it reports on and its standard streams. Not thread-safe.
class Worker {
 public:
  // `verb` is environment, collect or run.
  [[nodiscard]] static base::Result<Worker> start(const ProbeSetup& setup, std::string_view verb,
                                                  const base::json::object& request);

  // Adds the descriptors that may become readable.
  void watch(std::vector<pollfd>& descriptors) const;
  // Reads what is there and returns the whole lines.
  [[nodiscard]] std::vector<std::string> read();
  // No more lines will come.
  [[nodiscard]] bool pipe_closed() const { return !events_; }
  // Set once the process has ended; what it left behind is then killed, and what it had written is
  // read.
  [[nodiscard]] std::optional<Ended> ended(std::vector<std::string>& last_lines);
  void signal(int number) const { process_.signal(number); }
  // Gives the process up without waiting for it.
  void abandon() &&;
  [[nodiscard]] pid_t pid() const { return process_.pid(); }

 private:
  Worker(base::Process process, base::Fd events, base::Fd out, base::Fd err)
      : process_{std::move(process)},
        events_{std::move(events)},
        out_{std::move(out)},
        err_{std::move(err)} {}

  base::Process process_;
  base::Fd events_;
  base::Fd out_;
  base::Fd err_;
  LineBuffer lines_;
  Tail out_tail_{std::size_t{8} << 10};
  Tail err_tail_{std::size_t{32} << 10};
};

[[nodiscard]] base::json::object to_json(const Device& device);
[[nodiscard]] base::json::object to_json(const Suite& suite);

// The next byte of `fd`, if one is there: one press of Ctrl-C. A negative `fd` has none.
[[nodiscard]] bool take_interrupt(int fd);

}  // namespace crosscheck::runner
