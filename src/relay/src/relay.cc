#include "crosscheck/relay/relay.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "crosscheck/base/log.h"
#include "crosscheck/base/threads.h"
#include "crosscheck/relay/answer.h"

namespace crosscheck::relay {
namespace {

namespace json = base::json;

constexpr std::string_view k_results = "/api/v1/results/";
// A dispatcher that has not gone round for this long is stuck.
constexpr base::Duration k_stuck_after = std::chrono::seconds{30};
constexpr base::Duration k_duty = std::chrono::minutes{1};        // from pass to pass
constexpr std::size_t k_shown_delivery = 256;                     // bytes
constexpr base::Duration k_load_again = std::chrono::seconds{5};  // while no allowlist is known
constexpr base::Duration k_keep_forwarded = std::chrono::hours{24};

net::Response wrong_method(std::string_view allowed) {
  auto response = answer_json(
      405,
      {{"ok", false}, {"error", "method_not_allowed"}, {"detail", "use " + std::string{allowed}}});
  response.headers.set("Allow", std::string{allowed});
  return response;
}

std::string label_value(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    if (c == '\n')
      escaped += "\\n";
    else
      escaped += c;
  }
  return escaped;
}

std::string text_of(const std::vector<github::ApiBudget>& budgets) {
  struct Family {
    std::string_view name;
    std::string_view help;
    std::int64_t (*value)(const github::ApiBudget&);
  };
  static constexpr std::array<Family, 3> k_families{
      {{"limit", "Calls that GitHub takes in an hour, as its last answer said.",
        [](const github::ApiBudget& b) { return b.limit; }},
       {"remaining", "Calls of these that are left.",
        [](const github::ApiBudget& b) { return b.remaining; }},
       {"reset_time_seconds", "When it takes all of them again.",
        [](const github::ApiBudget& b) { return base::to_micros(b.resets_at) / 1'000'000; }}}};
  std::string out;
  for (const Family& family : k_families) {
    const std::string name = fmt::format("crosscheck_github_api_{}", family.name);
    out += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n", name, family.help);
    for (const github::ApiBudget& budget : budgets)
      out += fmt::format("{}{{account=\"{}\",resource=\"{}\"}} {}\n", name,
                         label_value(budget.account), label_value(budget.resource),
                         family.value(budget));
  }
  return out;
}

}  // namespace

Relay::Relay(store::Store& store, const base::Clock& clock, AllowlistFile& allowlist,
             DispatchTarget& target, RelayOptions options)
    : store_{store},
      clock_{clock},
      allowlist_{allowlist},
      options_{std::move(options)},
      checks_{options_.checks ? &*options_.checks : nullptr},
      limiter_{options_.rate_limit_per_minute},
      intake_{store, allowlist, clock, options_.intake, checks_},
      callback_{store,
                allowlist,
                clock,
                limiter_,
                {.verify = options_.verify_token,
                 .find_commit = options_.find_commit,
                 .forwards = options_.forward_to.has_value(),
                 .checks = checks_,
                 .report_window = options_.report_window}},
      results_{store, allowlist, clock, options_.verify_token, limiter_},
      admin_{store, clock},
      dispatcher_{store, clock, target, options_.dispatcher},
      sweeper_{store,
               clock,
               allowlist,
               checks_,
               {.job_timeout = options_.sweeper.job_timeout,
                .interval = options_.sweeper.interval,
                .forwards = options_.forward_to.has_value()}} {
  if (options_.calls != nullptr)
    calls_.emplace(store, clock, *options_.calls, allowlist, options_.call_outbox);
  if (options_.forward_to)
    forwarder_ = std::make_unique<Forwarder>(store, clock, *options_.client, *options_.forward_to);
}

Relay::~Relay() { stop(base::Duration{0}); }

std::size_t Relay::body_limit(const net::Request& request) {
  if (request.path == "/github/webhook") return k_webhook_limit;
  if (request.path == "/github/callback") return k_callback_limit;
  if (request.path.starts_with(k_results)) return base::k_results_file_limit;
  return std::size_t{1} << 20;
}

std::optional<net::Response> Relay::handle(const net::Request& request) {
  const auto& path = request.path;
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const auto answered = [&](std::string_view kind, net::Response response,
                            std::string_view delivery = {}) {
    metrics_.count(kind, response.status);
    if (response.status >= 400) {
      const auto header = request.headers.get("X-GitHub-Delivery");
      base::log::info("refused", {{"kind", kind},
                                  {"delivery", header ? base::to_utf8(*header, k_shown_delivery)
                                                      : std::string{delivery}},
                                  {"remote", request.remote},
                                  {"status", response.status}});
      note_refusal(kind, response);
    }
    return response;
  };
  // Who is listed is not known: what is said now would be lost.
  const auto early = [&](std::string_view kind) -> std::optional<net::Response> {
    if (allowlist_.is_loaded()) return std::nullopt;
    return answered(kind, refuse({base::Fault::unavailable, "allowlist: not loaded"}, "not_ready"));
  };
  if (path == "/github/webhook") {
    if (request.method != "POST") return wrong_method("POST");
    if (auto response = early("webhook")) return response;
    return answered("webhook", intake_.handle(request));
  }
  if (path == "/github/callback") {
    if (request.method != "POST") return wrong_method("POST");
    if (auto response = early("callback")) return response;
    auto [response, delivery] = callback_.handle(request);
    return answered("callback", std::move(response), delivery);
  }
  if (path.starts_with(k_results)) {
    if (request.method != "PUT") return wrong_method("PUT");
    if (auto response = early("results")) return response;
    return answered("results",
                    results_.handle(request, std::string_view{path}.substr(k_results.size())));
  }
  if (auto response = admin_.handle(request)) return answered("admin", std::move(*response));
  if (path == "/healthz") return reads ? answer_json(200, {{"ok", true}}) : wrong_method("GET");
  if (path == "/readyz") return reads ? ready() : wrong_method("GET");
  if (path == "/metrics") return reads ? metrics() : wrong_method("GET");
  return std::nullopt;
}

// What the caller was told is what is counted.
void Relay::note_refusal(std::string_view kind, const net::Response& response) {
  const auto body = base::parse_json(response.body, "answer");
  if (!body) return;
  metrics_.refused(kind, base::require_string(*body, "error").value_or("unknown"),
                   base::require_string(*body, "detail").value_or(""), clock_.now());
}

std::string Relay::why_not_writable() {
  const std::lock_guard lock{ready_mutex_};
  const base::Time now = clock_.now();
  if (tried_to_write_at_ && now >= *tried_to_write_at_ &&
      now - *tried_to_write_at_ < std::chrono::seconds{1})
    return why_not_writable_;
  tried_to_write_at_ = now;
  // Leaves nothing, but writes: a full disk lets a statement through that changes no row.
  const auto writable = store_.write([](store::Tx& tx) -> base::Result<void> {
    auto made = tx.execute(
        "INSERT INTO leases (name, owner, held_until) VALUES ('readiness', '', 0) "
        "ON CONFLICT (name) DO NOTHING");
    if (!made) return tl::unexpected(made.error());
    auto gone = tx.execute("DELETE FROM leases WHERE name = 'readiness'");
    if (!gone) return tl::unexpected(gone.error());
    return {};
  });
  why_not_writable_ = writable ? std::string{} : writable.error().message;
  return why_not_writable_;
}

net::Response Relay::ready() {
  json::array reasons;
  // Anybody may ask: why is in the log.
  const std::string details = why_not_writable();
  if (!details.empty()) reasons.emplace_back("store: cannot be written");
  const auto list = allowlist_.status();
  if (!list.loaded) reasons.emplace_back("allowlist: not loaded");
  const auto dispatcher = dispatcher_.health();
  const auto look_at = [&](const std::string& name, const LeasedOutbox::Health& health) {
    if (!health.running)
      reasons.emplace_back(name + ": not running");
    else if (!health.error.empty())
      reasons.emplace_back(name + ": failing");
    else if (health.last_step && clock_.now() - *health.last_step > k_stuck_after)
      reasons.emplace_back(name + ": stuck since " + base::to_rfc3339(*health.last_step));
  };
  look_at("dispatcher", dispatcher);
  if (calls_) look_at("check runs", calls_->health());
  if (forwarder_) look_at("forwarder", forwarder_->health());
  json::object body{{"ready", reasons.empty()}, {"reasons", std::move(reasons)}};
  json::object allowlist{{"digest", list.digest}};
  if (list.loaded) allowlist["loaded_at"] = base::to_rfc3339(list.loaded_at);
  // The last good version serves on, so a broken one does not make the relay unready.
  if (!list.error.empty()) allowlist["error"] = "a later version was refused";
  body["allowlist"] = std::move(allowlist);
  if (options_.providers != nullptr && !options_.providers->error().empty())
    body["ci_providers"] = {{"error", "a later version was refused"}};
  body["sending"] = dispatcher_.in_flight();
  const bool ok = body["ready"].as_bool();
  if (!ok)
    base::log::warning("not_ready", {{"reasons", json::serialize(body["reasons"])},
                                     {"store", details},
                                     {"allowlist", list.error},
                                     {"dispatcher", dispatcher.error}});
  return answer_json(ok ? 200 : 503, body);
}

net::Response Relay::metrics() {
  const auto text = metrics_.text(store_, clock_.now(), options_.version);
  if (!text) return refuse(text.error(), "metrics");
  const auto list = allowlist_.status();
  const auto seconds = [](base::Time time) { return base::to_micros(time) / 1'000'000; };
  auto response = net::Response::text(
      200, *text + fmt::format(
                       "# HELP crosscheck_start_time_seconds When this process started.\n"
                       "# TYPE crosscheck_start_time_seconds gauge\n"
                       "crosscheck_start_time_seconds {}\n"
                       "# HELP crosscheck_allowlist_loaded_time_seconds When the allowlist in "
                       "force was taken over.\n"
                       "# TYPE crosscheck_allowlist_loaded_time_seconds gauge\n"
                       "crosscheck_allowlist_loaded_time_seconds {}\n"
                       "# HELP crosscheck_allowlist_refused Whether a later allowlist was "
                       "refused.\n"
                       "# TYPE crosscheck_allowlist_refused gauge\n"
                       "crosscheck_allowlist_refused {}\n"
                       "# HELP crosscheck_allowlist_checked_time_seconds When the allowlist was "
                       "last read without an error.\n"
                       "# TYPE crosscheck_allowlist_checked_time_seconds gauge\n"
                       "crosscheck_allowlist_checked_time_seconds {}\n"
                       "# HELP crosscheck_allowlist_backends Repositories on the allowlist in "
                       "force.\n"
                       "# TYPE crosscheck_allowlist_backends gauge\n"
                       "crosscheck_allowlist_backends {}\n",
                       seconds(started_at_), list.loaded ? seconds(list.loaded_at) : 0,
                       list.error.empty() ? 0 : 1, list.checked_at ? seconds(*list.checked_at) : 0,
                       allowlist_.current()->backends().size()));
  response.body +=
      text_of(options_.budgets ? options_.budgets() : std::vector<github::ApiBudget>{});
  response.headers.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  return response;
}

void Relay::start() {
  const bool is_loaded = allowlist_.is_loaded();
  if (is_loaded) start_senders();
  periodic_ = std::thread{[this, is_loaded] { run_periodic(is_loaded); }};
}

void Relay::start_senders() {
  dispatcher_.start();
  if (forwarder_) forwarder_->start();
  if (calls_) calls_->start();
  sweeper_.start();
}

void Relay::run_periodic(bool are_senders_started) {
  store::Lease duty{store_, clock_, "tidy", 2 * k_duty};
  std::optional<base::Time> done_at;
  const auto list = allowlist_.status();
  // One that was recalled from the store is read at once.
  auto wait = list.loaded && !list.checked_at ? base::Duration{0} : options_.allowlist_poll;
  std::unique_lock lock{mutex_};
  while (!wake_.wait_for(lock, are_senders_started ? wait : std::min(wait, k_load_again),
                         [this] { return stopping_; })) {
    lock.unlock();
    wait = options_.allowlist_poll;
    // A refusal is kept in the status of either and was logged there.
    static_cast<void>(allowlist_.poll());
    if (!are_senders_started && allowlist_.is_loaded()) {
      start_senders();
      are_senders_started = true;
    }
    if (options_.providers != nullptr) static_cast<void>(options_.providers->poll());
    const auto now = clock_.now();
    if (!done_at || now < *done_at || now - *done_at >= k_duty) {
      done_at = now;
      if (auto done = do_duty(duty, now); !done)
        base::log::warning("relay.duty", {{"error", done.error().message}});
    }
    lock.lock();
  }
  static_cast<void>(duty.release());
}

base::Result<void> Relay::do_duty(store::Lease& duty, base::Time now) {
  if (!options_.find_commit && !forwarder_) return {};
  const auto ours = duty.hold();
  if (!ours) return tl::unexpected(ours.error());
  if (!*ours) return {};
  if (options_.find_commit)
    if (auto verified = verify_commits(store_, options_.find_commit); !verified)
      return tl::unexpected(verified.error());
  if (forwarder_)
    if (auto forgotten = forget_forwarded(store_, now - k_keep_forwarded); !forgotten)
      return tl::unexpected(forgotten.error());
  return {};
}

void Relay::stop(base::Duration grace) {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
    wake_.notify_all();
  }
  if (periodic_.joinable()) periodic_.join();
  sweeper_.stop();
  // At the same time: each may wait for answers until the end of its grace.
  std::vector<std::thread> others;
  if (forwarder_) others.push_back(base::start_thread([this, grace] { forwarder_->stop(grace); }));
  if (calls_) others.push_back(base::start_thread([this, grace] { calls_->stop(grace); }));
  dispatcher_.stop(grace);
  for (std::thread& other : others) other.join();
}

}  // namespace crosscheck::relay
