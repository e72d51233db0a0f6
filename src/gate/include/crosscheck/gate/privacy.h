#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/base/result.h"
#include "crosscheck/gate/bundle.h"

// What of a matrix leaves its machine. Values are replaced, not removed: the same value by the same
// placeholder, so that what differs between the sides still does, and the launches still say what
// they said.
namespace crosscheck::gate {

enum class Privacy : std::uint8_t { off, standard, strict };
[[nodiscard]] std::string_view to_string(Privacy privacy);
[[nodiscard]] std::optional<Privacy> parse_privacy(std::string_view name);

struct PrivacyRule {
  std::string_view name;             // part of its placeholders: redacted-NAME-1f2e3d4c
  Privacy from = Privacy::standard;  // the least level that applies it
  std::string_view finds;
};
// In the order in which they are applied.
[[nodiscard]] std::span<const PrivacyRule> privacy_rules();

// What is known of the machine that a bundle is made on.
struct Surroundings {
  std::string home;
  std::string user;
  std::string host;
  std::string salt;  // of the placeholders; a secret, lest names be guessed from them
};

// `files` (records and manifest.yaml) as they may leave under `level`. A manifest is written anew,
// without its comments, and frozen.json follows it, with the HMAC of the digest that it had as
// `original`. `privacy.json` says how often each rule found something. `off` changes nothing.
[[nodiscard]] base::Result<BundleFiles> redact(BundleFiles files, Privacy level,
                                               const Surroundings& surroundings);

}  // namespace crosscheck::gate
