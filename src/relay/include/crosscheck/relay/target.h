#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "crosscheck/base/repo_name.h"
#include "crosscheck/base/time.h"

namespace crosscheck::relay {

// One event for one backend repository, on its way out.
struct Dispatch {
  std::int64_t id = 0;  // of its row in `dispatches`
  base::RepoName repo;
  std::string event_type = {};
  std::string delivery_id = {};
  std::optional<std::int64_t> pr_number = {};
  std::shared_ptr<const std::string> body =
      {};  // the webhook's, whole; shared by the delivery's dispatches
  int attempt = 1;
};

// What came of one attempt.
struct Answer {
  enum class Kind : std::uint8_t {
    sent,         // it is there
    rejected,     // refused, and would be again: a person must act
    retry_later,  // not taken, may be tried again
    uncertain,    // may or may not have been taken
    unwanted,     // the backend's own filter leaves it out
  };
  Kind kind = Kind::sent;
  std::optional<base::Time> not_before = {};  // of `retry_later`: when the other side wants it
  std::string message = {};                   // why not; no secrets
  std::string content = {};                   // of `sent`, where the answer itself is used
};

// Where dispatches go. Thread-safe.
class DispatchTarget {
 public:
  virtual ~DispatchTarget() = default;
  // `done` is called exactly once, on any thread, possibly before this returns. Must not block.
  virtual void send(Dispatch dispatch, std::function<void(Answer)> done) = 0;
  // How many more it takes at this moment; what it has no room for stays in the outbox.
  [[nodiscard]] virtual std::size_t room() const = 0;
};

}  // namespace crosscheck::relay
