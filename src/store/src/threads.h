#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace crosscheck::store {

// A thread that takes no signals: those are for the threads that the program gave them to.
template <class F>
[[nodiscard]] std::thread start_thread(F&& body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread{std::forward<F>(body)};
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace crosscheck::store
