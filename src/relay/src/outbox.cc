#include "crosscheck/relay/outbox.h"

#include <algorithm>

namespace crosscheck::relay {
namespace {

base::Duration pause_before(int next_attempt, const RetryPolicy& policy, double jitter) {
  // 2^20 first pauses are beyond any longest pause that makes sense.
  const int doublings = std::clamp(next_attempt - 2, 0, 20);
  const auto whole =
      std::min(policy.first_pause * (std::int64_t{1} << doublings), policy.longest_pause);
  const double part = 0.5 + std::clamp(jitter, 0.0, 1.0) / 2;
  return base::Duration{static_cast<std::int64_t>(static_cast<double>(whole.count()) * part)};
}

}  // namespace

std::string_view to_string(DispatchState state) {
  switch (state) {
    case DispatchState::pending:
      return "pending";
    case DispatchState::sending:
      return "sending";
    case DispatchState::sent:
      return "sent";
    case DispatchState::dead:
      return "dead";
    case DispatchState::withdrawn:
      return "withdrawn";
  }
  return "";
}

Next decide(const Attempt& attempt, const Answer& answer, base::Time now, const RetryPolicy& policy,
            double jitter) {
  using Kind = Answer::Kind;
  const auto again = [&](bool uncertain) {
    const auto at = std::max(now + pause_before(attempt.number + 1, policy, jitter),
                             answer.not_before.value_or(now));
    return Next{DispatchState::pending, uncertain, at, answer.message};
  };
  switch (answer.kind) {
    case Kind::sent:
      return {DispatchState::sent, attempt.uncertain, now, std::nullopt};
    case Kind::rejected:
      return {DispatchState::dead, attempt.uncertain, now, answer.message};
    case Kind::unwanted:
      return {DispatchState::withdrawn, attempt.uncertain, now, answer.message};
    case Kind::uncertain:
      if (attempt.uncertain)
        return {DispatchState::dead, true, now,
                "may have gone through twice already, not sent again: " + answer.message};
      return again(true);
    case Kind::retry_later:
      if (now - attempt.created_at >= policy.give_up_after)
        return {
            DispatchState::dead, attempt.uncertain, now,
            "given up after " + base::to_human(now - attempt.created_at) + ": " + answer.message};
      return again(attempt.uncertain);
  }
  return {DispatchState::dead, attempt.uncertain, now, answer.message};
}

}  // namespace crosscheck::relay
