#include "crosscheck/github/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <exception>
#include <map>
#include <mutex>

#include "crosscheck/base/json.h"
#include "crosscheck/base/log.h"

namespace crosscheck::github {

using base::Duration;
using base::RepoName;
using base::Time;
namespace json = base::json;
using Kind = CallAnswer::Kind;
using SteadyClock = std::chrono::steady_clock;

namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration k_backdated = seconds{60};    // our clock may be ahead of GitHub's
constexpr Duration k_jwt_lifetime = minutes{9};  // from now; GitHub takes ten
constexpr Duration k_jwt_reuse = minutes{5};
constexpr Duration k_token_margin = minutes{1};     // a token is not used so close to its end
constexpr Duration k_secondary_wait = seconds{60};  // GitHub's advice where it names no time
constexpr Duration k_longest_wait = hours{24};
constexpr std::size_t k_shown = 300;  // of GitHub's message
constexpr std::size_t k_resource_limit = 40;
constexpr std::int64_t k_last_reset = 253'402'300'799;  // the end of the year 9999

std::string_view to_string(AppCall call) {
  switch (call) {
    case AppCall::installation:
      return "looking up the App's installation";
    case AppCall::access_token:
      return "asking for an installation token";
    case AppCall::dispatch:
      return "the dispatch";
    case AppCall::get:
      return "the request";
    case AppCall::create_check_run:
      return "the check run";
    case AppCall::rerun:
      return "the re-run";
  }
  return "the call";
}

// GitHub's own words for what is wrong.
std::string message_of(const net::Response& response) {
  const auto body = base::parse_json(response.body, "answer");
  const auto message = body ? base::require_string(*body, "message") : base::Result<std::string>{};
  return message ? base::to_utf8(*message, k_shown) : std::string{};
}

std::optional<std::int64_t> number_header(const net::Response& response, std::string_view name) {
  const auto text = response.headers.get(name);
  if (!text) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc{} || end != text->data() + text->size() || number < 0) return std::nullopt;
  return number;
}

// `now + wait` within reason, whatever a header holds.
Time after(Time now, std::int64_t wait_s) {
  const std::int64_t most = std::chrono::duration_cast<seconds>(k_longest_wait).count();
  return now + seconds{std::clamp<std::int64_t>(wait_s, 1, most)};
}

bool is_rate_limit(const net::Response& response, const std::string& message) {
  if (response.status == 429) return true;
  if (response.status != 403) return false;
  const std::string lower = base::to_lower_ascii(message);
  return response.headers.get("Retry-After") ||
         number_header(response, "x-ratelimit-remaining") == 0 ||
         lower.find("rate limit") != std::string::npos || lower.find("abuse") != std::string::npos;
}

Time rate_limit_end(const net::Response& response, Time now) {
  if (const auto wait = number_header(response, "Retry-After")) return after(now, *wait);
  const auto reset = number_header(response, "x-ratelimit-reset");
  if (reset && number_header(response, "x-ratelimit-remaining") == 0) {
    const std::int64_t now_s = base::to_micros(now) / 1'000'000;
    return after(now, *reset - now_s + 1);
  }
  return now + k_secondary_wait;
}

// A call that changes something: done twice when it is repeated.
bool acts(AppCall call) {
  return call == AppCall::dispatch || call == AppCall::create_check_run || call == AppCall::rerun;
}

int success_of(AppCall call) {
  switch (call) {
    case AppCall::installation:
    case AppCall::get:
      return 200;
    case AppCall::access_token:
    case AppCall::create_check_run:
    case AppCall::rerun:
      return 201;
    case AppCall::dispatch:
      return 204;
  }
  return 200;
}

// Of every call.
net::Headers common_headers() {
  return {{"Accept", "application/vnd.github+json"},
          {"User-Agent", "crosscheck"},
          {"X-GitHub-Api-Version", "2022-11-28"}};
}

bool is_header_text(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace

CallAnswer judge(AppCall call, const net::Response& response, Time now) {
  const int status = response.status;
  const std::string message = message_of(response);
  std::string reason = fmt::format("{} was answered {}", to_string(call), status);
  if (!message.empty()) reason += ": " + message;

  // Before the rate limits, which are 403 too.
  if (call == AppCall::rerun && status == 403 &&
      base::to_lower_ascii(message).find("already running") != std::string::npos) {
    return {Kind::sent, std::move(reason)};
  }
  if (is_rate_limit(response, message)) {
    return {Kind::retry_later, std::move(reason), rate_limit_end(response, now)};
  }
  if (status == 401) {
    // A new token may not be known everywhere at once; a wrong key is set right by a person, and
    // then nothing is lost.
    return {Kind::retry_later, reason + " (if it stays so: check App id, private key and clock)"};
  }
  if (status >= 500 || status == 408) {
    CallAnswer answer{acts(call) ? Kind::uncertain : Kind::retry_later, std::move(reason)};
    if (const auto wait = number_header(response, "Retry-After")) {
      answer.not_before = after(now, *wait);
    }
    return answer;
  }
  if (status >= 400) {
    if (call == AppCall::installation && status == 404) {
      reason += " (the App is not installed on the repository)";
    }
    return {Kind::rejected, std::move(reason)};
  }
  if (status >= 300) return {Kind::rejected, reason + " (the repository has moved)"};
  return {acts(call) ? Kind::uncertain : Kind::retry_later, std::move(reason)};
}

CallAnswer judge(AppCall call, const net::ClientError& error) {
  const bool may_have_gone_through = acts(call) && error.maybe_sent;
  return {may_have_gone_through ? Kind::uncertain : Kind::retry_later,
          fmt::format("{}: {}", to_string(call), error.error.message)};
}

struct App::State {
  struct Token {
    std::string text;
    Time until;
  };

  State(Options o, SigningKey k, net::Client& c, const base::Clock& t)
      : options{std::move(o)}, client{c}, clock{t}, key{std::move(k)} {
    while (options.api_url.ends_with('/')) options.api_url.pop_back();
  }

  // Signed anew only now and then: a signature costs as much as all else that a dispatch needs.
  std::string jwt() {
    const auto at = [](Time time) { return base::to_micros(time) / 1'000'000; };
    const Time now = clock.now();
    const std::lock_guard lock{mutex};
    if (jwt_text.empty() || now < jwt_made_at || now - jwt_made_at >= k_jwt_reuse) {
      jwt_text = sign_jwt(key,
                          {{"iss", options.app_id},
                           {"iat", at(now - k_backdated)},
                           {"exp", at(now + k_jwt_lifetime)}},
                          false);
      jwt_made_at = now;
    }
    return jwt_text;
  }

  std::optional<std::int64_t> installation(const RepoName& repo) {
    const std::lock_guard lock{mutex};
    const auto found = installations.find(repo);
    return found != installations.end() ? std::optional{found->second} : std::nullopt;
  }
  void set_installation(const RepoName& repo, std::optional<std::int64_t> id) {
    const std::lock_guard lock{mutex};
    if (id) {
      installations.insert_or_assign(repo, *id);
    } else {
      installations.erase(repo);
    }
  }

  std::optional<std::string> token(std::int64_t installation) {
    const std::lock_guard lock{mutex};
    const auto found = tokens.find(installation);
    if (found == tokens.end() || found->second.until <= clock.now()) return std::nullopt;
    return found->second.text;
  }
  void set_token(std::int64_t installation, Token token) {
    const std::lock_guard lock{mutex};
    tokens.insert_or_assign(installation, std::move(token));
  }
  // Not one that somebody else got meanwhile.
  void drop_token(std::int64_t installation, const std::string& text) {
    const std::lock_guard lock{mutex};
    const auto found = tokens.find(installation);
    if (found != tokens.end() && found->second.text == text) tokens.erase(found);
  }

  // What GitHub says is left of the hour's calls, after each of its answers.
  void note_budget(std::string account, const net::Response& response) {
    const auto limit = number_header(response, "x-ratelimit-limit");
    const auto remaining = number_header(response, "x-ratelimit-remaining");
    const auto reset = number_header(response, "x-ratelimit-reset");
    if (!limit || !remaining || !reset || *reset > k_last_reset) return;
    std::string resource = base::to_utf8(
        response.headers.get("x-ratelimit-resource").value_or("core"), k_resource_limit);
    const std::lock_guard lock{mutex};
    budgets.insert_or_assign({std::move(account), std::move(resource)},
                             Left{*limit, *remaining, Time{seconds{*reset}}});
  }
  struct Left {
    std::int64_t limit = 0;
    std::int64_t remaining = 0;
    Time resets_at{};
  };

  Options options;
  net::Client& client;
  const base::Clock& clock;
  std::mutex mutex;  // guards what follows
  SigningKey key;
  std::map<RepoName, std::int64_t> installations;
  std::map<std::int64_t, Token> tokens;
  std::string jwt_text;
  Time jwt_made_at{};
  std::map<std::pair<std::string, std::string>, Left> budgets;  // by account and resource
};

// One request on its way through the calls that authorise it. Lives as long as a call is in
// progress.
class App::Session : public std::enable_shared_from_this<Session> {
 public:
  struct Last {
    AppCall call = AppCall::dispatch;
    std::string method;
    std::string path;
    std::string body;
    std::optional<SteadyClock::time_point> until = {};
    net::Headers headers = {};  // besides those of every call, or in their place
  };
  // The answer to the last call when it is a success, else why not.
  using Done = std::function<void(base::Result<net::Response, CallAnswer>)>;

  Session(std::shared_ptr<State> state, RepoName repo, Last last, Done done)
      : state_{std::move(state)},
        repo_{std::move(repo)},
        last_{std::move(last)},
        done_{std::move(done)} {}

  void begin() {
    if (const auto id = state_->installation(repo_)) {
      authorise(*id, true);
      return;
    }
    call(AppCall::installation, "GET", repo_path() + "/installation", state_->jwt(), {},
         [self = shared_from_this()](const net::Response& response) {
           self->on_installation(response);
         });
  }

 private:
  void on_installation(const net::Response& response) {
    if (response.status != 200) return finish(judge(AppCall::installation, response, now()));
    const auto body = base::parse_json(response.body, "answer");
    const auto id = body ? base::require_int(*body, "id") : tl::unexpected{body.error()};
    if (!id) {
      return finish(
          {Kind::retry_later, "looking up the App's installation: " + id.error().message});
    }
    state_->set_installation(repo_, *id);
    authorise(*id, false);
  }

  void authorise(std::int64_t installation, bool remembered) {
    if (auto token = state_->token(installation)) {
      send_last(installation, *std::move(token));
      return;
    }
    call(AppCall::access_token, "POST",
         fmt::format("/app/installations/{}/access_tokens", installation), state_->jwt(), {},
         [self = shared_from_this(), installation, remembered](const net::Response& response) {
           self->on_token(response, installation, remembered);
         });
  }

  void on_token(const net::Response& response, std::int64_t installation, bool remembered) {
    if (response.status == 404 && remembered) {
      // The App was removed and installed again: it has another number now.
      state_->set_installation(repo_, std::nullopt);
      begin();
      return;
    }
    if (response.status != 201) return finish(judge(AppCall::access_token, response, now()));
    const auto body = base::parse_json(response.body, "answer");
    const auto text = body ? base::require_string(*body, "token") : tl::unexpected{body.error()};
    const auto expires =
        body ? base::require_string(*body, "expires_at").and_then(base::parse_rfc3339)
             : tl::unexpected{body.error()};
    if (!text || !expires || !is_header_text(*text)) {
      // Nothing of the body is shown: it may hold the token.
      return finish({Kind::retry_later,
                     "asking for an installation token: the answer holds no token and expires_at"});
    }
    state_->set_token(installation, {*text, *expires - k_token_margin});
    send_last(installation, *text);
  }

  void send_last(std::int64_t installation, std::string token) {
    call(last_.call, last_.method, last_.path, token, last_.body,
         [self = shared_from_this(), installation, token](const net::Response& response) {
           self->on_last(response, installation, token);
         });
  }

  void on_last(const net::Response& response, std::int64_t installation, const std::string& token) {
    if (response.status == success_of(last_.call) ||
        (response.status == 304 && last_.headers.get("If-None-Match")))
      return finish(response);
    if (response.status == 401) {
      state_->drop_token(installation, token);
      if (!std::exchange(tried_again_, true)) {
        authorise(installation, false);
        return;
      }
    }
    // Perhaps moved to another installation: looked up anew next time.
    if (response.status == 404) state_->set_installation(repo_, std::nullopt);
    auto answer = judge(last_.call, response, now());
    answer.is_missing =
        last_.call == AppCall::get && (response.status == 404 || response.status == 422);
    finish(std::move(answer));
  }

  void call(AppCall which, std::string method, const std::string& path, const std::string& bearer,
            std::string body, std::function<void(const net::Response&)> then) {
    net::ClientRequest request;
    request.timeout = state_->options.timeout;
    if (last_.until) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(*last_.until - SteadyClock::now());
      if (left.count() <= 0) return finish({Kind::retry_later, "it took too long"});
      request.timeout = std::min(request.timeout, left);
    }
    request.method = std::move(method);
    request.url = state_->options.api_url + path;
    request.headers = common_headers();
    request.headers.set("Authorization", "Bearer " + bearer);
    if (which == last_.call)
      for (const auto& [name, value] : last_.headers.fields()) request.headers.set(name, value);
    if (!body.empty()) request.headers.add("Content-Type", "application/json");
    request.body = std::move(body);
    state_->client.send(std::move(request), [self = shared_from_this(), which,
                                             then = std::move(then)](net::ClientResult result) {
      if (!result) return self->finish(judge(which, result.error()));
      const bool as_app = which == AppCall::installation || which == AppCall::access_token;
      self->state_->note_budget(as_app ? std::string{} : std::string{self->repo_.owner()}, *result);
      try {
        then(*result);
      } catch (const std::exception& e) {
        base::log::error("github_call_broken",
                         {{"repo", self->repo_.full_name()}, {"why", e.what()}});
        self->finish({Kind::retry_later, "an internal error: see the log"});
      }
    });
  }

  void finish(CallAnswer why_not) {
    if (auto done = std::exchange(done_, nullptr)) done(tl::unexpected{std::move(why_not)});
  }
  void finish(const net::Response& response) {
    if (auto done = std::exchange(done_, nullptr)) done(response);
  }

  std::string repo_path() const { return "/repos/" + repo_.full_name(); }
  Time now() const { return state_->clock.now(); }

  const std::shared_ptr<State> state_;
  const RepoName repo_;
  const Last last_;
  Done done_;
  bool tried_again_ = false;
};

App::App(Options options, SigningKey key, net::Client& client, const base::Clock& clock)
    : state_{std::make_shared<State>(std::move(options), std::move(key), client, clock)} {}

App::~App() = default;

void App::dispatch(const RepoName& repo, std::string_view event_type,
                   std::string_view client_payload, std::function<void(CallAnswer)> done) {
  std::string body = fmt::format(R"({{"event_type":{},"client_payload":{}}})",
                                 json::serialize(json::string{event_type}), client_payload);
  Session::Last last{AppCall::dispatch, "POST", "/repos/" + repo.full_name() + "/dispatches",
                     std::move(body)};
  std::make_shared<Session>(state_, repo, std::move(last),
                            [done = std::move(done)](const auto& answer) {
                              done(answer ? CallAnswer{} : answer.error());
                            })
      ->begin();
}

void App::call(const RepoName& repo, AppCall which, std::string path, std::string body,
               std::function<void(CallAnswer)> done) {
  Session::Last last{which, which == AppCall::get ? "GET" : "POST", std::move(path),
                     std::move(body)};
  std::make_shared<Session>(
      state_, repo, std::move(last),
      [done = std::move(done)](base::Result<net::Response, CallAnswer> answer) {
        if (!answer) return done(std::move(answer.error()));
        CallAnswer sent;
        sent.content = std::move(answer->body);
        done(std::move(sent));
      })
      ->begin();
}

void App::get(const RepoName& repo, std::string path, SteadyClock::time_point until,
              std::function<void(base::Result<std::string>)> done) {
  Session::Last last{AppCall::get, "GET", std::move(path), {}, until};
  std::make_shared<Session>(
      state_, repo, std::move(last),
      [done = std::move(done)](base::Result<net::Response, CallAnswer> answer) {
        if (answer) return done(std::move(answer->body));
        done(base::fail(
            answer.error().is_missing ? base::Fault::not_found : base::Fault::unavailable,
            std::move(answer.error().reason)));
      })
      ->begin();
}

void App::set_key(SigningKey key) {
  const std::lock_guard lock{state_->mutex};
  state_->key = std::move(key);
  state_->jwt_text.clear();
}

std::vector<ApiBudget> App::budgets() const {
  const std::lock_guard lock{state_->mutex};
  std::vector<ApiBudget> all;
  for (const auto& [key, left] : state_->budgets)
    all.push_back({key.first, key.second, left.limit, left.remaining, left.resets_at});
  return all;
}

void App::fetch(const RepoName& repo, std::string path, net::Headers headers,
                SteadyClock::time_point until,
                std::function<void(base::Result<net::Response, CallAnswer>)> done) {
  Session::Last last{AppCall::get, "GET", std::move(path), {}, until, std::move(headers)};
  std::make_shared<Session>(state_, repo, std::move(last), std::move(done))->begin();
}

base::Result<net::Response, CallAnswer> fetch_anonymously(net::Client& client,
                                                          std::string_view api_url,
                                                          std::string_view path,
                                                          const net::Headers& headers,
                                                          std::chrono::milliseconds timeout) {
  while (api_url.ends_with('/')) api_url.remove_suffix(1);
  net::ClientRequest request;
  request.url = std::string{api_url} + std::string{path};
  request.headers = common_headers();
  for (const auto& [name, value] : headers.fields()) request.headers.set(name, value);
  request.timeout = timeout;
  auto answer = client.send(std::move(request));
  if (!answer) return tl::unexpected(judge(AppCall::get, answer.error()));
  if (answer->status == 200 || (answer->status == 304 && headers.get("If-None-Match")))
    return std::move(*answer);
  return tl::unexpected(judge(AppCall::get, *answer, base::SystemClock{}.now()));
}

}  // namespace crosscheck::github
