#include "crosscheck/hud/hud.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <charconv>
#include <utility>

#include "allowlist_page.h"
#include "assets.h"
#include "crosscheck/base/digest.h"
#include "crosscheck/base/gzip.h"
#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"
#include "crosscheck/base/repo_name.h"
#include "crosscheck/net/bearer.h"
#include "crosscheck/store/access.h"
#include "crosscheck/store/store.h"
#include "crosscheck/store/upgrades.h"
#include "ops.h"
#include "pages.h"
#include "queries.h"
#include "readiness.h"
#include "render.h"
#include "text.h"
#include "turnstile.h"
#include "upgrade_page.h"

namespace crosscheck::hud {
namespace {

namespace json = boost::json;
using base::Result;
using net::Request;
using net::Response;

constexpr std::int64_t k_recent_changes = 12;
constexpr std::int64_t k_max_page = 10'000;
constexpr std::size_t k_text_limit = 200;  // of a filter
constexpr std::size_t k_worth_gzip = 512;
constexpr std::string_view k_json_suffix = ".json";
constexpr std::string_view k_policy =
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

// A request's path without the twin's suffix.
struct Route {
  std::vector<std::string> parts;
  std::string page_path;
  std::string twin_path;
  bool is_twin = false;
};

Route route_of(std::string_view path) {
  Route route;
  std::string_view page = path;
  if (path == "/index.json") {
    page = "/";
    route.is_twin = true;
  } else if (page.ends_with(k_json_suffix) && page.size() > k_json_suffix.size() + 1) {
    page.remove_suffix(k_json_suffix.size());
    route.is_twin = true;
  }
  route.page_path = page;
  route.twin_path = page == "/" ? "/index.json" : std::string{page} + std::string{k_json_suffix};
  for (const auto part : net::split_path(path.substr(0, page.size())))
    route.parts.emplace_back(part);
  if (page == "/") route.parts = {""};
  return route;
}

bool is_ours(const Route& route) {
  static constexpr std::array k_first{"b",     "pr", "commit", "job",       "help",   "assets",
                                      "badge", "go", "ops",    "allowlist", "upgrade"};
  if (route.page_path == "/") return true;
  return !route.parts.empty() && std::ranges::find(k_first, route.parts.front()) != k_first.end();
}

bool accepts_gzip(const Request& request) {
  const auto accept = request.headers.get("accept-encoding");
  if (!accept) return false;
  const auto lower = base::to_lower_ascii(*accept);
  auto at = lower.find("gzip");
  if (at == std::string::npos) return false;
  const auto end = std::min(lower.find(',', at), lower.size());
  std::string rest;
  for (const char c : lower.substr(at + 4, end - at - 4)) {
    if (c != ' ') rest += c;
  }
  // "gzip;q=0" is a refusal.
  return !(rest.starts_with(";q=0") && rest.find_first_not_of("0.", 3) == std::string::npos);
}

// Whether `header` (If-None-Match) names `tag`, by weak comparison.
bool names_tag(std::string_view header, std::string_view tag) {
  const auto opaque = tag.substr(tag.find('"'));
  while (!header.empty()) {
    const auto comma = header.find(',');
    auto item = header.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (item == "*") return true;
    if (item.starts_with("W/")) item.remove_prefix(2);
    if (item == opaque) return true;
    if (comma == std::string_view::npos) break;
    header.remove_prefix(comma + 1);
  }
  return false;
}

void add_common_headers(Response& response) {
  response.headers.set("Content-Security-Policy", std::string{k_policy});
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.headers.set("Referrer-Policy", "strict-origin-when-cross-origin");
  response.headers.set("Cross-Origin-Opener-Policy", "same-origin");
}

void compress(const Request& request, Response& response) {
  response.headers.set("Vary", "Accept-Encoding");
  if (response.body.size() < k_worth_gzip || !accepts_gzip(request)) return;
  response.body = base::gzip(response.body);
  response.headers.set("Content-Encoding", "gzip");
}

Response redirect(std::string location) {
  Response response;
  response.status = 302;
  response.headers.set("Location", std::move(location));
  response.headers.set("Cache-Control", "no-store");
  add_common_headers(response);
  return response;
}

Page bad_query(std::string_view name, std::string_view expected) {
  return error_page(400, fmt::format("The query's {} is not {}", name, expected),
                    "Correct the address, or remove the part after '?'.");
}
Page unknown(std::string what) {
  return error_page(404, std::move(what), "The fleet page lists what there is.");
}

// 0 or more.
std::optional<std::int64_t> parse_number(const std::optional<std::string>& text) {
  if (text == "0") return 0;
  return text ? parse_positive(*text) : std::nullopt;
}

// Reads from a query what is there; the first thing that is not what it should be.
class Query {
 public:
  explicit Query(const Request& request) : request_{request} {}
  std::string text(std::string_view name) const {
    return base::to_utf8(request_.parameter(name).value_or(""), k_text_limit);
  }
  std::int64_t page() {
    const auto value = text("page");
    if (value.empty()) return 1;
    const auto number = parse_positive(value, k_max_page);
    if (!number && !bad_)
      bad_ = bad_query("page", fmt::format("a number from 1 to {}", k_max_page));
    return number.value_or(1);
  }
  std::optional<State> status() {
    const auto value = text("status");
    if (value.empty()) return std::nullopt;
    const auto state = parse_state(value);
    if (!state && !bad_) bad_ = bad_query("status", "a state; /help/metrics lists them");
    return state;
  }
  std::optional<TestFilter> outcome() {
    const auto value = text("outcome");
    if (value.empty()) return std::nullopt;
    TestFilter filter;
    if (value == "failing") {
      filter.failing = true;
    } else if (value == "flaky") {
      filter.flaky = true;
    } else if (value != "all") {
      filter.outcome = base::parse_outcome(value);
      if (!filter.outcome && !bad_)
        bad_ = bad_query("outcome", "an outcome, 'failing', 'flaky' or 'all'");
    }
    return filter;
  }
  const std::optional<Page>& bad() const { return bad_; }

 private:
  const Request& request_;
  std::optional<Page> bad_;
};

}  // namespace

class Hud::Impl {
 public:
  Impl(store::Store& store, HudOptions options) : store_{store}, options_{std::move(options)} {}

  std::optional<Response> handle(const Request& request) {
    const auto route = route_of(request.path);
    if (!is_ours(route)) return std::nullopt;
    if (request.method != "GET" && request.method != "HEAD") {
      auto response = Response::text(405, "Pages are read with GET or HEAD.\n");
      response.headers.set("Allow", "GET, HEAD");
      add_common_headers(response);
      return response;
    }
    const auto& first = route.parts.front();
    if (first == "assets") return asset(request);
    const auto pass = turnstile_.enter();
    if (!pass) return too_busy(request, route);
    if (first == "go") return go(request);
    if (first == "badge") return badge_of(request, route);
    const auto now = options_.clock.now();
    auto page = page_of(request, route, now);
    if (!page) {
      base::log::warning("hud_read_failed", {{"path", request.path},
                                             {"fault", to_string(page.error().fault)},
                                             {"error", page.error().message}});
      page = error_page(
          503, fmt::format("The store cannot be read now ({})", to_string(page.error().fault)),
          "Try again in a moment. The relay's log has the details; nothing that was accepted is "
          "lost.");
    }
    return respond(request, route, *page, now);
  }

  // Nothing of this leaves a trace in the log: whoever asks this often would fill it.
  Response too_busy(const Request& request, const Route& route) {
    auto response =
        respond(request, route,
                error_page(503, "Too many pages are being read at once", "Try again in a moment."),
                options_.clock.now());
    response.headers.set("Retry-After", "2");
    return response;
  }

  Response not_found(const Request& request) {
    return respond(request, route_of(request.path), unknown("There is no such page"),
                   options_.clock.now());
  }

 private:
  Result<Page> page_of(const Request& request, const Route& route, base::Time now) {
    const PageContext context{now, options_.upstream_repo, options_.upstream_url};
    const auto& parts = route.parts;
    Query query{request};
    if (route.page_path == "/") {
      return store_.read_value([&](store::Tx& tx) { return fleet(tx, context); });
    }
    if (route.page_path == "/help/metrics") return metrics_page();
    if (route.page_path == "/ops") return ops(request, context);
    if (route.page_path == "/allowlist")
      return store_.read_value([&](store::Tx& tx) -> Result<Page> {
        const auto allowlist = read_allowlist_page(tx);
        if (!allowlist) return tl::unexpected(allowlist.error());
        return allowlist_page(*allowlist, context);
      });
    if (parts[0] == "upgrade" && parts.size() <= 2) {
      if (parts.size() == 2) {
        const auto id = parse_positive(parts[1]);
        if (!id) return unknown("That is not an upgrade's number");
        return store_.read_value([&](store::Tx& tx) -> Result<Page> {
          const auto found = store::find_upgrade(tx, *id);
          if (!found) return tl::unexpected(found.error());
          if (!*found) return unknown(fmt::format("There is no upgrade {}", *id));
          return upgrade_page(**found, context);
        });
      }
      const auto number = query.page();
      if (query.bad()) return *query.bad();
      return store_.read_value([&](store::Tx& tx) -> Result<Page> {
        const auto skipped = static_cast<std::size_t>(number - 1) * k_upgrades_a_page;
        const auto found = store::list_upgrades(tx, k_upgrades_a_page + 1, skipped);
        if (!found) return tl::unexpected(found.error());
        return upgrades_page(*found, number, context);
      });
    }
    const bool is_readiness = parts.size() == 4 && parts[3] == "readiness";
    if (parts[0] == "b" && (parts.size() == 3 || is_readiness)) {
      const auto repo = base::RepoName::parse(std::string{parts[1]} + '/' + std::string{parts[2]});
      if (!repo) return unknown("That is not a repository's name");
      if (is_readiness)
        return store_.read_value(
            [&](store::Tx& tx) { return readiness(tx, *repo, options_.readiness, context); });
      GridFilter filter;
      filter.event = query.text("event");
      filter.branch = query.text("branch");
      filter.q = query.text("q");
      filter.status = query.status();
      filter.ungrouped = query.text("group") == "off";
      filter.page = query.page();
      if (query.bad()) return *query.bad();
      return store_.read_value([&](store::Tx& tx) { return grid(tx, *repo, filter, context); });
    }
    if (parts[0] == "pr" && parts.size() == 2) {
      const auto number = parse_positive(parts[1]);
      if (!number) return unknown("That is not a pull request's number");
      return store_.read_value([&](store::Tx& tx) -> Result<Page> {
        auto changes = Queries{tx}.pull_request(*number);
        if (!changes) return tl::unexpected(changes.error());
        if (changes->empty())
          return unknown(fmt::format("No event of pull request #{} has arrived", *number));
        return pull_request_page(*number, *changes, context);
      });
    }
    if (parts[0] == "commit" && parts.size() == 2) {
      const auto sha = parse_sha(parts[1]);
      if (!sha) return unknown("That is not a commit: 7 to 64 hex digits are");
      return store_.read_value([&](store::Tx& tx) { return commit(tx, *sha, context); });
    }
    if (parts[0] == "job" && parts.size() == 2) {
      const auto id = parse_positive(parts[1]);
      if (!id) return unknown("That is not a job's number");
      const auto filter = query.outcome();
      const auto q = query.text("q");
      const auto page_number = query.page();
      if (query.bad()) return *query.bad();
      return store_.read_value([&](store::Tx& tx) -> Result<Page> {
        auto job = Queries{tx}.job(*id, filter, q, page_number);
        if (!job) return tl::unexpected(job.error());
        if (!*job) return unknown(fmt::format("There is no job {}", *id));
        return job_page(**job, context);
      });
    }
    return unknown("There is no such page");
  }

  Result<Page> ops(const Request& request, const PageContext& context) {
    OpsNotice notice;
    notice.armed = parse_number(request.parameter("armed"));
    notice.left = parse_number(request.parameter("left")).value_or(0);
    notice.refused = request.parameter("refused").value_or("");
    std::optional<Live> live;
    if (options_.live) live = options_.live();
    const std::string_view token = net::bearer_of(request);
    return store_.read_value([&](store::Tx& tx) -> Result<Page> {
      auto found = read_ops(tx, context.now);
      if (!found) return tl::unexpected(found.error());
      // Anybody reads the page: from where somebody works is for administrators.
      const bool is_admin =
          !token.empty() && store::find_token(tx, token, store::Role::admin, context.now);
      if (!is_admin)
        for (store::AuditEntry& entry : found->audit) entry.origin.clear();
      return ops_page(*found, live, notice, context);
    });
  }

  static Result<Page> fleet(store::Tx& tx, const PageContext& context) {
    Queries queries{tx};
    auto backends = queries.backends();
    if (!backends) return tl::unexpected(backends.error());
    std::vector<BackendSummary> summaries;
    for (auto& backend : *backends) {
      auto summary = queries.summary(std::move(backend), context.now);
      if (!summary) return tl::unexpected(summary.error());
      summaries.push_back(std::move(*summary));
    }
    auto recent = queries.recent_changes(k_recent_changes);
    if (!recent) return tl::unexpected(recent.error());
    return fleet_page(summaries, *recent, context);
  }

  static Result<Page> grid(store::Tx& tx, const base::RepoName& repo, const GridFilter& filter,
                           const PageContext& context) {
    Queries queries{tx};
    auto backend = queries.backend(repo.key());
    if (!backend) return tl::unexpected(backend.error());
    if (!*backend) return unknown(fmt::format("{} is not on the allowlist", repo.full_name()));
    auto summary = queries.summary(std::move(**backend), context.now);
    if (!summary) return tl::unexpected(summary.error());
    auto found = queries.grid(repo.key(), filter);
    if (!found) return tl::unexpected(found.error());
    return grid_page(*summary, found->grid, filter, found->window_cut, context);
  }

  static Result<Page> readiness(store::Tx& tx, const base::RepoName& repo,
                                const ReadinessTargets& targets, const PageContext& context) {
    Queries queries{tx};
    const auto backend = queries.backend(repo.key());
    if (!backend) return tl::unexpected(backend.error());
    if (!*backend) return unknown(fmt::format("{} is not on the allowlist", repo.full_name()));
    if (!collects_results((*backend)->level))
      return unknown(fmt::format("The results of {} are not collected: it is at {}",
                                 repo.full_name(), (*backend)->level));
    const auto window = queries.window(repo.key(), context.now);
    if (!window) return tl::unexpected(window.error());
    return readiness_page(assess(**backend, *window, targets, context.now), context);
  }

  static Result<Page> commit(store::Tx& tx, const std::string& sha, const PageContext& context) {
    Queries queries{tx};
    auto found = queries.find_commits(sha);
    if (!found) return tl::unexpected(found.error());
    if (found->empty()) return unknown("Nothing is known of commit " + sha);
    if (found->size() > 1) return unknown("More than one commit begins with " + sha);
    auto change = queries.commit(found->front());
    if (!change) return tl::unexpected(change.error());
    if (!*change) return unknown("Nothing is known of commit " + sha);
    return commit_page(**change, context);
  }

  Response respond(const Request& request, const Route& route, const Page& page,
                   base::Time now) const {
    // The tag covers what is shown but the moment it was made. A page's ages change by the minute,
    // its twin has none.
    std::string identity = base::canonical_json(page.twin);
    if (!route.is_twin) {
      identity += fmt::format("\n{}\n{}\n{}", assets_.url("hud.css"), assets_.url("hud.js"),
                              base::to_micros(std::chrono::floor<std::chrono::minutes>(now)));
    }
    const auto tag = fmt::format("W/\"{}\"", base::sha256_hex(identity).substr(0, 32));
    Response response;
    if (const auto known = request.headers.get("if-none-match");
        known && page.status == 200 && names_tag(*known, tag)) {
      response.status = 304;
    } else if (route.is_twin) {
      json::object body{
          {"as_of", base::to_rfc3339(std::chrono::floor<std::chrono::seconds>(now))},
          {"newest_data_at",
           page.newest_at ? json::value(base::to_rfc3339(*page.newest_at)) : json::value(nullptr)},
          {"definitions", "/help/metrics.json"}};
      for (const auto& [key, value] : page.twin) body[key] = value;
      response = Response::json(page.status, base::pretty_json(body));
    } else {
      response = Response::html(page.status, html(request, route, page, now));
    }
    add_common_headers(response);
    if (page.status == 200) {
      response.headers.set("ETag", tag);
      response.headers.set("Cache-Control", "no-cache");
    } else {
      response.headers.set("Cache-Control", "no-store");
      if (page.status == 503) response.headers.set("Retry-After", "5");
    }
    compress(request, response);
    return response;
  }

  std::string html(const Request& request, const Route& route, const Page& page,
                   base::Time now) const {
    const std::string query = request.query.empty() ? "" : "?" + base::to_utf8(request.query, 2048);
    std::string path;
    for (const auto& part : route.parts) path += '/' + net::percent_encode(part);
    json::object layout{
        {"title", page.title},
        {"page", page.name},
        {"css", assets_.url("hud.css")},
        {"js", assets_.url("hud.js")},
        {"icon", assets_.url("icon.svg")},
        {"twin", page.status == 200 ? json::value((path == "/" ? "/index" : path) +
                                                  std::string{k_json_suffix} + query)
                                    : json::value(false)},
        {"upstream",
         options_.upstream_repo.empty() ? json::value(false) : json::value(options_.upstream_repo)},
        {"version", options_.version.empty() ? json::value(false) : json::value(options_.version)},
        {"is_fleet", page.name == "fleet"},
        {"is_metrics", page.name == "metrics"},
        {"is_ops", page.name == "ops"},
        {"is_allowlist", page.name == "allowlist"},
        {"is_upgrade", page.name.starts_with("upgrade")},
        {"made",
         json::object{{"iso", base::to_rfc3339(std::chrono::floor<std::chrono::seconds>(now))},
                      {"text", clock_text(now)}}},
        {"newest", page.newest_at
                       ? json::value(json::object{{"iso", base::to_rfc3339(*page.newest_at)},
                                                  {"text", clock_text(*page.newest_at)},
                                                  {"age", age(*page.newest_at, now)}})
                       : json::value(false)},
        {"body", renderer_.render(page.name, page.context)}};
    return renderer_.render("layout", layout);
  }

  std::optional<Response> asset(const Request& request) {
    const auto* found = assets_.find(request.path);
    if (!found) return not_found(request);
    Response response;
    if (accepts_gzip(request)) {
      response.body = found->gzipped;
      response.headers.set("Content-Encoding", "gzip");
    } else {
      response.body = found->text;
    }
    add_common_headers(response);
    response.headers.set("Vary", "Accept-Encoding");
    response.headers.set("Content-Type", found->type);
    response.headers.set("Cache-Control", "public, max-age=31536000, immutable");
    return response;
  }

  // Where the search box leads: a pull request, a commit, a backend.
  std::optional<Response> go(const Request& request) {
    auto q = base::to_utf8(request.parameter("q").value_or(""), k_text_limit);
    std::erase_if(q, [](char c) { return c == ' ' || c == '\t' || c == '\n'; });
    std::string_view number = q;
    if (number.starts_with('#')) number.remove_prefix(1);
    if (number.size() < 9 && parse_positive(number)) return redirect("/pr/" + std::string{number});
    if (const auto sha = parse_sha(q)) return redirect("/commit/" + *sha);
    if (const auto repo = base::RepoName::parse(q)) return redirect("/b/" + repo->full_name());
    Route route = route_of("/go");
    return respond(
        request, route,
        error_page(404, "That leads nowhere",
                   "The search takes a pull request (#123), a commit (7 hex digits or more) or a "
                   "backend (owner/name)."),
        options_.clock.now());
  }

  std::optional<Response> badge_of(const Request& request, const Route& route) {
    if (route.parts.size() != 3 || !route.parts[2].ends_with(".svg")) return not_found(request);
    const auto name = route.parts[2].substr(0, route.parts[2].size() - 4);
    const auto repo = base::RepoName::parse(std::string{route.parts[1]} + '/' + std::string{name});
    if (!repo) return not_found(request);
    const auto now = options_.clock.now();
    auto summary = store_.read_value([&](store::Tx& tx) -> Result<std::optional<BackendSummary>> {
      Queries queries{tx};
      auto backend = queries.backend(repo->key());
      if (!backend) return tl::unexpected(backend.error());
      if (!*backend) return std::nullopt;
      auto found = queries.summary(std::move(**backend), now);
      if (!found) return tl::unexpected(found.error());
      return std::move(*found);
    });
    Response response;
    response.status = !summary ? 503 : *summary ? 200 : 404;
    response.body = badge(summary ? *summary : std::nullopt);
    add_common_headers(response);
    response.headers.set("Content-Type", "image/svg+xml");
    response.headers.set("Cache-Control", "max-age=60");
    return response;
  }

  store::Store& store_;
  HudOptions options_;
  Turnstile turnstile_{{.inside = options_.readers,
                        .waiting = options_.waiting_readers,
                        .patience = std::chrono::seconds{5}}};
  Renderer renderer_;
  Assets assets_;
};

Hud::Hud(store::Store& store, HudOptions options)
    : impl_{std::make_unique<Impl>(store, std::move(options))} {}
Hud::~Hud() = default;

std::optional<net::Response> Hud::handle(const net::Request& request) {
  return impl_->handle(request);
}
net::Response Hud::not_found(const net::Request& request) { return impl_->not_found(request); }

}  // namespace crosscheck::hud
