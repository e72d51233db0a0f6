#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "crosscheck/net/client.h"

namespace crosscheck::github {

// Answers by a function, in the calling thread, and keeps what it was asked.
class ScriptedClient final : public net::Client {
 public:
  using Answer = std::function<net::ClientResult(const net::ClientRequest&)>;
  explicit ScriptedClient(Answer answer) : answer_{std::move(answer)} {}

  void send(net::ClientRequest request, std::function<void(net::ClientResult)> done) override {
    Answer answer;
    {
      const std::lock_guard lock{mutex_};
      requests_.push_back(request);
      answer = answer_;
    }
    done(answer(request));
  }

  void set_answer(Answer answer) {
    const std::lock_guard lock{mutex_};
    answer_ = std::move(answer);
  }
  [[nodiscard]] std::vector<net::ClientRequest> requests() const {
    const std::lock_guard lock{mutex_};
    return requests_;
  }

 private:
  mutable std::mutex mutex_;
  Answer answer_;
  std::vector<net::ClientRequest> requests_;
};

inline net::ClientResult no_answer(bool maybe_sent) {
  return tl::unexpected{
      net::ClientError{{base::Fault::unavailable, "api.test does not answer"}, maybe_sent}};
}

}  // namespace crosscheck::github
