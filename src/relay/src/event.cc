#include "crosscheck/relay/event.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace crosscheck::relay {
namespace {

using base::Result;
namespace json = base::json;

constexpr std::size_t k_title_limit = 1024;
constexpr std::size_t k_text_limit = 512;
// GitHub lists at most this many commits of a push; with as many, some may be missing.
constexpr std::size_t k_max_commits = 2048;

std::string_view text_at(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string_view{value->as_string()}
                                                : std::string_view{};
}

std::optional<std::string> optional_text(const json::value& body, std::string_view path,
                                         std::size_t limit = k_text_limit) {
  const auto* value = base::find(body, path);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return base::to_utf8(value->as_string(), limit);
}

// A commit or a ref: upstream never leaves one empty.
Result<std::string> require_text(const json::value& body, std::string_view path) {
  const auto text = base::require_string(body, path);
  if (!text) return tl::unexpected(text.error());
  if (text->empty())
    return base::fail(base::Fault::invalid_input, std::string{path} + ": must not be empty");
  return base::to_utf8(*text, k_text_limit);
}

bool is_zero_sha(std::string_view sha) {
  return !sha.empty() && sha.find_first_not_of('0') == std::string_view::npos;
}

std::optional<std::vector<std::string>> changed_files(const json::value& body) {
  const auto* list = base::find(body, "commits");
  const auto* commits = list == nullptr ? nullptr : list->if_array();
  if (commits == nullptr || commits->empty() || commits->size() >= k_max_commits)
    return std::nullopt;
  std::vector<std::string> files;
  for (const json::value& commit : *commits) {
    for (const std::string_view kind : {"added", "modified", "removed"}) {
      const auto* names = base::find(commit, kind);
      if (names == nullptr || !names->is_array()) return std::nullopt;
      for (const json::value& name : names->get_array())
        if (name.is_string()) files.emplace_back(name.get_string());
    }
  }
  return files;
}

// GitHub says a push's time in seconds since 1970.
std::optional<base::Time> pushed_at(const json::value& body) {
  constexpr std::int64_t k_latest = 253'402'300'799;  // the year 9999
  const auto seconds = base::require_int(body, "repository.pushed_at");
  if (!seconds || *seconds < 1 || *seconds > k_latest) return std::nullopt;
  return base::Time{std::chrono::seconds{*seconds}};
}

// "ciflow/trunk/123" belongs to pull request 123.
std::optional<std::int64_t> pr_of_tag(std::string_view tag) {
  if (!tag.starts_with("ciflow/")) return std::nullopt;
  const auto slash = tag.rfind('/');
  if (slash <= std::string_view{"ciflow/"}.size()) return std::nullopt;
  const std::string_view digits = tag.substr(slash + 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || number < 1)
    return std::nullopt;
  return number;
}

Result<UpstreamEvent> read_pull_request(const json::value& body) {
  UpstreamEvent event;
  event.type = "pull_request";
  auto action = base::require_string(body, "action");
  if (!action) return tl::unexpected(action.error());
  event.action = std::move(*action);
  const auto number = base::require_int(body, "pull_request.number");
  if (!number) return tl::unexpected(number.error());
  if (*number < 1)
    return base::fail(
        base::Fault::invalid_input,
        "pull_request.number: expected a number from 1, found " + std::to_string(*number));
  event.pr_number = *number;
  for (const auto& [path, into] : {std::pair{"pull_request.head.sha", &event.head_sha},
                                   std::pair{"pull_request.head.ref", &event.head_ref},
                                   std::pair{"pull_request.base.sha", &event.base_sha},
                                   std::pair{"pull_request.base.ref", &event.base_ref}}) {
    auto text = require_text(body, path);
    if (!text) return tl::unexpected(text.error());
    *into = *std::move(text);
  }
  event.pr_title = optional_text(body, "pull_request.title", k_title_limit);
  event.pr_is_open = optional_text(body, "pull_request.state").value_or("open") != "closed" &&
                     event.action != "closed";
  const auto home = optional_text(body, "repository.full_name");
  const auto head = optional_text(body, "pull_request.head.repo.full_name");
  if (home && head && base::to_lower_ascii(*home) == base::to_lower_ascii(*head))
    event.own_branch = base::to_lower_ascii(*event.head_ref);
  if (const auto text = optional_text(body, "pull_request.updated_at"))
    if (const auto time = base::parse_rfc3339(*text)) event.said_at = *time;
  if (const auto* labels = base::find(body, "pull_request.labels");
      labels != nullptr && labels->is_array())
    for (const json::value& label : labels->get_array())
      if (auto name = optional_text(label, "name")) event.labels.push_back(std::move(*name));
  return event;
}

Result<UpstreamEvent> read_push(const json::value& body) {
  UpstreamEvent event;
  event.type = "push";
  for (const auto& [path, into] :
       {std::pair{"ref", &event.git_ref}, std::pair{"after", &event.head_sha},
        std::pair{"before", &event.base_sha}}) {
    auto text = require_text(body, path);
    if (!text) return tl::unexpected(text.error());
    *into = *std::move(text);
  }
  std::string_view name = *event.git_ref;
  constexpr std::string_view heads = "refs/heads/";
  constexpr std::string_view tags = "refs/tags/";
  if (name.starts_with(heads)) {
    name.remove_prefix(heads.size());
  } else if (name.starts_with(tags)) {
    name.remove_prefix(tags.size());
    event.pr_number = pr_of_tag(name);
  }
  event.head_ref = std::string{name};
  event.changed_files = changed_files(body);
  event.said_at = pushed_at(body);
  return event;
}

}  // namespace

bool is_supported_event(std::string_view type) {
  constexpr std::array<std::string_view, 4> supported{"pull_request", "push", "check_run",
                                                      "check_suite"};
  return std::ranges::find(supported, type) != supported.end();
}

Routed route(std::string_view type, const json::object& body, const base::RepoName& upstream,
             std::string_view label_prefix) {
  using Route = Routed::Route;
  const auto* repository = body.if_contains("repository");
  const auto* object = repository == nullptr ? nullptr : repository->if_object();
  const std::string_view from =
      object == nullptr ? std::string_view{} : text_at(*object, "full_name");
  if (base::to_lower_ascii(from) != upstream.key())
    return {Route::ignore, "not from " + upstream.full_name()};
  const std::string_view action = text_at(body, "action");
  if (type == "push") {
    const auto* deleted = body.if_contains("deleted");
    if ((deleted != nullptr && deleted->is_bool() && deleted->get_bool()) ||
        is_zero_sha(text_at(body, "after")))
      return {Route::ignore, "a deletion"};
    return {Route::dispatch, {}};
  }
  if (type == "pull_request") {
    constexpr std::array<std::string_view, 4> forwarded{"opened", "reopened", "synchronize",
                                                        "closed"};
    if (std::ranges::find(forwarded, action) != forwarded.end()) return {Route::dispatch, {}};
    if (action == "labeled" || action == "unlabeled") {
      const auto* label = body.if_contains("label");
      const auto* named = label == nullptr ? nullptr : label->if_object();
      if (named != nullptr && text_at(*named, "name").starts_with(label_prefix))
        return {Route::label, {}};
    }
  } else if (action == "rerequested") {
    return {Route::rerun, {}};
  }
  return {Route::ignore, "action '" + base::to_utf8(action, 64) + "' is not forwarded"};
}

Result<UpstreamEvent> read_event(std::string_view type, const json::value& body) {
  auto event = type == "push" ? read_push(body) : read_pull_request(body);
  if (event) event->sender = optional_text(body, "sender.login");
  return event;
}

bool wants(const Backend& backend, const UpstreamEvent& event) {
  if (!backend.pull_requests) return false;
  if (event.type == "pull_request") return backend.branches.pass(event.base_ref.value_or(""));
  const bool is_branch = event.git_ref && event.git_ref->starts_with("refs/heads/");
  if (is_branch && !backend.branches.pass(event.head_ref.value_or(""))) return false;
  if (!is_branch || backend.paths.empty() || !event.changed_files) return true;
  return std::ranges::any_of(*event.changed_files,
                             [&](const std::string& file) { return backend.paths.pass(file); });
}

}  // namespace crosscheck::relay
