#include "crosscheck/base/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <utility>

#include "crosscheck/base/json.h"

namespace crosscheck::base::yaml {
namespace {

constexpr std::size_t k_max_depth = 32;

struct Refused {
  int line;
  int column;
  std::string message;
  std::string remedy;
};

// yaml-cpp's own Node keeps duplicate keys and forgets quotes; its events lose nothing.
class Builder final : public YAML::EventHandler {
 public:
  [[nodiscard]] Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check(mark, anchor, {});
    if (expects_key()) refuse(mark, "a key is missing", "write `key: value`");
    Node node = make(mark, Node::Kind::null);
    // The parser notices it in the next line; it is missing behind its key.
    if (!stack_.empty() && stack_.back().has_key) {
      const Node& key = stack_.back().key;
      node.line = key.line;
      node.column = key.column + static_cast<int>(key.text.size()) + 1;
    }
    add(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (`*name`) are not allowed", "write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool quoted = tag == "!";
    check(mark, anchor, quoted ? std::string{} : tag);
    if (value.find('\0') != std::string::npos)
      refuse(mark, "the text holds a NUL character", "leave it out");
    const bool null = !quoted && (value.empty() || value == "~" || value == "null");
    Node node = make(mark, null && !expects_key() ? Node::Kind::null : Node::Kind::text);
    node.quoted = quoted;
    if (node.is(Node::Kind::text)) node.text = value;
    if (expects_key()) {
      Open& top = stack_.back();
      for (const auto& [key, ignored] : top.node.entries)
        if (key.text == value)
          refuse(mark,
                 "the key '" + value + "' stands twice (first in line " + std::to_string(key.line) +
                     ")",
                 "join the two, or remove one");
      top.key = std::move(node);
      top.has_key = true;
      return;
    }
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::sequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::mapping);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    Node key;
    bool has_key = false;
  };

  [[noreturn]] static void refuse(const YAML::Mark& mark, std::string message, std::string remedy) {
    throw Refused{mark.line + 1, mark.column + 1, std::move(message), std::move(remedy)};
  }
  static void check(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& tag) {
    if (anchor != 0) refuse(mark, "anchors (`&name`) are not allowed", "write the value out");
    if (!tag.empty() && tag != "?")
      refuse(mark, "tags (`" + tag + "`) are not allowed", "remove it");
  }
  static Node make(const YAML::Mark& mark, Node::Kind kind) {
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }
  [[nodiscard]] bool expects_key() const {
    return !stack_.empty() && stack_.back().node.is(Node::Kind::mapping) && !stack_.back().has_key;
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    check(mark, anchor, tag);
    if (expects_key()) refuse(mark, "a key must be text", "put quotes around it");
    if (stack_.size() >= k_max_depth) refuse(mark, "nested too deeply", "at most 32 levels");
    stack_.push_back({make(mark, kind), {}, false});
  }
  void close() {
    Node node = std::move(stack_.back().node);
    stack_.pop_back();
    add(std::move(node));
  }
  void add(Node node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& top = stack_.back();
    if (top.node.is(Node::Kind::sequence)) {
      top.node.items.push_back(std::move(node));
    } else {
      top.node.entries.push_back({std::move(top.key), std::move(node)});
      top.has_key = false;
    }
  }

  std::vector<Open> stack_;
  Node root_;
};

tl::unexpected<Error> located(std::string_view source, int line, int column, std::string message,
                              std::string remedy) {
  return fail(Fault::invalid_input,
              std::string{source} + ":" + std::to_string(line) + ":" + std::to_string(column) +
                  ": " + std::move(message),
              std::move(remedy));
}

}  // namespace

const Node* Node::find(std::string_view key) const {
  for (const auto& [k, value] : entries)
    if (k.text == key) return &value;
  return nullptr;
}

std::string_view to_string(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::text:
      return "text";
    case Node::Kind::sequence:
      return "a list";
    case Node::Kind::mapping:
      return "a mapping";
  }
  return "";
}

Result<Node> parse(std::string_view text, std::string_view source) {
  if (!is_utf8(text)) return located(source, 1, 1, "the file is not UTF-8", "save it as UTF-8");
  if (const auto nul = text.find('\0'); nul != std::string_view::npos)
    return located(source, 1, 1, "the file holds a NUL byte", "save it as text");
  try {
    std::istringstream in{std::string{text}};
    YAML::Parser parser{in};
    Builder builder;
    if (!parser.HandleNextDocument(builder)) return Node{};
    Node root = builder.take();
    Builder rest;
    if (parser.HandleNextDocument(rest)) {
      const Node second = rest.take();
      return located(source, second.line, second.column, "a second document begins here",
                     "remove the `---` between them");
    }
    // yaml-cpp lets the end of a file close a quote if a line break stands before it: what follows
    // an unclosed quote would be lost in it without a word.
    std::istringstream cut{std::string{text.substr(0, text.find_last_not_of(" \t\r\n") + 1)}};
    Builder unused;
    YAML::Parser{cut}.HandleNextDocument(unused);
    return root;
  } catch (const Refused& refused) {
    return located(source, refused.line, refused.column, refused.message, refused.remedy);
  } catch (const YAML::Exception& error) {
    return located(source, error.mark.line + 1, error.mark.column + 1, "not YAML: " + error.msg,
                   error.msg == YAML::ErrorMsg::EOF_IN_SCALAR ? "close the quote" : "");
  }
}

tl::unexpected<Error> fail_at(std::string_view source, const Node& node, std::string message,
                              std::string remedy) {
  return located(source, node.line, node.column, std::move(message), std::move(remedy));
}

}  // namespace crosscheck::base::yaml
