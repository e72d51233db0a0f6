#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/config/finding.h"

// A YAML file as it stands: what it says, and at which bytes it says it, so that an edit can leave
// alone what it is not about. base's yaml is for small files and keeps lines only; this one is
// built on libyaml's events, for files of 32,000 entries.
namespace crosscheck::config {

class Document;
class Children;

// A value in a document; valid as long as the document. The one that stands for nothing (of a key
// that is missing) is false.
class Node {
 public:
  enum class Kind : std::uint8_t { text, sequence, mapping, alias };
  // How it is written. `plain` text is without quotes; `block` has a line an item.
  enum class Style : std::uint8_t { plain, quoted, literal, block, flow };

  Node() = default;
  Node(const Document& document, std::uint32_t index) : document_{&document}, index_{index} {}

  explicit operator bool() const { return document_ != nullptr; }
  [[nodiscard]] const Document& document() const { return *document_; }
  [[nodiscard]] std::uint32_t index() const { return index_; }
  [[nodiscard]] Kind kind() const;
  [[nodiscard]] bool is(Kind wanted) const { return kind() == wanted; }
  [[nodiscard]] Style style() const;
  [[nodiscard]] bool is_null() const;     // nothing, ~ or null, without quotes
  [[nodiscard]] bool is_special() const;  // has an anchor or a tag
  [[nodiscard]] std::string_view text() const;
  // Bytes of the document's source. A collection in block style ends where its last value does; a
  // literal text may end in line breaks.
  [[nodiscard]] std::size_t begin() const;
  [[nodiscard]] std::size_t end() const;
  [[nodiscard]] std::string_view source() const;  // what stands between the two
  [[nodiscard]] Place place() const;

  // Of a sequence its items; of a mapping keys and values by turns.
  [[nodiscard]] Children children() const;
  [[nodiscard]] Node first() const;
  [[nodiscard]] Node next() const;  // the following sibling
  // Of a mapping: the key itself, or its value.
  [[nodiscard]] Node find_key(std::string_view key) const;
  [[nodiscard]] Node find(std::string_view key) const;

  friend bool operator==(const Node&, const Node&) = default;

 private:
  const Document* document_ = nullptr;
  std::uint32_t index_ = 0;
};

// For range-based `for`.
class Children {
 public:
  class Iterator {
   public:
    explicit Iterator(Node at) : at_{at} {}
    Node operator*() const { return at_; }
    Iterator& operator++() {
      at_ = at_.next();
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    Node at_;
  };
  explicit Children(Node first) : first_{first} {}
  [[nodiscard]] Iterator begin() const { return Iterator{first_}; }
  [[nodiscard]] Iterator end() const { return Iterator{Node{}}; }

 private:
  Node first_;
};

// Immutable once parsed, and then safe to read from any thread. Never moved: nodes point to it.
class Document {
 public:
  static constexpr std::size_t k_size_limit = std::size_t{64} << 20;
  static constexpr std::size_t k_depth_limit = 64;

  // Nothing, and the reason among `findings`, if the text is no YAML: not UTF-8, over a limit, more
  // than one document. Keys that stand twice are findings too, and the document is returned.
  [[nodiscard]] static std::shared_ptr<const Document> parse(std::string name, std::string text,
                                                             std::vector<Finding>& findings);
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string_view source() const { return source_; }
  // False if the file is empty.
  [[nodiscard]] Node root() const { return nodes_.empty() ? Node{} : Node{*this, 0}; }
  [[nodiscard]] Place place(std::size_t byte) const;
  // Of the line (from 1) that the byte is in.
  [[nodiscard]] std::size_t line(std::size_t byte) const;
  [[nodiscard]] std::size_t lines() const { return line_starts_.size(); }
  [[nodiscard]] std::size_t line_begin(std::size_t line) const { return line_starts_[line - 1]; }

 private:
  friend class Node;
  friend class Builder;

  static constexpr std::uint32_t k_none = 0xFFFFFFFF;
  static constexpr std::uint32_t k_as_written = (1U << 25U) - 1;
  // A node stands before what it holds: the first child of one that has any is the node after it.
  // There are as many as bytes, nearly, so that each is packed.
  struct Stored {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::uint32_t next = k_none;
    std::uint32_t decoded : 25 = k_as_written;  // in decoded_; else it reads as it is written
    bool has_children : 1 = false;
    Node::Kind kind : 2 = Node::Kind::text;
    Node::Style style : 3 = Node::Style::plain;
    bool special : 1 = false;
  };
  static_assert(sizeof(Stored) == 16);
  // A text that is not in the source as it reads: escapes, folded lines.
  struct Decoded {
    std::uint32_t begin = 0;  // in decoded_text_
    std::uint32_t length = 0;
  };

  Document() = default;

  std::string name_;
  std::string source_;
  std::string decoded_text_;
  std::vector<Decoded> decoded_;
  std::vector<std::uint32_t> line_starts_;
  std::vector<Stored> nodes_;
};

// Whether two values say the same: style, comments and the order of keys do not count.
[[nodiscard]] bool same_value(Node a, Node b);

}  // namespace crosscheck::config
