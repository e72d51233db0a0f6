#pragma once

#include <optional>

#include "crosscheck/base/json.h"

// What newer actions add to a report: shown to people, believed by nobody, and never a reason to
// refuse. It is kept in one form, so that readers of what is stored need not doubt it.
namespace crosscheck::relay {

// The member `triage_verdict` of a workflow: why it failed, in somebody's or something's opinion.
// Texts that are too long are cut, lists shortened, addresses that are no web addresses left out;
// nothing at all is left of one with a member of another type or with an unknown category. Members
// that are not known are kept.
[[nodiscard]] std::optional<base::json::object> read_triage_verdict(const base::json::value& value);

// The member `failed_tests_detail`: {name, classname, message, stacktrace, duration} of at most
// 1,000 tests. Entries that are not of that form are left out; nothing when none is left.
[[nodiscard]] std::optional<base::json::array> read_failed_tests(const base::json::value& value);

}  // namespace crosscheck::relay
