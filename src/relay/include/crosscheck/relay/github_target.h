#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "crosscheck/github/app.h"
#include "crosscheck/relay/target.h"

namespace crosscheck::relay {

// Sends `repository_dispatch` events through a GitHub App. Thread-safe.
class GithubTarget final : public DispatchTarget {
 public:
  // `app` outlives every dispatch in progress.
  GithubTarget(github::App& app, std::size_t concurrency)
      : app_{app},
        concurrency_{concurrency},
        sending_{std::make_shared<std::atomic<std::size_t>>(0)} {}
  void send(Dispatch dispatch, std::function<void(Answer)> done) override;
  [[nodiscard]] std::size_t room() const override;

 private:
  [[nodiscard]] base::Result<std::shared_ptr<const std::string>> payload_of(
      const Dispatch& dispatch);

  github::App& app_;
  const std::size_t concurrency_;
  std::shared_ptr<std::atomic<std::size_t>> sending_;
  std::mutex mutex_;
  // The last delivery's payload: its dispatches follow one another.
  std::shared_ptr<const std::string> body_;
  std::shared_ptr<const std::string> payload_;
};

}  // namespace crosscheck::relay
