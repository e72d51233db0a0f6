#include "crosscheck/github/webhook.h"

#include "crosscheck/base/digest.h"

namespace crosscheck::github {

using base::Fault;

namespace {
constexpr std::string_view k_prefix = "sha256=";
}

std::string sign_body(std::string_view secret, std::string_view body) {
  return std::string{k_prefix} + base::to_hex(base::hmac_sha256(secret, body));
}

base::Result<void> verify_signature(std::span<const std::string> secrets, std::string_view body,
                                    std::optional<std::string_view> header) {
  if (!header || header->empty()) {
    return base::fail(Fault::invalid_input, "the header X-Hub-Signature-256 is missing",
                      "set the webhook's secret");
  }
  // GitHub writes lower-case hex: the text itself is compared.
  bool good = false;
  for (const std::string& secret : secrets) {
    if (secret.empty()) continue;
    good |= base::equal_constant_time(sign_body(secret, body), *header);
  }
  if (good) return {};
  return base::fail(Fault::unauthorized, "the signature in X-Hub-Signature-256 is wrong",
                    "give GitHub's webhook and the relay the same secret");
}

}  // namespace crosscheck::github
