#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "crosscheck/base/result.h"

namespace crosscheck::github {

// Whether `header` (X-Hub-Signature-256) is the signature of the raw `body` under one of `secrets`:
// while a secret is being replaced, both the old and the new one count. Empty secrets never do.
// Takes the same time whichever byte differs. Faults: `invalid_input` when there is no signature,
// `unauthorized` when it is wrong.
[[nodiscard]] base::Result<void> verify_signature(std::span<const std::string> secrets,
                                                  std::string_view body,
                                                  std::optional<std::string_view> header);

// The header's value for `body`, as GitHub makes it.
[[nodiscard]] std::string sign_body(std::string_view secret, std::string_view body);

}  // namespace crosscheck::github
