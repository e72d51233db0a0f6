#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/memory/extract.h"

// Vectors whose direction says what a text is about: made here by hashing its words and pieces of
// words, or given by a model.
namespace crosscheck::memory {

// The columns of the full-text index, in its order.
struct IndexedText {
  std::string name;
  std::string path;
  std::string decorators;
  std::string apis;
  std::string symbols;
  std::string doc;
};

// A direction: its length says nothing. Eight bits for each dimension.
using Vector = std::vector<std::int8_t>;

// The same on every machine for the same words: there is no table that would be trained, only the
// fixed parameters that `sketch_digest` stands for.
inline constexpr std::size_t k_sketch_dimensions = 512;
[[nodiscard]] Vector sketch_of(const IndexedText& text);
struct WeightedWord {
  std::string word;
  double weight = 1;
};
[[nodiscard]] Vector sketch_of(const std::vector<WeightedWord>& words);

// sha256 of what is said about a test and of its body: what is asked of a model is kept by it.
[[nodiscard]] std::string text_digest(const IndexedText& text, const Definition& definition);

// Empty where there is no direction: all zero, or not finite.
[[nodiscard]] Vector quantised(std::span<const float> values);

// Vectors of many definitions, one after the other.
class Vectors {
 public:
  // One of another number of dimensions than the first is left out.
  void add(std::int64_t id, std::string_view bytes);
  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  [[nodiscard]] std::size_t dimensions() const { return dimensions_; }
  [[nodiscard]] std::int64_t id(std::size_t index) const { return ids_[index]; }
  // The cosine to each, by index; empty if `vector` has other dimensions.
  [[nodiscard]] std::vector<float> likeness(const Vector& vector) const;

 private:
  std::size_t dimensions_ = 0;
  std::size_t stride_ = 0;  // in bytes: whole blocks
  std::vector<std::int64_t> ids_;
  std::vector<float> lengths_;
  std::vector<std::int8_t> values_;
};

}  // namespace crosscheck::memory
