#include "meaning.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "crosscheck/base/digest.h"
#include "crosscheck/memory/memory.h"

namespace crosscheck::memory {
namespace {

constexpr std::size_t k_least_piece = 3;
constexpr std::size_t k_most_piece = 5;
// Of name, path, decorators, torch names, identifiers, prose: as words are weighted.
constexpr double k_field_weights[] = {8, 2, 3, 4, 2, 3};
// Sums are whole numbers, so that no machine rounds them otherwise.
constexpr double k_unit = 4096;
constexpr std::string_view k_parameters =
    "feature hashing 1: 512 dimensions, one signed count for each word and each of its 3 to 5 byte "
    "pieces within <>, FNV-1a 64 and fmix33; words by weight / sqrt(words of the field * pieces); "
    "fields 8 2 3 4 2 3; unit 4096; 8 bits, the largest is 127";

constexpr std::uint64_t k_basis = 0xcbf29ce484222325ULL;
constexpr std::uint64_t k_whole = 0x9e3779b97f4a7c15ULL;  // a word is not its own piece

std::uint64_t step(std::uint64_t hash, char c) {
  return (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
}

class Sketch {
 public:
  void add(std::string_view word, double weight) {
    slots_.clear();
    std::uint64_t whole = k_whole;
    for (const char c : word) whole = step(whole, c);
    put(whole);
    framed_.assign(1, '<').append(word).append(1, '>');
    for (std::size_t begin = 0; begin + k_least_piece <= framed_.size(); ++begin) {
      std::uint64_t hash = k_basis;
      const std::size_t stop = std::min(framed_.size(), begin + k_most_piece);
      for (std::size_t at = begin; at < stop; ++at) {
        hash = step(hash, framed_[at]);
        if (at + 1 - begin >= k_least_piece) put(hash);
      }
    }
    const auto each = static_cast<std::int64_t>(
        std::lround(weight * k_unit / std::sqrt(static_cast<double>(slots_.size()))));
    for (const std::uint32_t slot : slots_) sums_[slot >> 1U] += (slot & 1U) != 0 ? each : -each;
  }

  Vector take() const {
    std::int64_t most = 0;
    for (const std::int64_t sum : sums_) most = std::max(most, std::abs(sum));
    if (most == 0) return {};
    Vector vector(k_sketch_dimensions);
    for (std::size_t i = 0; i < vector.size(); ++i) {
      const std::int64_t twice = sums_[i] * 254;  // halves are rounded away from zero
      vector[i] = static_cast<std::int8_t>((twice + (twice < 0 ? -most : most)) / (2 * most));
    }
    return vector;
  }

 private:
  void put(std::uint64_t hash) {
    hash ^= hash >> 33U;
    hash *= 0xff51afd7ed558ccdULL;
    hash ^= hash >> 33U;
    slots_.push_back(static_cast<std::uint32_t>(hash % (2 * k_sketch_dimensions)));
  }

  std::int64_t sums_[k_sketch_dimensions] = {};
  std::vector<std::uint32_t> slots_;  // of the word: dimension and sign
  std::string framed_;
};

constexpr std::size_t k_block = 64;

// A number of values that the compiler knows, and 16 bits on one side, let it multiply and add
// eight at once: four times as fast as with 8 bits on both.
std::int32_t dot(const std::int16_t* a, const std::int8_t* b, std::size_t size) {
  std::int32_t sum = 0;
  for (std::size_t at = 0; at < size; at += k_block) {
    std::int32_t part = 0;
    for (std::size_t i = 0; i < k_block; ++i) part += a[at + i] * b[at + i];
    sum += part;
  }
  return sum;
}

float length(const std::int8_t* values, std::size_t size) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += values[i] * values[i];
  return std::sqrt(static_cast<float>(sum));
}

}  // namespace

Vector sketch_of(const IndexedText& text) {
  Sketch sketch;
  const std::string* fields[] = {&text.name, &text.path,    &text.decorators,
                                 &text.apis, &text.symbols, &text.doc};
  for (std::size_t i = 0; i < std::size(fields); ++i) {
    std::string_view words = *fields[i];
    if (words.empty()) continue;
    const auto count = 1 + std::ranges::count(words, ' ');
    const double weight = k_field_weights[i] / std::sqrt(static_cast<double>(count));
    while (!words.empty()) {
      const auto stop = words.find(' ');
      sketch.add(words.substr(0, stop), weight);
      words.remove_prefix(stop == std::string_view::npos ? words.size() : stop + 1);
    }
  }
  return sketch.take();
}

Vector sketch_of(const std::vector<WeightedWord>& words) {
  Sketch sketch;
  for (const WeightedWord& word : words) sketch.add(word.word, word.weight);
  return sketch.take();
}

const std::string& sketch_digest() {
  static const std::string digest = base::sha256_hex(k_parameters);
  return digest;
}

std::string text_digest(const IndexedText& text, const Definition& definition) {
  std::string all;
  for (const std::string* part : {&text.name, &text.path, &text.decorators, &text.apis,
                                  &text.symbols, &text.doc, &definition.body}) {
    all += *part;
    all += '\n';
  }
  return base::sha256_hex(all);
}

Vector quantised(std::span<const float> values) {
  float most = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return {};
    most = std::max(most, std::abs(value));
  }
  if (most == 0) return {};
  Vector vector(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    vector[i] = static_cast<std::int8_t>(std::lround(values[i] / most * 127));
  return vector;
}

void Vectors::add(std::int64_t id, std::string_view bytes) {
  if (bytes.empty()) return;
  if (dimensions_ == 0) {
    dimensions_ = bytes.size();
    stride_ = (dimensions_ + k_block - 1) / k_block * k_block;
  }
  if (bytes.size() != dimensions_) return;
  ids_.push_back(id);
  values_.resize(values_.size() + stride_);
  std::int8_t* mine = values_.data() + values_.size() - stride_;
  std::memcpy(mine, bytes.data(), bytes.size());
  lengths_.push_back(length(mine, stride_));
}

std::vector<float> Vectors::likeness(const Vector& vector) const {
  if (vector.empty() || vector.size() != dimensions_) return {};
  std::vector<std::int16_t> padded(vector.begin(), vector.end());
  padded.resize(stride_);
  const float asked = length(vector.data(), vector.size());
  std::vector<float> all(ids_.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<float>(dot(padded.data(), values_.data() + i * stride_, stride_)) /
             (asked * lengths_[i]);
  return all;
}

}  // namespace crosscheck::memory
