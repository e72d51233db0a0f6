#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace crosscheck::base {

// Threads started while one lives take no signals: those are for the program's own threads, and a
// SIGPIPE from a library's write must not end the process.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

// One such thread.
template <class F>
[[nodiscard]] std::thread start_thread(F&& body) {
  const SignalsBlocked blocked;
  return std::thread{std::forward<F>(body)};
}

}  // namespace crosscheck::base
