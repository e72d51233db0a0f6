#include "crosscheck/config/document.h"

#include <fmt/format.h>
#include <yaml.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "schema.h"

namespace crosscheck::config {
namespace {

constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";

// As libyaml counts lines. NEL, LS and PS end one too.
std::vector<std::uint32_t> find_line_starts(std::string_view text) {
  std::vector<std::uint32_t> starts{0};
  starts.reserve(text.size() / 32 + 1);
  const bool ascii = std::all_of(text.begin(), text.end(),
                                 [](char c) { return static_cast<signed char>(c) >= 0; });
  const auto begins_at = [&](std::size_t at) { starts.push_back(static_cast<std::uint32_t>(at)); };
  if (ascii && text.find('\r') == std::string_view::npos) {
    for (std::size_t at = text.find('\n'); at != std::string_view::npos;
         at = text.find('\n', at + 1))
      begins_at(at + 1);
    return starts;
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      begins_at(i + 1);
    } else if (text[i] == '\r') {
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
      begins_at(i + 1);
    } else if (text.substr(i, 2) == "\xC2\x85") {
      begins_at(++i + 1);
    } else if (const auto three = text.substr(i, 3);
               three == "\xE2\x80\xA8" || three == "\xE2\x80\xA9") {
      i += 2;
      begins_at(i + 1);
    }
  }
  return starts;
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// libyaml's marks count characters; the next mark is near the one before.
class Bytes {
 public:
  explicit Bytes(std::string_view text)
      : text_{text}, ascii_{std::all_of(text.begin(), text.end(), [](char c) {
          return static_cast<signed char>(c) >= 0;
        })} {}

  std::size_t at(std::size_t character) {
    if (ascii_) return std::min(character, text_.size());
    while (character_ < character && byte_ < text_.size()) {
      ++byte_;
      while (byte_ < text_.size() && is_continuation(text_[byte_])) ++byte_;
      ++character_;
    }
    while (character_ > character) {
      --byte_;
      while (byte_ > 0 && is_continuation(text_[byte_])) --byte_;
      --character_;
    }
    return byte_;
  }

 private:
  std::string_view text_;
  bool ascii_;
  std::size_t character_ = 0;
  std::size_t byte_ = 0;
};

struct Parser {
  yaml_parser_t it{};
  Parser() { yaml_parser_initialize(&it); }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  ~Parser() { yaml_parser_delete(&it); }
};
struct Event {
  yaml_event_t it{};
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { yaml_event_delete(&it); }
};

}  // namespace

// Turns events into the document's nodes.
class Builder {
 public:
  Builder(Document& document, std::vector<Finding>& findings)
      : document_{document},
        findings_{findings},
        offset_{document.source_.starts_with(k_byte_order_mark) ? k_byte_order_mark.size() : 0},
        text_{std::string_view{document.source_}.substr(offset_)},
        bytes_{text_} {}

  // Whether the text is YAML.
  bool run() {
    Parser parser;
    // What libyaml takes is unsigned bytes.
    yaml_parser_set_input_string(&parser.it, reinterpret_cast<const unsigned char*>(text_.data()),
                                 text_.size());
    yaml_parser_set_encoding(&parser.it, YAML_UTF8_ENCODING);
    while (true) {
      Event event;
      if (yaml_parser_parse(&parser.it, &event.it) == 0) return refuse(parser.it);
      if (event.it.type == YAML_STREAM_END_EVENT) return true;
      if (!take(event.it)) return false;
    }
  }

 private:
  struct Open {
    std::uint32_t node = 0;
    std::uint32_t last = Document::k_none;  // child
    std::uint32_t key = Document::k_none;   // that waits for its value
    std::size_t keys = 0;
    // Of a mapping with many keys; of few, looking at each is quicker.
    std::unordered_map<std::string_view, std::uint32_t> seen;
  };

  bool fatal(std::size_t byte, std::string message, std::string remedy) {
    findings_.push_back(
        {FindingKind::not_yaml, document_.place(byte), std::move(message), std::move(remedy)});
    return false;
  }
  bool refuse(const yaml_parser_t& parser) {
    if (parser.error == YAML_READER_ERROR)
      return fatal(std::min(parser.problem_offset, text_.size()) + offset_,
                   fmt::format("not readable text: {}", parser.problem),
                   "save the file as UTF-8 without control characters");
    if (parser.error == YAML_MEMORY_ERROR) return fatal(0, "memory does not suffice", {});
    return fatal(bytes_.at(parser.problem_mark.index) + offset_,
                 fmt::format("not YAML: {}{}{}", parser.problem ? parser.problem : "a syntax error",
                             parser.context ? ", " : "", parser.context ? parser.context : ""),
                 {});
  }

  bool take(const yaml_event_t& event) {
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        if (documents_++ > 0)
          return fatal(at(event.start_mark), "a second document begins here",
                       "remove the `---` between them");
        return true;
      case YAML_SCALAR_EVENT:
        return scalar(event);
      case YAML_ALIAS_EVENT: {
        const std::uint32_t node = make(event, Node::Kind::alias, Node::Style::plain);
        document_.nodes_[node].end = static_cast<std::uint32_t>(at(event.end_mark));
        return add(node);
      }
      case YAML_SEQUENCE_START_EVENT:
        return open(event, Node::Kind::sequence,
                    event.data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE,
                    event.data.sequence_start.anchor != nullptr ||
                        event.data.sequence_start.tag != nullptr);
      case YAML_MAPPING_START_EVENT:
        return open(
            event, Node::Kind::mapping, event.data.mapping_start.style == YAML_FLOW_MAPPING_STYLE,
            event.data.mapping_start.anchor != nullptr || event.data.mapping_start.tag != nullptr);
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        return close(event);
      case YAML_NO_EVENT:
      case YAML_STREAM_START_EVENT:
      case YAML_STREAM_END_EVENT:
      case YAML_DOCUMENT_END_EVENT:
        return true;
    }
    return true;
  }

  std::size_t at(const yaml_mark_t& mark) { return bytes_.at(mark.index) + offset_; }

  std::uint32_t make(const yaml_event_t& event, Node::Kind kind, Node::Style style) {
    auto& nodes = document_.nodes_;
    Document::Stored stored;
    stored.begin = stored.end = static_cast<std::uint32_t>(at(event.start_mark));
    stored.kind = kind;
    stored.style = style;
    nodes.push_back(stored);
    return static_cast<std::uint32_t>(nodes.size() - 1);
  }

  bool scalar(const yaml_event_t& event) {
    const auto& data = event.data.scalar;
    Node::Style style = Node::Style::plain;
    if (data.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
        data.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE)
      style = Node::Style::quoted;
    if (data.style == YAML_LITERAL_SCALAR_STYLE || data.style == YAML_FOLDED_SCALAR_STYLE)
      style = Node::Style::literal;
    const std::uint32_t node = make(event, Node::Kind::text, style);
    Document::Stored& stored = document_.nodes_[node];
    stored.end = static_cast<std::uint32_t>(at(event.end_mark));
    stored.special = data.anchor != nullptr || data.tag != nullptr;
    const std::string_view value{reinterpret_cast<const char*>(data.value), data.length};
    const std::size_t skip = style == Node::Style::quoted ? 1 : 0;
    const bool as_written =
        !stored.special && stored.begin + skip + value.size() + skip == stored.end &&
        std::string_view{document_.source_}.substr(stored.begin + skip, value.size()) == value;
    if (!as_written) {
      stored.decoded =
          static_cast<std::uint32_t>(document_.decoded_.size()) & Document::k_as_written;
      document_.decoded_.push_back({static_cast<std::uint32_t>(document_.decoded_text_.size()),
                                    static_cast<std::uint32_t>(value.size())});
      document_.decoded_text_ += value;
    }
    return add(node);
  }

  bool open(const yaml_event_t& event, Node::Kind kind, bool flow, bool special) {
    if (stack_.size() >= Document::k_depth_limit)
      return fatal(at(event.start_mark), "nested too deeply",
                   fmt::format("at most {} levels", Document::k_depth_limit));
    const std::uint32_t node = make(event, kind, flow ? Node::Style::flow : Node::Style::block);
    document_.nodes_[node].special = special;
    if (!add(node)) return false;
    stack_.push_back({});
    stack_.back().node = node;
    return true;
  }
  bool close(const yaml_event_t& event) {
    auto& nodes = document_.nodes_;
    Document::Stored& stored = nodes[stack_.back().node];
    if (stored.style == Node::Style::flow) {
      stored.end = static_cast<std::uint32_t>(at(event.end_mark));
    } else if (stack_.back().last != Document::k_none) {
      stored.end = nodes[stack_.back().last].end;
    }
    stack_.pop_back();
    return true;
  }

  // Puts a node into the collection that is open.
  bool add(std::uint32_t node) {
    if (stack_.empty()) return true;
    auto& nodes = document_.nodes_;
    Open& top = stack_.back();
    if (top.last == Document::k_none) {
      nodes[top.node].has_children = true;
    } else {
      nodes[top.last].next = node;
    }
    top.last = node;
    if (nodes[top.node].kind != Node::Kind::mapping) return true;
    if (top.key != Document::k_none) {
      top.key = Document::k_none;
      return true;
    }
    top.key = node;
    if (nodes[node].kind != Node::Kind::text)
      return fatal(nodes[node].begin, "a key must be text", "put quotes around it");
    note_key(top, node);
    return true;
  }

  void note_key(Open& top, std::uint32_t node) {
    constexpr std::size_t k_few = 16;
    const std::string_view key = Node{document_, node}.text();
    std::uint32_t earlier = Document::k_none;
    if (++top.keys <= k_few) {
      for (std::uint32_t at = top.node + 1; at != node;) {
        if (Node{document_, at}.text() == key) {
          earlier = at;
          break;
        }
        at = document_.nodes_[document_.nodes_[at].next].next;
      }
    } else {
      if (top.seen.empty()) fill(top, node);
      if (const auto [found, added] = top.seen.emplace(key, node); !added) earlier = found->second;
    }
    if (earlier == Document::k_none || findings_.size() > k_finding_limit) return;
    findings_.push_back({FindingKind::duplicate,
                         document_.place(document_.nodes_[node].begin),
                         fmt::format("the key '{}' stands twice", key),
                         "join the two, or remove one",
                         {document_.place(document_.nodes_[earlier].begin)}});
  }
  void fill(Open& top, std::uint32_t until) {
    for (std::uint32_t at = top.node + 1; at != until;) {
      top.seen.emplace(Node{document_, at}.text(), at);
      at = document_.nodes_[document_.nodes_[at].next].next;
    }
  }

  Document& document_;
  std::vector<Finding>& findings_;
  std::size_t offset_;  // of text_ in the source
  std::string_view text_;
  Bytes bytes_;
  std::vector<Open> stack_;
  int documents_ = 0;
};

Node::Kind Node::kind() const { return document_->nodes_[index_].kind; }
Node::Style Node::style() const { return document_->nodes_[index_].style; }
bool Node::is_special() const { return document_->nodes_[index_].special; }
std::size_t Node::begin() const { return document_->nodes_[index_].begin; }
std::size_t Node::end() const { return document_->nodes_[index_].end; }
Place Node::place() const { return document_->place(begin()); }

bool Node::is_null() const {
  if (kind() != Kind::text || style() != Style::plain) return false;
  const std::string_view value = text();
  return value.empty() || value == "~" || value == "null" || value == "Null" || value == "NULL";
}

std::string_view Node::text() const {
  const auto& stored = document_->nodes_[index_];
  if (stored.kind != Kind::text) return {};
  if (stored.decoded != Document::k_as_written) {
    const auto& decoded = document_->decoded_[stored.decoded];
    return std::string_view{document_->decoded_text_}.substr(decoded.begin, decoded.length);
  }
  const std::uint32_t quote = stored.style == Style::quoted ? 1 : 0;
  return std::string_view{document_->source_}.substr(stored.begin + quote,
                                                     stored.end - stored.begin - 2 * quote);
}

std::string_view Node::source() const {
  return std::string_view{document_->source_}.substr(begin(), end() - begin());
}

Node Node::first() const {
  return document_->nodes_[index_].has_children ? Node{*document_, index_ + 1} : Node{};
}
Node Node::next() const {
  const std::uint32_t sibling = document_->nodes_[index_].next;
  return sibling == Document::k_none ? Node{} : Node{*document_, sibling};
}
Children Node::children() const { return Children{first()}; }

Node Node::find_key(std::string_view key) const {
  if (kind() != Kind::mapping) return {};
  for (Node at = first(); at; at = at.next().next())
    if (at.text() == key) return at;
  return {};
}
Node Node::find(std::string_view key) const {
  const Node found = find_key(key);
  return found ? found.next() : Node{};
}

std::shared_ptr<const Document> Document::parse(std::string name, std::string text,
                                                std::vector<Finding>& findings) {
  const std::shared_ptr<Document> document{new Document};
  document->name_ = std::move(name);
  document->source_ = std::move(text);
  document->line_starts_ = {0};
  if (document->source_.size() > k_size_limit) {
    findings.push_back({FindingKind::not_yaml,
                        {document->name_},
                        fmt::format("the file is over {} MiB", k_size_limit >> 20U),
                        "split it; `include:` joins the parts"});
    return nullptr;
  }
  document->line_starts_ = find_line_starts(document->source_);
  document->nodes_.reserve(document->source_.size() / 12);
  // At most three bytes come out of two (`\\L`): what is a view of it while it grows stays one.
  document->decoded_text_.reserve(2 * document->source_.size());
  if (!Builder{*document, findings}.run()) return nullptr;
  return document;
}

std::size_t Document::line(std::size_t byte) const {
  const auto after =
      std::upper_bound(line_starts_.begin(), line_starts_.end(), static_cast<std::uint32_t>(byte));
  return static_cast<std::size_t>(after - line_starts_.begin());
}

Place Document::place(std::size_t byte) const {
  const std::size_t number = line(byte);
  const std::string_view before =
      std::string_view{source_}.substr(line_begin(number), byte - line_begin(number));
  const auto column =
      std::count_if(before.begin(), before.end(), [](char c) { return !is_continuation(c); });
  const bool after_mark = number == 1 && before.starts_with(k_byte_order_mark);
  return {name_, number, static_cast<std::size_t>(column) + (after_mark ? 0U : 1U)};
}

namespace {

// `1` and `'1'` are not the same, `a` and `'a'` are.
bool reads_as_text(Node node) {
  if (node.style() != Node::Style::plain) return true;
  const std::string_view text = node.text();
  return !node.is_null() &&
         std::string_view{"0123456789+-."}.find(text[0]) == std::string_view::npos &&
         !parse_boolean(text);
}

}  // namespace

bool same_value(Node a, Node b) {
  if (!a || !b) return !a && !b;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Node::Kind::alias:
      return a.source() == b.source();
    case Node::Kind::text:
      return a.text() == b.text() && reads_as_text(a) == reads_as_text(b);
    case Node::Kind::sequence: {
      Node x = a.first();
      Node y = b.first();
      for (; x && y; x = x.next(), y = y.next())
        if (!same_value(x, y)) return false;
      return !x && !y;
    }
    case Node::Kind::mapping: {
      std::size_t here = 0;
      std::size_t there = 0;
      for (Node key = a.first(); key; key = key.next().next()) {
        ++here;
        const Node other = b.find(key.text());
        if (!other || !same_value(key.next(), other)) return false;
      }
      for (Node key = b.first(); key; key = key.next().next()) ++there;
      return here == there;
    }
  }
  return false;
}

}  // namespace crosscheck::config
