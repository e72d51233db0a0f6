#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <thread>

#include "crosscheck/base/digest.h"
#include "crosscheck/base/log.h"
#include "crosscheck/report/report.h"
#include "url.h"

namespace crosscheck::report {
namespace {

using base::Fault;
using std::chrono::milliseconds;

constexpr std::string_view k_default_audience = "pytorch-cross-repo-ci-relay";

base::Result<std::string> request_token(net::Client& client, const std::string& url,
                                        const std::string& bearer) {
  net::ClientRequest request;
  request.url = url;
  request.headers = {{"Authorization", "Bearer " + bearer}, {"Accept", "application/json"}};
  const auto answer = client.send(std::move(request));
  if (!answer) return tl::unexpected(answer.error().error);
  if (answer->status != 200) {
    return base::fail(
        answer->status >= 500 || answer->status == 429 ? Fault::unavailable : Fault::unauthorized,
        "the OIDC token service answered " + std::to_string(answer->status),
        "give the job `permissions: id-token: write`");
  }
  const auto body = base::parse_json(answer->body, "the OIDC token service's answer");
  if (!body) return tl::unexpected(body.error());
  return base::require_string(*body, "value");
}

// Seconds only: relays send no dates.
std::optional<milliseconds> retry_after(const net::Response& answer) {
  const auto header = answer.headers.get("Retry-After");
  int seconds = 0;
  if (!header) return {};
  const auto [end, error] =
      std::from_chars(header->data(), header->data() + header->size(), seconds);
  if (error != std::errc{} || end != header->data() + header->size() || seconds < 0) return {};
  return milliseconds{std::int64_t{seconds} * 1000};
}

bool is_worth_retrying(int status) { return status >= 500 || status == 429 || status == 408; }

Fault fault_of(int status) {
  switch (status) {
    case 401:
      return Fault::unauthorized;
    case 403:
      return Fault::forbidden;
    case 404:
      return Fault::not_found;
    case 409:
      return Fault::conflict;
    case 413:
      return Fault::too_large;
    case 429:
      return Fault::rate_limited;
    default:
      return status >= 500 ? Fault::unavailable : Fault::invalid_input;
  }
}

}  // namespace

base::Result<TokenSource> token_source(const Environment& environment, const Overrides& overrides,
                                       net::Client& client) {
  std::optional<std::string> wanted = overrides.audience;
  if (!wanted) wanted = environment("CROSSCHECK_OIDC_AUDIENCE");
  const std::string audience = wanted.value_or(std::string{k_default_audience});
  if (auto token = environment("CROSSCHECK_OIDC_TOKEN")) {
    return [token = *token]() -> base::Result<std::string> { return token; };
  }
  const auto url = environment("ACTIONS_ID_TOKEN_REQUEST_URL");
  const auto bearer = environment("ACTIONS_ID_TOKEN_REQUEST_TOKEN");
  if (!url || !bearer) {
    return base::fail(
        Fault::environment, "no OIDC token: ACTIONS_ID_TOKEN_REQUEST_URL is not set",
        "give the job `permissions: id-token: write`, or set CROSSCHECK_OIDC_TOKEN to a "
        "token for the audience " +
            audience);
  }
  if (auto safe = may_carry_token(*url, "ACTIONS_ID_TOKEN_REQUEST_URL", environment); !safe) {
    return tl::unexpected(safe.error());
  }
  const auto full = *url + (url->find('?') == std::string::npos ? "?" : "&") +
                    "audience=" + net::percent_encode(audience);
  return [&client, full, bearer = *bearer] { return request_token(client, full, bearer); };
}

Reporter::Reporter(JobContext job, net::Client& client, TokenSource token, const base::Clock& clock,
                   RetryPolicy retry)
    : job_{std::move(job)},
      client_{client},
      token_{std::move(token)},
      clock_{clock},
      retry_{std::move(retry)} {
  if (!retry_.sleep) retry_.sleep = [](milliseconds pause) { std::this_thread::sleep_for(pause); };
}

base::Result<net::Response> Reporter::send(const std::string& method, const std::string& path,
                                           const std::string& content_type,
                                           const std::string& body) {
  auto pause = retry_.first_pause;
  base::Error last;
  for (int attempt = 1;; ++attempt) {
    std::optional<milliseconds> asked;
    auto token = token_();
    if (token) {
      net::ClientRequest request;
      request.method = method;
      request.url = job_.relay_url + path;
      request.headers = {{"Authorization", "Bearer " + *token}, {"Content-Type", content_type}};
      request.body = body;
      request.timeout = milliseconds{60'000};
      const auto answer = client_.send(std::move(request));
      if (answer && !is_worth_retrying(answer->status)) return *answer;
      if (answer) {
        asked = retry_after(*answer);
        last = {fault_of(answer->status), "the relay answered " + std::to_string(answer->status) +
                                              " to " + method + " " + path + ": " +
                                              base::to_utf8(answer->body, 500)};
      } else {
        last = answer.error().error;
      }
    } else if (base::is_retryable(token.error().fault)) {
      last = token.error();
    } else {
      return tl::unexpected(token.error());
    }
    if (attempt >= retry_.attempts) {
      last.message += " (tried " + std::to_string(attempt) + " times)";
      return tl::unexpected(last);
    }
    const auto wait = std::min(asked.value_or(pause), retry_.longest_pause);
    base::log::warning("report.retry",
                       {{"attempt", attempt}, {"reason", last.message}, {"wait_ms", wait.count()}});
    retry_.sleep(wait);
    pause = std::min(pause * 2, retry_.longest_pause);
  }
}

base::Result<Answer> Reporter::call_back(const std::optional<Completion>& completion) {
  const auto body = base::json::serialize(callback_body(job_, clock_.now(), completion));
  const auto answer = send("POST", "/github/callback", "application/json", body);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->status / 100 != 2) {
    return base::fail(fault_of(answer->status), "the relay refused the report with " +
                                                    std::to_string(answer->status) + ": " +
                                                    base::to_utf8(answer->body, 2000));
  }
  const auto parsed = base::parse_json(answer->body, "the relay's answer");
  if (parsed && parsed->is_object()) {
    if (const auto* status = base::find(*parsed, "status"); status && *status == "ignored") {
      return Answer::ignored;
    }
    if (const auto* duplicate = base::find(*parsed, "duplicate"); duplicate && *duplicate == true) {
      return Answer::duplicate;
    }
  }
  return Answer::accepted;
}

base::Result<Answer> Reporter::start() { return call_back(std::nullopt); }

base::Result<Answer> Reporter::finish(Completion completion,
                                      const std::optional<std::string>& gzipped) {
  std::optional<base::Error> upload_error;
  if (gzipped) {
    const auto digest = base::sha256_hex(*gzipped);
    const auto answer = send("PUT", "/api/v1/results/" + digest, "application/gzip", *gzipped);
    if (answer && answer->status / 100 == 2) {
      completion.results_digest = digest;
    } else if (answer && answer->status == 404) {
      // Not a crosscheck relay: it takes callbacks only.
      base::log::info("report.no_results_upload", {{"relay", job_.relay_url}});
    } else {
      upload_error =
          answer ? base::Error{fault_of(answer->status), "the relay refused the results with " +
                                                             std::to_string(answer->status) + ": " +
                                                             base::to_utf8(answer->body, 2000)}
                 : answer.error();
    }
  }
  // The verdict is sent even when its details could not be: a job that ended must not look alive.
  auto answer = call_back(completion);
  if (answer && *answer != Answer::ignored && upload_error) return tl::unexpected(*upload_error);
  return answer;
}

}  // namespace crosscheck::report
