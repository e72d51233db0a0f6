#pragma once

#include <functional>
#include <string_view>

#include "crosscheck/relay/github_calls.h"
#include "crosscheck/relay/target.h"

namespace crosscheck::relay {

// What a withdrawn dispatch's reason begins with that was kept back here.
inline constexpr std::string_view k_shadow_reason = "shadow: ";

// Sends nothing: each dispatch is withdrawn with what would have been sent as its reason. For a
// relay that runs beside the one it is to replace. Thread-safe.
class ShadowTarget final : public DispatchTarget {
 public:
  void send(Dispatch dispatch, std::function<void(Answer)> done) override;
  [[nodiscard]] std::size_t room() const override;
};

// The same for other calls to GitHub.
class ShadowCallTarget final : public CallTarget {
 public:
  void send(CallKind kind, const base::RepoName& repo, const std::string& payload,
            std::function<void(Answer)> done) override;
  [[nodiscard]] std::size_t room() const override;
};

}  // namespace crosscheck::relay
