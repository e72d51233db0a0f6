#include "crosscheck/runner/classify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/json.h"
#include "text.h"

namespace crosscheck::runner {
namespace {

using base::FailureKind;
using base::Outcome;

constexpr std::size_t k_message_limit = std::size_t{4} << 10;
constexpr std::size_t k_detail_limit = std::size_t{64} << 10;
constexpr std::size_t k_index_limit = 200;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool contains_any(std::string_view text, const auto& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return contains(text, part); });
}

// What only a machine's state explains: never a verdict on the device.
constexpr std::array<std::string_view, 21> k_environment_faults{
    "fatal error: Python.h",
    "g++: not found",
    "gcc: not found",
    "c++: not found",
    "clang++: not found",
    "g++: command not found",
    "gcc: command not found",
    "No such file or directory: 'g++'",
    "No such file or directory: 'gcc'",
    "No such file or directory: 'c++'",
    "No such file or directory: 'clang++'",
    "No such file or directory: 'ninja'",
    "InvalidCxxCompiler",
    "No working C++ compiler found",
    "Failed to find C compiler",
    "Ninja is required to load C++ extensions",
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Temporary failure in name resolution",
    "Network is unreachable",
};

constexpr std::array<std::string_view, 8> k_out_of_memory{
    "out of memory",         "Out of memory",          "OUT_OF_MEMORY",  "OutOfMemoryError",
    "can't allocate memory", "Cannot allocate memory", "std::bad_alloc", "not enough memory",
};

constexpr std::array<std::string_view, 7> k_unsupported_operator{
    "no fallback function is registered for schema",
    "is not currently implemented for the",
    "is not currently supported on the",
    "operator is not implemented",
    "no kernel is registered",
    "UnsupportedOperatorException",
    "was omitted during the selective/custom build process",
};

constexpr std::array<std::string_view, 10> k_unsupported_dtype{
    "is not supported for dtype", "not supported for dtype",
    "not implemented for dtype",  "does not support dtype",
    "doesn't support dtype",      "Unsupported dtype",
    "unsupported dtype",          "framework doesn't support float64",
    "is not supported for type",  "unsupported data type",
};

constexpr std::array<std::string_view, 12> k_device_error{
    "CUDA error", "CUDA driver error", "device-side assert", "HIP error",
    "hipError",   "cudaError",         "CUDNN_STATUS_",      "CUBLAS_STATUS_",
    "NCCL error", "AcceleratorError",  "Native API failed",  "Level-Zero error",
};

// The four first lines of torch.testing's messages that compare numbers.
constexpr std::array<std::string_view, 4> k_mismatch{
    "Tensor-likes are not close!",
    "Tensor-likes are not equal!",
    "Scalars are not close!",
    "Scalars are not equal!",
};

// What PyTorch's own harness puts behind the error: which sample it was, and how to run it again.
std::string_view without_appendix(std::string_view message) {
  for (const std::string_view mark :
       {"\n\nCaused by ", "\n\nTo execute this test, run", "\n\nTo suppress this "}) {
    message = message.substr(0, message.find(mark));
  }
  return message;
}

std::string_view first_paragraph(std::string_view text) {
  const auto start = text.find_first_not_of(" \n\t");
  if (start == std::string_view::npos) return {};
  text.remove_prefix(start);
  return text.substr(0, text.find("\n\n"));
}

bool is_name_character(char c) { return is_alpha(c) || is_digit(c) || c == '_' || c == '.'; }

// PyTorch's harness raises `Exception(<the text of the real one>)` from the real one; the traceback
// still names its type.
std::string_view real_type(const Finish& finish) {
  if (finish.type != "Exception") return finish.type;
  const auto line = first_line(finish.message);
  if (line.empty()) return finish.type;
  const std::string mark = ": " + std::string{line};
  const std::string_view traceback = finish.traceback;
  for (auto at = traceback.find(mark); at != std::string_view::npos;
       at = traceback.find(mark, at + 1)) {
    auto begin = at;
    while (begin > 0 && is_name_character(traceback[begin - 1])) --begin;
    const auto name = traceback.substr(begin, at - begin);
    if (!name.empty() && name != "Exception") return name;
  }
  return finish.type;
}

// The name in "No module named 'x.y'".
std::string_view missing_module(std::string_view message) {
  constexpr std::string_view k_mark = "No module named '";
  const auto at = message.find(k_mark);
  if (at == std::string_view::npos) return {};
  const auto name = message.substr(at + k_mark.size());
  return name.substr(0, name.find('\''));
}

// `"geqrf_cpu" not implemented for 'Half'`, also as `not implemented for 'Half', 'Float'`.
bool names_missing_dtype(std::string_view message) {
  return contains(message, "\" not implemented for '");
}

bool names_missing_operator(std::string_view message) {
  const auto at = message.find("Could not run '");
  return (at != std::string_view::npos &&
          contains(message.substr(at), "with arguments from the '")) ||
         contains_any(message, k_unsupported_operator);
}

FailureKind kind_of(std::string_view type, std::string_view message) {
  const auto is = [&](std::string_view name) {
    return type == name || (type.ends_with(name) && type.size() > name.size() &&
                            type[type.size() - name.size() - 1] == '.');
  };
  if (is("MemoryError") || is("OutOfMemoryError") || contains_any(message, k_out_of_memory)) {
    return FailureKind::out_of_memory;
  }
  const auto compared = first_paragraph(message);
  if (contains_any(compared, k_mismatch)) return FailureKind::numerical_mismatch;
  if (is("ModuleNotFoundError") || is("ImportError")) return FailureKind::import_error;
  if (names_missing_operator(message)) return FailureKind::unsupported_operator;
  if (names_missing_dtype(message) || contains_any(message, k_unsupported_dtype)) {
    return FailureKind::unsupported_dtype;
  }
  if (is("AcceleratorError") || contains_any(message, k_device_error)) {
    return FailureKind::device_error;
  }
  if (is("AssertionError") || is("Failed")) return FailureKind::assertion;
  return FailureKind::other;
}

bool is_environment_fault(std::string_view type, std::string_view message) {
  return contains(type, "InvalidCxxCompiler") || contains_any(message, k_environment_faults);
}

std::string fingerprint(Outcome outcome, FailureKind kind, std::string_view type,
                        std::string_view text) {
  std::string seed{base::to_string(outcome)};
  for (const std::string_view part : {base::to_string(kind), type}) {
    seed += '|';
    seed += part;
  }
  seed += '|';
  seed += normalise(first_paragraph(text));
  return base::sha256_hex(seed).substr(0, 16);
}

std::string with_output(std::string text, std::string_view output) {
  if (output.empty()) return text;
  text += "\n\nLast lines of standard error:\n";
  // The end of the output says why it died, and is what has to survive the limit.
  const auto room = k_detail_limit - std::min(k_detail_limit, text.size());
  if (output.size() > room) output.remove_prefix(output.size() - room);
  text += output;
  return base::to_utf8(text, k_detail_limit);
}

Verdict make_verdict(Outcome outcome, FailureKind kind, std::string_view type, std::string text,
                     std::string detail) {
  Verdict verdict;
  verdict.outcome = outcome;
  verdict.kind = kind;
  verdict.fingerprint = fingerprint(outcome, kind, type, text);
  verdict.message = base::to_utf8(text, k_message_limit);
  verdict.detail = base::to_utf8(detail, k_detail_limit);
  return verdict;
}

std::string message_of(std::string_view type, std::string_view message) {
  if (type.empty()) return std::string{message};
  if (message.empty()) return std::string{type};
  return std::string{type} + ": " + std::string{message};
}

// The line in which the dying process itself says why, if it does.
std::string last_words(std::string_view output) {
  std::string_view found;
  for_each_line(output, [&](std::string_view line) {
    for (const std::string_view mark :
         {"  what():  ", "Fatal Python error: ", "terminate called"}) {
      if (const auto at = line.find(mark); at != std::string_view::npos) {
        if (mark != "terminate called" || found.empty()) found = line.substr(at);
        return;
      }
    }
  });
  const auto start = found.find_first_not_of(' ');
  return start == std::string_view::npos ? std::string{} : base::to_utf8(found.substr(start), 300);
}

// Reads the number behind `label`, where that is, and the number behind "(up to ".
void read_difference(std::string_view line, std::string_view label, std::optional<double>& value,
                     std::string& index, std::optional<double>& tolerance) {
  const auto at = line.find(label);
  if (at == std::string_view::npos) return;
  const auto number = [](std::string_view text) -> std::optional<double> {
    double parsed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (error != std::errc{} || !std::isfinite(parsed)) return {};
    return parsed;
  };
  value = number(line.substr(at + label.size()));
  constexpr std::string_view k_index = " at index ";
  if (auto begin = line.find(k_index, at); begin != std::string_view::npos) {
    begin += k_index.size();
    const auto end = line.find(" (up to ", begin);
    index = base::to_utf8(line.substr(begin, end == std::string_view::npos ? end : end - begin),
                          k_index_limit);
  }
  constexpr std::string_view k_allowed = "(up to ";
  if (const auto up = line.find(k_allowed, at); up != std::string_view::npos) {
    tolerance = number(line.substr(up + k_allowed.size()));
  }
}

// --- normalise: one pass a pattern; no pass produces what an earlier one looks for. ---

std::string shorten_paths(std::string_view text) {
  std::string out;
  const auto ends_path = [](char c) {
    return c <= ' ' || c == '\'' || c == '"' || c == ',' || c == ':' || c == ')' || c == ']' ||
           c == '>' || c == '(' || c == '[' || c == '<' || c == ';';
  };
  for (std::size_t i = 0; i < text.size();) {
    const bool begins = text[i] == '/' && (i == 0 || ends_path(text[i - 1]) || text[i - 1] == '=');
    if (!begins) {
      out += text[i++];
      continue;
    }
    auto end = i;
    while (end < text.size() && !ends_path(text[end])) ++end;
    const auto path = text.substr(i, end - i);
    if (path.starts_with("/tmp/") || path.starts_with("/var/tmp/") ||
        path.starts_with("/dev/shm/")) {
      out += "{tmp}";
    } else {
      const auto name = path.substr(path.find_last_of('/') + 1);
      out += name.empty() ? std::string_view{"{path}"} : name;
    }
    i = end;
  }
  return out;
}

bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// The length of the number that begins at `i`, or 0. Digits inside a word (float32, conv2d) are
// part of its name.
std::size_t number_length(std::string_view text, std::size_t i) {
  const auto at = [&](std::size_t k) { return k < text.size() ? text[k] : '\0'; };
  if (i > 0 && (is_alpha(text[i - 1]) || is_digit(text[i - 1]) || text[i - 1] == '_')) return 0;
  if (at(i) == '0' && (at(i + 1) == 'x' || at(i + 1) == 'X') && is_hex(at(i + 2))) {
    auto end = i + 2;
    while (is_hex(at(end))) ++end;
    return end - i;
  }
  for (const std::string_view word : {"nan", "inf"}) {
    if (text.substr(i, word.size()) == word) {
      const char next = at(i + word.size());
      if (!is_alpha(next) && !is_digit(next) && next != '_') return word.size();
    }
  }
  if (!is_digit(at(i))) return 0;
  auto end = i;
  while (is_digit(at(end))) ++end;
  if (at(end) == '.') {
    ++end;
    while (is_digit(at(end))) ++end;
  }
  if (at(end) == 'e' || at(end) == 'E') {
    auto exponent = end + 1;
    if (at(exponent) == '+' || at(exponent) == '-') ++exponent;
    if (is_digit(at(exponent))) {
      end = exponent;
      while (is_digit(at(end))) ++end;
    }
  }
  return end - i;
}

std::string replace_numbers(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (const auto length = number_length(text, i); length > 0) {
      if (out.ends_with('-') && (out.size() < 2 || !is_alpha(out[out.size() - 2]))) out.pop_back();
      out += '#';
      i += length;
    } else {
      out += text[i++];
    }
  }
  return out;
}

// Lists of numbers of any length, and any white space.
std::string collapse(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      if (!out.empty() && out.back() != ' ') out += ' ';
      continue;
    }
    out += c;
    for (const std::string_view pair : {"#, #", "#,#", "##"}) {
      if (out.ends_with(pair)) {
        out.resize(out.size() - pair.size() + 1);
        break;
      }
    }
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

// unittest gives no reason but its own name for it.
Verdict classify_unexpected_success(std::string_view reason) {
  std::string text = "passed, but is marked as a test that must fail";
  if (!reason.empty() && reason != "Unexpected success") text += ": " + std::string{reason};
  return make_verdict(Outcome::failed, FailureKind::assertion, "", std::move(text), "");
}

}  // namespace

std::string normalise(std::string_view text) {
  // A path's last part may look like a number only once the path is gone, and a list may close only
  // once its numbers are: repeated until nothing changes, which every pass that changes something
  // brings closer.
  std::string now{text};
  while (true) {
    auto next = collapse(replace_numbers(shorten_paths(now)));
    if (next == now) return next;
    now = std::move(next);
  }
}

std::optional<base::Mismatch> parse_mismatch(std::string_view message) {
  base::Mismatch mismatch;
  for_each_line(message, [&](std::string_view line) {
    if (line.starts_with("Greatest absolute difference: ") ||
        line.starts_with("Absolute difference: ")) {
      read_difference(line, "bsolute difference: ", mismatch.absolute, mismatch.absolute_index,
                      mismatch.absolute_tolerance);
    } else if (line.starts_with("Greatest relative difference: ") ||
               line.starts_with("Relative difference: ")) {
      read_difference(line, "elative difference: ", mismatch.relative, mismatch.relative_index,
                      mismatch.relative_tolerance);
    }
  });
  if (mismatch == base::Mismatch{}) return {};
  return mismatch;
}

Verdict classify(const Finish& finish) {
  Verdict verdict;
  switch (finish.outcome) {
    case Reported::passed:
      verdict.outcome = Outcome::passed;
      return verdict;
    case Reported::xpassed:
      if (finish.strict) return classify_unexpected_success(finish.message);
      verdict.outcome = Outcome::xpassed;
      verdict.message = base::to_utf8(finish.message, k_message_limit);
      return verdict;
    case Reported::skipped:
      verdict.outcome = Outcome::skipped;
      verdict.message = base::to_utf8(finish.message, k_message_limit);
      return verdict;
    case Reported::xfailed:
      verdict.outcome = Outcome::xfailed;
      verdict.message = base::to_utf8(finish.message, k_message_limit);
      verdict.detail = base::to_utf8(finish.traceback, k_detail_limit);
      return verdict;
    case Reported::failed:
    case Reported::error:
      break;
  }
  const auto message = without_appendix(finish.message);
  const auto type = real_type(finish);
  const auto kind = kind_of(type, message);
  auto outcome = Outcome::failed;
  if (is_environment_fault(type, message)) outcome = Outcome::environment_error;
  if (const auto module = missing_module(message); kind == FailureKind::import_error &&
                                                   !module.empty() && module != "torch" &&
                                                   !module.starts_with("torch.")) {
    // Not installed here. What PyTorch's own namespace lacks is the backend's to bring.
    outcome = Outcome::environment_error;
  }
  verdict = make_verdict(outcome, kind, type, message_of(type, message), finish.traceback);
  verdict.message = base::to_utf8(message_of(type, finish.message), k_message_limit);
  if (kind == FailureKind::numerical_mismatch) verdict.mismatch = parse_mismatch(message);
  if (finish.phase == "setup" || finish.phase == "teardown") {
    verdict.message = base::to_utf8("in " + finish.phase + ": " + verdict.message, k_message_limit);
  }
  return verdict;
}

void judge(Verdict& verdict, base::Governed& governed) {
  governed.observed = verdict.outcome;
  verdict.outcome = base::judge(governed.mode, governed.observed);
  if (verdict.outcome != Outcome::failed || base::is_failure(governed.observed)) return;
  verdict =
      make_verdict(Outcome::failed, FailureKind::assertion, "",
                   "passed, but the configuration says that it must fail: " + governed.place, "");
}

Verdict classify_crash(const base::ExitStatus& status, std::string_view output) {
  std::string text = "the process died in this test: " + base::to_string(status);
  if (status.signal == 9)
    text += " (not sent by crosscheck: often the kernel's, when memory runs out)";
  if (const auto words = last_words(output); !words.empty()) text += "\n" + words;
  const auto kind = status.signal ? FailureKind::signal : FailureKind::other;
  return make_verdict(Outcome::crashed, kind, base::to_string(status), text,
                      with_output(text, output));
}

Verdict classify_timeout(base::Duration limit, std::string_view output, Limited whose) {
  const std::string text =
      whose == Limited::test
          ? "did not end within " + base::to_human(limit)
          : "its file did not end within " + base::to_human(limit) + ", and this test was running";
  return make_verdict(Outcome::timed_out, FailureKind::timeout, "", text,
                      with_output(text, output));
}

Verdict classify_out_of_memory(std::int64_t limit, std::string_view output) {
  const std::string text = fmt::format("its process took more than {} MiB of memory and was killed",
                                       limit / (std::int64_t{1} << 20));
  return make_verdict(Outcome::crashed, FailureKind::out_of_memory, "", text,
                      with_output(text, output));
}

Verdict classify_collect_error(const CollectError& error) {
  const auto outcome = is_environment_fault(error.type, error.message) ? Outcome::environment_error
                                                                       : Outcome::harness_error;
  const auto kind = kind_of(error.type, error.message) == FailureKind::import_error
                        ? FailureKind::import_error
                        : FailureKind::other;
  return make_verdict(outcome, kind, error.type,
                      error.file + " does not collect: " + message_of(error.type, error.message),
                      error.traceback);
}

Verdict classify_harness(std::string_view why, std::string_view output) {
  const auto outcome = is_environment_fault("", why) || is_environment_fault("", output)
                           ? Outcome::environment_error
                           : Outcome::harness_error;
  std::string text{why};
  return make_verdict(outcome, FailureKind::other, "", text, with_output(text, output));
}

}  // namespace crosscheck::runner
