#include "crosscheck/net/client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <future>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "crosscheck/base/threads.h"

namespace crosscheck::net {
namespace {

using base::Fault;

constexpr std::size_t k_header_limit = std::size_t{256} << 10;
constexpr int k_longest_wait_ms = 60'000;

// libcurl's handles are void*, so that the type alone does not say how one is freed.
template <auto release>
struct Releaser {
  template <class T>
  void operator()(T* handle) const {
    release(handle);
  }
};
using Easy = std::unique_ptr<CURL, Releaser<curl_easy_cleanup>>;
using Multi = std::unique_ptr<CURLM, Releaser<curl_multi_cleanup>>;
using Url = std::unique_ptr<CURLU, Releaser<curl_url_cleanup>>;
using HeaderList = std::unique_ptr<curl_slist, Releaser<curl_slist_free_all>>;
using Text = std::unique_ptr<char, Releaser<curl_free>>;

bool is_token(std::string_view text) {
  static constexpr std::string_view k_others = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           k_others.find(c) != std::string_view::npos;
  });
}

bool is_named(std::string_view name, std::string_view lower) {
  return std::ranges::equal(name, lower, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

// Doing it twice is as doing it once (RFC 9110), so that libcurl may try again on a fresh
// connection.
bool is_idempotent(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "PUT" || method == "DELETE" ||
         method == "OPTIONS";
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// One request under way. Stays where it is: libcurl holds its address.
class Exchange {
 public:
  Exchange(ClientRequest request, std::function<void(ClientResult)> done)
      : request_{std::move(request)}, done_{std::move(done)} {}

  base::Result<void> prepare(const Client::Options& options) {
    if (base::Result<void> usable = check_url(); !usable) return usable;
    if (base::Result<void> usable = check_headers(); !usable) return usable;
    easy_.reset(curl_easy_init());
    if (!easy_) return base::fail(Fault::internal, "out of memory for a request to " + host_);

    set(CURLOPT_CURLU, url_.get());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
    // Rather share a connection with the request before than open one: many go to one host.
    set(CURLOPT_PIPEWAIT, is_secure_ ? 1L : 0L);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<std::int64_t>(1, request_.timeout.count())));
    set(CURLOPT_USERAGENT, options.user_agent.c_str());
    if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
    if (is_loopback_host(host_)) set(CURLOPT_PROXY, "");
    set(CURLOPT_ERRORBUFFER, detail_.data());
    set(CURLOPT_PREREQFUNCTION, &Exchange::on_send);
    set(CURLOPT_PREREQDATA, this);
    set(CURLOPT_HEADERFUNCTION, &Exchange::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &Exchange::on_body);
    set(CURLOPT_WRITEDATA, this);

    const std::string& method = request_.method;
    if (method == "HEAD") {
      set(CURLOPT_NOBODY, 1L);
    } else {
      if (!request_.body.empty() || method == "POST" || method == "PUT" || method == "PATCH") {
        set(CURLOPT_POST, 1L);
        set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
        set(CURLOPT_POSTFIELDS, request_.body.c_str());
      }
      set(CURLOPT_CUSTOMREQUEST, method.c_str());
    }
    set(CURLOPT_HTTPHEADER, header_list());
    if (code_ != CURLE_OK) {
      return base::fail(Fault::internal, fmt::format("cannot prepare a request to {}: {}", host_,
                                                     curl_easy_strerror(code_)));
    }
    return {};
  }

  [[nodiscard]] CURL* easy() const { return easy_.get(); }

  void finish(CURLcode code) {
    if (code == CURLE_OK) {
      long status = 0;
      curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
      response_.status = static_cast<int>(status);
      return done(std::move(response_));
    }
    fail(describe(code));
  }

  void fail(base::Error error) {
    done(tl::unexpected<ClientError>{ClientError{std::move(error), sends_ > 0}});
  }

  void fail_closed() {
    fail({Fault::unavailable, fmt::format("the client was closed before {} answered",
                                          host_.empty() ? "the server" : host_)});
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    if (const CURLcode code = curl_easy_setopt(easy_.get(), option, value); code != CURLE_OK) {
      code_ = code;
    }
  }

  void done(ClientResult result) {
    easy_.reset();
    done_(std::move(result));
  }

  std::string part(CURLUPart which) const {
    char* text = nullptr;
    if (curl_url_get(url_.get(), which, &text, 0) != CURLUE_OK) return {};
    return Text{text}.get();
  }

  base::Result<void> check_url() {
    url_.reset(curl_url());
    if (!url_ || request_.url.find('\0') != std::string::npos ||
        curl_url_set(url_.get(), CURLUPART_URL, request_.url.c_str(), CURLU_DISALLOW_USER) !=
            CURLUE_OK) {
      return base::fail(Fault::invalid_input,
                        "not the address of an HTTP server, or one with user info",
                        "give http(s)://HOST[:PORT]/PATH");
    }
    host_ = part(CURLUPART_HOST);
    const std::string scheme = part(CURLUPART_SCHEME);
    is_secure_ = scheme == "https";
    if (!is_secure_ && scheme != "http") {
      return base::fail(Fault::invalid_input,
                        fmt::format("{} is addressed by {}, not by http or https", host_, scheme));
    }
    return {};
  }

  base::Result<void> check_headers() const {
    static constexpr std::string_view k_breaks{"\r\n\0", 3};
    if (!is_token(request_.method)) {
      return base::fail(Fault::invalid_input,
                        "the method of a request to " + host_ + " is not a word");
    }
    for (const auto& [name, value] : request_.headers.fields()) {
      if (!is_token(name) || value.find_first_of(k_breaks) != std::string::npos) {
        return base::fail(Fault::invalid_input, "a header for " + host_ +
                                                    " has a line break or a name "
                                                    "that is not a word");
      }
      if (is_named(name, "content-length") || is_named(name, "transfer-encoding")) {
        return base::fail(
            Fault::invalid_input,
            fmt::format("{} for {} follows from the body: leave it out", name, host_));
      }
    }
    return {};
  }

  curl_slist* header_list() {
    const auto append = [this](const std::string& line) {
      curl_slist* const list = curl_slist_append(headers_.get(), line.c_str());
      if (list == nullptr) {
        code_ = CURLE_OUT_OF_MEMORY;
        return;
      }
      static_cast<void>(headers_.release());
      headers_.reset(list);
    };
    for (const auto& [name, value] : request_.headers.fields()) {
      append(value.empty() ? name + ';' : name + ": " + value);
    }
    // What libcurl adds of itself: a form's type, and a second of waiting before a large body.
    if (!request_.headers.get("Content-Type")) append("Content-Type:");
    if (!request_.headers.get("Expect")) append("Expect:");
    return headers_.get();
  }

  base::Error describe(CURLcode code) const {
    if (too_large_) {
      return {Fault::too_large,
              fmt::format("{} answered with more than {} bytes", host_, request_.body_limit)};
    }
    std::string reason = curl_easy_strerror(code);
    std::string remedy;
    Fault fault = Fault::unavailable;
    if (code == CURLE_OPERATION_TIMEDOUT) {
      reason = fmt::format("no whole answer within {} ms", request_.timeout.count());
    } else if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
               code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_SSL_CONNECT_ERROR) {
      // Before a request exists, libcurl's words name addresses only.
      if (detail_.front() != '\0') reason = detail_.data();
    } else if (code == CURLE_SSL_CACERT_BADFILE) {
      fault = Fault::environment;
      remedy = "name a readable file of PEM certificates";
    } else if (code == CURLE_PEER_FAILED_VERIFICATION) {
      remedy = "add the authority that signed its certificate to the trusted ones";
    } else if (code == CURLE_ABORTED_BY_CALLBACK) {
      reason = "the connection was closed after the request was sent, before an answer";
    }
    return {fault, fmt::format("{}: {}", host_, reason), std::move(remedy)};
  }

  // A connection stands and the request is about to go out. libcurl comes here again when a pooled
  // connection died under a request: whether that was carried out is unknown.
  static int on_send(void* self, char* /*peer*/, char* /*local*/, int /*peer_port*/,
                     int /*local_port*/) {
    auto& exchange = *static_cast<Exchange*>(self);
    const bool again = exchange.sends_++ > 0;
    return again && !is_idempotent(exchange.request_.method) ? CURL_PREREQFUNC_ABORT
                                                             : CURL_PREREQFUNC_OK;
  }

  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self) {
    auto& exchange = *static_cast<Exchange*>(self);
    const std::string_view line{data, size * count};
    exchange.header_bytes_ += line.size();
    if (exchange.header_bytes_ > k_header_limit) return exchange.refuse();
    Headers& headers = exchange.response_.headers;
    if (line.starts_with("HTTP/")) {
      headers = {};  // what came before was 1xx
    } else if (const auto colon = line.find(':'); colon != std::string_view::npos) {
      headers.add(std::string{line.substr(0, colon)}, std::string{trimmed(line.substr(colon + 1))});
    }
    return line.size();
  }

  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self) {
    auto& exchange = *static_cast<Exchange*>(self);
    const std::size_t n = size * count;
    std::string& body = exchange.response_.body;
    if (n > exchange.request_.body_limit - body.size()) return exchange.refuse();
    body.append(data, n);
    return n;
  }

  std::size_t refuse() {
    too_large_ = true;
    return CURL_WRITEFUNC_ERROR;
  }

  ClientRequest request_;
  std::function<void(ClientResult)> done_;
  Response response_;
  std::string host_;
  bool is_secure_ = false;
  int sends_ = 0;
  bool too_large_ = false;
  std::size_t header_bytes_ = 0;
  CURLcode code_ = CURLE_OK;  // the first option that could not be set
  std::array<char, CURL_ERROR_SIZE> detail_{};
  Url url_;
  HeaderList headers_;
  Easy easy_;  // before what it points to is gone
};

class CurlClient final : public Client {
 public:
  explicit CurlClient(Options options) : options_{std::move(options)} {
    static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (initialized != CURLE_OK) throw std::bad_alloc{};
    multi_.reset(curl_multi_init());
    if (!multi_) throw std::bad_alloc{};
    curl_multi_setopt(multi_.get(), CURLMOPT_MAX_HOST_CONNECTIONS,
                      options_.max_connections_per_host);
    const base::SignalsBlocked blocked;
    thread_ = std::thread{[this] { run(); }};
  }

  CurlClient(const CurlClient&) = delete;
  CurlClient& operator=(const CurlClient&) = delete;
  ~CurlClient() override {
    {
      const std::scoped_lock lock{mutex_};
      stopping_ = true;
    }
    curl_multi_wakeup(multi_.get());
    thread_.join();
  }

  using Client::send;
  void send(ClientRequest request, std::function<void(ClientResult)> done) override {
    {
      const std::scoped_lock lock{mutex_};
      queue_.emplace_back(std::move(request), std::move(done));
    }
    curl_multi_wakeup(multi_.get());
  }

 private:
  void run() {
    while (true) {
      std::list<Exchange> added;
      bool stopping = false;
      {
        const std::scoped_lock lock{mutex_};
        added.swap(queue_);
        stopping = stopping_;
      }
      if (stopping) {
        open_.splice(open_.end(), added);
        if (open_.empty()) return;
        while (!open_.empty()) {
          Exchange& exchange = open_.front();
          if (exchange.easy() != nullptr) curl_multi_remove_handle(multi_.get(), exchange.easy());
          exchange.fail_closed();
          open_.pop_front();
        }
        continue;  // a `done` may have sent again
      }
      while (!added.empty()) begin(added);
      int running = 0;
      curl_multi_perform(multi_.get(), &running);
      if (finish_ended()) continue;
      curl_multi_poll(multi_.get(), nullptr, 0, k_longest_wait_ms, nullptr);
    }
  }

  // Moves the first of `added` among the open ones.
  void begin(std::list<Exchange>& added) {
    const auto exchange = added.begin();
    if (base::Result<void> ready = exchange->prepare(options_); !ready) {
      exchange->fail(std::move(ready.error()));
      added.erase(exchange);
      return;
    }
    open_.splice(open_.end(), added, exchange);
    if (const CURLMcode code = curl_multi_add_handle(multi_.get(), exchange->easy());
        code != CURLM_OK) {
      exchange->fail(
          {Fault::internal, std::string{"cannot begin a request: "} + curl_multi_strerror(code)});
      open_.erase(exchange);
    }
  }

  // Whether there were any.
  bool finish_ended() {
    bool any = false;
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      any = true;
      const CURLcode code = message->data.result;
      CURL* const easy = message->easy_handle;
      const auto exchange =
          std::ranges::find_if(open_, [easy](const Exchange& open) { return open.easy() == easy; });
      curl_multi_remove_handle(multi_.get(), easy);
      exchange->finish(code);
      open_.erase(exchange);
    }
    return any;
  }

  const Options options_;
  std::mutex mutex_;
  std::list<Exchange> queue_;  // guarded by mutex_
  bool stopping_ = false;      // guarded by mutex_
  Multi multi_;
  std::list<Exchange> open_;  // the owning thread's
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Client> Client::create(Options options) {
  return std::make_unique<CurlClient>(std::move(options));
}

ClientResult Client::send(ClientRequest request) {
  // Shared: the owning thread may still be inside set_value when this one goes on.
  const auto promise = std::make_shared<std::promise<ClientResult>>();
  std::future<ClientResult> result = promise->get_future();
  send(std::move(request), [promise](ClientResult r) { promise->set_value(std::move(r)); });
  return result.get();
}

}  // namespace crosscheck::net
