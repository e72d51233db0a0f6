#include "state.h"

#include <algorithm>
#include <array>

namespace crosscheck::hud {
namespace {

constexpr std::array k_states{
    StateInfo{State::failed, "failed", "failed", "✕", 90, true,
              "The job ended with the conclusion failure or startup_failure."},
    StateInfo{State::timed_out, "timed_out", "timed out", "◷", 85, true,
              "The job ran out of time, or stopped reporting and was ended by the relay."},
    StateInfo{State::dead, "dead", "not dispatched", "!", 80, false,
              "The relay could not hand the event to the backend; a person can replay it."},
    StateInfo{State::running, "running", "running", "◐", 70, false,
              "The backend's CI reported the job's start and not yet its end."},
    StateInfo{State::pending, "pending", "in the outbox", "◌", 60, false,
              "Accepted by the relay and not sent yet."},
    StateInfo{State::dispatched, "dispatched", "waiting for a report", "◔", 55, false,
              "Sent to the backend; no job has reported yet."},
    StateInfo{State::cancelled, "cancelled", "cancelled", "⊘", 40, false,
              "The job was cancelled: it says nothing about the change."},
    StateInfo{State::passed, "passed", "passed", "✓", 30, true,
              "The job ended with the conclusion success."},
    StateInfo{State::neutral, "neutral", "neutral", "–", 20, false,
              "The job ended with a conclusion that is neither success nor failure."},
    StateInfo{State::skipped, "skipped", "skipped", "»", 10, false, "The job decided not to run."},
    StateInfo{State::withdrawn, "withdrawn", "withdrawn", "×", 5, false,
              "Taken back before it was sent: a newer commit came, the pull request was closed, or "
              "none of "
              "its files is the backend's."},
    StateInfo{State::no_data, "no_data", "no data", "·", 0, false, "Nothing is known."},
};

constexpr std::array k_outcomes{
    OutcomeInfo{base::Outcome::failed, "failed", State::failed},
    OutcomeInfo{base::Outcome::crashed, "crashed", State::failed},
    OutcomeInfo{base::Outcome::timed_out, "timed out", State::timed_out},
    OutcomeInfo{base::Outcome::environment_error, "environment error", State::dead},
    OutcomeInfo{base::Outcome::harness_error, "harness error", State::dead},
    OutcomeInfo{base::Outcome::passed, "passed", State::passed},
    OutcomeInfo{base::Outcome::xpassed, "passed unexpectedly", State::neutral},
    OutcomeInfo{base::Outcome::xfailed, "failed as expected", State::neutral},
    OutcomeInfo{base::Outcome::skipped, "skipped", State::skipped},
    OutcomeInfo{base::Outcome::not_run, "not run", State::no_data},
};
constexpr std::array k_upgrade_words{
    UpgradeWord{"adopt", State::passed, "Every required gate passed or is waived: it may move."},
    UpgradeWord{"isolate", State::running,
                "What fails can be switched off by a switch that was tried; the rest may move."},
    UpgradeWord{
        "defer", State::pending,
        "Not now: a gate fails, or is open. NOT_RUN and INCONCLUSIVE never count as passed."},
    UpgradeWord{"rollback", State::failed,
                "The candidate is in use already and a required gate fails: switch back."},
    UpgradeWord{"PASS", State::passed,
                "Worse by less than the margin, with the interval's confidence."},
    UpgradeWord{"FAIL", State::failed, "Worse by more than the margin, in two sessions."},
    UpgradeWord{"INCONCLUSIVE", State::neutral,
                "The interval reaches across the margin after the last look."},
    UpgradeWord{"UNFIT", State::cancelled,
                "The baseline does not agree with itself on that machine: no verdict."},
    UpgradeWord{"NOT_RUN", State::no_data, "The device or something else was missing."},
    UpgradeWord{"confirmed", State::passed, "A claim: the gain was measured."},
    UpgradeWord{"not reproduced", State::neutral,
                "A claim: the interval neither has nor excludes the gain."},
    UpgradeWord{"refuted", State::failed, "A claim: the gain lies outside the interval."},
};
static_assert(k_outcomes.size() == base::k_outcome_count);

}  // namespace

std::span<const StateInfo> states() { return k_states; }

const StateInfo& info(State state) {
  return *std::ranges::find(k_states, state, &StateInfo::state);
}

std::optional<State> parse_state(std::string_view name) {
  const auto found = std::ranges::find(k_states, name, &StateInfo::name);
  if (found == k_states.end()) return std::nullopt;
  return found->state;
}

State worse(State a, State b) { return info(a).rank >= info(b).rank ? a : b; }

State job_state(std::string_view state, std::string_view conclusion) {
  if (state == "in_progress") return State::running;
  if (conclusion == "success") return State::passed;
  if (conclusion == "failure" || conclusion == "startup_failure") return State::failed;
  if (conclusion == "timed_out") return State::timed_out;
  if (conclusion == "cancelled") return State::cancelled;
  if (conclusion == "skipped") return State::skipped;
  return State::neutral;
}

State dispatch_state(std::string_view state) {
  if (state == "sent") return State::dispatched;
  if (state == "dead") return State::dead;
  if (state == "withdrawn") return State::withdrawn;
  return State::pending;
}

const OutcomeInfo& info(base::Outcome outcome) {
  return *std::ranges::find(k_outcomes, outcome, &OutcomeInfo::outcome);
}

std::span<const UpgradeWord> upgrade_words() { return k_upgrade_words; }

State upgrade_state(std::string_view word) {
  const auto found = std::ranges::find(k_upgrade_words, word, &UpgradeWord::word);
  return found == k_upgrade_words.end() ? State::no_data : found->as;
}

std::span<const OutcomeInfo> outcomes() { return k_outcomes; }

}  // namespace crosscheck::hud
