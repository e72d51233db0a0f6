#pragma once

#include "crosscheck/store/store.h"

namespace crosscheck::store {

// Refuses what one of the engines could not give back: text that is not UTF-8 or holds a NUL, NaN.
[[nodiscard]] base::Result<void> check_parameters(const Parameters& parameters);

// "INSERT INTO jobs (id, …": white space collapsed and cut, for messages.
[[nodiscard]] std::string summary(std::string_view sql);

// Marks this thread as running a body of `write`, for as long as it lives.
class InsideWrite {
 public:
  InsideWrite() { inside_ = true; }
  InsideWrite(const InsideWrite&) = delete;
  InsideWrite& operator=(const InsideWrite&) = delete;
  ~InsideWrite() { inside_ = false; }
  // `internal` in a body of `write`: a second `write` would wait for the first for ever.
  [[nodiscard]] static base::Result<void> check();

 private:
  static thread_local bool inside_;
};

// Calls `body`; an exception becomes an `internal` error.
[[nodiscard]] base::Result<void> guarded(const std::function<base::Result<void>(Tx&)>& body,
                                         Tx& tx);

}  // namespace crosscheck::store
