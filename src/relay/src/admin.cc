#include "crosscheck/relay/admin.h"

#include <charconv>

#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/net/bearer.h"
#include "crosscheck/relay/answer.h"
#include "crosscheck/relay/replay.h"
#include "crosscheck/store/access.h"

namespace crosscheck::relay {
namespace {

using base::Fault;
using base::Result;
namespace json = base::json;
namespace log = base::log;

constexpr std::string_view k_form = "application/x-www-form-urlencoded";

// Where this server was spoken to in plain HTTP, a proxy may have spoken TLS in its place.
bool is_own_origin(std::string_view origin, const net::Request& request) {
  const std::string_view host = request.headers.get("Host").value_or("");
  for (const std::string_view scheme : {"http://", "https://"})
    if (origin.starts_with(scheme) && (scheme == "https://" || request.scheme == "http"))
      return !host.empty() &&
             base::to_lower_ascii(origin.substr(scheme.size())) == base::to_lower_ascii(host);
  return false;
}

template <class What>
Result<ReplayWhat> numbered(std::string_view field, const std::string& text) {
  What what;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), what.id);
  if (error != std::errc{} || end != text.data() + text.size() || what.id <= 0)
    return base::fail(Fault::invalid_input,
                      "field " + std::string{field} + ": expected a number, as /ops shows it");
  return what;
}

Result<ReplayWhat> read_replay(const net::Request& request) {
  const auto dispatch = net::form_value(request.body, "dispatch");
  const auto call = net::form_value(request.body, "call");
  const auto report = net::form_value(request.body, "report");
  const auto delivery = net::form_value(request.body, "delivery");
  const auto all = net::form_value(request.body, "all_dead");
  if (int{dispatch.has_value()} + int{call.has_value()} + int{report.has_value()} +
          int{delivery.has_value()} + int{all.has_value()} !=
      1)
    return base::fail(Fault::invalid_input,
                      "field dispatch, call, report, delivery or all_dead: send one");
  if (dispatch) return numbered<ReplayDispatch>("dispatch", *dispatch);
  if (call) return numbered<ReplayCall>("call", *call);
  if (report) return numbered<ReplayReport>("report", *report);
  if (delivery) {
    if (base::to_utf8(*delivery) != *delivery || delivery->find('\0') != std::string::npos)
      return base::fail(Fault::invalid_input, "field delivery: expected text");
    return ReplayDelivery{*delivery};
  }
  if (*all != "1") return base::fail(Fault::invalid_input, "field all_dead: expected 1");
  return ReplayAllDead{};
}

net::Response see_other(std::string location) {
  net::Response response;
  response.status = 303;
  response.headers.set("Location", std::move(location));
  response.headers.set("Cache-Control", "no-store");
  return response;
}

}  // namespace

Result<AdminRequest> read_admin_request(const net::Request& request) {
  const auto site = request.headers.get("Sec-Fetch-Site");
  if (site && *site != "same-origin" && *site != "none")
    return base::fail(Fault::forbidden, "the request comes from another site's page");
  const auto origin = request.headers.get("Origin");
  if (origin && !is_own_origin(*origin, request))
    return base::fail(Fault::forbidden, "the request comes from another site's page",
                      "a proxy in front must pass on the Host that the browser sent");
  const std::string type = base::to_lower_ascii(request.headers.get("Content-Type").value_or(""));
  if (!std::string_view{type}.starts_with(k_form))
    return base::fail(Fault::invalid_input, "Content-Type: expected " + std::string{k_form});
  if (const std::string_view bearer = net::bearer_of(request); !bearer.empty())
    return AdminRequest{std::string{bearer}, false};
  auto token = net::form_value(request.body, "token");
  if (!token)
    return base::fail(Fault::unauthorized, "no token",
                      "send `Authorization: Bearer <token>`, or a form's field `token`");
  if (!origin && !site)
    return base::fail(Fault::forbidden, "a form must say where it comes from",
                      "send the token as `Authorization: Bearer <token>`");
  // Copied out of a terminal or a file.
  while (token->ends_with('\n') || token->ends_with('\r') || token->ends_with(' '))
    token->pop_back();
  return AdminRequest{std::move(*token), true};
}

std::optional<net::Response> AdminHandler::handle(const net::Request& request) {
  if (request.path != "/ops/replay") return std::nullopt;
  constexpr std::string_view refused = "replay.refused";
  if (request.method != "POST") {
    auto response =
        answer_json(405, {{"ok", false}, {"error", "method_not_allowed"}, {"detail", "use POST"}});
    response.headers.set("Allow", "POST");
    return response;
  }
  const auto caller = read_admin_request(request);
  if (!caller) return refuse(caller.error(), refused);
  const auto what = read_replay(request);
  if (!what) return refuse(what.error(), refused);
  const base::Time now = clock_.now();
  std::string who;
  const auto done = store_.write_value([&](store::Tx& tx) -> Result<Replayed> {
    const auto token = store::authorize(tx, caller->token, store::Role::operate, now);
    if (!token) return tl::unexpected(token.error());
    who = token->name;
    return replay(tx, *what, {"token:" + token->name, request.remote}, now);
  });
  if (!done) {
    if (!caller->is_form || http_status(done.error().fault) >= 500)
      return refuse(done.error(), refused);
    log::info(refused, {{"remote", request.remote}, {"reason", done.error().message}});
    // The page has words of its own for each: what an address says is nobody's word.
    return see_other("/ops?refused=" + std::string{to_string(done.error().fault)});
  }
  log::info(
      "replay",
      {{"token", who}, {"remote", request.remote}, {"armed", done->armed}, {"left", done->left}});
  if (caller->is_form)
    return see_other("/ops?armed=" + std::to_string(done->armed) +
                     "&left=" + std::to_string(done->left));
  return answer_json(200, {{"ok", true}, {"armed", done->armed}, {"left", done->left}});
}

}  // namespace crosscheck::relay
