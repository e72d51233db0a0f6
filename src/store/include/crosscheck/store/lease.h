#pragma once

#include <string>
#include <string_view>

#include "crosscheck/base/result.h"
#include "crosscheck/base/time.h"
#include "crosscheck/store/store.h"

namespace crosscheck::store {

// Names whoever holds a lease: another name at each call, with the process in it.
[[nodiscard]] std::string make_owner();
// Whether `owner` is of a process that no longer runs on this machine. False for what cannot be
// known: processes of other machines, of other pid namespaces, and of before the last boot.
[[nodiscard]] bool is_dead_here(std::string_view owner);

// A named duty that one process on a store has at a time. It ends by itself `length` after it was
// last held: long enough for the duty, short enough to wait for when its holder has died on another
// machine. For one thread.
class Lease {
 public:
  Lease(Store& store, const base::Clock& clock, std::string name, base::Duration length);

  // Takes the duty, or keeps it, for `length` from now. False when another one has it.
  [[nodiscard]] base::Result<bool> hold();
  // Lets go, so that the next one need not wait.
  [[nodiscard]] base::Result<void> release();

 private:
  Store& store_;
  const base::Clock& clock_;
  const std::string name_;
  const base::Duration length_;
  const std::string owner_;
};

}  // namespace crosscheck::store
