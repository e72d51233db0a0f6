#include "crosscheck/config/format.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace crosscheck::config {
namespace {

constexpr std::size_t k_step = 2;
constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";

// What a line of the source is, once the document's structure is known.
struct Line {
  enum class Is : std::uint8_t {
    other,      // a comment, or nothing
    structure,  // begins with a key or an item
    inside,     // goes on with a text or with what is written in flow style
  };
  Is is = Is::other;
  std::size_t indent = 0;    // of structure: where its dash or key will stand; of inside: the least
  std::ptrdiff_t shift = 0;  // of inside: how far its value moves to the right
  bool is_text = false;      // of inside: every space in it may be part of a text
  bool goes_on = false;      // a text in quotes goes on behind its end
  std::size_t code = 0;      // a comment begins behind this byte of the source
};

// A line moves with the line that it belongs to: from one indentation to another.
struct Level {
  std::size_t from = 0;
  std::size_t to = 0;
};

std::string_view strip_end(std::string_view text) {
  const auto last = text.find_last_not_of(" \t");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

std::size_t indent_of(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Behind the dashes that begin items, and the spaces after them.
std::size_t content_of(std::string_view line) {
  std::size_t at = indent_of(line);
  while (at < line.size() && line[at] == '-' &&
         (at + 1 == line.size() || line[at + 1] == ' ' || line[at + 1] == '\t')) {
    ++at;
    at += std::min(line.substr(at).find_first_not_of(" \t"), line.size() - at);
  }
  return at;
}

class Formatter {
 public:
  explicit Formatter(const Document& document)
      : document_{document},
        source_{document.source()},
        lines_(document.lines() + 1),
        below_(lines_.size()) {}

  std::string run() {
    place(document_.root(), 0);
    std::size_t below = lines_.size();
    for (std::size_t number = lines_.size(); number-- > 0;) {
      below_[number] = below;
      if (lines_[number].is == Line::Is::structure) below = number;
    }
    std::string out;
    bool empty = false;
    for (std::size_t number = 1; number < lines_.size(); ++number) {
      const bool inside = lines_[number].is == Line::Is::inside;
      if (!inside && strip_end(text(number)).empty()) {
        empty = true;
        continue;
      }
      if (empty && !out.empty()) out += '\n';
      empty = false;
      out += inside                                     ? write_inside(number)
             : lines_[number].is == Line::Is::structure ? write_structure(number)
                                                        : write_other(number);
      out += '\n';
    }
    return out;
  }

 private:
  // The line's bytes, without its line break.
  [[nodiscard]] std::string_view text(std::size_t number) const {
    const std::size_t begin = document_.line_begin(number);
    const std::size_t end =
        number < document_.lines() ? document_.line_begin(number + 1) : source_.size();
    std::string_view line = source_.substr(begin, end - begin);
    // YAML's own line breaks too: NEL, LS and PS.
    for (const std::string_view mark : {"\n", "\r", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"})
      if (line.ends_with(mark)) line.remove_suffix(mark.size());
    return line;
  }
  [[nodiscard]] std::size_t column(std::size_t byte) const {
    return byte - document_.line_begin(document_.line(byte));
  }

  // Notes what the lines are on which a value stands whose own keys or items go to `indent`.
  void place(Node node, std::size_t indent) {
    if (!node) return;
    const bool block = node.style() == Node::Style::block;
    if (block && node.is(Node::Kind::sequence)) {
      for (const Node item : node.children()) {
        begin_line(dash_line(item), indent);
        begin_line(document_.line(item.begin()), indent + k_step);
        place_value(item, item, indent + k_step);
      }
    } else if (block) {
      for (Node key = node.first(); key; key = key.next().next()) {
        begin_line(document_.line(key.begin()), indent);
        note_code(key.end());
        place_value(key.next(), key, indent);
      }
    }
  }

  // `owner`: the key or item that it moves with, which goes to `indent`.
  void place_value(Node value, Node owner, std::size_t indent) {
    if (value.style() == Node::Style::block) {
      place(value, owner == value ? indent : indent + k_step);
      return;
    }
    const std::size_t first = document_.line(value.begin());
    std::size_t last = document_.line(value.end());
    if (last > first && value.end() == document_.line_begin(last)) --last;
    note_code(value.begin());
    const bool text = value.style() == Node::Style::quoted || value.style() == Node::Style::literal;
    const std::size_t owner_line = document_.line(owner.begin());
    for (std::size_t number = owner_line + 1; number <= last; ++number) {
      Line& line = lines_[number];
      if (number < first && strip_end(this->text(number)).find('#') != std::string_view::npos)
        continue;  // a comment between a key and its value
      line.is = Line::Is::inside;
      line.shift =
          static_cast<std::ptrdiff_t>(indent) - static_cast<std::ptrdiff_t>(column(owner.begin()));
      line.indent = value.style() == Node::Style::literal ? 0 : indent + k_step;
      line.is_text = text && number > first;
    }
    if (value.style() == Node::Style::quoted)
      for (std::size_t number = first; number < last; ++number) lines_[number].goes_on = true;
    if (value.style() == Node::Style::flow) note_inner(value);
    if (value.style() != Node::Style::literal) note_code(value.end());
  }

  // The values in flow style: a comment begins behind them.
  void note_inner(Node node) {
    for (const Node child : node.children()) {
      if (child.is(Node::Kind::mapping) || child.is(Node::Kind::sequence)) {
        note_code(child.begin());
        note_inner(child);
      } else if (child.style() == Node::Style::quoted) {
        const std::size_t last = document_.line(child.end());
        for (std::size_t number = document_.line(child.begin()); number < last; ++number) {
          lines_[number].goes_on = true;
          lines_[number + 1].is_text = true;
        }
      }
      note_code(child.end());
    }
  }

  void note_code(std::size_t byte) {
    std::size_t& code = lines_[document_.line(byte)].code;
    code = std::max(code, byte);
  }

  // The outermost of what begins in a line decides.
  void begin_line(std::size_t number, std::size_t indent) {
    Line& line = lines_[number];
    if (line.is != Line::Is::other) return;
    line.is = Line::Is::structure;
    line.indent = indent;
  }

  // Where the dash of an item stands: in its own line, or above comments.
  [[nodiscard]] std::size_t dash_line(Node item) const {
    std::size_t number = document_.line(item.begin());
    while (number > 1 && indent_of(text(number)) == content_of(text(number))) --number;
    return number;
  }

  // The code and the comment of a line whose code begins at `from`.
  [[nodiscard]] std::string write_code(std::size_t number, std::size_t from) const {
    const std::string_view line = text(number);
    const Line& known = lines_[number];
    if (known.goes_on) return std::string{line.substr(from)};
    const std::size_t begin = document_.line_begin(number);
    std::size_t hash = std::max(known.code, begin + from) - begin;
    while (hash < line.size() && !(line[hash] == '#' && (hash == from || line[hash - 1] == ' ' ||
                                                         line[hash - 1] == '\t')))
      ++hash;
    std::string out{strip_end(line.substr(from, hash - from))};
    if (hash < line.size()) {
      if (!out.empty()) out += "  ";
      out += strip_end(line.substr(hash));
    }
    return out;
  }

  std::string write_structure(std::size_t number) {
    const std::string_view line = text(number);
    const std::size_t from = indent_of(line);
    const std::size_t content = content_of(line);
    std::size_t to = lines_[number].indent;
    std::string out(to, ' ');
    push({from, to});
    for (std::size_t at = from; at < content; ++at) {
      if (line[at] != '-') continue;
      out += "- ";
      to += k_step;
    }
    if (content > from) push({content, to});
    out += write_code(number, content);
    if (!lines_[number].goes_on) out.resize(strip_end(out).size());
    return out;
  }

  std::string write_inside(std::size_t number) const {
    const std::string_view line = text(number);
    const Line& known = lines_[number];
    const std::size_t from = indent_of(line);
    if (from == line.size() && !known.is_text) return {};
    const auto moved = static_cast<std::ptrdiff_t>(from) + known.shift;
    const std::size_t to =
        std::max(known.indent, moved > 0 ? static_cast<std::size_t>(moved) : std::size_t{0});
    if (from == line.size()) return known.indent > 0 ? std::string{} : std::string(to, ' ');
    std::string out(to, ' ');
    if (known.is_text && known.code == 0) return out + std::string{line.substr(from)};
    return out + write_code(number, from);
  }

  // A comment stands with what stands at its indentation, in the line below or above it.
  std::string write_other(std::size_t number) const {
    const std::string_view line = strip_end(text(number));
    const std::size_t from = std::min(line.find_first_not_of(" \t"), line.size());
    if (line[from] != '#') return std::string{line};
    return std::string(comment_indent(number, from), ' ') + std::string{line.substr(from)};
  }
  [[nodiscard]] std::size_t comment_indent(std::size_t number, std::size_t from) const {
    std::vector<Level> levels = levels_;
    if (const std::size_t below = below_[number]; below < lines_.size())
      levels.push_back({indent_of(text(below)), lines_[below].indent});
    const Level* near = nullptr;
    for (const Level& level : levels)
      if (level.from <= from && (!near || level.from >= near->from)) near = &level;
    return near ? near->to + (from - near->from) : 0;
  }

  void push(Level level) {
    while (!levels_.empty() && levels_.back().from >= level.from) levels_.pop_back();
    levels_.push_back(level);
  }

  const Document& document_;
  std::string_view source_;
  std::vector<Line> lines_;
  std::vector<std::size_t> below_;  // the next line that begins with a key or an item
  std::vector<Level> levels_;
};

}  // namespace

base::Result<std::string> format(const Document& document) {
  std::vector<Finding> findings;
  std::shared_ptr<const Document> without_mark;
  std::string_view source = document.source();
  while (source.starts_with(k_byte_order_mark)) source.remove_prefix(k_byte_order_mark.size());
  if (source.size() < document.source().size())
    without_mark = Document::parse(document.name(), std::string{source}, findings);
  const Document& from = without_mark ? *without_mark : document;
  std::string text = Formatter{from}.run();
  const auto again = Document::parse(document.name(), text, findings);
  if (!again || text.starts_with(k_byte_order_mark) ||
      !same_value(document.root(), again->root()) || Formatter{*again}.run() != text)
    return base::fail(base::Fault::invalid_input,
                      document.name() +
                          ": this layout cannot be put in order without changing what "
                          "it says",
                      "write keys as `key: value`, each in a line of its own");
  return text;
}

}  // namespace crosscheck::config
