#include "crosscheck/relay/github_target.h"

#include "crosscheck/base/log.h"
#include "crosscheck/github/payload.h"

namespace crosscheck::relay {
namespace {

Answer::Kind kind_of(github::CallAnswer::Kind kind) {
  using Theirs = github::CallAnswer::Kind;
  switch (kind) {
    case Theirs::sent:
      return Answer::Kind::sent;
    case Theirs::rejected:
      return Answer::Kind::rejected;
    case Theirs::retry_later:
      return Answer::Kind::retry_later;
    case Theirs::uncertain:
      return Answer::Kind::uncertain;
  }
  return Answer::Kind::uncertain;
}

}  // namespace

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
                  done({kind_of(answer.kind), answer.not_before, std::move(answer.reason)});
                });
}

std::size_t GithubTarget::room() const {
  const std::size_t sending = *sending_;
  return sending >= concurrency_ ? 0 : concurrency_ - sending;
}

}  // namespace crosscheck::relay
