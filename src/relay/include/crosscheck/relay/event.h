#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/json.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/relay/allowlist.h"

namespace crosscheck::relay {

// What a webhook of a pull request or a push says, as far as the relay records it.
struct UpstreamEvent {
  std::string type;  // pull_request, push
  std::string action;
  std::optional<std::int64_t> pr_number;  // also of a push of the tag ciflow/<name>/<PR number>
  std::optional<std::string> pr_title;
  std::optional<std::string> head_sha;  // of a push: `after`
  std::optional<std::string>
      head_ref;  // of a push: branch or tag without refs/heads/ or refs/tags/
  std::optional<std::string> base_sha;  // of a push: `before`
  std::optional<std::string> base_ref;
  std::optional<std::string> git_ref;  // of a push: the whole ref
  std::optional<std::string> sender;
  std::vector<std::string> labels;
  // Of a pull request: its state after the event, and its head where that is a branch of the
  // upstream itself (lower case).
  bool pr_is_open = true;
  std::optional<std::string> own_branch;
  std::optional<base::Time> said_at;  // upstream's time of it
  std::optional<std::vector<std::string>>
      changed_files;  // of a push; nothing when not all are known

  // Makes what was not sent of the same pull request pointless.
  [[nodiscard]] bool supersedes() const {
    return type == "pull_request" && (action == "synchronize" || action == "closed");
  }
};

// The events the relay looks at; others are answered before their signature is.
[[nodiscard]] bool is_supported_event(std::string_view type);

// What is to be done with a webhook. `label`: one of a device was put on a pull request, or taken
// off. `rerun`: somebody wants a check run, or a suite of them, again.
struct Routed {
  enum class Route : std::uint8_t { dispatch, label, rerun, ignore };
  Route route = Route::ignore;
  std::string reason;  // of `ignore`
};
[[nodiscard]] Routed route(std::string_view type, const base::json::object& body,
                           const base::RepoName& upstream, std::string_view label_prefix);

// Of a body that is routed to `dispatch` or `label`. The error names the field.
[[nodiscard]] base::Result<UpstreamEvent> read_event(std::string_view type,
                                                     const base::json::value& body);

// Whether a backend's participation and filters let the event through. A pull request's changed
// files are not in its webhook: `paths` is looked at before sending.
[[nodiscard]] bool wants(const Backend& backend, const UpstreamEvent& event);

}  // namespace crosscheck::relay
