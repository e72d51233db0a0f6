#include "crosscheck/relay/github_target.h"

#include "crosscheck/base/log.h"
#include "crosscheck/github/payload.h"
#include "github_answer.h"

namespace crosscheck::relay {
base::Result<std::shared_ptr<const std::string>> GithubTarget::payload_of(
    const Dispatch& dispatch) {
  const std::lock_guard lock{mutex_};
  if (body_ == dispatch.body) return payload_;
  auto made =
      github::make_client_payload(dispatch.event_type, dispatch.delivery_id, *dispatch.body);
  if (!made) return tl::unexpected(made.error());
  if (made->truncated)
    base::log::info("dispatch.truncated", {{"delivery", dispatch.delivery_id},
                                           {"from_bytes", dispatch.body->size()},
                                           {"to_bytes", made->text.size()}});
  body_ = dispatch.body;
  payload_ = std::make_shared<const std::string>(std::move(made->text));
  return payload_;
}

void GithubTarget::send(Dispatch dispatch, std::function<void(Answer)> done) {
  const auto payload = payload_of(dispatch);
  if (!payload) {
    done({Answer::Kind::rejected, std::nullopt, payload.error().message});
    return;
  }
  ++*sending_;
  app_.dispatch(dispatch.repo, dispatch.event_type, **payload,
                [sending = sending_, done = std::move(done)](github::CallAnswer answer) {
                  --*sending;
                  done(answer_of(std::move(answer)));
                });
}

std::size_t GithubTarget::room() const {
  const std::size_t sending = *sending_;
  return sending >= concurrency_ ? 0 : concurrency_ - sending;
}

}  // namespace crosscheck::relay
