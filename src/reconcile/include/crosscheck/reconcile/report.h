#pragma once

#include <boost/json/fwd.hpp>
#include <string>

#include "crosscheck/reconcile/reconcile.h"

// Proposals for people and for machines. Pure.
namespace crosscheck::reconcile {

enum class Written : std::uint8_t { no, yes };

// As a review reads: by file, there by kind, a line a name with why; counts and what to know last.
[[nodiscard]] std::string to_text(const Proposals& proposals, Written written);
[[nodiscard]] boost::json::object to_json(const Proposals& proposals,
                                          const config::CollectedSuite& suite, Written written);

}  // namespace crosscheck::reconcile
