#include "crosscheck/relay/shadow_target.h"

#include <fmt/format.h>

#include <limits>

#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"
#include "crosscheck/github/payload.h"

namespace crosscheck::relay {
namespace {

constexpr std::size_t k_payload_limit = 400;  // bytes of it that are shown

}  // namespace

void ShadowTarget::send(Dispatch dispatch, std::function<void(Answer)> done) {
  const auto payload =
      github::make_client_payload(dispatch.event_type, dispatch.delivery_id, *dispatch.body);
  if (!payload) {
    done({Answer::Kind::rejected, std::nullopt, payload.error().message});
    return;
  }
  std::string what =
      fmt::format("{}POST /repos/{}/dispatches, event_type {}, client_payload of {} bytes{}",
                  k_shadow_reason, dispatch.repo.full_name(), dispatch.event_type,
                  payload->text.size(), payload->truncated ? " (slimmed)" : "");
  base::log::info("shadow.dispatch", {{"delivery", dispatch.delivery_id},
                                      {"repo", dispatch.repo.full_name()},
                                      {"event", dispatch.event_type},
                                      {"bytes", payload->text.size()},
                                      {"truncated", payload->truncated}});
  done({Answer::Kind::unwanted, std::nullopt, std::move(what)});
}

std::size_t ShadowTarget::room() const { return std::numeric_limits<std::size_t>::max(); }

void ShadowCallTarget::send(CallKind kind, const base::RepoName& repo, const std::string& payload,
                            std::function<void(Answer)> done) {
  base::log::info("shadow.call", {{"call", to_string(kind)}, {"repo", repo.full_name()}});
  done({Answer::Kind::unwanted, std::nullopt,
        fmt::format("{}{} {}", k_shadow_reason, to_string(kind),
                    base::to_utf8(payload, k_payload_limit))});
}

std::size_t ShadowCallTarget::room() const { return std::numeric_limits<std::size_t>::max(); }

}  // namespace crosscheck::relay
