#include "crosscheck/runner/pytest_log.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "crosscheck/base/json.h"
#include "pytest_text.h"
#include "text.h"

namespace crosscheck::runner {
namespace {

using Ended = LogTest::Ended;

constexpr std::size_t k_line_limit = std::size_t{64} << 10;  // the rest of a longer one is not read
constexpr std::size_t k_text_limit = std::size_t{64} << 10;
constexpr std::size_t k_same_title = 16;
constexpr int k_segv = 11;
constexpr int k_abrt = 6;
constexpr int k_kill = 9;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string_view trimmed_end(std::string_view text) {
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "2026-11-30T20:00:00.1234567Z ", which GitHub puts before each line of a log.
std::string_view without_stamp(std::string_view line) {
  constexpr std::string_view k_shape = "0000-00-00T00:00:00";
  if (line.size() <= k_shape.size()) return line;
  for (std::size_t i = 0; i < k_shape.size(); ++i) {
    if (k_shape[i] == '0' ? !is_digit(line[i]) : line[i] != k_shape[i]) return line;
  }
  auto at = k_shape.size();
  while (at < line.size() && (is_digit(line[at]) || line[at] == '.')) ++at;
  return line.substr(at).starts_with("Z ") ? line.substr(at + 2) : line;
}

// As a terminal would leave it, without colours.
std::string cleaned(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (const auto back = line.rfind('\r'); back != std::string_view::npos) {
    line.remove_prefix(back + 1);
  }
  std::string plain;
  plain.reserve(line.size());
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] != '\x1b') {
      plain += line[i++];
      continue;
    }
    const char kind = i + 1 < line.size() ? line[i + 1] : '\0';
    i = std::min(i + 2, line.size());
    if (kind == '[') {
      while (i < line.size() && (line[i] < '@' || line[i] > '~')) ++i;
      if (i < line.size()) ++i;
    } else if (kind == ']') {
      while (i < line.size() && line[i] != '\a' && line[i] != '\x1b') ++i;
      if (i < line.size()) i += line[i] == '\a' ? 1 : std::min<std::size_t>(2, line.size() - i);
    }
  }
  return base::to_utf8(without_stamp(plain));
}

// "= … =" and "_ … _" with what stands between.
std::optional<std::string_view> ruled(std::string_view line, char rule) {
  line = trimmed_end(line);
  if (line.size() < 5 || line.front() != rule || line.back() != rule) return std::nullopt;
  const auto begin = line.find_first_not_of(rule);
  if (begin == std::string_view::npos) return std::string_view{};
  const auto end = line.find_last_not_of(rule);
  if (line[begin] != ' ' || line[end] != ' ' || end <= begin + 1) return std::nullopt;
  return line.substr(begin + 1, end - begin - 1);
}

// Where a node id ("test_x.py::TestX::test_y[a b]") that begins at the line's begin may end: behind
// its last "::" at the earliest.
bool begins_with_node(std::string_view line) {
  const auto at = line.find(".py::");
  return at != std::string_view::npos && at > 0 && line.front() != ' ' &&
         line.substr(0, at).find_first_of(" \"'()=") == std::string_view::npos &&
         at + 5 < line.size() && line[at + 5] != ' ';
}

// The node id without what follows the first space outside brackets.
std::string_view node_of(std::string_view line) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '[') ++depth;
    if (line[i] == ']' && depth > 0) --depth;
    if (line[i] == ' ' && depth == 0) return line.substr(0, i);
  }
  if (depth == 0) return line;
  // Brackets that do not close: a parameter with one in it.
  return line.substr(0, line.find(' '));
}

struct Word {
  std::string_view text;
  Ended ended;
};
constexpr std::array<Word, 10> k_words{{
    {"PASSED", Ended::passed},
    {"FAILED", Ended::failed},
    {"ERROR", Ended::error},
    {"SKIPPED", Ended::skipped},
    {"XFAIL", Ended::xfailed},
    {"xfail", Ended::xfailed},
    {"XPASS", Ended::xpassed},
    {"xpass", Ended::xpassed},
    {"RERUN", Ended::rerun},
    {"SKIP", Ended::skipped},
}};

// "[ 34%]", "[ 3/40]" or "[ 1.2s]" at the end of a line.
std::string_view without_progress(std::string_view line) {
  line = trimmed_end(line);
  if (!line.ends_with(']')) return line;
  const auto open = line.rfind('[');
  if (open == std::string_view::npos || (open > 0 && line[open - 1] != ' ')) return line;
  const auto inside = line.substr(open + 1, line.size() - open - 2);
  const bool progress = inside.find_first_of("%/s") != std::string_view::npos &&
                        inside.find_first_not_of(" 0123456789%/.ms") == std::string_view::npos;
  return progress ? trimmed_end(line.substr(0, open)) : line;
}

struct Outcome {
  std::string_view before;
  Ended ended;
  std::string_view reason;
};
// An outcome at the end of a line, with its reason: "… SKIPPED (not here)".
std::optional<Outcome> outcome_at_end(std::string_view line) {
  line = without_progress(line);
  for (const auto& word : k_words) {
    if (line.ends_with(word.text)) {
      const auto before = line.substr(0, line.size() - word.text.size());
      if (before.empty() || before.ends_with(' ')) return Outcome{before, word.ended, {}};
    }
    if (!line.ends_with(')')) continue;
    const auto mark = std::string{word.text} + " (";
    const auto at = line.starts_with(mark) ? 0 : line.find(" " + mark);
    if (at == std::string_view::npos) continue;
    const auto begin = at + mark.size() + (at == 0 ? 0 : 1);
    return Outcome{line.substr(0, at), word.ended, line.substr(begin, line.size() - begin - 1)};
  }
  return std::nullopt;
}

// What faulthandler calls a signal.
std::optional<int> signal_of(std::string_view line) {
  if (contains(line, "Fatal Python error: Segmentation fault")) return k_segv;
  if (contains(line, "Fatal Python error: Aborted")) return k_abrt;
  if (contains(line, "Fatal Python error: Bus error")) return 7;
  if (contains(line, "Fatal Python error: Floating")) return 8;
  if (contains(line, "Fatal Python error: Illegal instruction")) return 4;
  if (contains(line, "terminate called ")) return k_abrt;
  return std::nullopt;
}

// What a shell, or a CI, says of a process that a signal ended. A shell says it in the user's
// language, in glibc's words.
std::optional<int> shell_signal(std::string_view line) {
  struct Saying {
    std::string_view text;
    int signal;
  };
  static constexpr std::array<Saying, 31> k_sayings{{
      {"Segmentation fault", k_segv},
      {"Speicherzugriffsfehler", k_segv},
      {"Erreur de segmentation", k_segv},
      {"Violación de segmento", k_segv},
      {"Violació de segment", k_segv},
      {"Errore di segmentazione", k_segv},
      {"Falha de segmentação", k_segv},
      {"Ошибка сегментирования", k_segv},
      {"Segmentatiefout", k_segv},
      {"Naruszenie ochrony pamięci", k_segv},
      {"Segmenteringsfel", k_segv},
      {"Parçalama arızası", k_segv},
      {"Помилка сегментації", k_segv},
      {"段错误", k_segv},
      {"程式記憶體區段錯誤", k_segv},
      {"Segmentation フォールト", k_segv},
      {"セグメンテーション違反", k_segv},
      {"세그멘테이션 오류", k_segv},
      {"세그멘테이션 폴트", k_segv},
      {"Aborted", k_abrt},
      {"Abgebrochen", k_abrt},
      {"Abandon", k_abrt},
      {"Abortado", k_abrt},
      {"Аварийный останов", k_abrt},
      {"已放弃", k_abrt},
      {"中止しました", k_abrt},
      {"Killed", k_kill},
      {"Getötet", k_kill},
      {"Processus arrêté", k_kill},
      {"Убито", k_kill},
      {"已杀死", k_kill},
  }};
  for (const auto& saying : k_sayings) {
    const auto at = line.find(saying.text);
    if (at == std::string_view::npos) continue;
    // "line 3: 4711 Segmentation fault  (core dumped) pytest", or the words alone.
    const auto before = trimmed_end(line.substr(0, at));
    const auto behind = trimmed_end(line.substr(at + saying.text.size()));
    const bool alone = before.empty() && (behind.empty() || behind.starts_with(" ("));
    if (alone || before.ends_with(':') || (contains(before, ": ") && is_digit(before.back()))) {
      return saying.signal;
    }
  }
  for (const std::string_view mark : {"exit code ", "exited with code ", "exit status "}) {
    const auto at = line.find(mark);
    if (at == std::string_view::npos) continue;
    int code = 0;
    const auto number = line.substr(at + mark.size());
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), code);
    if (error != std::errc{} || (end != number.data() + number.size() && is_digit(*end))) continue;
    if (code > 128 && code < 128 + 32) return code - 128;
    if (code < 0 && code > -32) return -code;
  }
  return std::nullopt;
}

void append(std::string& text, std::string_view line) {
  if (text.size() + line.size() + 1 > k_text_limit) return;
  if (!text.empty()) text += '\n';
  text += line;
}

// A node id as a section's title has it: "TestX.test_y[1]".
std::string title_of(std::string_view node) {
  auto rest = node.substr(std::min(node.size(), node.find("::") + 2));
  const auto bracket = rest.find('[');
  std::string title{rest.substr(0, bracket)};
  for (auto at = title.find("::"); at != std::string::npos; at = title.find("::")) {
    title.replace(at, 2, ".");
  }
  if (bracket != std::string_view::npos) title += rest.substr(bracket);
  return title;
}

// A dump of faulthandler's, or what else a dying process printed.
struct Dump {
  std::string text;
  std::optional<int> signal;
  // Whether the function that the node names was running, in its file.
  [[nodiscard]] bool is_of(std::string_view node) const {
    auto file = node.substr(0, node.find("::"));
    file = file.substr(file.find_last_of('/') + 1);
    auto function = node.substr(0, node.find('['));
    const auto behind = function.rfind("::");
    if (behind == std::string_view::npos) return false;
    function.remove_prefix(behind + 2);
    bool found = false;
    for_each_line(text, [&](std::string_view line) {
      found = found || (contains(line, std::string{file} + "\"") &&
                        line.ends_with(" in " + std::string{function}));
    });
    return found;
  }
};

}  // namespace

class PytestLogReader::State {
 public:
  void feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto newline = bytes.find('\n');
      const auto piece = bytes.substr(0, newline);
      if (line_.size() < k_line_limit) line_ += piece.substr(0, k_line_limit - line_.size());
      if (newline == std::string_view::npos) return;
      bytes.remove_prefix(newline + 1);
      take_line();
    }
  }

  PytestLog finish() {
    if (!line_.empty()) take_line();
    end_session();
    return std::move(log_);
  }

 private:
  enum class Part : std::uint8_t { running, errors, failures, other, summary };

  void take_line() {
    ++number_;
    auto text = cleaned(line_);
    line_.clear();
    // After the process died the next run's first line may stand behind the last test's name.
    if (const auto at = text.find("= test session starts ="); at != std::string::npos) {
      const auto begin = text.find_last_not_of('=', at);
      if (begin != std::string::npos) read(text.substr(0, begin + 1));
      end_session();
      in_session_ = true;
      ++log_.sessions;
      return;
    }
    read(text);
  }

  void read(std::string_view line) {
    if (const auto title = ruled(line, '=')) {
      if (read_rule(*title)) return;
    }
    if (const auto node = crashed_node(line)) {
      auto& test = entry(*node);
      test.ended = Ended::crashed;
      if (test.message.empty()) test.message = line;
    }
    switch (part_) {
      case Part::running:
        return read_running(line);
      case Part::errors:
      case Part::failures:
      case Part::other:
        return read_section(line);
      case Part::summary:
        return read_summary(line);
    }
  }

  bool read_rule(std::string_view title) {
    if (title == "FAILURES") return enter(Part::failures);
    if (title == "ERRORS") return enter(Part::errors);
    if (title.starts_with("short test summary") || title.starts_with("rerun test summary")) {
      return enter(Part::summary);
    }
    if (title == "PASSES" || title == "XPASSES" || title == "XFAILURES" ||
        title.starts_with("warnings summary") || title.starts_with("slowest ")) {
      return enter(Part::other);
    }
    // "3 failed, 6 passed in 3.31s": the end.
    const auto in = title.rfind(" in ");
    if (in != std::string_view::npos && in + 4 < title.size() && is_digit(title[in + 4])) {
      ended_ = true;
      return enter(Part::other);
    }
    return false;
  }

  bool enter(Part part) {
    close_section();
    part_ = part;
    return true;
  }

  void read_running(std::string_view line) {
    if (line.starts_with("platform ")) return read_facts(line);
    if (line.starts_with("+++++") && contains(line, " Timeout ")) return begin_timeout();
    if (const auto signal = signal_of(line)) {
      // The words may stand behind the name of the test that is running.
      const auto at = std::min(line.find("Fatal Python error"), line.find("terminate called"));
      if (at > 0) read_running(trimmed_end(line.substr(0, at)));
      if (!dumping_) dumps_.push_back({{}, signal});
      dumping_ = true;
      append(dumps_.back().text, line.substr(at));
      dumps_.back().signal = signal;
      return;
    }
    if (begins_with_node(line)) {
      dumping_ = false;
      return read_test(line);
    }
    if (line.starts_with("[gw")) {
      dumping_ = false;
      return read_worker(line);
    }
    if (dumping_ || timing_out_) {
      auto& text = dumping_ ? dumps_.back().text : tests()[*current_].text;
      if (line.starts_with("  ") || line.empty() || contains(line, "hread 0x") ||
          line.starts_with("~~~") || line.starts_with("+++") || line.starts_with("Extension")) {
        return append(text, line);
      }
      dumping_ = false;
    }
    if (const auto count = counted(line)) {
      log_.collected += *count;
      return;
    }
    if (current_ && tests()[*current_].ended == Ended::unknown) {
      // The test's own output stands between its name and its outcome.
      if (const auto outcome = outcome_at_end(line); outcome && outcome->before.empty()) {
        return conclude(tests()[*current_], outcome->ended, outcome->reason);
      }
    }
    if (const auto signal = shell_signal(line)) shell_signal_ = signal;
  }

  void read_facts(std::string_view line) {
    const auto value = [&](std::string_view mark) {
      const auto at = line.find(mark);
      if (at == std::string_view::npos) return std::string{};
      const auto rest = line.substr(at + mark.size());
      return std::string{rest.substr(0, rest.find_first_of(", "))};
    };
    if (auto python = value("Python "); !python.empty()) log_.facts["python"] = std::move(python);
    if (auto pytest = value("pytest-"); !pytest.empty()) log_.facts["pytest"] = std::move(pytest);
  }

  // "collected 32 items / 1 error", "2 workers [9 items]", "gw0 [9] / gw1 [9]".
  static std::optional<std::size_t> counted(std::string_view line) {
    std::string_view number;
    if (const auto at = line.find("collected "); at != std::string_view::npos) {
      number = line.substr(at + 10);
    } else if (const auto open = line.find('[');
               open != std::string_view::npos &&
               (line.starts_with("gw") || contains(line, "workers ["))) {
      number = line.substr(open + 1);
    } else {
      return std::nullopt;
    }
    std::size_t count = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), count);
    constexpr std::size_t k_most = 10'000'000;
    if (error != std::errc{} || count > k_most) return std::nullopt;
    return count;
  }

  // "test_x.py::test_y PASSED   [ 3%]", or without an outcome: it begins.
  void read_test(std::string_view line) {
    if (const auto outcome = outcome_at_end(line)) {
      auto node = trimmed_end(outcome->before);
      if (node.find("::") != std::string_view::npos) {
        node = node_of(node).size() < node.size() && contains(node, " (") ? node_of(node) : node;
        auto& test = entry(node);
        current_ = index_of(test);
        return conclude(test, outcome->ended, outcome->reason);
      }
    }
    const auto rest = without_progress(line);
    auto& test = entry(node_of(rest));
    current_ = index_of(test);
    // "… SUBFAILED(i=1)", "… (i=1) SUBFAIL", with messages in brackets.
    if (contains(rest, " SUBFAIL") || contains(rest, ",SUBFAIL")) conclude(test, Ended::failed, {});
    const auto behind = rest.substr(std::min(rest.size(), test.node_id.size() + 1));
    if (behind.starts_with("+++++") && contains(behind, " Timeout ")) begin_timeout();
    if (const auto signal = shell_signal(behind)) shell_signal_ = signal;
  }

  // "[gw0] [ 33%] PASSED test_x.py::test_y ", "[gw0] node down: Not properly terminated".
  void read_worker(std::string_view line) {
    const auto close = line.find(']');
    if (close == std::string_view::npos) return;
    const auto worker = std::string{line.substr(1, close - 1)};
    auto rest = line.substr(close + 1);
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    if (rest.starts_with('[')) {
      rest.remove_prefix(std::min(rest.size(), rest.find(']') + 1));
      while (rest.starts_with(' ')) rest.remove_prefix(1);
    }
    if (rest.starts_with("node down: ")) {
      down_ = worker;
      return;
    }
    for (const auto& word : k_words) {
      if (!rest.starts_with(word.text) || !rest.substr(word.text.size()).starts_with(' ')) continue;
      auto node = trimmed_end(rest.substr(word.text.size() + 1));
      if (!begins_with_node(node)) return;
      // Another process's output may follow on the line.
      node = node_of(node);
      auto& test = entry(node);
      const bool down = down_ == worker && word.ended != Ended::passed;
      down_.clear();
      return conclude(test, down ? Ended::crashed : word.ended, {});
    }
  }

  void begin_timeout() {
    if (!current_ || tests()[*current_].ended != Ended::unknown) return;
    timing_out_ = true;
  }

  void read_section(std::string_view line) {
    if (const auto title = ruled(line, '_'); title && !title->empty() && *title != "_ _") {
      close_section();
      if (part_ != Part::other) section_ = *title;
      return;
    }
    if (!section_.empty()) append(section_text_, line);
  }

  void close_section() {
    const auto title = std::exchange(section_, {});
    const auto text = std::exchange(section_text_, {});
    if (title.empty()) return;
    const auto error = pytest_error(text, "");
    constexpr std::string_view k_collecting = "ERROR collecting ";
    if (title.starts_with(k_collecting)) {
      auto& broken = broken_entry(title.substr(k_collecting.size()));
      broken = {broken.node_id, error.type, error.message, text};
      return;
    }
    std::string_view name = title;
    std::string phase = "call";
    for (const std::string_view when : {"setup", "teardown"}) {
      const auto mark = "ERROR at " + std::string{when} + " of ";
      if (name.starts_with(mark)) {
        name.remove_prefix(mark.size());
        phase = when;
      }
    }
    auto* test = titled(std::string{name}, text);
    // The first failure of several is what it failed by.
    if (test == nullptr || !test->text.empty() || test->ended == Ended::passed) return;
    if (test->ended == Ended::crashed || test->ended == Ended::timed_out) return;
    if (test->ended == Ended::failed && phase == "teardown") return;  // it failed before
    test->phase = phase;
    test->type = error.type;
    test->message = error.message;
    test->text = text;
  }

  // The test of this session that a section is about, if that can be told.
  LogTest* titled(const std::string& name, std::string_view text) {
    if (auto* test = titled_exactly(name, text)) return test;
    // A subtest's: "TestX.test_y (i=1)", "TestX.test_y [message] (i=1)".
    return titled_exactly(name.substr(0, name.find(' ')), text);
  }

  LogTest* titled_exactly(const std::string& title, std::string_view text) {
    const auto at = by_title_.find(title);
    if (at == by_title_.end()) return nullptr;
    LogTest* found = nullptr;
    if (at->second.size() <= k_same_title) {
      std::size_t not_passed = 0;
      for (const auto i : at->second) {
        if (tests()[i].ended == Ended::passed) continue;
        ++not_passed;
        found = &tests()[i];
      }
      if (not_passed <= 1) return found;
    }
    // One name in several files: the traceback names its own.
    found = nullptr;
    for_each_line(text, [&](std::string_view line) {
      if (found != nullptr) return;
      const auto colon = line.find(".py:");
      if (colon == std::string_view::npos) return;
      const auto named = by_place_.find(title + '\n' + std::string{line.substr(0, colon + 3)});
      if (named != by_place_.end()) found = &tests()[named->second];
    });
    return found;
  }

  // "FAILED test_x.py::test_y - AssertionError: …"
  void read_summary(std::string_view line) {
    for (const auto& word : k_words) {
      if (!line.starts_with(word.text) || !line.substr(word.text.size()).starts_with(' ')) continue;
      auto rest = line.substr(word.text.size() + 1);
      for (const std::string_view at : {"at setup of ", "at teardown of "}) {
        if (rest.starts_with(at)) rest.remove_prefix(at.size());
      }
      if (!begins_with_node(rest)) {
        if (word.ended == Ended::error) broken_file(rest);
        return;
      }
      const auto node = known_node(rest);
      auto reason = rest.substr(std::min(rest.size(), node.size()));
      for (const std::string_view by : {" - ", " "}) {
        if (reason.starts_with(by)) reason.remove_prefix(by.size());
      }
      return conclude_by_summary(node, word.ended, reason);
    }
    // "SUBFAILED(i=1) test_x.py::…", "(i=1) SUBFAIL test_x.py::…"
    if (!contains(line, "SUBFAIL")) return;
    const auto behind = line.find(' ', line.find("SUBFAIL"));
    if (behind == std::string_view::npos || !begins_with_node(line.substr(behind + 1))) return;
    const auto rest = line.substr(behind + 1);
    const auto node = known_node(rest);
    const auto dash = rest.find(" - ", node.size());
    auto& test = entry(node, false);  // which itself may be said to have passed
    conclude(test, Ended::failed, {});
    if (test.message.empty() && dash != std::string_view::npos)
      test.message = rest.substr(dash + 3);
  }

  void conclude_by_summary(std::string_view node, Ended ended, std::string_view reason) {
    if (ended == Ended::rerun) {
      // Each has its own line above; with dots this is all there is.
      const auto at = by_node_.find(std::string{node});
      if (at != by_node_.end() && at->second >= session_begin_) return;
    }
    auto& test = entry(node, false);
    const bool told = test.ended != Ended::unknown;
    if (told && test.ended != ended && ended != Ended::error) return;
    if (!told || ended == Ended::error) conclude(test, ended, {});
    if (test.message.empty() && test.type.empty()) test.message = reason;
  }

  // The node id that a summary's line begins with: one that the session has, where a parameter
  // makes it hard to tell.
  std::string_view known_node(std::string_view rest) const {
    for (auto end = rest.size(); end != std::string_view::npos && end > 0;
         end = rest.rfind(" - ", end - 1)) {
      const auto node = trimmed_end(rest.substr(0, end));
      const auto at = by_node_.find(std::string{node});
      if (at != by_node_.end() && at->second >= session_begin_) return node;
      if (end < 3) break;
    }
    if (const auto dash = rest.find("] - "); dash != std::string_view::npos) {
      return rest.substr(0, dash + 1);
    }
    return node_of(rest);
  }

  void broken_file(std::string_view rest) {
    const auto name = rest.substr(0, rest.find(" - "));
    if (!name.ends_with(".py")) return;
    auto& broken = broken_entry(std::string{name});
    if (!broken.text.empty()) return;
    const auto error = pytest_error("", rest.substr(std::min(rest.size(), name.size() + 3)));
    broken.type = error.type;
    broken.message = error.message;
  }

  // Old versions have the summary before the sections.
  LogBroken& broken_entry(const std::string& node) {
    for (auto& broken : log_.broken) {
      if (broken.node_id == node) return broken;
    }
    log_.broken.push_back({node, "", "", ""});
    return log_.broken.back();
  }

  std::vector<LogTest>& tests() { return log_.tests; }
  [[nodiscard]] std::size_t index_of(const LogTest& test) {
    return static_cast<std::size_t>(&test - tests().data());
  }

  // The attempt of the test that goes on in this session, or a new one.
  LogTest& entry(std::string_view node, bool after_rerun = true) {
    const auto [at, added] = by_node_.emplace(std::string{node}, tests().size());
    if (!added && at->second >= session_begin_) {
      auto& known = tests()[at->second];
      if (known.ended != Ended::rerun || !after_rerun) return known;
    }
    at->second = tests().size();
    LogTest test;
    test.line = number_;
    test.node_id = node;
    const auto title = title_of(node);
    by_title_[title].push_back(tests().size());
    by_place_[title + '\n' + std::string{node.substr(0, node.find("::"))}] = tests().size();
    tests().push_back(std::move(test));
    return tests().back();
  }

  // What comes later is of a later phase, and of the two the worse counts.
  static void conclude(LogTest& test, Ended ended, std::string_view reason) {
    const auto failing = [](Ended how) {
      return how == Ended::failed || how == Ended::error || how == Ended::crashed;
    };
    if (failing(test.ended) && ended != Ended::crashed) return;
    if (ended == Ended::error && test.phase.empty()) {
      test.phase = test.ended == Ended::unknown ? "setup" : "teardown";
    }
    test.ended = ended;
    if (!reason.empty()) test.message = reason;
  }

  void end_session() {
    close_section();
    const bool cut = in_session_ && !ended_;
    if (cut) ++log_.cut_off;
    if (in_session_) log_.unfinished = cut;
    for (auto i = session_begin_; i < tests().size(); ++i) {
      auto& test = tests()[i];
      if (test.ended == Ended::unknown && timing_out_ && current_ == i) {
        test.ended = Ended::timed_out;
      } else if (test.ended == Ended::unknown || test.ended == Ended::crashed) {
        find_death(test, cut && current_ == i);
      }
    }
    session_begin_ = tests().size();
    by_title_.clear();
    by_place_.clear();
    part_ = Part::running;
    in_session_ = ended_ = dumping_ = timing_out_ = false;
    current_.reset();
    dumps_.clear();
    shell_signal_.reset();
    down_.clear();
  }

  // `last`: it was running when the log ended.
  void find_death(LogTest& test, bool last) const {
    const Dump* found = nullptr;
    for (const auto& dump : dumps_) {
      if (dump.is_of(test.node_id)) found = &dump;
    }
    if (found == nullptr && last && dumps_.size() == 1 && down_.empty()) found = &dumps_.front();
    if (found != nullptr) {
      test.ended = Ended::crashed;
      test.signal = found->signal;
      test.text = found->text;
    } else if (last && shell_signal_) {
      test.ended = Ended::crashed;
      test.signal = shell_signal_;
    }
  }

  PytestLog log_;
  std::string line_;
  std::size_t number_ = 0;
  bool in_session_ = false;
  bool ended_ = false;
  Part part_ = Part::running;
  std::size_t session_begin_ = 0;                                       // index of its first test
  std::unordered_map<std::string, std::size_t> by_node_;                // latest attempt
  std::unordered_map<std::string, std::vector<std::size_t>> by_title_;  // of this session
  std::unordered_map<std::string, std::size_t> by_place_;               // by title and file
  std::optional<std::size_t> current_;  // the test whose name was printed last, without xdist
  std::vector<Dump> dumps_;             // of this session
  bool dumping_ = false;
  bool timing_out_ = false;
  std::optional<int> shell_signal_;
  std::string down_;  // the xdist worker that was just said to be gone
  std::string section_;
  std::string section_text_;
};

PytestLogReader::PytestLogReader() : state_{std::make_unique<State>()} {}
PytestLogReader::~PytestLogReader() = default;
void PytestLogReader::feed(std::string_view bytes) { state_->feed(bytes); }
PytestLog PytestLogReader::finish() { return state_->finish(); }

}  // namespace crosscheck::runner
