#include "crosscheck/relay/intake.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "accept_again.h"
#include "arm_again.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"
#include "crosscheck/github/payload.h"
#include "crosscheck/github/webhook.h"
#include "crosscheck/relay/answer.h"
#include "crosscheck/relay/dispatcher.h"
#include "crosscheck/relay/github_calls.h"
#include "crosscheck/relay/rerun.h"
#include "crosscheck/store/outdated.h"
#include "superseded.h"

namespace crosscheck::relay {
namespace {

using base::Fault;
using base::Result;
namespace json = base::json;
namespace log = base::log;

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

// An event that arrives after a newer one which makes it pointless.
Result<bool> is_outdated(store::Tx& tx, const UpstreamEvent& event, std::int64_t delivery) {
  if (event.type != "pull_request") return false;
  const auto rows = tx.query("SELECT 1 WHERE " + store::is_superseded("$1"), {delivery});
  if (!rows) return tl::unexpected(rows.error());
  return !rows->empty();
}

}  // namespace

Result<std::optional<std::int64_t>> note_delivery(store::Tx& tx, std::string_view delivery_id,
                                                  std::string_view type, std::string_view action,
                                                  base::Time now) {
  auto rows = tx.query(
      "INSERT INTO deliveries (delivery_id, event_type, action, received_at) VALUES ($1, $2, $3, "
      "$4) "
      "ON CONFLICT (delivery_id) DO NOTHING RETURNING id",
      {delivery_id, type, action, now});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return std::nullopt;
  return rows->front().integer(0);
}

Result<Again> accept_again(store::Tx& tx, std::string_view delivery_id, base::Time now) {
  auto rows = tx.query("SELECT id FROM deliveries WHERE delivery_id = $1", {delivery_id});
  if (!rows) return tl::unexpected(rows.error());
  const std::int64_t id = rows->front().integer(0);
  const auto dispatches = arm_again(tx, "delivery = $1", id, now);
  if (!dispatches) return tl::unexpected(dispatches.error());
  const auto calls = arm_calls_again(tx, "delivery = $1", id, now);
  if (!calls) return tl::unexpected(calls.error());
  return Again{id, *dispatches + *calls};
}

Result<Accepted> accept(store::Store& store, const Allowlist& allowlist,
                        std::string_view delivery_id, const UpstreamEvent& event,
                        std::string_view body, base::Time now, const CheckOptions* checks) {
  json::array label_names;
  for (const std::string& label : event.labels) label_names.emplace_back(label);
  const std::string labels = json::serialize(label_names);
  const store::Bytes bytes = store::to_bytes(body);
  return store.write_value([&](store::Tx& tx) -> Result<Accepted> {
    auto inserted = tx.query(
        "INSERT INTO deliveries (delivery_id, event_type, action, pr_number, pr_title, head_sha, "
        "head_ref, base_sha, base_ref, git_ref, sender, labels, body, received_at, said_at) VALUES "
        "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) "
        "ON CONFLICT (delivery_id) DO NOTHING RETURNING id",
        {delivery_id, event.type, event.action.empty() ? std::nullopt : std::optional{event.action},
         event.pr_number, event.pr_title, event.head_sha, event.head_ref, event.base_sha,
         event.base_ref, event.git_ref, event.sender, labels, bytes, now, event.said_at});
    if (!inserted) return tl::unexpected(inserted.error());
    if (inserted->empty()) {
      const auto again = accept_again(tx, delivery_id, now);
      if (!again) return tl::unexpected(again.error());
      return Accepted{again->event, true, again->armed};
    }
    Accepted accepted{inserted->front().integer(0), false, 0};
    if (checks != nullptr)
      if (auto noted = note_pull_request(tx, event, now); !noted)
        return tl::unexpected(noted.error());
    if (event.supersedes()) {
      auto withdrawn = tx.execute(
          "UPDATE dispatches SET state = 'withdrawn', last_error = $1 WHERE state = 'pending' AND "
          "delivery IN (SELECT o.id FROM deliveries o JOIN deliveries n ON n.id = $3 WHERE "
          "o.event_type = 'pull_request' AND o.pr_number = $2 AND " +
              std::string{store::k_is_newer} + ")",
          {"superseded by " + event.action + " (delivery " + std::string{delivery_id} + ")",
           event.pr_number, accepted.event});
      if (!withdrawn) return tl::unexpected(withdrawn.error());
    }
    const auto outdated = is_outdated(tx, event, accepted.event);
    if (!outdated) return tl::unexpected(outdated.error());
    accepted.superseded = *outdated;
    for (const Backend& backend : allowlist.backends()) {
      if (!wants(backend, event)) continue;
      auto queued = tx.execute(
          "INSERT INTO dispatches (delivery, repo_key, repo, level, device, state, not_before, "
          "created_at, last_error) VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8)",
          {accepted.event, backend.repo.key(), backend.repo.full_name(), to_string(backend.level),
           backend.device.empty() ? std::nullopt : std::optional{backend.device},
           accepted.superseded ? "withdrawn" : "pending", now,
           accepted.superseded ? std::optional{k_superseded_reason} : std::nullopt});
      if (!queued) return tl::unexpected(queued.error());
      if (accepted.superseded) continue;
      ++accepted.dispatches;
      if (checks == nullptr) continue;
      if (auto opened = open_stable_check(tx, backend, event, accepted.event, checks->stable, now);
          !opened)
        return tl::unexpected(opened.error());
    }
    if (accepted.dispatches > 0) tx.notify(k_dispatch_channel);
    return accepted;
  });
}

void IntakeHandler::set_webhook_secrets(std::vector<std::string> secrets) {
  auto next = std::make_shared<const Secrets>(std::move(secrets));
  const std::lock_guard lock{mutex_};
  secrets_ = std::move(next);
}

std::shared_ptr<const std::vector<std::string>> IntakeHandler::secrets() const {
  const std::lock_guard lock{mutex_};
  return secrets_;
}

net::Response IntakeHandler::handle(const net::Request& request) {
  constexpr std::string_view refused = "webhook.refused";
  const std::string_view type = request.headers.get("X-GitHub-Event").value_or("");
  if (!is_supported_event(type))
    return ignored("the event is not pull_request, push, check_run or check_suite");
  if (request.body.size() > k_webhook_limit)
    return refuse({Fault::too_large, "body: larger than 25 MiB"}, refused);
  if (const auto signed_by_us = github::verify_signature(
          *secrets(), request.body, request.headers.get("X-Hub-Signature-256"));
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
    case Routed::Route::rerun:
      return show_or_rerun(routed.route, type, delivery_id, *body);
    case Routed::Route::dispatch:
      break;
  }
  const auto event = read_event(type, *body);
  if (!event) return refuse(event.error(), refused);
  const auto accepted = accept(store_, *allowlist_.current(), delivery_id, *event, request.body,
                               clock_.now(), checks_);
  if (!accepted) return refuse(accepted.error(), refused);
  log::info("webhook", {{"delivery", delivery_id},
                        {"event", type},
                        {"action", event->action},
                        {"pr", event->pr_number.value_or(0)},
                        {"dispatches", accepted->dispatches},
                        {"superseded", accepted->superseded},
                        {"duplicate", accepted->duplicate}});
  json::object answer{{"ok", true}, {"event", accepted->event}};
  if (accepted->duplicate) {
    answer["duplicate"] = true;
    answer["armed_again"] = accepted->dispatches;
    return answer_json(200, answer);
  }
  answer["dispatches"] = accepted->dispatches;
  if (accepted->superseded) answer["superseded"] = true;
  return answer_json(202, answer);
}

// A label changed, or somebody wants a run again.
net::Response IntakeHandler::show_or_rerun(Routed::Route route, std::string_view type,
                                           std::string_view delivery_id, const json::value& body) {
  if (checks_ == nullptr) return ignored("this relay shows no check runs on pull requests");
  const auto allowlist = allowlist_.current();
  const bool is_label = route == Routed::Route::label;
  Result<Asked> asked = Asked{};
  if (is_label) {
    const auto event = read_event(type, body);
    // Today's relay answers so, and nobody can do anything about it.
    if (!event) return ignored("missing pr context: " + event.error().message);
    const auto label = base::require_string(body, "label.name");
    if (!label) return refuse(label.error(), "webhook.refused");
    asked = accept_label(store_, *allowlist, *checks_, delivery_id, *event, *label, clock_.now());
  } else {
    asked = accept_rerun(store_, *allowlist, *checks_, delivery_id, type, body, clock_.now());
  }
  if (!asked) return refuse(asked.error(), "webhook.refused");
  if (!asked->ignored.empty()) {
    log::info("webhook.ignored", {{"delivery", delivery_id}, {"reason", asked->ignored}});
    return ignored(asked->ignored);
  }
  log::info("webhook", {{"delivery", delivery_id},
                        {"event", type},
                        {"queued", asked->queued.size()},
                        {"duplicate", asked->duplicate}});
  json::object answer{{"ok", true}, {"event", asked->event}};
  if (asked->duplicate) {
    answer["duplicate"] = true;
    answer["armed_again"] = asked->armed;
    return answer_json(200, answer);
  }
  json::array queued;
  for (const std::string& name : asked->queued) queued.emplace_back(name);
  answer[is_label ? "created_check_runs" : "rerun"] = std::move(queued);
  return answer_json(202, answer);
}

}  // namespace crosscheck::relay
