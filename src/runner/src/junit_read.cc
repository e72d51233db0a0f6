#include "crosscheck/runner/junit_read.h"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace crosscheck::runner {
namespace {

using base::Duration;
using base::fail;
using base::Fault;
using base::Result;

constexpr std::size_t k_piece = std::size_t{64} << 10;  // handed to expat at once
constexpr std::size_t k_text_limit = std::size_t{64} << 10;
constexpr std::size_t k_text_end = std::size_t{8} << 10;
constexpr std::size_t k_properties_limit = 1000;
constexpr std::size_t k_problems_limit = 1000;

constexpr auto k_remedy_cut =
    "write the file again, or give --salvage to keep what is complete in it";
constexpr auto k_remedy_none = "give the file that pytest's --junit-xml wrote";

// A text's beginning and, where it is longer than what is kept, its end.
class Excerpt {
 public:
  void clear() {
    begin_.clear();
    end_.clear();
    skipped_ = false;
  }
  void add(std::string_view piece) {
    const auto room =
        k_text_limit - k_text_end - std::min(k_text_limit - k_text_end, begin_.size());
    begin_ += piece.substr(0, room);
    piece.remove_prefix(std::min(room, piece.size()));
    if (piece.empty()) return;
    end_ += piece;
    if (end_.size() > 2 * k_text_end) {
      end_.erase(0, end_.size() - k_text_end);
      skipped_ = true;
    }
  }
  [[nodiscard]] std::string take() {
    if (end_.size() > k_text_end) {
      end_.erase(0, end_.size() - k_text_end);
      skipped_ = true;
    }
    std::string text = std::move(begin_);
    if (skipped_) text += "\n[…]\n";
    text += end_;
    clear();
    return text;
  }

 private:
  std::string begin_;
  std::string end_;
  bool skipped_ = false;
};

// "1.234", also "1,234.5" and "1,5" as writers in other languages have it. What is no number of
// seconds, or more than a year, is 0: no result is lost for its time.
Duration read_seconds(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c != ',') {
      plain += c;
    } else if (text.find('.') == std::string_view::npos) {
      plain += '.';
    }
  }
  double seconds = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), seconds);
  constexpr double k_year = 366.0 * 24 * 3600;
  if (error != std::errc{} || !(seconds >= 0) || seconds > k_year) return Duration{0};
  return Duration{std::llround(seconds * 1e6)};
}

std::optional<JunitProblem::Element> problem_element(std::string_view name) {
  using Element = JunitProblem::Element;
  if (name == "failure") return Element::failure;
  if (name == "error") return Element::error;
  if (name == "skipped") return Element::skipped;
  return std::nullopt;
}

}  // namespace

class JunitParser::State {
 public:
  State(std::string name, JunitSink sink, Forbidden forbidden)
      : name_{std::move(name)},
        sink_{std::move(sink)},
        forbidden_{forbidden},
        parser_{XML_ParserCreate(nullptr)} {
    if (parser_ == nullptr) throw std::bad_alloc{};
    XML_SetUserData(parser_, this);
    XML_SetElementHandler(parser_, &State::on_start, &State::on_end);
    XML_SetCharacterDataHandler(parser_, &State::on_text);
    XML_SetStartDoctypeDeclHandler(parser_, &State::on_doctype);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XML_ParserFree(parser_); }

  Result<void> feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto piece = bytes.substr(0, k_piece);
      bytes.remove_prefix(piece.size());
      void* buffer = XML_GetBuffer(parser_, static_cast<int>(piece.size()));
      if (buffer == nullptr) return wrong(Fault::internal, "out of memory");
      auto* to = static_cast<char*>(buffer);
      std::copy(piece.begin(), piece.end(), to);
      if (forbidden_ == Forbidden::question_mark) clean(to, piece.size());
      fed_ += static_cast<std::int64_t>(piece.size());
      if (XML_ParseBuffer(parser_, static_cast<int>(piece.size()), XML_FALSE) != XML_STATUS_OK) {
        return parse_error();
      }
      // expat holds a tag until it is whole.
      if (fed_ - XML_GetCurrentByteIndex(parser_) > static_cast<std::int64_t>(k_tag_limit)) {
        return wrong(Fault::too_large, fmt::format("a tag of more than {} MiB", k_tag_limit >> 20));
      }
    }
    return {};
  }

  Result<void> finish() {
    if (fed_ == 0) {
      return fail(Fault::invalid_input, name_ + ": the file is empty", k_remedy_none);
    }
    if (XML_Parse(parser_, "", 0, XML_TRUE) != XML_STATUS_OK) return parse_error();
    return {};
  }

 private:
  enum class Inside : std::uint8_t { nothing, problem, ignored };
  using Attributes = const XML_Char**;

  static void XMLCALL on_start(void* self, const XML_Char* name, Attributes attributes) {
    static_cast<State*>(self)->start(name, attributes);
  }
  static void XMLCALL on_end(void* self, const XML_Char* name) {
    static_cast<State*>(self)->end(name);
  }
  static void XMLCALL on_text(void* self, const XML_Char* text, int length) {
    auto& state = *static_cast<State*>(self);
    if (state.inside_ == Inside::problem) {
      state.text_.add({text, static_cast<std::size_t>(length)});
    }
  }
  static void XMLCALL on_doctype(void* self, const XML_Char*, const XML_Char*, const XML_Char*,
                                 int) {
    static_cast<State*>(self)->stop(
        "a document type declaration, which JUnit has none of and crosscheck does not read",
        "take the <!DOCTYPE …> out of the file");
  }

  void start(std::string_view name, Attributes attributes) {
    if (stopped_) return;
    began_ = true;
    if (++depth_ > k_depth_limit) {
      return stop(fmt::format("elements nested more than {} deep", k_depth_limit), k_remedy_none);
    }
    if (depth_ == 1 && name != "testsuites" && name != "testsuite") {
      return stop(fmt::format("this is no JUnit file: its first element is <{}>", name),
                  k_remedy_none);
    }
    if (inside_ != Inside::nothing) return;
    if (name == "testsuite") return start_suite(attributes);
    if (name == "testcase") return start_case(attributes);
    if (name == "property") return property(attributes);
    if (name == "testsuites" || name == "properties") return;
    const auto element = problem_element(name);
    if (in_case_ && element && case_.problems.size() < k_problems_limit) {
      JunitProblem problem;
      problem.element = *element;
      for_each(attributes, [&](std::string_view key, const XML_Char* value) {
        if (key == "type") problem.type = value;
        if (key == "message") problem.message = value;
      });
      case_.problems.push_back(std::move(problem));
      inside_ = Inside::problem;
    } else {
      inside_ = Inside::ignored;  // system-out and what else there is, with all that it holds
    }
    inside_depth_ = depth_;
  }

  void start_suite(Attributes attributes) {
    if (in_case_) return stop("a <testsuite> inside a <testcase>");
    JunitSuite suite;
    for_each(attributes, [&](std::string_view key, const XML_Char* value) {
      if (key == "name") suite.name = value;
      if (key == "timestamp") suite.timestamp = value;
      if (key == "time") suite.time = read_seconds(value);
    });
    suites_.push_back(std::move(suite));
  }

  void start_case(Attributes attributes) {
    if (in_case_) return stop("a <testcase> inside a <testcase>");
    if (suites_.empty()) return stop("a <testcase> outside a <testsuite>");
    in_case_ = true;
    case_.file.clear();
    case_.class_name.clear();
    case_.name.clear();
    case_.time = Duration{0};
    case_.problems.clear();
    case_.properties.clear();
    case_.line = XML_GetCurrentLineNumber(parser_);
    bool named = false;
    for_each(attributes, [&](std::string_view key, const XML_Char* value) {
      if (key == "name") {
        case_.name = value;
        named = true;
      }
      if (key == "classname") case_.class_name = value;
      if (key == "file") case_.file = value;
      if (key == "time") case_.time = read_seconds(value);
    });
    if (!named) stop("a <testcase> without a name");
  }

  void property(Attributes attributes) {
    std::pair<std::string, std::string> property;
    for_each(attributes, [&](std::string_view key, const XML_Char* value) {
      if (key == "name") property.first = value;
      if (key == "value") property.second = value;
    });
    auto* properties = in_case_ ? &case_.properties : nullptr;
    if (properties == nullptr && !suites_.empty()) properties = &suites_.back().properties;
    if (properties != nullptr && properties->size() < k_properties_limit) {
      properties->push_back(std::move(property));
    }
  }

  void end(std::string_view name) {
    if (stopped_) return;
    const auto depth = depth_--;
    if (inside_ != Inside::nothing) {
      if (depth != inside_depth_) return;
      if (inside_ == Inside::problem) case_.problems.back().text = text_.take();
      inside_ = Inside::nothing;
      return;
    }
    if (name == "testcase") {
      sink_.on_case(case_);
      in_case_ = false;
    } else if (name == "testsuite") {
      sink_.on_suite(suites_.back());
      suites_.pop_back();
    }
  }

  static void for_each(Attributes attributes, const auto& take) {
    for (; *attributes != nullptr; attributes += 2) take(attributes[0], attributes[1]);
  }

  // What is well-formed and yet no file for us.
  void stop(std::string why, std::string remedy = {}) {
    stopped_ = base::Error{Fault::invalid_input, place() + why, std::move(remedy)};
    XML_StopParser(parser_, XML_FALSE);
  }

  [[nodiscard]] std::string place() const {
    return fmt::format("{}:{}:{}: ", name_, XML_GetCurrentLineNumber(parser_),
                       XML_GetCurrentColumnNumber(parser_) + 1);
  }
  [[nodiscard]] tl::unexpected<base::Error> wrong(Fault fault, const std::string& why,
                                                  std::string remedy = {}) {
    leave_suites();
    return fail(fault, place() + why, std::move(remedy));
  }

  tl::unexpected<base::Error> parse_error() {
    if (stopped_) {
      leave_suites();
      return tl::unexpected{*stopped_};
    }
    const auto code = XML_GetErrorCode(parser_);
    const auto is = [code](auto... codes) { return ((code == codes) || ...); };
    if (is(XML_ERROR_UNKNOWN_ENCODING, XML_ERROR_INCORRECT_ENCODING)) {
      return wrong(Fault::invalid_input, "its encoding is not one that crosscheck reads",
                   "convert it to UTF-8: iconv -f ENCODING -t UTF-8, and say so in its first line");
    }
    if (!began_) return wrong(Fault::invalid_input, "this is no JUnit XML", k_remedy_none);
    if (is(XML_ERROR_NO_ELEMENTS, XML_ERROR_UNCLOSED_TOKEN, XML_ERROR_PARTIAL_CHAR,
           XML_ERROR_UNCLOSED_CDATA_SECTION)) {
      return wrong(Fault::invalid_input, "the file is cut off", k_remedy_cut);
    }
    if (is(XML_ERROR_INVALID_TOKEN, XML_ERROR_BAD_CHAR_REF)) {
      return wrong(Fault::invalid_input, "a character that XML does not allow, or a broken tag",
                   "take it out, or give --salvage: control characters become '?', and what "
                   "stands before a worse fault is kept");
    }
    return wrong(Fault::invalid_input, XML_ErrorString(code), k_remedy_cut);
  }

  // What was said of suites that the file did not close.
  void leave_suites() {
    for (; !suites_.empty(); suites_.pop_back()) sink_.on_suite(suites_.back());
  }

  // In encodings whose ASCII is a byte a character; the others are left to the parser.
  void clean(char* bytes, std::size_t size) {
    if (fed_ == 0) {
      const auto at = [&](std::size_t i) {
        return i < size ? static_cast<unsigned char>(bytes[i]) : 0x20U;
      };
      wide_ = at(0) >= 0xFE || at(0) == 0 || at(1) == 0;
    }
    if (wide_) return;
    std::replace_if(
        bytes, bytes + size,
        [](char c) {
          return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
        },
        '?');
  }

  std::string name_;
  JunitSink sink_;
  Forbidden forbidden_;
  XML_Parser parser_;
  std::int64_t fed_ = 0;
  bool wide_ = false;
  bool began_ = false;  // an element did
  std::size_t depth_ = 0;
  std::vector<JunitSuite> suites_;  // open ones
  JunitCase case_;                  // its strings keep their room
  bool in_case_ = false;
  Inside inside_ = Inside::nothing;
  std::size_t inside_depth_ = 0;
  Excerpt text_;
  std::optional<base::Error> stopped_;
};

JunitParser::JunitParser(std::string name, JunitSink sink, Forbidden forbidden)
    : state_{std::make_unique<State>(std::move(name), std::move(sink), forbidden)} {}
JunitParser::~JunitParser() = default;

Result<void> JunitParser::feed(std::string_view bytes) { return state_->feed(bytes); }
Result<void> JunitParser::finish() { return state_->finish(); }

}  // namespace crosscheck::runner
