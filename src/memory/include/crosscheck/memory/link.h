#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/memory/tree.h"

// Who uses whom within a tree.
namespace crosscheck::memory {

// A definition by its place among the sources.
struct Where {
  std::uint32_t source = 0;
  std::uint32_t definition = 0;
  friend auto operator<=>(const Where&, const Where&) = default;
};

// References are resolved by name, as Python would in most cases: a module's own names, imports
// (relative to the tree's root or the importing file's folder), methods through base classes that
// are in the tree. Local names that hide others, and what is made at run time, are not seen. A
// class that is named stands for its methods too, except its tests.
class Linked {
 public:
  // `sources` sorted by path; it must outlive this.
  explicit Linked(const std::vector<Source>& sources);
  Linked(Linked&&) noexcept;
  Linked& operator=(Linked&&) noexcept;
  ~Linked();

  // What the definition reaches directly or by others within the tree, itself left out, in order.
  // Of a method its class, its bases and their set-up and tear-down methods are part.
  [[nodiscard]] std::vector<Where> closure(Where of) const;
  // sha256 over the definition and its closure: changes when what the test does may change.
  [[nodiscard]] std::string content(Where of) const;
  // The method that a class of this source has, of its own or by a base in the tree.
  [[nodiscard]] std::optional<Where> method(std::uint32_t source, const std::string& class_name,
                                            std::string_view name) const;
  [[nodiscard]] const Definition& at(Where where) const {
    return (*sources_)[where.source].facts.definitions[where.definition];
  }
  [[nodiscard]] const std::string& path(Where where) const {
    return (*sources_)[where.source].path;
  }

 private:
  using Node = std::uint32_t;
  [[nodiscard]] Node node(Where where) const { return first_[where.source] + where.definition; }
  [[nodiscard]] Where where(Node node) const;
  void reach(Node of, std::vector<Node>& found) const;

  class Names;

  const std::vector<Source>* sources_;
  std::unique_ptr<Names> names_;
  std::vector<Node> first_;  // of each source, and one past the last
  std::vector<std::uint32_t> source_of_;
  std::vector<std::vector<Node>> edges_;
  mutable std::vector<std::uint32_t> seen_;  // by node: the search that saw it last
  mutable std::uint32_t search_ = 0;
};

}  // namespace crosscheck::memory
