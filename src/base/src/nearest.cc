#include "crosscheck/base/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "crosscheck/base/repo_name.h"

namespace crosscheck::base {
namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  // Longer words than any candidate are no misspelling, and would cost quadratic time.
  if (word.size() > 64) return {};
  const std::string lower = to_lower_ascii(word);
  std::string_view best;
  // Of short words every other is near: they must be right but for their letter case.
  std::size_t least = (word.size() < 4 ? 0 : (word.size() + 1) / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t d = distance(lower, to_lower_ascii(candidate));
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

std::string suggest(std::string_view word, std::span<const std::string_view> candidates) {
  if (const std::string_view near = nearest(word, candidates); !near.empty())
    return "did you mean '" + std::string{near} + "'?";
  std::string list = "use one of ";
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (i > 0) list += ", ";
    list += candidates[i];
  }
  return list;
}

}  // namespace crosscheck::base
