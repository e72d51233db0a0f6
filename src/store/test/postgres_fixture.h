#pragma once

#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

#include "crosscheck/base/process.h"

namespace crosscheck::store::testing {

// A PostgreSQL server of the test's own, through scripts/postgres-temp; gone when this is. Any
// failure throws, with the script's words on stderr. Not thread-safe.
class Postgres {
 public:
  // The one that a test binary's tests share, started by the first that asks.
  static Postgres& shared() {
    static Postgres server;
    return server;
  }

  Postgres() : process_{start(input_, output_)} { url_ = read_line(); }
  Postgres(const Postgres&) = delete;
  Postgres& operator=(const Postgres&) = delete;
  // Lets the script end by itself: killed, it would leave its folder.
  ~Postgres() {
    input_.reset();
    static_cast<void>(process_.wait());
  }

  // Of a new, empty database.
  [[nodiscard]] std::string make_database() {
    static std::atomic<int> count{0};
    return command("database test" + std::to_string(++count));
  }
  void stop() { command("stop"); }
  void start_again() { command("start"); }
  void restart() { command("restart"); }

 private:
  static base::Process start(base::Fd& input, base::Fd& output) {
    auto in = base::make_pipe();
    auto out = base::make_pipe();
    if (!in || !out) throw std::runtime_error("no pipe");
    base::ProcessSpec spec;
    spec.arguments = {CROSSCHECK_SOURCE_DIR "/scripts/postgres-temp"};
    spec.descriptors = {{in->read.get(), STDIN_FILENO}, {out->write.get(), STDOUT_FILENO}};
    auto process = base::Process::spawn(spec);
    if (!process) throw std::runtime_error(to_string(process.error()));
    input = std::move(in->write);
    output = std::move(out->read);
    return std::move(*process);
  }

  std::string command(const std::string& line) {
    const std::string text = line + "\n";
    if (::write(input_.get(), text.data(), text.size()) < 0) {
      throw std::runtime_error("postgres-temp is gone");
    }
    return read_line();
  }

  std::string read_line() {
    std::string line;
    for (char c = 0; ::read(output_.get(), &c, 1) == 1;) {
      if (c == '\n') return line;
      line += c;
    }
    throw std::runtime_error("postgres-temp ended: see what it says above");
  }

  base::Fd input_;
  base::Fd output_;
  base::Process process_;
  std::string url_;
};

}  // namespace crosscheck::store::testing
