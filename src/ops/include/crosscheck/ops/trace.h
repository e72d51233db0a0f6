#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crosscheck/base/operators.h"
#include "crosscheck/base/outcome.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/run_results.h"

// The file of a trace: JSON lines, gzipped or not (docs/formats.md). First a header, then a line a
// test, last {"end": <number of tests>}.
namespace crosscheck::ops {

// What was traced. Traces of two builds do not belong into one index: they have other tests, and
// other operators behind them.
struct Build {
  std::string torch;
  std::string torch_git;
  std::string device;  // type and model: "cpu", "refdev: refdev (CPU stand-in)"
  std::string suite;   // revision
  friend bool operator==(const Build&, const Build&) = default;
};
// `invalid_input`, with what differs, where the two are not the same; `name` is the trace's.
[[nodiscard]] base::Result<void> check_same_build(const Build& trace, std::string_view name,
                                                  const Build& wanted, std::string_view whose);

struct TraceHeader {
  static constexpr int k_schema = 1;
  Build build;
  std::string python;
  std::string observer;   // record-function or dispatch-mode
  std::string note;       // why it is not the one that would be better
  std::string selection;  // which tests, for people
  std::string shard;      // which part of them
  // Operators that torch makes of others whatever the device: those stand in the trace as well.
  std::vector<std::string> composites;
  std::vector<std::pair<std::string, std::string>> aliases;    // name, the operator that it names
  std::vector<std::pair<std::string, std::string>> delegates;  // overload, the one with its kernel
  friend bool operator==(const TraceHeader&, const TraceHeader&) = default;
};

struct TracedTest {
  base::TestId id;
  std::string node_id;
  base::Outcome outcome = base::Outcome::not_run;
  // Nothing where none are known: its process died. What a test did not reach as it failed is not
  // there either.
  std::optional<base::Operators> operators;
  friend bool operator==(const TracedTest&, const TracedTest&) = default;
};

// One line each, without its end.
[[nodiscard]] std::string header_line(const TraceHeader& header);
[[nodiscard]] std::string test_line(const TracedTest& test);
[[nodiscard]] std::string end_line(std::size_t tests);

struct TraceRead {
  std::size_t tests = 0;
  // The file ends early: what it lost, for people. The tests before were handed out whole.
  std::optional<std::string> cut_off;
};

// Reads a trace as it comes, whatever its size. Returns the first error of a callback.
class TraceReader {
 public:
  static constexpr std::size_t k_line_limit = std::size_t{16} << 20;
  using OnHeader = std::function<base::Result<void>(TraceHeader)>;
  using OnTest = std::function<base::Result<void>(TracedTest)>;

  // `name` is the file's, for errors of the form name:line.
  TraceReader(std::string name, OnHeader on_header, OnTest on_test);
  [[nodiscard]] base::Result<void> add(std::string_view bytes);
  // No more bytes come. A header must have been there.
  [[nodiscard]] base::Result<TraceRead> finish();

 private:
  [[nodiscard]] base::Result<void> line(std::string_view text);
  [[nodiscard]] base::Result<void> header(std::string_view text);
  [[nodiscard]] base::Error at(const base::Error& error) const;

  std::string name_;
  OnHeader on_header_;
  OnTest on_test_;
  std::string held_;
  std::size_t line_ = 0;
  std::size_t tests_ = 0;
  bool has_header_ = false;
  std::optional<std::size_t> end_;
};

[[nodiscard]] base::Result<TraceRead> read_trace(const std::filesystem::path& path,
                                                 const TraceReader::OnHeader& on_header,
                                                 const TraceReader::OnTest& on_test);

// Writes a trace while tests run. Until it is finished it lies beside `path`, at path + ".partial",
// each test flushed, so that a trace that was interrupted or killed can be gone on with.
class TraceWriter {
 public:
  // Whether one could be begun at `path`, said before hours of tests and not after them.
  [[nodiscard]] static base::Result<void> check(const std::filesystem::path& path, bool go_on);
  // Fails where another unfinished trace lies there, unless it is gone on with.
  [[nodiscard]] static base::Result<TraceWriter> begin(const std::filesystem::path& path,
                                                       const TraceHeader& header);
  // Goes on with an unfinished trace of the same build, observer and selection; `kept` gets its
  // tests. One that does not exist is begun.
  [[nodiscard]] static base::Result<TraceWriter> go_on(
      const std::filesystem::path& path, const TraceHeader& header,
      const std::function<void(const TracedTest&)>& kept);

  [[nodiscard]] base::Result<void> add(const TracedTest& test);
  // Puts the whole trace at `path`, gzipped if that ends in .gz.
  [[nodiscard]] base::Result<void> finish();
  // Leaves nothing behind.
  void discard();
  [[nodiscard]] std::size_t tests() const { return tests_; }
  [[nodiscard]] static std::filesystem::path partial_path(const std::filesystem::path& path);

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  TraceWriter(std::filesystem::path path, std::FILE* file) : path_{std::move(path)}, file_{file} {}
  [[nodiscard]] base::Result<void> write(const std::string& line);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Closer> file_;
  std::size_t tests_ = 0;
};

}  // namespace crosscheck::ops
