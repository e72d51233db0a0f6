#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What pytest prints: the only witness where the process died and wrote no JUnit file.
namespace crosscheck::runner {

struct LogTest {
  enum class Ended : std::uint8_t {
    passed,
    failed,
    error,
    skipped,
    xfailed,
    xpassed,
    rerun,      // failed, and was tried again
    crashed,    // the process died in it, and the log shows it
    timed_out,  // pytest-timeout ended the process
    unknown,    // it began, and the log does not show how it ended
  };
  std::size_t line = 0;  // of the log
  std::string node_id;
  Ended ended = Ended::unknown;
  std::string phase;          // setup, call or teardown of a failure
  std::string message;        // the error, or the reason
  std::string type;           // the exception's, where the log names it
  std::string text;           // the traceback; of a crash the dump. At most 64 KiB
  std::optional<int> signal;  // of a crash
  friend bool operator==(const LogTest&, const LogTest&) = default;
};

// A file, or a class in one, that did not import or collect.
struct LogBroken {
  std::string node_id;
  std::string type;
  std::string message;
  std::string text;
  friend bool operator==(const LogBroken&, const LogBroken&) = default;
};

struct PytestLog {
  std::vector<LogTest> tests;  // an attempt each, in the order in which they began
  std::vector<LogBroken> broken;
  std::map<std::string, std::string> facts;  // python, pytest
  std::size_t sessions = 0;                  // how often pytest began
  std::size_t cut_off = 0;                   // …and did not come to its end
  bool unfinished = false;                   // the last of them did not
  std::size_t collected = 0;                 // by all sessions, as they say
  friend bool operator==(const PytestLog&, const PytestLog&) = default;
};

// Takes a log in pieces of any size. Escape sequences, carriage returns and the time stamps that
// GitHub puts before each line are not read; bytes that are no UTF-8 become U+FFFD. Lines are
// understood with -v and with a summary (-ra, -rA); dots are not. Depends on no language: pytest
// speaks English, and of what a shell says only the number or glibc's own translations are read.
class PytestLogReader {
 public:
  PytestLogReader();
  PytestLogReader(const PytestLogReader&) = delete;
  PytestLogReader& operator=(const PytestLogReader&) = delete;
  ~PytestLogReader();

  void feed(std::string_view bytes);
  // The log ends here.
  [[nodiscard]] PytestLog finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace crosscheck::runner
