#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "crosscheck/base/outcome.h"

// The one table of states: every page, badge and JSON twin takes its glyph, colour and words from
// here.
namespace crosscheck::hud {

enum class State : std::uint8_t {
  failed,
  timed_out,
  dead,        // could not be dispatched
  running,     // in progress downstream
  pending,     // accepted, still in the outbox
  dispatched,  // sent, nothing reported yet
  cancelled,
  passed,
  neutral,  // neutral, or a conclusion that has no meaning here
  skipped,
  withdrawn,  // taken back before it was sent; the dispatch says why
  no_data,
};

struct StateInfo {
  State state;
  std::string_view name;   // in JSON, in URLs and as CSS class; API
  std::string_view label;  // for people
  std::string_view glyph;
  int rank;      // the greatest of a group is the group's state
  bool counted;  // part of the pass rate's denominator
  std::string_view meaning;
};

[[nodiscard]] std::span<const StateInfo> states();
[[nodiscard]] const StateInfo& info(State state);
[[nodiscard]] std::optional<State> parse_state(std::string_view name);
[[nodiscard]] State worse(State a, State b);

// What a job row says: `state` is in_progress or completed.
[[nodiscard]] State job_state(std::string_view state, std::string_view conclusion);
// What a dispatch row says when no job has reported.
[[nodiscard]] State dispatch_state(std::string_view state);
[[nodiscard]] constexpr bool is_bad(State state) {
  return state == State::failed || state == State::timed_out || state == State::dead;
}
[[nodiscard]] constexpr bool is_open(State state) {
  return state == State::running || state == State::pending || state == State::dispatched;
}

// What an upgrade gate says: a gate's status, a decision, or a claim's verdict.
struct UpgradeWord {
  std::string_view word;
  State as;  // whose glyph and colour it wears
  std::string_view meaning;
};
[[nodiscard]] std::span<const UpgradeWord> upgrade_words();
// no_data for a word that is unknown here.
[[nodiscard]] State upgrade_state(std::string_view word);

struct OutcomeInfo {
  base::Outcome outcome;
  std::string_view label;
  State as;  // whose glyph and colour it wears
};
[[nodiscard]] const OutcomeInfo& info(base::Outcome outcome);
[[nodiscard]] std::span<const OutcomeInfo> outcomes();

}  // namespace crosscheck::hud
