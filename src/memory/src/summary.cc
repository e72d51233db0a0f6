#include <fmt/format.h>

#include <algorithm>

#include "crosscheck/base/json.h"
#include "impl.h"
#include "tokens.h"

namespace crosscheck::memory {
namespace {

constexpr std::size_t k_sentence_limit = 160;
constexpr std::size_t k_names = 5;

// Up to the first full stop that a space follows.
std::string first_sentence(std::string_view text) {
  for (std::size_t i = 0; i + 1 < text.size(); ++i)
    if ((text[i] == '.' || text[i] == '!' || text[i] == '?') && text[i + 1] == ' ') {
      text = text.substr(0, i + 1);
      break;
    }
  return base::to_utf8(text, k_sentence_limit);
}

// "test_view_copy_out" is "view copy out".
std::string spoken(std::string_view name) {
  if (name.starts_with("test_")) name.remove_prefix(5);
  std::string text{name};
  std::ranges::replace(text, '_', ' ');
  return text;
}

}  // namespace

std::string summary_of(const Definition& definition) {
  std::string text = first_sentence(definition.doc.empty() ? definition.comment : definition.doc);
  if (text.empty()) {
    text = "Tests " + spoken(definition.name);
    if (!definition.class_name.empty()) text += " (" + definition.class_name + ")";
  }
  // Names that the test's own name speaks of come first.
  const std::vector<std::string> words = tokens_of(definition.name);
  const auto is_spoken_of = [&](std::string_view api) {
    return std::ranges::any_of(
        tokens_of(api.substr(api.rfind('.') + 1)),
        [&](const std::string& part) { return std::ranges::find(words, part) != words.end(); });
  };
  std::vector<std::string_view> names;
  for (const bool wanted : {true, false})
    for (const std::string& api : definition.apis)
      if (!api.starts_with("torch.testing.") && is_spoken_of(api) == wanted) names.push_back(api);
  if (!names.empty()) {
    text += "\nUses ";
    for (std::size_t i = 0; i < names.size() && i < k_names; ++i)
      text += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
    if (names.size() > k_names) text += fmt::format(" and {} more", names.size() - k_names);
    text += ".";
  }
  if (!definition.decorators.empty()) {
    text += names.empty() ? "\n" : " ";
    text += "Decorated with ";
    for (std::size_t i = 0; i < definition.decorators.size() && i < k_names; ++i)
      text += (i == 0 ? "" : ", ") +
              definition.decorators[i].substr(0, definition.decorators[i].find('('));
    text += ".";
  }
  return text;
}

}  // namespace crosscheck::memory
