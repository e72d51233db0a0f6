#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crosscheck/config/govern.h"
#include "crosscheck/config/model.h"
#include "crosscheck/reconcile/history.h"
#include "crosscheck/reconcile/reconcile.h"

// Why a test has the mode that is proposed, from what runs saw.
namespace crosscheck::reconcile {

[[nodiscard]] bool is_persons(const config::Rationale& rationale);
[[nodiscard]] bool is_expired(const config::Rationale& rationale, std::string_view today);
// Reasons that no outcome speaks against.
[[nodiscard]] bool is_about_scope(config::Reason reason);

// A test and what is known of it.
struct Subject {
  const config::CollectedTest* test = nullptr;
  std::vector<Sighting> sightings = {};
  Standing standing = {};  // points into `sightings`
};

struct Explained {
  config::Rationale rationale = {};
  std::string why = {};  // one line, for a list
};
// Of several that are decided alike; at least one. `mode` is mandatory_success or xfail.
[[nodiscard]] Explained explain_decision(std::span<const Subject* const> subjects,
                                         config::Mode mode, const Options& options,
                                         std::string_view today);

// "run 3f2a…, 2026-11-30T10:12:00Z, torch 2.13.0": which run it was, for people who look it up.
[[nodiscard]] std::string reference(const Run& run);
// The first line of a text, cut, without control characters.
[[nodiscard]] std::string headline(std::string_view text, std::size_t most);

}  // namespace crosscheck::reconcile
