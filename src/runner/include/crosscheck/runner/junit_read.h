#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"

// JUnit XML as pytest and others write it, read as it comes: what a file says, not yet what it
// means.
namespace crosscheck::runner {

// What stands inside a <testcase> and makes it more than passed.
struct JunitProblem {
  enum class Element : std::uint8_t { failure, error, skipped };
  Element element = Element::failure;
  std::string type;     // attribute
  std::string message;  // attribute
  std::string text;     // at most 64 KiB: of a longer one its beginning and its end
  friend bool operator==(const JunitProblem&, const JunitProblem&) = default;
};

struct JunitCase {
  std::size_t line = 0;  // of the XML file
  std::string file;      // attribute; xunit1 has it
  std::string class_name;
  std::string name;
  base::Duration time{0};
  std::vector<JunitProblem> problems;                           // in their order
  std::vector<std::pair<std::string, std::string>> properties;  // of the case
  friend bool operator==(const JunitCase&, const JunitCase&) = default;
};

struct JunitSuite {
  std::string name;
  std::string timestamp;  // attribute, as written
  base::Duration time{0};
  std::vector<std::pair<std::string, std::string>> properties;
  friend bool operator==(const JunitSuite&, const JunitSuite&) = default;
};

struct JunitSink {
  // Strings may be moved from.
  std::function<void(JunitCase&)> on_case;
  // At its end, or where the file breaks off.
  std::function<void(JunitSuite&)> on_suite;
};

// Takes a file in pieces of any size and hands on each case when it ends. What it holds at a time
// is bounded, whatever the file's size. Document types, and with them entities of their own, are
// refused. After an error the cases handed on stand, and nothing more may be fed.
class JunitParser {
 public:
  static constexpr std::size_t k_depth_limit = 64;
  static constexpr std::size_t k_tag_limit = std::size_t{8} << 20;  // bytes of one start tag

  // What XML cannot hold, a terminal's escape sequences above all.
  enum class Forbidden : std::uint8_t { refuse, question_mark };

  // Errors begin with `name`:line:column.
  JunitParser(std::string name, JunitSink sink, Forbidden forbidden = Forbidden::refuse);
  JunitParser(const JunitParser&) = delete;
  JunitParser& operator=(const JunitParser&) = delete;
  ~JunitParser();

  [[nodiscard]] base::Result<void> feed(std::string_view bytes);
  // The file ends here: an error if it is cut off.
  [[nodiscard]] base::Result<void> finish();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace crosscheck::runner
