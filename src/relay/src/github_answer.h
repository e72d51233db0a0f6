#pragma once

#include "crosscheck/github/app.h"
#include "crosscheck/relay/target.h"

namespace crosscheck::relay {

// What the App says of a call, as an outbox takes it.
[[nodiscard]] Answer answer_of(github::CallAnswer answer);

}  // namespace crosscheck::relay
