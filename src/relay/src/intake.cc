#include "crosscheck/relay/intake.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "arm_again.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"
#include "crosscheck/github/payload.h"
#include "crosscheck/github/webhook.h"
#include "crosscheck/relay/answer.h"
#include "crosscheck/relay/dispatcher.h"

namespace crosscheck::relay {
namespace {

using base::Fault;
using base::Result;
namespace json = base::json;
namespace log = base::log;

Result<Accepted> accept_again(store::Tx& tx, std::string_view delivery_id, base::Time now) {
  auto rows = tx.query("SELECT id FROM deliveries WHERE delivery_id = $1", {delivery_id});
  if (!rows) return tl::unexpected(rows.error());
  const std::int64_t id = rows->front().integer(0);
  const auto armed = arm_again(tx, "delivery = $1", id, now);
  if (!armed) return tl::unexpected(armed.error());
  return Accepted{id, true, *armed};
}

// A report that echoes a deeper one could not be read. GitHub's events have 6 levels.
constexpr int k_depth_limit = 32;

bool is_deeper_than(int levels, const json::value& value) {
  if (!value.is_structured()) return false;
  if (levels == 0) return true;
  if (const auto* array = value.if_array())
    return std::ranges::any_of(
        *array, [&](const json::value& element) { return is_deeper_than(levels - 1, element); });
  return std::ranges::any_of(value.get_object(), [&](const json::key_value_pair& member) {
    return is_deeper_than(levels - 1, member.value());
  });
}

net::Response ignored(std::string_view reason) {
  return answer_json(200, {{"ignored", true}, {"reason", reason}});
}

}  // namespace

Result<Accepted> accept(store::Store& store, const Allowlist& allowlist,
                        std::string_view delivery_id, const UpstreamEvent& event,
                        std::string_view body, base::Time now) {
  json::array label_names;
  for (const std::string& label : event.labels) label_names.emplace_back(label);
  const std::string labels = json::serialize(label_names);
  const store::Bytes bytes = store::to_bytes(body);
  return store.write_value([&](store::Tx& tx) -> Result<Accepted> {
    auto inserted = tx.query(
        "INSERT INTO deliveries (delivery_id, event_type, action, pr_number, pr_title, head_sha, "
        "head_ref, base_sha, base_ref, git_ref, sender, labels, body, received_at) VALUES ($1, $2, "
        "$3, "
        "$4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (delivery_id) DO NOTHING "
        "RETURNING id",
        {delivery_id, event.type, event.action.empty() ? std::nullopt : std::optional{event.action},
         event.pr_number, event.pr_title, event.head_sha, event.head_ref, event.base_sha,
         event.base_ref, event.git_ref, event.sender, labels, bytes, now});
    if (!inserted) return tl::unexpected(inserted.error());
    if (inserted->empty()) return accept_again(tx, delivery_id, now);
    Accepted accepted{inserted->front().integer(0), false, 0};
    if (event.supersedes()) {
      auto withdrawn = tx.execute(
          "UPDATE dispatches SET state = 'withdrawn', last_error = $1 WHERE state = 'pending' AND "
          "delivery IN (SELECT id FROM deliveries WHERE event_type = 'pull_request' "
          "AND pr_number = $2 AND id < $3)",
          {"superseded by " + event.action + " (delivery " + std::string{delivery_id} + ")",
           event.pr_number, accepted.event});
      if (!withdrawn) return tl::unexpected(withdrawn.error());
    }
    for (const Backend& backend : allowlist.backends()) {
      if (!wants(backend, event)) continue;
      auto queued = tx.execute(
          "INSERT INTO dispatches (delivery, repo_key, repo, level, device, state, not_before, "
          "created_at) VALUES ($1, $2, $3, $4, $5, 'pending', $6, $6)",
          {accepted.event, backend.repo.key(), backend.repo.full_name(), to_string(backend.level),
           backend.device.empty() ? std::nullopt : std::optional{backend.device}, now});
      if (!queued) return tl::unexpected(queued.error());
      ++accepted.dispatches;
    }
    if (accepted.dispatches > 0) tx.notify(k_dispatch_channel);
    return accepted;
  });
}

net::Response IntakeHandler::handle(const net::Request& request) {
  constexpr std::string_view refused = "webhook.refused";
  const std::string_view type = request.headers.get("X-GitHub-Event").value_or("");
  if (!is_supported_event(type))
    return ignored("the event is not pull_request, push, check_run or check_suite");
  if (request.body.size() > k_webhook_limit)
    return refuse({Fault::too_large, "body: larger than 25 MiB"}, refused);
  if (const auto signed_by_us = github::verify_signature(
          options_.webhook_secrets, request.body, request.headers.get("X-Hub-Signature-256"));
      !signed_by_us)
    return refuse(signed_by_us.error(), refused);
  const auto body = base::parse_json(request.body, "body");
  if (!body) return refuse(body.error(), refused);
  if (!body->is_object())
    return refuse({Fault::invalid_input, "body: expected an object"}, refused);
  if (is_deeper_than(k_depth_limit, *body))
    return refuse(
        {Fault::invalid_input, "body: nested over " + std::to_string(k_depth_limit) + " levels"},
        refused);
  const std::string_view delivery_id = request.headers.get("X-GitHub-Delivery").value_or("");
  if (delivery_id.empty())
    return refuse({Fault::invalid_input, "X-GitHub-Delivery: missing"}, refused);
  if (delivery_id.size() > github::k_delivery_id_limit || base::to_utf8(delivery_id) != delivery_id)
    return refuse({Fault::invalid_input, "X-GitHub-Delivery: expected at most 256 bytes of text"},
                  refused);

  const Routed routed = route(type, body->get_object(), options_.upstream, options_.label_prefix);
  switch (routed.route) {
    case Routed::Route::ignore:
      return ignored(routed.reason);
    case Routed::Route::label:
      return ignored("no check runs are kept yet that a label would show");
    case Routed::Route::rerun:
      return ignored("no check runs are kept yet that could run again");
    case Routed::Route::dispatch:
      break;
  }
  const auto event = read_event(type, *body);
  if (!event) return refuse(event.error(), refused);
  const auto accepted =
      accept(store_, *allowlist_.current(), delivery_id, *event, request.body, clock_.now());
  if (!accepted) return refuse(accepted.error(), refused);
  log::info("webhook", {{"delivery", delivery_id},
                        {"event", type},
                        {"action", event->action},
                        {"pr", event->pr_number.value_or(0)},
                        {"dispatches", accepted->dispatches},
                        {"duplicate", accepted->duplicate}});
  json::object answer{{"ok", true}, {"event", accepted->event}};
  if (accepted->duplicate) {
    answer["duplicate"] = true;
    answer["armed_again"] = accepted->dispatches;
    return answer_json(200, answer);
  }
  answer["dispatches"] = accepted->dispatches;
  return answer_json(202, answer);
}

}  // namespace crosscheck::relay
