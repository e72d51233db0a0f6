#include "crosscheck/runner/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <unordered_set>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/results_limits.h"
#include "crosscheck/base/text.h"
#include "crosscheck/runner/classify.h"
#include "crosscheck/runner/junit_read.h"
#include "crosscheck/runner/pytest_log.h"
#include "crosscheck/runner/pytest_name.h"
#include "pytest_text.h"
#include "text.h"

namespace crosscheck::runner {
namespace {

using base::Duration;
using base::fail;
using base::Fault;
using base::Outcome;
using base::Result;

constexpr std::size_t k_detail_limit = std::size_t{64} << 10;
constexpr std::size_t k_block = std::size_t{256} << 10;
constexpr std::size_t k_bytes_a_test = 200;                      // in JUnit, at least
constexpr std::size_t k_details_limit = std::size_t{128} << 20;  // of all tracebacks together
constexpr std::size_t k_named = 3;                               // examples in a note
constexpr std::size_t k_example_limit = 200;
constexpr std::string_view k_collection = "(collection)";
constexpr std::string_view k_rerun =
    "failed and was run again; the reports keep no error of this attempt";

// The value of the first property that bears one of the names.
std::string property(const std::vector<std::pair<std::string, std::string>>& properties,
                     std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    for (const auto& [key, value] : properties) {
      if (key == name && !value.empty()) return value;
    }
  }
  return {};
}

// "failed on setup with "ValueError: fixture broke"", and how pytest before 4 has it.
struct Phase {
  std::string name;     // setup, call or teardown
  std::string summary;  // what is left of the message
};
Phase phase_of(const std::string& message) {
  for (const std::string_view name : {"setup", "teardown"}) {
    const auto begin = fmt::format("failed on {} with \"", name);
    if (message.starts_with(begin)) {
      auto rest = message.substr(begin.size());
      if (rest.ends_with('"')) rest.pop_back();
      return {std::string{name}, std::move(rest)};
    }
    if (message == fmt::format("test {} failure", name)) return {std::string{name}, {}};
  }
  return {"call", message};
}

Verdict classify_failure(Finish finish, std::string_view summary, std::string_view text) {
  if (const auto limit = timeout_limit(finish.message)) return classify_timeout(*limit, text);
  if (is_unexpected_success(summary)) {
    finish.outcome = Reported::xpassed;
    finish.strict = true;
    constexpr std::string_view k_mark = "[XPASS(strict)] ";
    finish.message = summary.starts_with(k_mark) ? summary.substr(k_mark.size()) : "";
  }
  return classify(finish);
}

// `first` is the first of its problems that is more than a skip.
Verdict classify_problems(const JunitCase& test, const JunitProblem& first) {
  std::string texts;
  std::size_t failures = 0;
  for (const auto& problem : test.problems) {
    if (problem.element == JunitProblem::Element::skipped) continue;
    if (crashed_node(problem.message) || crashed_node(problem.text)) {
      auto verdict = classify_crash({}, "");
      verdict.detail = base::to_utf8(problem.text, k_detail_limit);
      return verdict;
    }
    if (++failures > 1) texts += "\n\n";
    texts += problem.text;
  }
  const auto phase = phase_of(first.message);
  auto error = pytest_error(first.text, phase.summary);
  Finish finish;
  finish.outcome = phase.name == "call" ? Reported::failed : Reported::error;
  finish.phase = phase.name;
  finish.type = std::move(error.type);
  finish.message = std::move(error.message);
  finish.traceback = std::move(texts);
  auto verdict = classify_failure(finish, phase.summary, finish.traceback);
  if (failures > 1) {
    verdict.message =
        base::to_utf8(fmt::format("{}\n(and {} more failures)", verdict.message, failures - 1));
  }
  return verdict;
}

std::string_view without_prefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}
constexpr std::string_view k_reason = "reason: ";

// What pytest calls skipped: also what was expected to fail.
Verdict classify_skip(const JunitProblem& problem) {
  Finish finish;
  finish.outcome = Reported::skipped;
  finish.message = problem.message;
  const auto given = [&] { return std::string{without_prefix(problem.text, k_reason)}; };
  if (problem.type == "pytest.xfail") {
    finish.outcome = Reported::xfailed;
  } else if (problem.message == "expected test failure") {  // before 5
    finish.outcome = Reported::xfailed;
    finish.message = given();
  } else if (problem.message == "xfail-marked test passes unexpectedly") {  // before 3
    finish.outcome = Reported::xpassed;
    finish.message = given();
  } else if (problem.message == "collection skipped") {
    // ('/x/test_x.py', 2, "Skipped: why")
    constexpr std::string_view k_mark = "Skipped: ";
    finish.message = problem.text;
    if (const auto at = problem.text.find(k_mark); at != std::string::npos) {
      std::string_view reason{problem.text};
      reason.remove_prefix(at + k_mark.size());
      if (reason.ends_with(')')) reason.remove_suffix(1);
      if (reason.ends_with('"') || reason.ends_with('\'')) reason.remove_suffix(1);
      finish.message = reason;
    }
  }
  return classify(finish);
}

Verdict classify_log(const LogTest& test) {
  Finish finish;
  finish.message = test.message;
  finish.type = test.type;
  finish.traceback = test.text;
  finish.phase = test.phase;
  using Ended = LogTest::Ended;
  switch (test.ended) {
    case Ended::passed:
      finish.outcome = Reported::passed;
      break;
    case Ended::skipped:
      finish.outcome = Reported::skipped;
      break;
    case Ended::xfailed:
      finish.outcome = Reported::xfailed;
      finish.message = without_prefix(test.message, k_reason);
      break;
    case Ended::xpassed:
      finish.outcome = Reported::xpassed;
      break;
    case Ended::crashed:
      return classify_crash({std::nullopt, test.signal}, test.text);
    case Ended::timed_out: {
      auto verdict = classify_timeout(timeout_limit(test.message).value_or(Duration{0}), test.text);
      if (!timeout_limit(test.message)) verdict.message = "did not end within pytest's time limit";
      return verdict;
    }
    case Ended::unknown: {
      Verdict verdict;
      verdict.outcome = Outcome::not_run;
      verdict.message = "began, and the log does not show how it ended";
      return verdict;
    }
    case Ended::rerun:
    case Ended::failed:
    case Ended::error:
      finish.outcome = test.ended == Ended::error ? Reported::error : Reported::failed;
      if (finish.type.empty()) {
        auto error = pytest_error("", test.message);
        finish.type = std::move(error.type);
        finish.message = std::move(error.message);
      }
      if (finish.type.empty() && finish.message.empty() && test.ended == Ended::rerun) {
        finish.message = k_rerun;
      }
      return classify_failure(finish, test.message, finish.traceback);
  }
  return classify(finish);
}

void put(base::TestResult& result, Verdict&& verdict) {
  result.outcome = verdict.outcome;
  result.kind = verdict.kind;
  result.fingerprint = std::move(verdict.fingerprint);
  result.message = std::move(verdict.message);
  result.detail = std::move(verdict.detail);
  result.mismatch = std::move(verdict.mismatch);
}

// Things that many tests have in common, told once with examples.
class Tally {
 public:
  void add(const std::string& example) {
    if (++count_ > k_named) return;
    examples_ += (count_ > 1 ? ", " : "") + base::to_utf8(example, k_example_limit);
    if (example.size() > k_example_limit) examples_ += "…";
  }
  // `text` holds {0} for the number and {1} for the examples.
  void tell(std::vector<std::string>& notes, std::string_view text) const {
    if (count_ == 0) return;
    notes.push_back(
        fmt::format(fmt::runtime(text), count_, examples_ + (count_ > k_named ? ", …" : "")));
  }

 private:
  std::size_t count_ = 0;
  std::string examples_;
};

// "2.13.0" and "2.13.0+cpu" may be one; what is no version may be any.
bool may_be_one_version(std::string_view a, std::string_view b) {
  const auto number = [](std::string_view text) {
    return text.substr(0, text.find_first_not_of("0123456789."));
  };
  return number(a).empty() || number(b).empty() || number(a) == number(b);
}

class Importer {
 public:
  explicit Importer(const ImportOptions& options)
      : options_{options}, identifier_{options.inventory} {}

  Result<void> add(const std::string& file) {
    std::error_code error;
    if (std::filesystem::is_directory(file, error)) {
      return fail(Fault::invalid_input, fmt::format("{}: cannot be read: it is a folder", file));
    }
    std::ifstream in{file, std::ios::binary};
    if (!in) {
      const auto why = std::generic_category().message(errno);
      return fail(Fault::invalid_input, fmt::format("{}: cannot be read: {}", file, why));
    }
    const auto size = std::filesystem::file_size(file, error);
    if (!error) expect(size / k_bytes_a_test);
    std::string block(k_block, '\0');
    const auto next = [&] {
      in.read(block.data(), static_cast<std::streamsize>(k_block));
      const std::string_view bytes{block.data(), static_cast<std::size_t>(in.gcount())};
      if (!bytes.empty()) digest_ = base::sha256_hex(digest_ + base::sha256_hex(bytes));
      return bytes;
    };
    const auto first = next();
    auto read = is_xml(file, first) ? read_junit(file, first, next) : read_log(file, first, next);
    if (read && in.bad()) {
      return fail(Fault::invalid_input, fmt::format("{}: cannot be read to its end", file));
    }
    files_ += (files_.empty() ? "" : ", ") + file;
    return read;
  }

  Result<Imported> finish(base::Time now) {
    for (const auto& log : logs_) add_log(log);
    Imported imported;
    auto& results = imported.run.results;
    results = std::move(results_);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      auto& test = tests_[test_of_[i]];
      if (untold_.contains(i)) {
        left_silent_.add(test.node_id);
        continue;
      }
      if (results[i].attempt > 1) repeated_.add(test.node_id);
      if (test.attempts == 1) {
        results[i].id = std::move(test.id);
        results[i].node_id = std::move(test.node_id);
      } else {
        results[i].id = test.id;
        results[i].node_id = test.node_id;
      }
      if (kept != i) results[kept] = std::move(results[i]);
      ++kept;
    }
    results.erase(results.begin() + static_cast<std::ptrdiff_t>(kept), results.end());
    if (results.empty()) {
      return fail(Fault::invalid_input, fmt::format("there is no test in {}", files_),
                  "give JUnit files of pytest's --junit-xml, and console logs of -v or -rA");
    }
    if (results.size() > base::k_results_count_limit) {
      return fail(Fault::too_large,
                  fmt::format("{} results, and a run may have {}", results.size(),
                              base::k_results_count_limit),
                  "import the files in several runs");
    }
    write_header(imported.run.header, now);
    const auto& torch = imported.run.header.combination.core_revision;
    if (options_.inventory != nullptr &&
        !may_be_one_version(torch, options_.inventory->environment.torch)) {
      return fail(Fault::environment,
                  fmt::format("the tests were run with torch {}, and the inventory was collected "
                              "with torch {}",
                              torch, options_.inventory->environment.torch),
                  "collect an inventory with the torch that was run");
    }
    tell(imported.notes);
    return imported;
  }

 private:
  struct Test {
    base::TestId id;
    std::string node_id;
    std::size_t hash = 0;
    std::vector<std::size_t> earlier;  // attempts before the last, as indices of results
    std::size_t last = 0;              // the last, if there is one
    int attempts = 0;
    std::size_t file = 0;  // that the last attempt is from
    bool in_junit = false;
  };
  static std::size_t hash_of(const base::TestId& id) {
    std::size_t sum = 0;
    for (const auto* part : {&id.method, &id.variant, &id.class_name, &id.file}) {
      sum = sum * 31 + std::hash<std::string>{}(*part);
    }
    return sum;
  }
  // Finds tests by what they are, without a copy of it.
  struct Hash {
    const std::vector<Test>* tests;
    std::size_t operator()(std::size_t i) const { return (*tests)[i].hash; }
  };
  struct Equal {
    const std::vector<Test>* tests;
    bool operator()(std::size_t a, std::size_t b) const {
      return (*tests)[a].hash == (*tests)[b].hash && (*tests)[a].id == (*tests)[b].id;
    }
  };

  // Room for as many tests as a file of the size may hold, that they need not move while it is
  // read.
  void expect(std::size_t tests) {
    constexpr std::size_t k_most = 100'000;
    const auto room = results_.size() + std::min(tests, k_most);
    tests_.reserve(room);
    results_.reserve(room);
    by_id_.reserve(room);
  }

  static bool is_xml(const std::string& file, std::string_view bytes) {
    if (file.ends_with(".xml")) return true;
    for (const std::string_view mark : {"\xEF\xBB\xBF", "\xFF\xFE", "\xFE\xFF"}) {
      if (bytes.starts_with(mark)) bytes.remove_prefix(mark.size());
    }
    while (!bytes.empty() && (bytes.front() == ' ' || bytes.front() == '\n' ||
                              bytes.front() == '\r' || bytes.front() == '\0')) {
      bytes.remove_prefix(1);
    }
    return bytes.starts_with('<');
  }

  Result<void> read_junit(const std::string& file, std::string_view bytes, const auto& next) {
    ++file_;
    std::size_t cases = 0;
    JunitSink sink;
    sink.on_case = [&](JunitCase& test) {
      ++cases;
      add_case(test);
    };
    sink.on_suite = [&](JunitSuite& suite) { add_suite(suite); };
    JunitParser parser{
        file, std::move(sink),
        options_.salvage ? JunitParser::Forbidden::question_mark : JunitParser::Forbidden::refuse};
    Result<void> read;
    for (; read && !bytes.empty(); bytes = next()) {
      read = parser.feed(bytes);
      if (tests_.size() > base::k_results_count_limit) return read;  // finish() refuses it
    }
    if (read) read = parser.finish();
    if (read || !options_.salvage || cases == 0) return read;
    cut_off_ = true;
    notes_.push_back(fmt::format("{}: {} that {} complete {} kept, what follows is not",
                                 read.error().message, base::count_of(cases, "test"),
                                 cases == 1 ? "was" : "were", cases == 1 ? "is" : "are"));
    return {};
  }

  Result<void> read_log(const std::string& file, std::string_view bytes, const auto& next) {
    PytestLogReader reader;
    for (; !bytes.empty(); bytes = next()) reader.feed(bytes);
    auto log = reader.finish();
    if (log.tests.empty() && log.broken.empty()) {
      return fail(Fault::invalid_input,
                  fmt::format("{}: no line of it is pytest's word on a test", file),
                  "give the JUnit file that pytest's --junit-xml wrote, or what it printed with "
                  "-v or -rA");
    }
    if (log.cut_off > 0) {
      notes_.push_back(fmt::format(
          "{}: {} of its {} runs of pytest did not come to an end: tests that it does not name "
          "are missing here",
          file, log.cut_off, log.sessions));
    }
    logs_.push_back(std::move(log));
    return {};
  }

  void add_suite(const JunitSuite& suite) {
    properties_.insert(properties_.end(), suite.properties.begin(), suite.properties.end());
    if (suite.timestamp.empty()) return;
    auto began = base::parse_rfc3339(suite.timestamp);
    if (!began) began = base::parse_rfc3339(suite.timestamp + "Z");  // without a zone: UTC
    if (!began) return;
    began_ = std::min(began_.value_or(*began), *began);
    ended_ = std::max(ended_.value_or(*began), *began + suite.time);
  }

  // The test's own entry, made when it is first named. Valid until the next is made.
  Test& test_of(base::TestId id, std::string node_id) {
    const auto hash = hash_of(id);
    tests_.push_back({std::move(id), std::move(node_id), hash, {}, 0, 0, 0, false});
    const auto [at, added] = by_id_.insert(tests_.size() - 1);
    if (!added) tests_.pop_back();
    return tests_[*at];
  }

  void add_attempt(Test& test, Verdict verdict, Duration duration) {
    if (test.attempts++ > 0) test.earlier.push_back(test.last);
    test.last = results_.size();
    auto& result = results_.emplace_back();
    result.attempt = test.attempts;
    result.duration = duration;
    set(test.last, std::move(verdict), test);
    test_of_.push_back(static_cast<std::size_t>(&test - tests_.data()));
  }

  // All tracebacks together are bounded: a report may hold any number.
  void set(std::size_t at, Verdict verdict, const Test& test) {
    details_ += verdict.detail.size();
    if (details_ > k_details_limit && !verdict.detail.empty()) {
      verdict.detail = {};
      left_out_.add(test.node_id);
    }
    verdict.detail.shrink_to_fit();  // it grew bit by bit, up to twice its size
    put(results_[at], std::move(verdict));
  }

  Test& identify(const ReportedName& reported) {
    auto found = identifier_.identify(reported);
    auto& test = test_of(std::move(found.id), std::move(found.node_id));
    if (test.attempts > 0) return test;
    using How = Identified::How;
    if (found.how == How::inferred) inferred_.add(test.node_id);
    if (found.how == How::unlisted) unlisted_.add(test.node_id);
    if (found.how == How::ambiguous) {
      ambiguous_.add(
          fmt::format("{} ({} or {})", test.node_id, found.candidates[0], found.candidates[1]));
    }
    return test;
  }

  void add_case(JunitCase& reported) {
    const JunitProblem* first = nullptr;
    const JunitProblem* skip = nullptr;
    for (const auto& problem : reported.problems) {
      if (problem.element != JunitProblem::Element::skipped) {
        if (first == nullptr) first = &problem;
      } else if (skip == nullptr) {
        skip = &problem;
      }
    }
    if (first != nullptr && first->message == "collection failure") {
      const auto error = pytest_error(first->text, "");
      return add_broken(file_of(reported), error.type, error.message, first->text);
    }
    if (first == nullptr && skip != nullptr && skip->message == "collection skipped") {
      return add_attempt(file_test(file_of(reported)), classify_skip(*skip), reported.time);
    }
    std::swap(name_.file, reported.file);
    std::swap(name_.path, reported.class_name);
    std::swap(name_.name, reported.name);
    const auto node = property(reported.properties, {"node_id"});
    auto& test = identify(node.empty() ? name_ : reported_name(node));
    const bool again = test.file == file_;  // in one report
    // One attempt that failed, and then its teardown failed too, stands there twice.
    if (again && first != nullptr && phase_of(first->message).name == "teardown" &&
        base::is_failure(results_[test.last].outcome)) {
      auto& detail = results_[test.last].detail;
      detail = base::to_utf8(detail + "\n\nin teardown: " + first->text, k_detail_limit);
      return;
    }
    // pytest-rerunfailures writes an attempt that it will repeat like one that passed.
    if (again && results_[test.last].outcome == Outcome::passed) untold_.insert(test.last);
    auto verdict = first != nullptr  ? classify_problems(reported, *first)
                   : skip != nullptr ? classify_skip(*skip)
                                     : classify({});
    add_attempt(test, std::move(verdict), reported.time);
    test.file = file_;
    test.in_junit = true;
  }

  // What stands for a file that could not be collected.
  Test& file_test(const std::string& file) {
    return test_of({file, "", std::string{k_collection}, "{}"}, file);
  }

  std::string file_of(const JunitCase& reported) const {
    if (!reported.file.empty()) return reported.file;
    return identifier_.file_of(
        {"", "", reported.class_name.empty() ? reported.name : reported.class_name});
  }

  void add_broken(const std::string& file, const std::string& type, const std::string& message,
                  const std::string& text) {
    auto& test = file_test(file);
    add_attempt(test, classify_collect_error({file, type, message, text}), Duration{0});
    test.in_junit = true;
  }

  void add_log(const PytestLog& log) {
    facts_.insert(log.facts.begin(), log.facts.end());
    for (const auto& broken : log.broken) {
      const auto module = reported_name(broken.node_id.substr(0, broken.node_id.find("::")));
      const auto file = options_.inventory != nullptr ? identifier_.file_of(module) : module.file;
      if (file_test(file).attempts == 0) {
        add_broken(file, broken.type, broken.message, broken.text);
      }
    }
    std::unordered_map<std::size_t, std::size_t> reruns;  // by test
    for (const auto& reported : log.tests) {
      auto& test = identify(reported_name(reported.node_id));
      if (!test.in_junit) {
        add_attempt(test, classify_log(reported), Duration{0});
        continue;
      }
      const auto& last = results_[test.last];
      const bool crashed = reported.ended == LogTest::Ended::crashed && !reported.text.empty() &&
                           last.outcome == Outcome::crashed;
      const bool xpassed = reported.ended == LogTest::Ended::xpassed &&  // JUnit has no word for it
                           last.outcome == Outcome::passed;
      if (reported.ended == LogTest::Ended::rerun) {
        const auto index = static_cast<std::size_t>(&test - tests_.data());
        complete_rerun(test, reruns[index]++, classify_log(reported));
      } else if (crashed || xpassed) {
        set(test.last, classify_log(reported), test);
      }
    }
  }

  // What JUnit says nothing of, or leaves out, and the log has.
  void complete_rerun(Test& test, std::size_t number, Verdict verdict) {
    if (number < test.earlier.size()) {
      const auto at = test.earlier[number];
      if (untold_.erase(at) > 0) set(at, std::move(verdict), test);
      return;
    }
    // It comes before the last, which stays the last.
    const auto last = test.last;
    add_attempt(test, std::move(verdict), Duration{0});
    std::swap(results_[last], results_[test.last]);
    std::swap(results_[last].attempt, results_[test.last].attempt);
  }

  void write_header(base::RunHeader& header, base::Time now) const {
    auto& combination = header.combination;
    combination = options_.combination;
    const auto fill = [&](std::string& field, std::initializer_list<std::string_view> names) {
      if (field.empty()) field = property(properties_, names);
      if (field.empty()) field = "unknown";
      field = base::to_utf8(field, 256);
    };
    fill(combination.backend, {"backend"});
    fill(combination.backend_revision, {"backend_revision", "backend_version"});
    fill(combination.core_revision, {"core_revision", "torch", "torch_version", "pytorch_version"});
    fill(combination.suite_revision, {"suite_revision"});
    fill(combination.device, {"device"});
    fill(combination.environment_digest, {"environment_digest"});
    auto subject = digest_ + combination.digest();
    if (options_.inventory != nullptr) subject += options_.inventory->environment.suite;
    header.run_id = base::sha256_hex(subject).substr(0, 32);
    header.selection = "imported from " + base::to_utf8(files_, 1024);
    header.started_at = began_.value_or(now);
    header.finished_at = ended_.value_or(now);
    header.imported = true;
    // What pytest writes JUnit files at is its end.
    header.interrupted = cut_off_ || (file_ == 0 && !logs_.empty() && logs_.back().unfinished);
    for (const auto& [name, value] : facts_) header.environment.emplace_back(name, value);
  }

  void tell(std::vector<std::string>& notes) const {
    notes = notes_;
    inferred_.tell(
        notes,
        "{0} tests are named by a dotted path that names no file; it was taken from what "
        "looks like a module ({1}). To be sure give --inventory, or let pytest write "
        "junit_family=xunit1");
    ambiguous_.tell(notes,
                    "{0} tests could be one of several in the inventory and stay as reported: {1}");
    unlisted_.tell(notes, "{0} tests are not in the inventory and stay as reported: {1}");
    repeated_.tell(notes, "{0} results are of a test that came before: kept as attempts ({1})");
    left_silent_.tell(
        notes,
        "{0} results are followed by another of the same test in one JUnit file, which "
        "does not say whether they passed (pytest-rerunfailures writes failed attempts like "
        "passed ones): left out ({1}). Give the console log of -v as well");
    left_out_.tell(notes, "{0} tracebacks are left out, all together being over 128 MiB: {1}");
  }

  const ImportOptions& options_;
  Identifier identifier_;
  std::vector<Test> tests_;
  ReportedName name_;  // of the case that is read
  std::unordered_set<std::size_t, Hash, Equal> by_id_{0, Hash{&tests_}, Equal{&tests_}};
  std::vector<base::TestResult> results_;   // without their tests
  std::vector<std::size_t> test_of_;        // of each result
  std::unordered_set<std::size_t> untold_;  // results of which no report says how they ended
  std::size_t details_ = 0;                 // bytes of tracebacks
  std::vector<PytestLog> logs_;
  std::vector<std::pair<std::string, std::string>> properties_;
  std::map<std::string, std::string> facts_;
  std::optional<base::Time> began_;
  std::optional<base::Time> ended_;
  bool cut_off_ = false;  // a JUnit file, of which what is complete was kept
  std::size_t file_ = 0;  // number of the JUnit file that is read, from 1
  std::string files_;
  std::string digest_;
  std::vector<std::string> notes_;
  Tally inferred_, unlisted_, ambiguous_, repeated_, left_silent_, left_out_;
};

}  // namespace

Result<Imported> import_runs(const std::vector<std::string>& files, const ImportOptions& options,
                             base::Time now) {
  Importer importer{options};
  for (const auto& file : files) {
    if (auto added = importer.add(file); !added) return tl::unexpected{added.error()};
  }
  return importer.finish(now);
}

}  // namespace crosscheck::runner
