#include "crosscheck/relay/advisory.h"

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/url.h"

namespace crosscheck::relay {
namespace {

namespace json = base::json;

constexpr std::size_t k_verdict_limit = 16 * 1024;  // bytes, of the whole
constexpr std::size_t k_long = 1024;
constexpr std::size_t k_short = 300;
constexpr std::size_t k_max_evidence = 10;
constexpr std::size_t k_max_tests = 1000;
constexpr std::size_t k_stack_limit = 4 * 1024;

bool cut_text(json::value& value, std::size_t limit) {
  if (!value.is_string() || value.get_string().empty()) return false;
  value = base::to_utf8(value.get_string(), limit);
  return true;
}

// Whether the member is missing, null (then it goes) or a text, which is cut.
bool cut_member(json::object& object, std::string_view name, std::size_t limit) {
  auto* member = object.if_contains(name);
  if (member == nullptr) return true;
  if (member->is_null()) {
    object.erase(name);
    return true;
  }
  return cut_text(*member, limit);
}

bool is_commit(const json::value& value) {
  const auto* text = value.if_string();
  return text != nullptr && text->size() >= 7 && text->size() <= 40 &&
         std::ranges::all_of(*text, [](char c) { return base::hex_value(c) >= 0; });
}

bool settle_suspect(json::object& suspect) {
  if (const auto* pr = suspect.if_contains("pr"); pr != nullptr) {
    const auto* number = pr->if_int64();
    if (number == nullptr || *number < 1) return false;
  }
  if (const auto* commit = suspect.if_contains("commit"); commit != nullptr && !is_commit(*commit))
    return false;
  return (suspect.contains("pr") || suspect.contains("commit")) &&
         cut_member(suspect, "reason", k_short);
}

bool settle_evidence(json::value& value) {
  auto* list = value.if_array();
  if (list == nullptr) return false;
  if (list->size() > k_max_evidence) list->resize(k_max_evidence);
  return std::ranges::all_of(*list, [](json::value& entry) {
    auto* object = entry.if_object();
    if (object == nullptr) return false;
    if (const auto* url = object->if_contains("log_url");
        url != nullptr && !(url->is_string() && base::is_web_url(url->get_string())))
      object->erase("log_url");
    return cut_member(*object, "job", k_short) && cut_member(*object, "test", k_short) &&
           cut_member(*object, "excerpt", k_long);
  });
}

bool settle_verdict(json::object& verdict) {
  constexpr std::array<std::string_view, 5> categories{"upstream", "backend", "infra", "flake",
                                                       "unknown"};
  const auto* category = verdict.if_contains("category");
  if (category == nullptr || !category->is_string() ||
      std::ranges::find(categories, std::string_view{category->get_string()}) == categories.end())
    return false;
  if (const auto* version = verdict.if_contains("schema_version");
      version != nullptr && *version != json::value(1) && *version != json::value("1"))
    return false;
  // high, medium and low; some count instead.
  if (const auto* confidence = verdict.if_contains("confidence");
      confidence != nullptr && !confidence->is_number() &&
      !cut_member(verdict, "confidence", k_short))
    return false;
  if (!cut_member(verdict, "summary", k_long) || !cut_member(verdict, "analyzed_at", k_short))
    return false;
  if (auto* suspect = verdict.if_contains("suspected_upstream"); suspect != nullptr) {
    if (suspect->is_null())
      verdict.erase("suspected_upstream");
    else if (!suspect->is_object() || !settle_suspect(suspect->get_object()))
      return false;
  }
  if (auto* evidence = verdict.if_contains("evidence"); evidence != nullptr) {
    if (evidence->is_null())
      verdict.erase("evidence");
    else if (!settle_evidence(*evidence))
      return false;
  }
  if (const auto* again = verdict.if_contains("reproduced_on_retry");
      again != nullptr && !again->is_bool() && !again->is_null())
    return false;
  return true;
}

}  // namespace

std::optional<json::object> read_triage_verdict(const json::value& value) {
  const auto* given = value.if_object();
  if (given == nullptr || json::serialize(*given).size() > k_verdict_limit) return std::nullopt;
  json::object verdict = *given;
  if (!settle_verdict(verdict)) return std::nullopt;
  return verdict;
}

std::optional<json::array> read_failed_tests(const json::value& value) {
  const auto* given = value.if_array();
  if (given == nullptr) return std::nullopt;
  json::array tests;
  for (const json::value& one : *given) {
    if (tests.size() == k_max_tests) break;
    const auto* object = one.if_object();
    if (object == nullptr || !object->contains("name")) continue;
    json::object test = *object;
    if (test["name"].is_null() || !cut_member(test, "name", k_long) ||
        !cut_member(test, "classname", k_long) || !cut_member(test, "message", k_long) ||
        !cut_member(test, "stacktrace", k_stack_limit))
      continue;
    if (const auto* duration = test.if_contains("duration");
        duration != nullptr && !(duration->is_number() && duration->to_number<double>() >= 0))
      test.erase("duration");
    tests.push_back(std::move(test));
  }
  if (tests.empty()) return std::nullopt;
  return tests;
}

}  // namespace crosscheck::relay
